//! What is wrong with rules, each with its place, what it is, and what would be right.

use alloc::string::String;
use alloc::vec::Vec;
use core::fmt::{self, Write};
use core::ops::Range;

/// One thing that is wrong.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem {
    /// The offending bytes of the text, all on one line.
    pub span: Range<usize>,
    /// The problem.
    pub message: String,
    /// Advice on what would be right, if there is some.
    pub help: Option<String>,
    /// Other places of the text that have to do with it, each with what it is.
    pub related: Vec<(Range<usize>, String)>,
}

impl Problem {
    pub(crate) fn new(span: Range<usize>, message: impl Into<String>) -> Self {
        Self { span, message: message.into(), help: None, related: Vec::new() }
    }

    pub(crate) fn help(mut self, help: impl Into<String>) -> Self {
        self.help = Some(help.into());
        self
    }

    pub(crate) fn related(mut self, span: Range<usize>, what: impl Into<String>) -> Self {
        self.related.push((span, what.into()));
        self
    }

    /// Writes the problem as people read it, with the place in `text` underlined. `file` is what
    /// the text is called, and `text` what [`parse`](crate::parse()) was given.
    ///
    /// # Errors
    ///
    /// If `out` fails.
    pub fn write(&self, out: &mut impl Write, file: &str, text: &str) -> fmt::Result {
        writeln!(out, "error: {}", self.message)?;
        let mut margin = excerpt(out, file, text, &self.span, '^', "")?;
        for (span, what) in &self.related {
            margin = excerpt(out, file, text, span, '-', what)?;
        }
        match &self.help {
            Some(help) => writeln!(out, "{:margin$} = help: {help}", ""),
            None => Ok(()),
        }
    }
}

/// Returns line and column (in characters) of a byte offset in `text`, both counted from 1.
pub fn position(text: &str, offset: usize) -> (usize, usize) {
    let (number, line, within) = line_of(text, offset);
    (number, line.get(..within).map_or(1, |before| before.chars().count() + 1))
}

/// Returns the number of the line that has this byte, the line, and the byte's offset in it.
fn line_of(text: &str, offset: usize) -> (usize, &str, usize) {
    let (mut start, mut number) = (0, 1);
    for line in text.split_inclusive('\n') {
        let end = start + line.len();
        if offset < end || end == text.len() && !line.ends_with('\n') {
            let content = line.trim_end_matches(['\n', '\r']);
            return (number, content, (offset - start).min(content.len()));
        }
        (start, number) = (end, number + 1);
    }
    (number, "", 0)
}

/// Writes a place with its line underlined; returns the width of the line's number.
fn excerpt(
    out: &mut impl Write,
    file: &str,
    text: &str,
    span: &Range<usize>,
    mark: char,
    label: &str,
) -> Result<usize, fmt::Error> {
    let (number, line, within) = line_of(text, span.start);
    let count = |part: Option<&str>| part.map_or(0, |part| part.chars().count());
    let before = count(line.get(..within));
    let end = within.saturating_add(span.len()).min(line.len());
    let marks = count(line.get(within..end)).max(1);
    let mut digits = 1;
    while number.checked_div(10_usize.saturating_pow(digits)).is_some_and(|rest| rest > 0) {
        digits += 1;
    }
    let margin = digits as usize;
    writeln!(out, "{:margin$}--> {file}:{number}:{}", "", before + 1)?;
    writeln!(out, "{:margin$} |", "")?;
    write!(out, "{number} | ")?;
    for character in line.chars() {
        // Nothing in a file moves the cursor of the terminal that shows it.
        out.write_char(match character {
            '\t' => ' ',
            control if control.is_control() => '\u{fffd}',
            other => other,
        })?;
    }
    write!(out, "\n{:margin$} | {:before$}", "", "")?;
    for _ in 0..marks {
        out.write_char(mark)?;
    }
    writeln!(out, "{}{label}", if label.is_empty() { "" } else { " " })?;
    Ok(margin)
}

/// Returns the name among `known` that `wrong` was most likely meant to be, if one is near: one
/// letter in three may be wrong.
pub(crate) fn nearest<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    known
        .map(|name| (distance(wrong.as_bytes(), name.as_bytes()), name))
        .filter(|(distance, name)| *distance <= name.len().max(3) / 3)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, name)| name)
}

/// How many bytes to insert, delete or replace to make one of the other. More than a name may have
/// are not compared.
fn distance(one: &[u8], other: &[u8]) -> usize {
    if one.len().max(other.len()) > crate::zone::MAX_NAME {
        return usize::MAX;
    }
    let mut row: Vec<usize> = (0..=other.len()).collect();
    for (index, byte) in one.iter().enumerate() {
        let (mut left, mut diagonal) = (index + 1, index);
        for (cell, against) in row.iter_mut().zip([None].into_iter().chain(other.iter().map(Some))) {
            let above = *cell;
            *cell = match against {
                None => index + 1,
                Some(against) => (diagonal + usize::from(byte != against)).min(left + 1).min(above + 1),
            };
            (left, diagonal) = (*cell, above);
        }
    }
    row.last().copied().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::ToString;

    #[test]
    fn a_place_is_underlined() {
        let text = "ok\r\nallow\tfro\u{7} äny\nlast";
        let start = text.find("äny").expect("it is there");
        let problem = Problem::new(start..start + 4, "no").help("yes").related(0..2, "this");
        let mut out = String::new();
        problem.write(&mut out, "file", text).expect("a string takes all");
        let shown = "error: no\n --> file:2:12\n  |\n2 | allow fro\u{fffd} äny\n  |            ^^^\n \
                     --> file:1:1\n  |\n1 | ok\n  | -- this\n  = help: yes\n";
        assert_eq!(out, shown);
        assert_eq!((position(text, start), position(text, text.len()), position(text, 999)), ((2, 12), (3, 5), (3, 5)));
        assert_eq!((position("", 0), position("a\n", 2)), ((1, 1), (2, 1)));
    }

    #[test]
    fn a_near_name_is_found() {
        let known = ["inner", "outer", "dmz"];
        let near = |wrong: &str| nearest(wrong, known.into_iter()).map(|name| name.to_string());
        assert_eq!(near("iner").as_deref(), Some("inner"));
        assert_eq!(near("outerr").as_deref(), Some("outer"));
        assert_eq!(near("dm").as_deref(), Some("dmz"));
        assert_eq!(near("guest"), None);
        assert_eq!(near(&"o".repeat(1000)), None);
        assert_eq!((distance(b"kitten", b"sitting"), distance(b"", b"ab"), distance(b"ab", b"")), (3, 2, 2));
    }
}
