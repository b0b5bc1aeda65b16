//! The clauses of a rule: protocols, zones, addresses, ports and types, in any order.

use super::{Parser, distinct, end};
use crate::problem::nearest;
use crate::rule::{Addresses, Family, Match, Protocols};
use crate::token::{Line, Token};
use crate::values;
use crate::zone::{Zone, ZoneSet};
use crate::{Problem, Ranges};
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// The clauses of `allow`, `deny` and `reject`.
pub const OF_RULES: [&str; 8] = ["in", "out", "from", "to", "port", "source-port", "type", "protocol"];
/// The clauses of `nat`, before its `to`.
pub const OF_NAT: [&str; 4] = ["in", "out", "from", "protocol"];
/// The clauses of `forward`, before its `to`.
pub const OF_FORWARD: [&str; 4] = ["in", "from", "at", "port"];

/// What the clauses of one rule say, each with its place.
#[derive(Clone, Debug, Default)]
pub struct Clauses {
    pub protocols: Option<(Protocols, Range<usize>)>,
    /// Whether all of the protocols have ports.
    have_ports: bool,
    /// The family of whose types the rule can tell, if it is about one kind of ICMP alone.
    icmp: Option<Family>,
    pub entries: Option<(ZoneSet, Range<usize>)>,
    pub exits: Option<(ZoneSet, Range<usize>)>,
    pub sources: Option<(Addresses, Range<usize>)>,
    /// Those of `to`, or of `at`.
    pub destinations: Option<(Addresses, Range<usize>)>,
    source_ports: Option<(Ranges<u16>, Range<usize>)>,
    pub destination_ports: Option<(Ranges<u16>, Range<usize>)>,
    types: Option<(Ranges<u16>, Range<usize>)>,
}

/// Puts the value of the clause that was read last, and that began with `word`, into its place,
/// unless there is one.
fn put<T>(place: &mut Option<(T, Range<usize>)>, value: T, word: &Token<'_>, line: &Line<'_>) -> Result<(), Problem> {
    let span = word.start..line.last_span().end;
    if let Some((_, earlier)) = place {
        let problem = Problem::new(span, format!("this rule has `{}` twice", word.text));
        let problem = problem.related(earlier.clone(), "the other");
        return Err(problem.help("write all of it in one list, separated by commas"));
    }
    *place = Some((value, span));
    Ok(())
}

