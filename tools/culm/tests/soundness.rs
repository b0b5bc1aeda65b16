//! The invariants that `SAFETY` comments rest on: each number that a comment cites is in
//! `docs/src/soundness.md`, and each number there is cited.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// Folders of which each `SAFETY` comment cites an invariant: what runs on the target.
const FOLDERS: [&str; 5] = ["kernel/src", "runtime/src", "libs/queue/src", "libs/mmio/src", "classes"];

/// Reasons that need no invariant: the promise of another unsafe function, passed on.
const PASSED_ON: [&str; 3] =
    ["the caller promises what", "every call is passed on", "`acquire` uses the allocator only through"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn sources(folder: &Path, into: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there").map(|entry| entry.expect("it is read")) {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, into);
        } else if path.extension().is_some_and(|end| end == "rs") && path.file_name() != Some("tests.rs".as_ref()) {
            into.push(path);
        }
    }
}

/// Returns the numbers in `[K1, A2]` at the beginning of `text`.
fn cited(text: &str) -> Vec<String> {
    let list = text.strip_prefix('[').and_then(|text| text.split_once(']'));
    list.map_or(vec![], |(list, _)| list.split(", ").map(str::to_owned).collect())
}

#[test]
fn safety_comments_cite_invariants_that_there_are() {
    let page = std::fs::read_to_string(root().join("docs/src/soundness.md")).expect("the page is there");
    let known: BTreeSet<String> = page
        .lines()
        .filter_map(|line| line.strip_prefix("- **")?.split_once("** "))
        .map(|(number, _)| number.to_owned())
        .collect();
    assert!(known.contains("K1"), "the page numbers its invariants: {known:?}");
    let mut files = vec![];
    FOLDERS.iter().for_each(|folder| sources(&root().join(folder), &mut files));
    let (mut used, mut wrong) = (BTreeSet::new(), vec![]);
    for file in files {
        let text = std::fs::read_to_string(&file).expect("the file is read");
        for (number, line) in text.lines().enumerate() {
            let Some((_, reason)) = line.split_once("// SAFETY: ") else { continue };
            let numbers = cited(reason);
            let is_cited = !numbers.is_empty() && numbers.iter().all(|number| known.contains(number));
            if !is_cited && !PASSED_ON.iter().any(|start| reason.starts_with(start)) {
                wrong.push(format!("{}:{}: {reason}", file.display(), number + 1));
            }
            used.extend(numbers);
        }
    }
    assert!(wrong.is_empty(), "these cite no invariant of docs/src/soundness.md:\n{}", wrong.join("\n"));
    assert_eq!(used, known, "each invariant is cited somewhere");
}
