//! Reading TOML with places: each accessor reports what it cannot accept and goes on, so that one run
//! shows every mistake. System files, board files and manifests are all read through here.

use crate::problem::{Located, Problem, nearest, suggest};
use crate::units;
use core::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

/// Problems found so far in one file.
pub type Problems = Vec<Problem>;

/// Parses a file. Syntax errors go to `problems`; what could be read is returned all the same.
pub fn parse_table<'a>(text: &'a str, problems: &mut Problems) -> Spanned<DeTable<'a>> {
    let (table, errors) = DeTable::parse_recoverable(text);
    // One slip often makes the parser stumble again at once: the first error says it best.
    if let Some(error) = errors.into_iter().next() {
        problems.push(syntax_problem(text, &error));
    }
    table
}

/// The parser's words, or better ones for the two slips that are made most.
fn syntax_problem(text: &str, error: &toml::de::Error) -> Problem {
    let end = text.trim_end().len();
    let mut span = error.span().unwrap_or(end..end);
    if span.start >= end {
        span = end.saturating_sub(1)..end;
    }
    let found = text.get(span.clone()).unwrap_or("");
    if error.message() == "duplicate key" {
        return Problem::new(span, format!("`{found}` is there twice"))
            .help("a key and a table have one place each: put together what belongs together");
    }
    let is_value = text[..span.start].trim_end().ends_with(['=', ',', '[']);
    if is_value && found.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Problem::new(span, format!("`{found}` is no value"))
            .help(format!("text stands between quotation marks: \"{found}\""));
    }
    Problem::new(span, format!("this is not TOML: {}", error.message()))
}

/// One table whose keys are known: every key that nobody asked for is reported by [`TableReader::finish`].
#[derive(Clone, Debug)]
pub struct TableReader<'a> {
    /// What the table is, as messages name it, for example `[pd.http]`.
    pub what: String,
    /// Where the table stands: its header or its braces.
    pub span: Range<usize>,
    table: &'a DeTable<'a>,
    asked: Vec<&'a str>,
    missing: Vec<&'a str>,
}

/// A value of a table, or of an array, with the key that leads to it.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The key; where the entry is an element of an array, the array's key.
    pub key: Located<String>,
    value: &'a Spanned<DeValue<'a>>,
}

impl<'a> TableReader<'a> {
    /// A reader for `table`, which is called `what` in messages.
    pub fn new(what: impl Into<String>, span: Range<usize>, table: &'a DeTable<'a>) -> Self {
        Self { what: what.into(), span, table, asked: Vec::new(), missing: Vec::new() }
    }

    /// The value of `key`, if it is there.
    pub fn take(&mut self, key: &'a str) -> Option<Entry<'a>> {
        self.asked.push(key);
        let (found, value) = self.table.get_key_value(key)?;
        Some(Entry { key: Located::new(key.to_string(), found.span()), value })
    }

    /// The value of `key`; [`TableReader::finish`] reports where it is missing.
    pub fn require(&mut self, key: &'a str) -> Option<Entry<'a>> {
        let entry = self.take(key);
        if entry.is_none() {
            self.missing.push(key);
        }
        entry
    }

    /// All entries that were not asked for so far, in the order of the file.
    pub fn unknown(&self) -> Vec<Entry<'a>> {
        let mut unknown: Vec<Entry<'a>> = self
            .table
            .iter()
            .filter(|(key, _)| !self.asked.contains(&key.get_ref().as_ref()))
            .map(|(key, value)| Entry { key: Located::new(key.get_ref().to_string(), key.span()), value })
            .collect();
        unknown.sort_by_key(|entry| entry.key.span.start);
        unknown
    }

    /// All entries that were not asked for so far; they count as known from now on.
    pub fn rest(&mut self, problems: &mut Problems) -> Vec<Entry<'a>> {
        let rest = self.unknown();
        self.report_missing(&rest, problems);
        self.asked.extend(self.table.keys().map(|key| key.get_ref().as_ref()));
        rest
    }

    /// Whether `key` is missing, and none of the unknown keys is likely to be meant for it.
    pub fn lacks(&self, key: &str) -> bool {
        !self.table.contains_key(key) && !self.is_meant(key, &self.unknown())
    }