impl Parser {
    /// Reads the clauses of a rule, of which it can have those that are `known`, up to the word
    /// `stop` or to the end of the line.
    pub(super) fn clauses(
        &self,
        line: &mut Line<'_>,
        known: &[&'static str],
        stop: Option<&str>,
    ) -> Result<Clauses, Problem> {
        let mut clauses = Clauses::default();
        clauses.read_protocols(line)?;
        while let Some(word) = line.peek().filter(|word| Some(word.text) != stop) {
            line.take();
            if !known.contains(&word.text) {
                return Err(unknown(&word, known, stop));
            }
            match word.text {
                "in" => put(&mut clauses.entries, self.zone_list(line)?, &word, line)?,
                "out" => put(&mut clauses.exits, self.zone_list(line)?, &word, line)?,
                "from" => put(&mut clauses.sources, self.addresses(line)?, &word, line)?,
                "to" | "at" => put(&mut clauses.destinations, self.addresses(line)?, &word, line)?,
                "port" => put(&mut clauses.destination_ports, self.ports(line)?, &word, line)?,
                "source-port" => put(&mut clauses.source_ports, self.ports(line)?, &word, line)?,
                "type" => clauses.read_types(line, &word)?,
                _ => clauses.read_numbers(line, &word)?,
            }
        }
        if stop.is_none() {
            end(line)?;
        }
        clauses.check_ports()?;
        Ok(clauses)
    }

    /// Reads names of zones that commas separate.
    fn zone_list(&self, line: &mut Line<'_>) -> Result<ZoneSet, Problem> {
        let zones = &self.rules.zones;
        let mut seen: Vec<(Zone, Range<usize>)> = Vec::new();
        Self::list(line, ("a zone", zones.names().next().unwrap_or("self")), |token, _: &mut Vec<((), _)>| {
            let Some(zone) = zones.find(token.text) else {
                let problem = Problem::new(token.span(), format!("there is no zone `{}`", token.text));
                return Err(problem.help(match nearest(token.text, zones.names().chain(["self"])) {
                    Some(name) => format!("did you mean `{name}`?"),
                    None => format!("the zones are {}", quoted(zones.names().chain(["self"]))),
                }));
            };
            if let Some((_, earlier)) = seen.iter().find(|(known, _)| *known == zone) {
                let problem = Problem::new(token.span(), "this is in this list twice");
                return Err(problem.related(earlier.clone(), "the other").help("leave one of them out"));
            }
            seen.push((zone, token.span()));
            Ok(())
        })?;
        Ok(seen.into_iter().fold(ZoneSet::EMPTY, |set, (zone, _)| set.with(zone)))
    }
}

impl Clauses {
    /// Reads names of protocols that commas separate, if there are such here.
    fn read_protocols(&mut self, line: &mut Line<'_>) -> Result<(), Problem> {
        let Some(first) = line.peek() else { return Ok(()) };
        if values::with_protocol(Protocols::EMPTY, first.text).is_none() {
            return Ok(());
        }
        self.have_ports = true;
        let mut set = Protocols::EMPTY;
        let names = Parser::list(line, ("a protocol", "tcp"), |token, names| {
            let Some((more, has_ports)) = values::with_protocol(set, token.text) else {
                let problem = Problem::new(token.span(), format!("`{}` is not the name of a protocol", token.text));
                return Err(problem.help(format!("the names are {}", quoted(values::protocol_names()))));
            };
            if more == set {
                return Err(Problem::new(token.span(), "this is in this list twice").help("leave one of them out"));
            }
            set = more;
            self.have_ports &= has_ports;
            names.push(((), token.span()));
            Ok(())
        })?;
        self.icmp = match (names.len(), first.text) {
            (1, "icmp") => Some(Family::V4),
            (1, "icmp6") => Some(Family::V6),
            _ => None,
        };
        let end = names.last().map_or(first.span().end, |(_, span)| span.end);
        self.protocols = Some((set, first.start..end));
        Ok(())
    }

    /// Reads numbers of protocols.
    fn read_numbers(&mut self, line: &mut Line<'_>, word: &Token<'_>) -> Result<(), Problem> {
        if let Some((_, earlier)) = &self.protocols {
            let problem = Problem::new(word.span(), "this rule says its protocols twice");
            return Err(problem
                .related(earlier.clone(), "the other")
                .help("write all of them as numbers, or as names"));
        }
        let numbers = Parser::list(line, ("the number of a protocol", "89"), |token, numbers| {
            let number = values::protocol_number(token)?;
            numbers.push(((u16::from(number), u16::from(number)), token.span()));
            Ok(())
        })?;
        let mut set = Protocols::EMPTY;
        self.have_ports = true;
        for number in distinct(numbers)?.into_iter().filter_map(|(number, _)| u8::try_from(number).ok()) {
            set = Family::ALL.into_iter().fold(set, |set, family| set.with(family, number));
            self.have_ports &= values::has_ports(number);
        }
        put(&mut self.protocols, set, word, line)
    }

    /// Reads types of ICMP or ICMPv6.
    fn read_types(&mut self, line: &mut Line<'_>, word: &Token<'_>) -> Result<(), Problem> {
        let Some(family) = self.icmp else {
            let problem = Problem::new(word.span(), "`type` is for ICMP alone, or for ICMPv6 alone");
            return Err(problem.help("begin with `icmp` or `icmp6`: their types have different numbers"));
        };
        let types = Parser::list(line, ("a type", "echo-request"), |token, types| {
            types.push((values::icmp_type(token, family)?, token.span()));
            Ok(())
        })?;
        put(&mut self.types, Ranges::new(distinct(types)?), word, line)
    }

