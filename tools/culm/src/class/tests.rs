//! Checks of the tool's own sources: nothing outside this folder names a class, and no file of the
//! expansion and of the classes imports in a circle.

use super::all;
use culm_abi::connection::KINDS;
use std::collections::{BTreeMap, BTreeSet};
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

/// `expand/draft.rs` is the module `expand::draft`, `expand/mod.rs` is `expand`.
fn module(path: &Path) -> Vec<String> {
    let path = path.with_extension("");
    let mut parts: Vec<String> = path.iter().map(|part| part.to_string_lossy().into_owned()).collect();
    if parts.last().is_some_and(|last| last == "mod" || last == "lib") {
        parts.pop();
    }
    parts
}

/// The names at the beginning of each path in `text`, which follows `crate::` or `super::`: one, or
/// those of a list.
fn heads(text: &str) -> Vec<Vec<String>> {
    let end = text.find(|c: char| !c.is_ascii_lowercase() && c != '_' && c != ':').unwrap_or(text.len());
    let parts: Vec<String> = text[..end].split("::").filter(|part| !part.is_empty()).map(str::to_string).collect();
    if !text[..end].ends_with("::") || !text[end..].starts_with('{') {
        return vec![parts];
    }
    let list = text[end + 1..].split('}').next().unwrap_or_default();
    let items = list.split(',').map(|item| item.trim().split("::").next().unwrap_or_default().to_string());
    items.map(|item| parts.iter().cloned().chain([item]).collect()).collect()
}

/// The files that a file imports from; what its comments refer to is none of them.
fn imports(path: &Path, text: &str, modules: &BTreeMap<Vec<String>, PathBuf>) -> BTreeSet<PathBuf> {
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let text = &code.collect::<Vec<_>>().join("\n");
    let own = module(path);
    let mut paths: Vec<Vec<String>> = text.split("crate::").skip(1).flat_map(heads).collect();
    for rest in text.split("super::").skip(1) {
        let parent = own[..own.len().saturating_sub(1)].to_vec();
        paths.extend(heads(rest).into_iter().map(|head| parent.iter().cloned().chain(head).collect()));
    }
    for rest in text.split("mod ").skip(1) {
        let name = rest.split(';').next().unwrap_or_default().to_string();
        paths.push(own.iter().cloned().chain([name]).collect());
    }
    let file = |path: &Vec<String>| (1..=path.len()).rev().find_map(|length| modules.get(&path[..length]));
    paths.iter().filter_map(file).filter(|file| *file != path).cloned().collect()
}

#[test]
fn files_of_the_expansion_import_in_no_circle() {
    let sources = sources();
    let modules: BTreeMap<Vec<String>, PathBuf> = sources.keys().map(|path| (module(path), path.clone())).collect();
    let graph: BTreeMap<&PathBuf, BTreeSet<PathBuf>> =
        sources.iter().map(|(path, text)| (path, imports(path, text, &modules))).collect();
    let net = Path::new("class/net/mod.rs");
    assert!(
        graph[&net.to_path_buf()].contains(Path::new("expand/draft.rs")),
        "imports are seen: {:?}",
        graph[&net.to_path_buf()]
    );
    let mut circles = Vec::new();
    for start in graph.keys().filter(|path| path.starts_with("expand") || path.starts_with("class")) {
        let (mut seen, mut next) = (BTreeSet::new(), graph[*start].iter().collect::<Vec<_>>());
        while let Some(path) = next.pop() {
            if path == *start {
                circles.push(format!("{}", start.display()));
                break;
            }
            if seen.insert(path) {
                next.extend(graph[path].iter());
            }
        }
    }
    assert!(circles.is_empty(), "these import themselves: {}", circles.join(", "));
}