    fn is_meant(&self, key: &str, unknown: &[Entry<'_>]) -> bool {
        let known = self.asked.iter().copied();
        unknown.iter().any(|entry| nearest(&entry.key.value, known.clone()) == Some(key))
    }

    fn report_missing(&mut self, unknown: &[Entry<'_>], problems: &mut Problems) {
        for key in std::mem::take(&mut self.missing) {
            if !self.is_meant(key, unknown) {
                problems.push(
                    Problem::new(self.span.clone(), format!("{} has no `{key}`", self.what))
                        .help(format!("add `{key} = …`")),
                );
            }
        }
    }

    /// Names of the keys asked for so far.
    pub fn asked(&self) -> &[&'a str] {
        &self.asked
    }

    /// Reports every key that nobody asked for, and every required one that is missing.
    pub fn finish(mut self, problems: &mut Problems) {
        let unknown = self.unknown();
        self.report_missing(&unknown, problems);
        for entry in unknown {
            let problem =
                Problem::new(entry.key.span.clone(), format!("unknown key `{}` in {}", entry.key.value, self.what));
            problems.push(match suggest(&entry.key.value, self.asked.iter().copied()) {
                Some(help) => problem.help(help),
                None => problem,
            });
        }
    }
}

impl<'a> Entry<'a> {
    /// Where the value stands.
    pub fn span(&self) -> Range<usize> {
        self.value.span()
    }

    /// The kind of value, as messages name it.
    pub fn kind(&self) -> &'static str {
        match self.value.get_ref() {
            DeValue::String(_) => "text",
            DeValue::Integer(_) => "a whole number",
            DeValue::Float(_) => "a fraction",
            DeValue::Boolean(_) => "true or false",
            DeValue::Datetime(_) => "a date",
            DeValue::Array(_) => "a list",
            DeValue::Table(_) => "a table",
        }
    }

    /// Whether the value is a table.
    pub fn is_table(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Table(_))
    }

