//! Which names a new component can have: one that cannot work is refused with the reason, before
//! anything is written.

use crate::failure::Failure;
use culm_manifest::reader::check_name;
use culm_manifest::{Located, Problem};

/// Words of the language, those reserved for later included (The Rust Reference, "Keywords").
const KEYWORDS: &[&str] = &[
    "abstract", "as", "async", "await", "become", "box", "break", "const", "continue", "crate", "do", "dyn", "else",
    "enum", "extern", "false", "final", "fn", "for", "gen", "if", "impl", "in", "let", "loop", "macro", "match", "mod",
    "move", "mut", "override", "priv", "pub", "ref", "return", "self", "static", "struct", "super", "trait", "true",
    "try", "type", "typeof", "union", "unsafe", "unsized", "use", "virtual", "where", "while", "yield",
];

/// Crates that come with Rust.
const STANDARD: &[&str] = &["alloc", "core", "proc-macro", "proc_macro", "std", "test"];

/// Folders that cargo makes beside the programs it builds; it refuses programs of these names.
const OF_CARGO: &[&str] = &["build", "deps", "examples", "incremental"];

/// Names of the kernel and of what is in every system.
const OF_CULM: &[&str] = &["culm", "kernel", "supervisor"];

/// Types that a component's main file has already: from its manifest, from the runtime, from Rust's
/// prelude.
const TYPES: &[&str] = &[
    "AsMut",
    "AsRef",
    "Box",
    "Channel",
    "Channels",
    "Clone",
    "Component",
    "Config",
    "Connections",
    "Copy",
    "Debug",
    "Default",
    "DoubleEndedIterator",
    "Drop",
    "Duration",
    "Eq",
    "Err",
    "ExactSizeIterator",
    "Extend",
    "Fn",
    "FnMut",
    "FnOnce",
    "From",
    "FromIterator",
    "Hash",
    "Instant",
    "Interrupt",
    "Into",
    "IntoIterator",
    "Iterator",
    "Mapped",
    "None",
    "Ok",
    "Option",
    "Ord",
    "PartialEq",
    "PartialOrd",
    "Result",
    "Send",
    "Sized",
    "Some",
    "String",
    "Sync",
    "ToOwned",
    "ToString",
    "TryFrom",
    "TryInto",
    "Unpin",
    "Vec",
];

/// Whether `name` can name a component, where the workspace depends on these crates of others.
pub fn check(name: &str, dependencies: &[String]) -> Result<(), Failure> {
    let refuse = |reason: String| Err(Failure::new(format!("`{name}` {reason}")).help("choose another name"));
    let mut problems = Vec::<Problem>::new();
    check_name(&Located::new(name.to_owned(), 0..name.len()), "component", "-_", &mut problems);
    if let Some(Problem { message, help, .. }) = problems.pop() {
        let failure = Failure::new(message);
        return Err(help.into_iter().fold(failure, Failure::help));
    }
    if KEYWORDS.contains(&name) {
        return refuse("is a word of Rust, so no crate can have that name".into());
    }
    if STANDARD.contains(&name) {
        return refuse("is a crate that comes with Rust".into());
    }
    if OF_CARGO.contains(&name) {
        return refuse("is a folder of cargo's, beside which no program of that name can be".into());
    }
    if OF_CULM.contains(&name) || name.starts_with("culm-") || name.starts_with("culm_") {
        return refuse("names a part of Culm itself".into());
    }
    let kind = camel_case(name);
    if TYPES.contains(&kind.as_str()) {
        return refuse(format!("would be the type `{kind}`, which every component has already"));
    }
    if dependencies.iter().any(|other| other.replace('-', "_") == name.replace('-', "_")) {
        return refuse("is a crate that Culm depends on; cargo could not tell the two apart".into());
    }
    Ok(())
}

/// Names of the crates in a lock file that come from elsewhere.
pub fn dependencies(lock: &str) -> Vec<String> {
    let Ok(lock) = lock.parse::<toml::Table>() else { return Vec::new() };
    let packages = lock.get("package").and_then(toml::Value::as_array).into_iter().flatten();
    let foreign = packages.filter(|package| package.get("source").is_some());
    foreign.filter_map(|package| Some(package.get("name")?.as_str()?.to_string())).collect()
}

/// `rate-limiter` becomes `RateLimiter`.
pub fn camel_case(name: &str) -> String {
    let capital = |part: &str| {
        let mut letters = part.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split(['-', '_']).map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_cannot_work_are_refused_with_the_reason() {
        let dependencies = dependencies(
            "[[package]]\nname = \"serde\"\nsource = \"registry\"\n[[package]]\nname = \"hello\"\n\
             [[package]]\nname = \"proc-macro2\"\nsource = \"registry\"\n",
        );
        let refused = |name| check(name, &dependencies).expect_err(name).message().to_string();
        for name in ["", "2fast", "Loud", "a b", "../up", "ünicode", "-x"] {
            assert!(refused(name).ends_with("is not a name for a component"), "{name}");
        }
        for (name, reason) in [
            ("self", "word of Rust"),
            ("gen", "word of Rust"),
            ("std", "comes with Rust"),
            ("proc_macro", "comes with Rust"),
            ("build", "folder of cargo's"),
            ("deps", "folder of cargo's"),
            ("kernel", "part of Culm"),
            ("culm-x", "part of Culm"),
            ("config", "the type `Config`"),
            ("option", "the type `Option`"),
            ("serde", "depends on"),
            ("proc_macro2", "depends on"),
        ] {
            assert!(refused(name).contains(reason), "{name}: {}", refused(name));
        }
        for name in ["welcome", "rate-limiter_2", "hello", "default-route"] {
            assert!(check(name, &dependencies).is_ok(), "{name}");
        }
    }

    #[test]
    fn types_are_in_camel_case() {
        assert_eq!(camel_case("welcome"), "Welcome");
        assert_eq!(camel_case("rate-limiter_2"), "RateLimiter2");
    }
}
