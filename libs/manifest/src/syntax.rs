//! From text to tables: what is no TOML is reported in words that say what to write, not in those
//! of the parser's grammar.

use crate::problem::{Problem, Problems};
use core::ops::Range;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

/// Longest file that is read, in bytes: far more than a person writes, and no work to refuse.
pub const MAX_FILE: usize = 1 << 20;

/// The form of a table, for people who write another language.
const TABLE_FORM: &str = "TOML has tables with a name in square brackets, and `key = value` in the lines below: \
                          [pd.http], then priority = 100";

/// Parses a file. Syntax errors go to `problems`; what could be read is returned all the same.
pub fn parse_table<'a>(text: &'a str, problems: &mut Problems) -> Spanned<DeTable<'a>> {
    if text.len() > MAX_FILE {
        problems.push(
            Problem::new(0..0, format!("a file of {} bytes is no description", text.len()))
                .help(format!("a description has {MAX_FILE} bytes at most")),
        );
        return DeTable::parse_recoverable("").0;
    }
    let (table, errors) = DeTable::parse_recoverable(text);
    if errors.is_empty() {
        return table;
    }
    if let Some(problem) = another_language(text) {
        problems.push(problem);
        return table;
    }
    let (duplicates, others): (Vec<_>, Vec<_>) = errors.iter().partition(|error| error.message() == "duplicate key");
    // One slip often makes the parser stumble again at once: of those errors the first says it
    // best.
    problems.extend(others.first().map(|error| syntax_problem(text, error)));
    for span in duplicates.iter().filter_map(|error| error.span()) {
        let span = place(text, span);
        let is_header = header_of(text, &span).is_some();
        problems.push(duplicate(&table, text, span));
        if is_header {
            // An entry of a table that is there twice would be twice itself.
            break;
        }
    }
    table
}

/// A file in one of the languages that other systems are described in.
fn another_language(text: &str) -> Option<Problem> {
    let is_content = |line: &&str| !line.trim().is_empty() && !line.trim_start().starts_with('#');
    let line = text.trim_start_matches('\u{feff}').lines().find(is_content)?;
    let content = line.trim();
    let language = match content.chars().next()? {
        '{' => "JSON",
        '<' => "XML",
        _ if content == "[" => "JSON",
        _ if content == "---" || content.starts_with("- ") || yaml_key(content).is_some() => "YAML",
        _ => return None,
    };
    let start = text.find(line)? + (line.len() - line.trim_start().len());
    Some(
        Problem::new(start..start + content.len(), format!("this looks like {language}, but descriptions are TOML"))
            .help(TABLE_FORM),
    )
}

/// Key and value of a line such as `priority: 100`.
fn yaml_key(line: &str) -> Option<(&str, &str)> {
    let (key, value) = line.split_once(':')?;
    let is_key = !key.is_empty() && key.chars().all(|c| c.is_ascii_alphanumeric() || "_-.".contains(c));
    (is_key && (value.is_empty() || value.starts_with(' '))).then(|| (key, value.trim()))
}

/// A place within the text that shows something: the end of the file moves to its last character.
fn place(text: &str, span: Range<usize>) -> Range<usize> {
    let end = text.trim_end().len();
    if span.start < end && text.is_char_boundary(span.start) {
        return span;
    }
    let last = text[..end].chars().next_back().map_or(0, char::len_utf8);
    end - last..end
}

/// The parser's words, or better ones for the slips that are made most.
fn syntax_problem(text: &str, error: &toml::de::Error) -> Problem {
    let span = place(text, error.span().unwrap_or(text.len()..text.len()));
    let found = text.get(span.clone()).unwrap_or("");
    let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let line = text[start..].lines().next().unwrap_or("").trim_end();
    let (before, after) = (&text[start..span.start], &text[span.start..start.max(span.start) + rest(text, span.start)]);
    if let Some((key, value)) = yaml_key(line.trim()) {
        let value = if value.is_empty() { "…" } else { value };
        return Problem::new(span, "a key and its value have `=` between them, not `:`")
            .help(format!("write `{key} = {value}`"));
    }
    if let Some(quote) = after.chars().next().filter(|c| "“”„‘’«»".contains(*c)) {
        return Problem::new(
            span.start..span.start + quote.len_utf8(),
            format!("`{quote}` is no quotation mark of TOML"),
        )
        .help("text stands between plain quotation marks: \"text\"");
    }
    if let Some(mark) = ["//", "--", "/*", ";"].into_iter().find(|mark| line.trim_start().starts_with(mark)) {
        let start = start + (line.len() - line.trim_start().len());
        return Problem::new(start..start + mark.len(), format!("`{mark}` begins no comment in TOML"))
            .help("a comment begins with `#`");
    }
    for (mark, help) in [
        (";", "leave out the `;`: a line ends by itself"),
        ("//", "a comment begins with `#`"),
        ("--", "a comment begins with `#`"),
        ("/*", "a comment begins with `#`, in each of its lines"),
    ] {
        if after.trim_start().starts_with(mark) {
            let start = span.start + (after.len() - after.trim_start().len());
            return Problem::new(start..start + mark.len(), format!("`{mark}` means nothing in TOML")).help(help);
        }
    }
    let is_value = before.trim_end().ends_with(['=', ',', '[']) && before.contains('=');
    if is_value && found.starts_with(|c: char| c.is_ascii_alphabetic()) {
        return Problem::new(span, format!("`{found}` is no value")).help(match found.to_ascii_lowercase().as_str() {
            word @ ("true" | "false") => format!("write `{word}`, in lower case"),
            "yes" | "on" => "write `true`".to_string(),
            "no" | "off" | "none" | "null" | "nil" => {
                "write `false` for what is true or false; leave a key out where it has no value".to_string()
            }
            _ => format!("text stands between quotation marks: \"{found}\""),
        });
    }
    let problem = Problem::new(span, format!("this is not TOML: {}", error.message()));
    problem.help(advice(line, error.message()))
}

