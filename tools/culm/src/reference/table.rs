//! A table of keys, from which the book and the schemas are made.

use std::fmt::Write as _;

/// A key of a table.
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// The kind of its value.
    pub value: String,
    /// Its meaning if it is left out; "required" if it cannot be.
    pub default: String,
    /// Its meaning.
    pub meaning: String,
}

/// A table of the file.
pub struct Table {
    /// How it is written.
    pub heading: &'static str,
    /// Its introduction.
    pub intro: String,
    /// Its keys.
    pub keys: Vec<Key>,
}

/// A key.
pub fn key(
    name: &'static str,
    value: impl Into<String>,
    default: impl Into<String>,
    meaning: impl Into<String>,
) -> Key {
    Key { name, value: value.into(), default: default.into(), meaning: meaning.into() }
}

/// `"a"`, `"b"` or `"c"`.
pub fn choices<T>(names: &[(&str, T)]) -> String {
    let quoted: Vec<String> = names.iter().map(|(name, _)| format!("`\"{name}\"`")).collect();
    match &quoted[..] {
        [first @ .., last] if !first.is_empty() => format!("{} or {last}", first.join(", ")),
        _ => quoted.join(""),
    }
}

/// Writes tables as a page of the book shows them.
pub fn write_tables(out: &mut String, tables: Vec<Table>) {
    for table in tables {
        let heading = match table.heading.starts_with('[') {
            true => format!("`{}`", table.heading),
            false => table.heading.to_string(),
        };
        let _ = writeln!(out, "\n## {heading}\n");
        if !table.intro.is_empty() {
            let _ = writeln!(out, "{}\n", table.intro);
        }
        out.push_str("| Key | Value | Left out | Meaning |\n| --- | --- | --- | --- |\n");
        for key in table.keys {
            let name = if key.name == "…" { key.name.to_string() } else { format!("`{}`", key.name) };
            let _ = writeln!(out, "| {name} | {} | {} | {} |", key.value, key.default, key.meaning);
        }
    }
}