    /// Whether the value is text.
    pub fn is_text(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::String(_))
    }

    /// Whether the value is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Array(_))
    }

    /// Whether the value is the boolean `expected`.
    pub fn is_boolean(&self, expected: bool) -> bool {
        matches!(self.value.get_ref(), DeValue::Boolean(found) if *found == expected)
    }

    fn wrong(&self, expected: &str) -> Problem {
        Problem::new(self.span(), format!("`{}` must be {expected}, not {}", self.key.value, self.kind()))
    }

    /// Text.
    pub fn text(&self, problems: &mut Problems) -> Option<Located<String>> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(Located::new(text.to_string(), self.span())),
            _ => {
                problems.push(self.wrong("text").help("put it between quotation marks"));
                None
            }
        }
    }

    /// A whole number within `range`.
    pub fn integer(&self, range: RangeInclusive<i128>, problems: &mut Problems) -> Option<Located<i128>> {
        let DeValue::Integer(number) = self.value.get_ref() else {
            problems.push(self.wrong("a whole number"));
            return None;
        };
        let number = i128::from_str_radix(number.as_str(), number.radix()).ok();
        match number {
            Some(number) if range.contains(&number) => Some(Located::new(number, self.span())),
            _ => {
                problems.push(
                    Problem::new(self.span(), format!("`{}` is out of range", self.key.value)).help(format!(
                        "it must be from {} to {}",
                        range.start(),
                        range.end()
                    )),
                );
                None
            }
        }
    }

    /// A whole number that fits `u64`.
    pub fn unsigned(&self, problems: &mut Problems) -> Option<Located<u64>> {
        self.unsigned_up_to(u64::MAX, problems)
    }

    /// A whole number from 0 to `max`.
    pub fn unsigned_up_to(&self, max: u64, problems: &mut Problems) -> Option<Located<u64>> {
        // Within `u64` by the range.
        self.integer(0..=i128::from(max), problems).map(|number| number.map(|number| number as u64))
    }

    /// `true` or `false`.
    pub fn boolean(&self, problems: &mut Problems) -> Option<Located<bool>> {
        match self.value.get_ref() {
            DeValue::Boolean(value) => Some(Located::new(*value, self.span())),
            _ => {
                problems.push(self.wrong("true or false"));
                None
            }
        }
    }

    /// A size in bytes: a whole number, or text with a unit.
    pub fn size(&self, problems: &mut Problems) -> Option<Located<u64>> {
        match self.value.get_ref() {
            DeValue::Integer(_) => self.unsigned(problems),
            DeValue::String(text) => self.unit(text, units::parse_size, "size", units::SIZE_FORM, problems),
            _ => {
                problems.push(self.wrong("a size").help(units::SIZE_FORM));
                None
            }
        }
    }

    /// A duration in nanoseconds.
    pub fn duration(&self, problems: &mut Problems) -> Option<Located<u64>> {
        match self.value.get_ref() {
            DeValue::String(text) => self.unit(text, units::parse_duration, "duration", units::DURATION_FORM, problems),
            _ => {
                problems.push(self.wrong("a duration").help(units::DURATION_FORM));
                None
            }
        }
    }

    /// A hardware address.
    pub fn mac(&self, problems: &mut Problems) -> Option<Located<[u8; 6]>> {
        match self.value.get_ref() {
            DeValue::String(text) => self.unit(text, units::parse_mac, "hardware address", units::MAC_FORM, problems),
            _ => {
                problems.push(self.wrong("a hardware address").help(units::MAC_FORM));
                None
            }
        }
    }

    fn unit<T>(
        &self,
        text: &str,
        parse: fn(&str) -> Option<T>,
        what: &str,
        form: &str,
        problems: &mut Problems,
    ) -> Option<Located<T>> {
        let value = parse(text);
        if value.is_none() {
            problems.push(Problem::new(self.span(), format!("`{text}` is not a {what}")).help(form));
        }
        value.map(|value| Located::new(value, self.span()))
    }

    /// One of the given names.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)], problems: &mut Problems) -> Option<Located<T>> {
        let text = self.text(problems)?;
        let found = choices.iter().find(|(name, _)| *name == text.value);
        if found.is_none() {
            let problem = Problem::new(
                self.span(),
                format!("`{}` is not something that `{}` can be", text.value, self.key.value),
            );
            let names = choices.iter().map(|(name, _)| *name);
            problems.push(match suggest(&text.value, names) {
                Some(help) => problem.help(help),
                None => problem,
            });
        }
        found.map(|(_, value)| Located::new(*value, self.span()))
    }

    /// A table, called `what` in messages.
    pub fn table(&self, what: impl Into<String>, problems: &mut Problems) -> Option<TableReader<'a>> {
        match self.value.get_ref() {
            DeValue::Table(table) => Some(TableReader::new(what, self.span(), table)),
            _ => {
                problems.push(self.wrong("a table"));
                None
            }
        }
    }

    /// A list; each element comes as an entry under this entry's key.
    pub fn list(&self, problems: &mut Problems) -> Option<Vec<Entry<'a>>> {
        match self.value.get_ref() {
            DeValue::Array(elements) => Some(self.elements(elements)),
            _ => {
                problems.push(self.wrong("a list").help("put it between square brackets"));
                None
            }
        }
    }

    fn elements(&self, elements: &'a DeArray<'a>) -> Vec<Entry<'a>> {
        elements.iter().map(|value| Entry { key: Located::new(self.key.value.clone(), value.span()), value }).collect()
    }

    /// A list of text.
    pub fn texts(&self, problems: &mut Problems) -> Option<Vec<Located<String>>> {
        let elements = self.list(problems)?;
        let count = elements.len();
        let texts: Vec<_> = elements.iter().filter_map(|element| element.text(problems)).collect();
        (texts.len() == count).then_some(texts)
    }
}

/// Reports a name that is not lower-case letters, digits and `separators` after a letter, or that is too long.
/// Returns whether it is good.
pub fn check_name(name: &Located<String>, what: &str, separators: &str, problems: &mut Problems) -> bool {
    const MAX: usize = 48;
    let good = name.len() <= MAX
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || separators.contains(c));
    if !good {
        let separators: String = separators.chars().map(|c| format!(" and `{c}`")).collect();
        problems.push(Problem::new(name.span.clone(), format!("`{}` is not a name for a {what}", name.value)).help(
            format!("a name is a letter followed by letters, digits{separators}, all lower case, {MAX} at most"),
        ));
    }
    good
}
