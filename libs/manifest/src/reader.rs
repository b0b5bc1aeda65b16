//! Reading TOML with places: each accessor reports what it cannot accept and goes on, so that one
//! run shows every mistake. System files, board files and manifests are all read through here.

use crate::problem::{Located, Problem, nearest, suggest};
use crate::units;
use core::ops::{Range, RangeInclusive};
use toml::Spanned;
use toml::de::{DeArray, DeTable, DeValue};

pub use crate::problem::Problems;
pub use crate::syntax::{MAX_FILE, parse_table};

/// One table whose keys are known: every key that nobody asked for is reported by
/// [`TableReader::finish`].
#[derive(Clone, Debug)]
pub struct TableReader<'a> {
    /// The table's name in messages, for example `[pd.http]`.
    pub what: String,
    /// Where the table stands: its header or its braces.
    pub span: Range<usize>,
    table: &'a DeTable<'a>,
    asked: Vec<&'a str>,
    /// Required keys that are not there, each with the form of its value.
    missing: Vec<(&'a str, &'static str)>,
    /// Keys that are known elsewhere, each with where that is.
    elsewhere: &'static [(&'static str, &'static str)],
}

/// A value of a table, or of an array, with the key that leads to it.
#[derive(Clone, Debug)]
pub struct Entry<'a> {
    /// The key; where the entry is an element of an array, the array's key.
    pub key: Located<String>,
    value: &'a Spanned<DeValue<'a>>,
    /// It is an element of an array.
    is_element: bool,
}

impl<'a> TableReader<'a> {
    /// A reader for `table`, which is called `what` in messages.
    pub fn new(what: impl Into<String>, span: Range<usize>, table: &'a DeTable<'a>) -> Self {
        Self { what: what.into(), span, table, asked: Vec::new(), missing: Vec::new(), elsewhere: &[] }
    }

    /// The same table, in which these keys are likely to be meant for another, with what is said of
    /// each then.
    #[must_use]
    pub fn with_elsewhere(mut self, elsewhere: &'static [(&'static str, &'static str)]) -> Self {
        self.elsewhere = elsewhere;
        self
    }

    /// Returns the advice for a key that is meant for another table.
    fn elsewhere(&self, key: &str) -> Option<String> {
        let found = self.elsewhere.iter().find(|(known, _)| *known == key);
        found.map(|(_, advice)| (*advice).to_string())
    }

    /// The value of `key`, if it is there.
    pub fn take(&mut self, key: &'a str) -> Option<Entry<'a>> {
        self.asked.push(key);
        let (found, value) = self.table.get_key_value(key)?;
        Some(Entry { key: Located::new(key.to_string(), found.span()), value, is_element: false })
    }

    /// The value of `key`; [`TableReader::finish`] reports where it is missing.
    pub fn require(&mut self, key: &'a str) -> Option<Entry<'a>> {
        self.require_like(key, "…")
    }

    /// The same, with the form that advice shows where the key is missing.
    pub fn require_like(&mut self, key: &'a str, form: &'static str) -> Option<Entry<'a>> {
        let entry = self.take(key);
        if entry.is_none() {
            self.missing.push((key, form));
        }
        entry
    }

    /// All entries that were not asked for so far, in the order of the file.
    pub fn unknown(&self) -> Vec<Entry<'a>> {
        let mut unknown: Vec<Entry<'a>> = self
            .table
            .iter()
            .filter(|(key, _)| !self.asked.contains(&key.get_ref().as_ref()))
            .map(|(key, value)| Entry {
                key: Located::new(key.get_ref().to_string(), key.span()),
                value,
                is_element: false,
            })
            .collect();
        unknown.sort_by_key(|entry| entry.key.span.start);
        unknown
    }

