//! The language: what each line says, and the first thing that is wrong in it.

use crate::problem::nearest;
use crate::rule::{Action, Addresses, Outcome, Rule, RuleSet};
use crate::token::{Line, Token};
use crate::values::{self, Span};
use crate::zone::{RESERVED, Zones, is_name};
use crate::{MAX_PROBLEMS, MAX_RANGES, MAX_RULES, MAX_TEXT, Problem, Ranges, check};
use alloc::collections::BTreeMap;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

mod clauses;
mod translation;

/// The words with which a line begins.
const STATEMENTS: [&str; 8] = ["allow", "deny", "reject", "default", "addresses", "ports", "nat", "forward"];

/// Reads rules and checks them. The text may be anybody's: what is read and kept is bounded by
/// [`MAX_TEXT`], [`MAX_RULES`] and [`MAX_RANGES`].
///
/// # Errors
///
/// If anything is wrong, with up to [`MAX_PROBLEMS`] problems in the order of their lines. Rules
/// are compared with each other only if each by itself is right.
pub fn parse(text: &str, zones: &Zones) -> Result<RuleSet, Vec<Problem>> {
    if text.len() > MAX_TEXT {
        let problem = Problem::new(0..0, format!("these rules have {} bytes", text.len()));
        return Err(Vec::from(
            [problem.help(format!("rules have {MAX_TEXT} bytes at most: name addresses in groups"))],
        ));
    }
    let mut parser = Parser::new(zones);
    let (mut problems, mut start) = (Vec::new(), 0);
    for (line, number) in text.split_inclusive('\n').zip(1..) {
        let content = line.strip_suffix('\n').unwrap_or(line);
        let read = Line::new(content, start, number).and_then(|mut line| parser.statement(&mut line));
        problems.extend(read.err());
        start += line.len();
        if problems.len() >= MAX_PROBLEMS || parser.ranges > MAX_RANGES {
            return Err(problems);
        }
    }
    if problems.is_empty() {
        problems = check::rules(&parser.rules);
    }
    problems.truncate(MAX_PROBLEMS);
    if problems.is_empty() { Ok(parser.rules) } else { Err(problems) }
}

/// What a named group has.
#[derive(Clone, Debug)]
enum Content {
    Addresses(Vec<Span>),
    Ports(Vec<(u16, u16)>),
}

#[derive(Clone, Debug)]
struct Group {
    /// Where its name stands in the line that defines it.
    span: Range<usize>,
    content: Content,
}

/// What was read so far.
struct Parser {
    rules: RuleSet,
    groups: BTreeMap<String, Group>,
    /// Where the default was said.
    default: Option<Range<usize>>,
    /// How many ranges of addresses and ports are kept in rules and groups.
    ranges: usize,
}

impl Parser {
    fn new(zones: &Zones) -> Self {
        let default = Outcome { action: Action::Deny, logs: false };
        let (rules, nats, forwards) = (Vec::new(), Vec::new(), Vec::new());
        let rules = RuleSet { zones: zones.clone(), default, rules, nats, forwards };
        Self { rules, groups: BTreeMap::new(), default: None, ranges: 0 }
    }

