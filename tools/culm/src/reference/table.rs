//! A table of keys, from which the book and the schemas are made.

/// A key of a table.
pub struct Key {
    /// Its name.
    pub name: &'static str,
    /// What its value is.
    pub value: String,
    /// What it means where it is left out; "required" where it cannot be.
    pub default: String,
    /// What it says.
    pub meaning: String,
}

/// A table of the file.
pub struct Table {
    /// How it is written.
    pub heading: &'static str,
    /// What it is for.
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