    /// Returns all entries not asked for so far and marks them known. An entry that is probably a
    /// misspelt required key is reported here and left out, because callers of `rest` do not know
    /// the required keys.
    pub fn rest(&mut self, problems: &mut Problems) -> Vec<Entry<'a>> {
        let mut rest = self.unknown();
        let missing: Vec<&str> = self.missing.iter().map(|(key, _)| *key).collect();
        self.report_missing(&rest, problems);
        let known = self.asked.clone();
        rest.retain(|entry| {
            let meant = nearest(&entry.key.value, known.iter().copied());
            let is_slip = meant.is_some_and(|meant| missing.contains(&meant));
            if is_slip {
                problems.push(self.unknown_key(entry));
            }
            !is_slip
        });
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
        for (key, form) in std::mem::take(&mut self.missing) {
            if !self.is_meant(key, unknown) {
                problems.push(
                    Problem::new(self.span.clone(), format!("{} has no `{key}`", self.what))
                        .help(format!("add `{key} = {form}`")),
                );
            }
        }
    }

    /// The tables of `[key.NAME]`, each under its name, in the order of the file. What stands there
    /// without a name is reported.
    pub fn named(&mut self, key: &'a str, problems: &mut Problems) -> Vec<Entry<'a>> {
        let Some(entry) = self.take(key) else { return Vec::new() };
        if entry.is_list() {
            problems.push(
                Problem::new(entry.key.span.clone(), format!("`[[{key}]]` has no name"))
                    .help(format!("write `[{key}.NAME]`: one bracket on each side, and a name for each")),
            );
            return Vec::new();
        }
        let entries = entry.table(format!("[{key}]"), problems).map(|table| table.unknown()).unwrap_or_default();
        if let Some(value) = entries.iter().find(|entry| !entry.is_table() && !entry.is_list()) {
            problems.push(
                Problem::new(value.key.span.clone(), format!("`{}` is in [{key}], which has no name", value.key.value))
                    .help(format!("write `[{key}.NAME]` above it, with a name in place of NAME")),
            );
            return Vec::new();
        }
        entries
    }

    /// Whether the key is there, whatever its value.
    pub fn has(&self, key: &str) -> bool {
        self.table.contains_key(key)
    }

    /// Names of the keys asked for so far.
    pub fn asked(&self) -> &[&'a str] {
        &self.asked
    }

    /// Reports every key that nobody asked for, and every required one that is missing.
    pub fn finish(mut self, problems: &mut Problems) {
        let unknown = self.unknown();
        self.report_missing(&unknown, problems);
        problems.extend(unknown.iter().map(|entry| self.unknown_key(entry)));
    }

    fn unknown_key(&self, entry: &Entry<'_>) -> Problem {
        let name = &entry.key.value;
        let help = self.elsewhere(name).or_else(|| suggest(name, self.asked.iter().copied()));
        Problem::new(entry.key.span.clone(), format!("unknown key `{name}` in {}", self.what))
            .help(help.unwrap_or_else(|| format!("leave `{name}` out: nothing can be given here")))
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

    /// Whether the value is a whole number.
    pub fn is_whole_number(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Integer(_))
    }

    /// Whether the value is text with a name, a sum or a product in it, in place of a size.
    pub fn counts_from_names(&self) -> bool {
        let DeValue::String(text) = self.value.get_ref() else { return false };
        text.contains(['+', '*', '(']) || text.starts_with(|first: char| first.is_ascii_lowercase())
    }

    /// Whether the value is a list.
    pub fn is_list(&self) -> bool {
        matches!(self.value.get_ref(), DeValue::Array(_))
    }

    /// Whether the value is the boolean `expected`.
    pub fn is_boolean(&self, expected: bool) -> bool {
        matches!(self.value.get_ref(), DeValue::Boolean(found) if *found == expected)
    }

    /// The problem of a value that is not what is expected.
    pub fn wrong(&self, expected: &str) -> Problem {
        Problem::new(self.span(), format!("`{}` must be {expected}, not {}", self.key.value, self.kind()))
    }

    /// The advice to write this value in another way.
    fn write(&self, value: impl core::fmt::Display) -> String {
        match self.is_element {
            true => format!("write `[{value}]`, and others of the list likewise"),
            false => format!("write `{} = {value}`", self.key.value),
        }
    }

    /// Text.
    pub fn text(&self, problems: &mut Problems) -> Option<Located<String>> {
        match self.value.get_ref() {
            DeValue::String(text) => Some(Located::new(text.to_string(), self.span())),
            _ => {
                let written = match self.value.get_ref() {
                    DeValue::Integer(number) => Some(number.as_str().to_string()),
                    DeValue::Float(number) => Some(number.as_str().to_string()),
                    DeValue::Boolean(value) => Some(value.to_string()),
                    _ => None,
                };
                problems.push(self.wrong("text").help(match written {
                    Some(written) => format!("put it between quotation marks: \"{written}\""),
                    None => "text stands between quotation marks, alone".to_string(),
                }));
                None
            }
        }
    }

    /// A whole number within `range`.
    pub fn integer(&self, range: RangeInclusive<i128>, problems: &mut Problems) -> Option<Located<i128>> {
        let DeValue::Integer(number) = self.value.get_ref() else {
            let help = self.as_number().map(|number| self.write(number));
            problems
                .push(self.wrong("a whole number").help(help.unwrap_or_else(|| "write digits: 100 or 0x64".into())));
            return None;
        };
        let number = i128::from_str_radix(number.as_str(), number.radix()).ok();
        match number {
            Some(number) if range.contains(&number) => Some(Located::new(number, self.span())),
            _ => {
                let bounds = match (*range.start(), *range.end()) {
                    (0, end) if end >= u64::MAX.into() => {
                        "it must not be negative, nor have more than 64 bits".to_string()
                    }
                    (start, end) => format!("it must be from {start} to {end}"),
                };
                problems.push(Problem::new(self.span(), format!("`{}` is out of range", self.key.value)).help(bounds));
                None
            }
        }
    }

    /// The whole number that someone meant who wrote text, or a fraction of nothing.
    fn as_number(&self) -> Option<String> {
        match self.value.get_ref() {
            DeValue::String(text) => {
                let digits = text.trim().trim_start_matches(['-', '+']);
                let is_number = !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_digit() || c == b'_');
                let is_hexadecimal = digits.strip_prefix("0x").is_some_and(|digits| {
                    !digits.is_empty() && digits.bytes().all(|c| c.is_ascii_hexdigit() || c == b'_')
                });
                (is_number || is_hexadecimal).then(|| text.trim().to_string())
            }
            DeValue::Float(number) => {
                let (whole, fraction) = number.as_str().split_once('.')?;
                fraction.bytes().all(|c| c == b'0').then(|| whole.to_string())
            }
            _ => None,
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
                let meant = match self.value.get_ref() {
                    DeValue::String(text) => match text.to_ascii_lowercase().as_str() {
                        "true" | "yes" | "on" | "1" => Some(true),
                        "false" | "no" | "off" | "0" => Some(false),
                        _ => None,
                    },
                    DeValue::Integer(number) => match number.as_str() {
                        "1" => Some(true),
                        "0" => Some(false),
                        _ => None,
                    },
                    _ => None,
                };
                let help =
                    meant.map_or("write `true` or `false`, without quotation marks".into(), |meant| self.write(meant));
                problems.push(self.wrong("true or false").help(help));
                None
            }
        }
    }

    /// A size in bytes: a whole number, or text with a unit.
    pub fn size(&self, problems: &mut Problems) -> Option<Located<u64>> {
        match self.value.get_ref() {
            DeValue::Integer(_) => self.unsigned(problems),
            DeValue::String(text) => self.unit(text, units::parse_size, "size", units::size_advice(text), problems),
            _ => {
                problems.push(self.wrong("a size").help(units::SIZE_FORM));
                None
            }
        }
    }

    /// A duration in nanoseconds.
    pub fn duration(&self, problems: &mut Problems) -> Option<Located<u64>> {
        match self.value.get_ref() {
            DeValue::String(text) => {
                self.unit(text, units::parse_duration, "duration", units::duration_advice(text), problems)
            }
            _ => {
                problems.push(self.wrong("a duration").help(units::DURATION_FORM));
                None
            }
        }
    }

    /// A hardware address.
    pub fn mac(&self, problems: &mut Problems) -> Option<Located<[u8; 6]>> {
        match self.value.get_ref() {
            DeValue::String(text) => {
                self.unit(text, units::parse_mac, "hardware address", units::mac_advice(text), problems)
            }
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
        advice: String,
        problems: &mut Problems,
    ) -> Option<Located<T>> {
        let value = parse(text);
        if value.is_none() {
            problems.push(Problem::new(self.span(), format!("`{text}` is not a {what}")).help(advice));
        }
        value.map(|value| Located::new(value, self.span()))
    }

    /// One of the given names.
    pub fn choice<T: Copy>(&self, choices: &[(&str, T)], problems: &mut Problems) -> Option<Located<T>> {
        if !self.is_text() {
            let names: Vec<&str> = choices.iter().map(|(name, _)| *name).collect();
            let help = format!("choose one of \"{}\", with quotation marks", names.join("\", \""));
            problems.push(self.wrong("text").help(help));
            return None;
        }
        let text = self.text(problems)?;
        let found = choices.iter().find(|(name, _)| *name == text.value);
        if found.is_none() {
            let problem = Problem::new(
                self.span(),
                format!("`{}` is not something that `{}` can be", text.value, self.key.value),
            );
            problems.push(problem.maybe_help(suggest(&text.value, choices.iter().map(|(name, _)| *name))));
        }
        found.map(|(_, value)| Located::new(*value, self.span()))
    }

    /// A table, called `what` in messages.
    pub fn table(&self, what: impl Into<String>, problems: &mut Problems) -> Option<TableReader<'a>> {
        match self.value.get_ref() {
            DeValue::Table(table) => Some(TableReader::new(what, self.span(), table)),
            _ => {
                problems.push(self.wrong("a table").help(if self.is_list() {
                    "a table stands between braces, { … }, or under a header with one bracket on each side"
                } else {
                    "a table stands between braces, { key = value }, or under a header of its own"
                }));
                None
            }
        }
    }

    /// A list; each element comes as an entry under this entry's key.
    pub fn list(&self, problems: &mut Problems) -> Option<Vec<Entry<'a>>> {
        match self.value.get_ref() {
            DeValue::Array(elements) => Some(self.elements(elements)),
            _ => {
                problems.push(self.wrong("a list").help(match self.value.get_ref() {
                    DeValue::Table(_) => format!(
                        "put it between square brackets; as a table of its own it has two on each side: [[{}]]",
                        self.key.value
                    ),
                    _ => "put it between square brackets".to_string(),
                }));
                None
            }
        }
    }

    /// A list of values like `element`, which advice shows.
    pub fn list_of(&self, element: &str, problems: &mut Problems) -> Option<Vec<Entry<'a>>> {
        if !self.is_list() {
            problems.push(self.wrong("a list").help(self.write(format_args!("[{element}]")) + ", say"));
            return None;
        }
        self.list(problems)
    }

    fn elements(&self, elements: &'a DeArray<'a>) -> Vec<Entry<'a>> {
        let key = |value: &Spanned<_>| Located::new(self.key.value.clone(), value.span());
        elements.iter().map(|value| Entry { key: key(value), value, is_element: true }).collect()
    }

    /// A list of a program's arguments, which are no line for a shell: each word is an element of
    /// its own.
    pub fn arguments(&self, problems: &mut Problems) -> Option<Vec<Located<String>>> {
        if let DeValue::String(text) = self.value.get_ref() {
            let words: Vec<String> = text.split_whitespace().map(|word| format!("\"{word}\"")).collect();
            problems.push(self.wrong("a list").help(self.write(format_args!("[{}]", words.join(", ")))));
            return None;
        }
        self.texts(problems)
    }

    /// A list of text.
    pub fn texts(&self, problems: &mut Problems) -> Option<Vec<Located<String>>> {
        if let DeValue::String(text) = self.value.get_ref() {
            problems.push(self.wrong("a list").help(self.write(format_args!("[\"{text}\"]"))));
            return None;
        }
        let elements = self.list(problems)?;
        let count = elements.len();
        let texts: Vec<_> = elements.iter().filter_map(|element| element.text(problems)).collect();
        (texts.len() == count).then_some(texts)
    }
}

/// Longest name, in characters.
pub const MAX_NAME: usize = 48;

/// Reports a name that is not lower-case letters, digits and `separators` after a letter, or that
/// is too long. Returns whether it is good.
pub fn check_name(name: &Located<String>, what: &str, separators: &str, problems: &mut Problems) -> bool {
    let good = name.len() <= MAX_NAME
        && name.starts_with(|c: char| c.is_ascii_lowercase())
        && name.chars().all(|c| c.is_ascii_lowercase() || c.is_ascii_digit() || separators.contains(c));
    if !good {
        let separators: String = separators.chars().map(|c| format!(" and `{c}`")).collect();
        problems.push(Problem::new(name.span.clone(), format!("`{}` is not a name for a {what}", name.value)).help(
            format!("a name is a letter followed by letters, digits{separators}, all lower case, {MAX_NAME} at most"),
        ));
    }
    good
}