    /// Refuses ports where a protocol has none: such a rule would be about none of its packets.
    fn check_ports(&self) -> Result<(), Problem> {
        match self.source_ports.as_ref().or(self.destination_ports.as_ref()) {
            Some((_, span)) if !self.have_ports => {
                let problem = Problem::new(span.clone(), "only TCP, UDP and SCTP have ports");
                Err(problem.help("say which of them: `allow tcp port 443`, say"))
            }
            _ => Ok(()),
        }
    }

    /// Returns what the clauses of the rule at `span` are about.
    pub fn matching(self, span: Range<usize>) -> Result<Match, Problem> {
        let only_self = |place: &Option<(ZoneSet, _)>| {
            place.as_ref().is_some_and(|(set, _)| *set == ZoneSet::EMPTY.with(Zone::SELF))
        };
        if only_self(&self.entries) && only_self(&self.exits) {
            let problem =
                Problem::new(span, "this rule is about no packet: what the router sends itself passes no rule");
            return Err(problem.help("leave `in self` or `out self` out"));
        }
        let of_addresses =
            |(set, place): &(Addresses, Range<usize>)| (Family::ALL.map(|family| set.has(family)), place.clone());
        let of_protocols =
            |(set, place): &(Protocols, Range<usize>)| (Family::ALL.map(|family| set.has(family)), place.clone());
        let families = [
            self.sources.as_ref().map(of_addresses),
            self.destinations.as_ref().map(of_addresses),
            self.protocols.as_ref().map(of_protocols),
        ];
        let matching = Match {
            entries: value(self.entries).unwrap_or(ZoneSet::ALL),
            exits: value(self.exits).unwrap_or(ZoneSet::ALL),
            protocols: value(self.protocols).unwrap_or(Protocols::ALL),
            sources: value(self.sources).unwrap_or_else(Addresses::all),
            destinations: value(self.destinations).unwrap_or_else(Addresses::all),
            source_ports: value(self.source_ports).unwrap_or_else(Ranges::all),
            // All types, written out, are what no type is.
            destination_ports: match value(self.types) {
                Some(types) if types.parts() != [(0, 255)] => types,
                _ => value(self.destination_ports).unwrap_or_else(Ranges::all),
            },
        };
        if Family::ALL.into_iter().any(|family| matching.has(family)) {
            return Ok(matching);
        }
        let mut problem = Problem::new(span, "this rule is about no packet");
        for ([v4, _], place) in families.into_iter().flatten().filter(|([v4, v6], _)| v4 != v6) {
            problem = problem.related(place, format!("this is of {} alone", if v4 { "IPv4" } else { "IPv6" }));
        }
        Err(problem.help("a packet is of one family: make a rule for each"))
    }
}

fn value<T>(clause: Option<(T, Range<usize>)>) -> Option<T> {
    clause.map(|(value, _)| value)
}

/// Returns names as they stand in messages.
fn quoted<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<String> = names.map(|name| format!("`{name}`")).collect();
    names.join(", ")
}

/// Returns the problem of a word that begins no clause.
fn unknown(word: &Token<'_>, known: &[&'static str], stop: Option<&str>) -> Problem {
    let text = word.text;
    let problem = Problem::new(word.span(), format!("`{text}` cannot stand here"));
    if values::with_protocol(Protocols::EMPTY, text).is_some() {
        return problem.help("a protocol stands first, before addresses, ports and zones");
    }
    if text == "log" {
        return problem.help("`log` stands behind the action: `deny log`");
    }
    let words = known.iter().copied().chain(stop.map(|_| "to"));
    problem.help(match nearest(text, words.clone()) {
        Some(name) => format!("did you mean `{name}`?"),
        None => format!("what can follow is {}", quoted(words)),
    })
}