    /// Reads one line.
    fn statement(&mut self, line: &mut Line<'_>) -> Result<(), Problem> {
        let Some(first) = line.take() else { return Ok(()) };
        match first.text {
            "allow" => self.rule(line, Action::Allow),
            "deny" => self.rule(line, Action::Deny),
            "reject" => self.rule(line, Action::Reject),
            "default" => self.default(line, &first),
            "addresses" => self.group(line, Self::address_parts, Content::Addresses),
            "ports" => self.group(line, Self::port_parts, Content::Ports),
            "nat" => self.nat(line),
            "forward" => self.forward(line),
            other => {
                let problem = Problem::new(first.span(), format!("no rule begins with `{other}`"));
                Err(problem.help(match nearest(other, STATEMENTS.into_iter()) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("a rule begins with `{}`", STATEMENTS.join("`, `")),
                }))
            }
        }
    }

    /// Reads what follows `allow`, `deny` or `reject`.
    fn rule(&mut self, line: &mut Line<'_>, action: Action) -> Result<(), Problem> {
        let logs = line.take_if("log").is_some();
        let clauses = self.clauses(line, &clauses::OF_RULES, None)?;
        let matching = clauses.matching(line.span())?;
        self.keep(line, matching.ranges())?;
        let rule = Rule { line: line.number, span: line.span(), matching, outcome: Outcome { action, logs } };
        self.rules.rules.push(rule);
        self.fits(line, self.rules.rules.len())
    }

    /// Reads what follows `default`.
    fn default(&mut self, line: &mut Line<'_>, first: &Token<'_>) -> Result<(), Problem> {
        let token = line.take().ok_or_else(|| line.missing("an action", "write `default deny`"))?;
        let action = match token.text {
            "allow" => Action::Allow,
            "deny" => Action::Deny,
            "reject" => Action::Reject,
            other => {
                let problem = Problem::new(token.span(), format!("`{other}` is no action"));
                return Err(problem.help("the actions are `allow`, `deny` and `reject`"));
            }
        };
        let logs = line.take_if("log").is_some();
        end(line)?;
        if let Some(earlier) = self.default.replace(first.span()) {
            let problem = Problem::new(line.span(), "the default is there twice").related(earlier, "the other");
            return Err(problem.help("leave one of them"));
        }
        self.rules.default = Outcome { action, logs };
        Ok(())
    }

    /// Reads what follows `addresses` or `ports`: a group.
    fn group<T>(
        &mut self,
        line: &mut Line<'_>,
        parts: fn(&Self, &mut Line<'_>) -> Result<Vec<T>, Problem>,
        content: fn(Vec<T>) -> Content,
    ) -> Result<(), Problem> {
        let name = line.take().ok_or_else(|| {
            line.missing("the name of a group", "write `addresses servers = 10.0.0.1` or `ports web = 80,443`, say")
        })?;
        let text = name.text;
        if !is_name(text) || RESERVED.contains(&text) {
            let problem = Problem::new(name.span(), format!("a group cannot be called `{text}`"));
            return Err(problem.help(if RESERVED.contains(&text) {
                "this word has a meaning of its own in rules: take another"
            } else {
                "a name is a letter, then letters, digits, `-`, `_` and `.`, 32 at most"
            }));
        }
        if let Some(known) = self.groups.get(text) {
            let problem = Problem::new(name.span(), format!("there is a group `{text}` already"));
            return Err(problem.related(known.span.clone(), "the other").help("give one of them another name"));
        }
        if self.rules.zones.find(text).is_some() {
            let problem = Problem::new(name.span(), format!("`{text}` is a zone"));
            return Err(problem.help("give the group another name"));
        }
        if line.take_if("=").is_none() {
            return Err(line.missing("`=`", format!("write `{text} =` and then what is in the group")));
        }
        let parts = parts(self, line)?;
        end(line)?;
        self.keep(line, parts.len())?;
        self.groups.insert(text.into(), Group { span: name.span(), content: content(parts) });
        Ok(())
    }

    /// Reads parts that commas separate, of which messages have a name and an example. `read` adds
    /// those of one word, each with its place.
    fn list<T>(
        line: &mut Line<'_>,
        (what, example): (&str, &str),
        mut read: impl FnMut(&Token<'_>, &mut Vec<(T, Range<usize>)>) -> Result<(), Problem>,
    ) -> Result<Vec<(T, Range<usize>)>, Problem> {
        let mut parts = Vec::new();
        loop {
            let token = line.take().filter(|token| !matches!(token.text, "," | "="));
            let token =
                token.ok_or_else(|| line.missing(what, format!("write `{example}`, say; commas separate several")))?;
            read(&token, &mut parts)?;
            // The list of one line repeats a long group this often at most.
            if parts.len() > MAX_RANGES {
                return Err(too_many(token.span()));
            }
            if line.take_if(",").is_none() {
                return Ok(parts);
            }
        }
    }

    /// Reads a list of addresses, which may name groups.
    fn address_parts(&self, line: &mut Line<'_>) -> Result<Vec<Span>, Problem> {
        let parts = Self::list(line, ("an address", "10.0.0.1"), |token, parts| {
            match self.find(token, "addresses", "10.0.0.1")? {
                Some(Content::Addresses(group)) => parts.extend(group.iter().map(|part| (*part, token.span()))),
                Some(Content::Ports(_)) => return Err(other_kind(token, "ports", "addresses")),
                None => parts.push((values::addresses(token)?, token.span())),
            }
            Ok(())
        })?;
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for (part, span) in &parts {
            match *part {
                Span::V4(first, last) => v4.push((first, last, span.clone())),
                Span::V6(first, last) => v6.push((first, last, span.clone())),
            }
        }
        match values::overlap(&v4).or_else(|| values::overlap(&v6)) {
            Some(problem) => Err(problem),
            None => Ok(parts.into_iter().map(|(part, _)| part).collect()),
        }
    }

    /// Reads a list of ports, which may name groups.
    fn port_parts(&self, line: &mut Line<'_>) -> Result<Vec<(u16, u16)>, Problem> {
        let parts = Self::list(line, ("a port", "8080"), |token, parts| {
            match self.find(token, "ports", "8080")? {
                Some(Content::Ports(group)) => parts.extend(group.iter().map(|part| (*part, token.span()))),
                Some(Content::Addresses(_)) => return Err(other_kind(token, "addresses", "ports")),
                None => parts.push((values::ports(token)?, token.span())),
            }
            Ok(())
        })?;
        distinct(parts)
    }

    /// Reads a list of ports as a set.
    fn ports(&self, line: &mut Line<'_>) -> Result<Ranges<u16>, Problem> {
        Ok(Ranges::new(self.port_parts(line)?))
    }

    /// Reads `any`, or a list of addresses.
    fn addresses(&self, line: &mut Line<'_>) -> Result<Addresses, Problem> {
        if line.take_if("any").is_some() {
            return Ok(Addresses::all());
        }
        let (mut v4, mut v6) = (Vec::new(), Vec::new());
        for part in self.address_parts(line)? {
            match part {
                Span::V4(first, last) => v4.push((first, last)),
                Span::V6(first, last) => v6.push((first, last)),
            }
        }
        Ok(Addresses { v4: Ranges::new(v4), v6: Ranges::new(v6) })
    }

    /// Returns the group that a word names; `None` if it does not look like a name. Advice names
    /// the word `kind` that defines such a group, and an `example` of what is in it.
    fn find(&self, token: &Token<'_>, kind: &str, example: &str) -> Result<Option<&Content>, Problem> {
        let text = token.text;
        if let Some(group) = self.groups.get(text) {
            return Ok(Some(&group.content));
        }
        if !is_name(text) {
            return Ok(None);
        }
        if self.rules.zones.find(text).is_some() {
            let problem = Problem::new(token.span(), format!("`{text}` is a zone, not a group"));
            return Err(problem.help(format!("write `in {text}` or `out {text}`")));
        }
        if RESERVED.contains(&text) {
            let problem = Problem::new(token.span(), format!("`{text}` cannot stand here"));
            return Err(problem.help("name addresses, ports or a group before the next part of the rule"));
        }
        let problem = Problem::new(token.span(), format!("there is no group `{text}`"));
        Err(problem.help(match nearest(text, self.groups.keys().map(String::as_str)) {
            Some(name) => format!("did you mean `{name}`?"),
            None => format!("groups are defined above the lines that name them: `{kind} {text} = {example}`, say"),
        }))
    }

    /// Accounts for ranges that are kept.
    fn keep(&mut self, line: &Line<'_>, ranges: usize) -> Result<(), Problem> {
        self.ranges = self.ranges.saturating_add(ranges);
        if self.ranges > MAX_RANGES { Err(too_many(line.span())) } else { Ok(()) }
    }

    /// Refuses a line that makes more than the most rules of a kind.
    fn fits(&self, line: &Line<'_>, count: usize) -> Result<(), Problem> {
        if count <= MAX_RULES {
            return Ok(());
        }
        let problem = Problem::new(line.span(), "this is one rule too many");
        Err(problem.help(format!("there are {MAX_RULES} of a kind at most: name addresses and ports in groups")))
    }
}

/// Refuses further words.
fn end(line: &Line<'_>) -> Result<(), Problem> {
    match line.peek() {
        None => Ok(()),
        Some(token) => {
            let problem = Problem::new(token.span(), format!("`{}` cannot stand here", token.text));
            Err(problem.help("the line was complete before it"))
        }
    }
}

/// Returns the ranges of a list of which none overlaps another.
fn distinct(parts: Vec<((u16, u16), Range<usize>)>) -> Result<Vec<(u16, u16)>, Problem> {
    let placed: Vec<_> = parts.iter().map(|((first, last), span)| (*first, *last, span.clone())).collect();
    match values::overlap(&placed) {
        Some(problem) => Err(problem),
        None => Ok(parts.into_iter().map(|(part, _)| part).collect()),
    }
}

fn other_kind(token: &Token<'_>, has: &str, wanted: &str) -> Problem {
    let problem = Problem::new(token.span(), format!("the group `{}` has {has}, not {wanted}", token.text));
    problem.help(format!("name a group that is defined by `{wanted}`"))
}

fn too_many(span: Range<usize>) -> Problem {
    let problem = Problem::new(span, "with this, there are too many ranges of addresses and ports");
    problem.help(format!("all rules and groups together have {MAX_RANGES} at most, where a group counts in each rule"))
}
