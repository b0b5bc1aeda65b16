//! JSON schemas of system, board and component files, for editors (taplo, VS Code and others).
//!
//! A schema is made from the [`crate::reference`]'s tables of keys, so that the book and the schema
//! say the same. What a key's value can be follows from there; names and limits come from where
//! they are decided. A schema knows one file and no other: whether a name exists, what memory there
//! is, what a component asks for, is the work of `culm check`.

mod board;
mod component;
mod disk;
mod system;

use crate::reference::table::Key;
use anyhow::Result;
use culm_manifest::reader::MAX_NAME;
use serde_json::{Map, Value, json};

/// A kind of file.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Of {
    /// `systems/NAME.toml`
    System,
    /// `boards/NAME.toml`
    Board,
    /// `component.toml`
    Component,
}

/// `culm schema`: prints a schema.
pub fn print(of: Of) -> Result<()> {
    println!("{:#}", schema(of));
    Ok(())
}

/// The schema of a kind of file.
pub fn schema(of: Of) -> Value {
    let (title, mut root) = match of {
        Of::System => ("A Culm system", system::schema()),
        Of::Board => ("A Culm board", board::schema()),
        Of::Component => ("A Culm component", component::schema()),
    };
    root["$schema"] = json!("http://json-schema.org/draft-07/schema#");
    root["title"] = json!(title);
    root
}

/// A table with these keys and no others; `required` are those that must be there.
fn table(keys: Vec<(&str, Value, &str)>, required: &[&str]) -> Value {
    let properties: Map<String, Value> =
        keys.into_iter().map(|(name, value, meaning)| (name.to_string(), described(value, meaning))).collect();
    json!({
        "type": "object",
        "properties": properties,
        "required": required,
        "additionalProperties": false,
    })
}

/// The same from keys of the reference, each of which has a value by `value`.
fn object<'k>(keys: impl IntoIterator<Item = &'k Key>, value: fn(&Key) -> Value) -> Value {
    let keys: Vec<&Key> = keys.into_iter().collect();
    let required: Vec<&str> = keys.iter().filter(|key| key.default == "required").map(|key| key.name).collect();
    table(keys.iter().map(|key| (key.name, value(key), key.meaning.as_str())).collect(), &required)
}

/// The same value with what it means, which editors show. (Beside a reference draft 7 ignores other
/// keys.)
fn described(mut value: Value, meaning: &str) -> Value {
    if value.get("$ref").is_some() {
        return json!({ "allOf": [value], "description": meaning });
    }
    value["description"] = json!(meaning);
    value
}

/// Tables by names of the user's own.
fn named(table: Value, separators: &str) -> Value {
    json!({ "type": "object", "propertyNames": name(separators), "additionalProperties": table })
}

fn list(of: Value) -> Value {
    json!({ "type": "array", "items": of })
}

fn text() -> Value {
    json!({ "type": "string" })
}

/// A name, as [`culm_manifest::reader::check_name`] takes it.
fn name(separators: &str) -> Value {
    json!({ "type": "string", "pattern": format!("^[a-z][a-z0-9{separators}]*$"), "maxLength": MAX_NAME })
}

fn boolean() -> Value {
    json!({ "type": "boolean" })
}

fn number(least: u64, greatest: u64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": greatest })
}

/// An address: schemas have no numbers beyond what a double holds, so that no bound is given.
fn address() -> Value {
    json!({ "type": "integer", "minimum": 0 })
}

fn size() -> Value {
    let text = json!({ "type": "string", "pattern": "^[0-9_]+ *(B|KiB|MiB|GiB)$" });
    json!({ "anyOf": [{ "type": "integer", "minimum": 0 }, text] })
}

fn duration() -> Value {
    json!({ "type": "string", "pattern": "^[0-9_]+ *(s|ms|us|µs|ns)$" })
}

fn mac() -> Value {
    json!({ "type": "string", "pattern": "^[0-9A-Fa-f]{2}(:[0-9A-Fa-f]{2}){5}$" })
}

/// One of the names of an enumeration.
fn choice<T>(names: &[(&str, T)]) -> Value {
    json!({ "type": "string", "enum": names.iter().map(|(name, _)| *name).collect::<Vec<_>>() })
}

/// Something, or a list of it.
fn one_or_several(of: Value) -> Value {
    json!({ "anyOf": [of, list(of.clone())] })
}

/// A power of two up to `greatest`.
fn power_of_two(greatest: u64) -> Value {
    let powers: Vec<u64> = (0..63).map(|power| 1 << power).take_while(|power| *power <= greatest).collect();
    json!({ "type": "integer", "enum": powers })
}

#[cfg(test)]
mod tests;