/// Bytes from here to the end of the line.
fn rest(text: &str, at: usize) -> usize {
    text[at..].find('\n').unwrap_or(text.len() - at)
}

/// Returns the advice for a line that the parser cannot read.
fn advice(line: &str, message: &str) -> String {
    advice_on_slip(line.trim(), message).unwrap_or_else(|| {
        "a line has `key = value` with one value, or `[pd.http]`, a table's name, alone; a comment begins with `#`"
            .into()
    })
}

/// Advice on a slip that is made often.
fn advice_on_slip(line: &str, message: &str) -> Option<String> {
    for (sign, help) in [
        ("extra `=`", "a key and its value have one `=` between them"),
        ("missing comma", "between braces and brackets a comma ends each element"),
        ("recursion", "no description nests lists and tables so deeply"),
    ] {
        if message.contains(sign) {
            return Some(help.to_string());
        }
    }
    if line.starts_with('[') {
        return Some("a table begins with its name in square brackets, alone in its line: [pd.http]".to_string());
    }
    if line.matches('"').count() % 2 == 1 {
        return Some("text ends with a quotation mark, in the line in which it begins".to_string());
    }
    match line.split_once('=') {
        Some((key, value)) if value.trim().is_empty() => Some(format!("write its value: `{} = …`", key.trim())),
        Some((_, value)) if value.trim().starts_with(|c: char| c.is_ascii_digit() || "+-.".contains(c)) => {
            Some("a number has digits only: 100, 4_096 or 0x1000; with a unit it is text: \"64KiB\"".to_string())
        }
        Some((_, value)) if value.matches(['[', '{']).count() > value.matches([']', '}']).count() => {
            Some("a bracket that is opened is closed, and elements have commas between them".to_string())
        }
        Some((_, value)) if value.trim().starts_with('(') => {
            Some("a table stands between braces: { key = value }".into())
        }
        Some(_) => None,
        None if message.contains("key with no value") => Some("write `key = value`".to_string()),
        None => None,
    }
}

/// A key or a table that is there twice, with the place of the first.
fn duplicate(table: &Spanned<DeTable<'_>>, text: &str, span: Range<usize>) -> Problem {
    let name = text.get(span.clone()).unwrap_or("");
    let first = header_like(text, &span).or_else(|| {
        let mut places = Vec::new();
        places_of(table.get_ref(), name.trim_matches(['"', '\'']), &mut places);
        places.into_iter().filter(|place| place.start < span.start).max_by_key(|place| place.start)
    });
    let problem = Problem::new(span, format!("`{name}` is there twice"))
        .help("a key and a table have one place each: put together what belongs together");
    match first {
        Some(first) => problem.related(first, "it is here already"),
        None => problem,
    }
}

/// A line without blanks and comment.
fn bare(line: &str) -> String {
    line.split('#').next().unwrap_or("").split_whitespace().collect()
}

/// The header that `span` is in.
fn header_of(text: &str, span: &Range<usize>) -> Option<String> {
    let start = text[..span.start].rfind('\n').map_or(0, |at| at + 1);
    let line = bare(&text[start..start + rest(text, start)]);
    line.starts_with('[').then_some(line)
}

/// Where the same header stands earlier, if `span` is in a header.
fn header_like(text: &str, span: &Range<usize>) -> Option<Range<usize>> {
    let header = header_of(text, span)?;
    let mut at = 0;
    for line in text[..span.start].split_inclusive('\n').filter(|line| line.ends_with('\n')) {
        if bare(line) == header {
            let indent = line.len() - line.trim_start().len();
            return Some(at + indent..at + line.trim_end().len());
        }
        at += line.len();
    }
    None
}

/// Places of every key of this name, in all tables.
fn places_of(table: &DeTable<'_>, name: &str, places: &mut Vec<Range<usize>>) {
    for (key, value) in table.iter() {
        if key.get_ref().as_ref() == name {
            places.push(key.span());
        }
        places_in(value.get_ref(), name, places);
    }
}

fn places_in(value: &DeValue<'_>, name: &str, places: &mut Vec<Range<usize>>) {
    match value {
        DeValue::Table(table) => places_of(table, name, places),
        DeValue::Array(elements) => elements.iter().for_each(|element| places_in(element.get_ref(), name, places)),
        _ => {}
    }
}
