//! A check of the tool's own sources: nothing outside this folder names a class.

use super::all;
use culm_abi::connection::KINDS;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Words that are no class's, although they look like it, or that have to be there.
const EXCEPTIONS: &[(&str, &str)] = &[
    ("std::net", "the standard library's addresses"),
    ("nix::net", "a library's interfaces"),
    ("unix::net", "the standard library's sockets"),
    ("\"-serial\"", "QEMU's option for the console that is shown"),
    ("serial/uart16550", "the example in the help of `culm new driver`"),
    ("\\\"net\\\"", "the example in advice on a board's device"),
    ("virtio,net", "the example in advice on a board's device"),
    ("culm_fat::BLOCK", "the unit of a library's places"),
    ("block: at", "a place in that unit"),
    ("place.block", "the same"),
    ("start block", "what a domain is told when it starts"),
    ("Start block", "the same at the beginning of a sentence"),
];

/// Classes whose names are words that the tool needs: of these, only the names of their
/// connections' structures count.
const ORDINARY: &[&str] = &["file"];

/// The sources of the tool without their tests, by path from the folder of sources.
fn sources() -> BTreeMap<PathBuf, String> {
    fn read(root: &Path, folder: &Path, found: &mut BTreeMap<PathBuf, String>) {
        for entry in fs::read_dir(folder).expect("the sources are there").flatten() {
            let path = entry.path();
            if path.is_dir() {
                read(root, &path, found);
            } else if path.extension().is_some_and(|extension| extension == "rs") && !path.ends_with("tests.rs") {
                let text = fs::read_to_string(&path).expect("it is text");
                let text = text.split("#[cfg(test)]").next().unwrap_or_default().to_string();
                found.insert(path.strip_prefix(root).expect("below the root").to_path_buf(), text);
            }
        }
    }
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = BTreeMap::new();
    read(&root, &root, &mut found);
    found
}

/// Whether a word is a class's name, or begins with it as a type or a constant of the class would.
fn names(word: &str, class: &str) -> bool {
    if ORDINARY.contains(&class) {
        return KINDS.iter().any(|kind| kind.class == Some(class) && kind.structure == word);
    }
    let (first, rest) = class.split_at(1);
    let capital = format!("{}{rest}", first.to_uppercase());
    let is_type = word.strip_prefix(&capital).is_some_and(|rest| rest.chars().next().is_none_or(char::is_uppercase));
    is_type || word == class || word.starts_with(&format!("{class}_")) || {
        let constant = class.to_uppercase();
        word == constant || word.starts_with(&format!("{constant}_"))
    }
}

/// A guest's devices are of its own machine, and of no class.
fn is_apart(path: &Path) -> bool {
    path.starts_with("class") || path.starts_with("guest")
}

#[test]
fn nothing_outside_this_folder_names_a_class() {
    let mut found = Vec::new();
    for (path, text) in sources().iter().filter(|(path, _)| !is_apart(path)) {
        for (number, line) in text.lines().enumerate() {
            let line = EXCEPTIONS.iter().fold(line.to_string(), |line, (words, _)| line.replace(words, ""));
            let words = line.split(|c: char| !c.is_alphanumeric() && c != '_');
            for word in words.filter(|word| all().any(|class| names(word, class.name()))) {
                found.push(format!("{}:{}: `{word}`", path.display(), number + 1));
            }
        }
    }
    assert!(found.is_empty(), "what is a class's belongs into `class/`:\n{}", found.join("\n"));
}
