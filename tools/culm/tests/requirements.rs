//! The book's page on TCP's requirements has each number of RFC 9293, and each test that it names
//! exists.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

/// The highest number of each kind in RFC 9293, appendix B.
const NUMBERS: [(&str, u32); 4] = [("MUST", 69), ("SHLD", 31), ("MAY", 18), ("REC", 1)];

/// Where the tests are that the page names.
const FOLDERS: [&str; 3] = ["libs/tcp", "libs/ip", "classes/net"];

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn page() -> String {
    std::fs::read_to_string(root().join("docs/src/reference/tcp-requirements.md")).expect("the page is there")
}

/// Returns the names of the functions in `text` that are tests.
fn tests_of(text: &str) -> Vec<String> {
    let (mut names, mut is_test) = (vec![], false);
    for line in text.lines().map(str::trim_start) {
        if line == "#[test]" {
            is_test = true;
        } else if is_test && let Some(rest) = line.strip_prefix("fn ") {
            names.extend(rest.split('(').next().map(String::from));
            is_test = false;
        }
    }
    names
}

/// Adds the tests in the Rust files below `folder`.
fn collect(folder: &Path, names: &mut BTreeSet<String>) {
    for entry in std::fs::read_dir(folder).expect("the folder is there") {
        let path = entry.expect("the folder is readable").path();
        if path.is_dir() {
            collect(&path, names);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            names.extend(tests_of(&std::fs::read_to_string(&path).expect("the file is text")));
        }
    }
}

/// Returns what stands in back quotes in the tables of `page` and looks like a test's name.
fn named(page: &str) -> Vec<&str> {
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let quoted = rows.flat_map(|row| row.split('`').skip(1).step_by(2));
    quoted.filter(|word| !word.contains(':') && word.matches('_').count() > 1).collect()
}

#[test]
fn each_test_that_the_page_names_exists() {
    let mut known = BTreeSet::new();
    for folder in FOLDERS {
        collect(&root().join(folder), &mut known);
    }
    let page = page();
    let missing: Vec<_> = named(&page).into_iter().filter(|name| !known.contains(*name)).collect();
    assert!(named(&page).len() > 100 && missing.is_empty(), "no such test: {missing:#?}");
}

#[test]
fn each_requirement_is_on_the_page() {
    let page = page();
    let rows = page.lines().filter(|line| line.starts_with('|'));
    let cells = rows.filter_map(|row| row.split('|').nth(1));
    let found: Vec<&str> = cells.flat_map(|cell| cell.split(',')).map(str::trim).collect();
    for (kind, highest) in NUMBERS {
        for number in 1..=highest {
            let count = found.iter().filter(|found| **found == format!("{kind}-{number}")).count();
            assert_eq!(count, 1, "{kind}-{number} is to stand on the page once");
        }
    }
}

#[test]
fn tests_are_told_from_other_functions() {
    let text = "fn help() {}\n#[test]\nfn one() {}\n    #[test]\n    fn two(at in 0..3) {}\nfn three() {}\n";
    assert_eq!(tests_of(text), ["one", "two"]);
    assert_eq!(named("`a_b_c`\n| x | `a_b_c`, `Stream::abort`, `is_so`, `d_e_f` |"), ["a_b_c", "d_e_f"]);
}
