//! Unsafe code is where `docs/src/soundness.md` says, and nowhere else; and the invariants that
//! `SAFETY` comments rest on: each number that a comment cites is in that page, and each number
//! there is cited.

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
            // Unsafe code of tests is not listed.
            if path.file_name() != Some("tests".as_ref()) {
                sources(&path, into);
            }
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

/// Folders of what runs on the target, but for tests and benchmarks.
const ON_TARGET: [&str; 9] =
    ["abi", "kernel", "runtime", "libs", "classes", "drivers", "virtualisers", "services", "apps"];

/// Whether code has something unsafe in it, or gives a function a name for the linker.
fn is_unsafe(code: &str) -> bool {
    let forms = ["unsafe {", "unsafe fn", "unsafe impl", "unsafe extern", "unsafe trait", "[unsafe("];
    let lines = code.lines().map(|line| line.split("//").next().unwrap_or_default());
    lines.into_iter().any(|line| forms.iter().any(|form| line.contains(form)))
}

/// Files of crates' sources below a folder that hold something unsafe. Files of tests are not among
/// them.
fn unsafe_sources(folder: &str) -> Vec<String> {
    let mut files = vec![];
    sources(&root().join(folder), &mut files);
    let path = |file: PathBuf| file.strip_prefix(root()).expect("it is in the tree").to_string_lossy().into_owned();
    let holds = |file: &PathBuf| is_unsafe(&std::fs::read_to_string(file).expect("the file is read"));
    let paths = files.into_iter().filter(holds).map(path);
    paths.filter(|path| path.contains("/src/") && !path.ends_with("tests.rs")).collect()
}

/// `a/{b,c}.rs` is two paths.
fn alternatives(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (inner, after) = rest.split_once('}').expect("a brace is closed");
    inner.split(',').flat_map(|each| alternatives(&format!("{before}{each}{after}"))).collect()
}

#[test]
fn the_page_lists_every_place_of_unsafe_code() {
    let page = std::fs::read_to_string(root().join("docs/src/soundness.md")).expect("the page is there");
    let cells = page.lines().filter_map(|line| line.strip_prefix("| `")?.split_once(" |"));
    let cells: Vec<String> = cells.map(|(cell, _)| format!("`{cell}")).collect();
    let spans = cells.iter().flat_map(|cell| cell.split('`').skip(1).step_by(2)).flat_map(alternatives);
    // `…` stands for the folder of the row before: what follows is enough.
    let listed: Vec<String> = spans.map(|span| span.trim_start_matches('…').to_owned()).collect();
    let is_in = |file: &str, place: &str| file.ends_with(place) || file.starts_with(&format!("{place}/"));
    let found: Vec<String> = ON_TARGET.iter().flat_map(|folder| unsafe_sources(folder)).collect();
    assert!(found.len() > 15, "{found:?}");
    let missing: Vec<&String> = found.iter().filter(|file| !listed.iter().any(|place| is_in(file, place))).collect();
    assert!(missing.is_empty(), "docs/src/soundness.md does not list {missing:?}");
    let gone: Vec<&String> = listed.iter().filter(|place| !found.iter().any(|file| is_in(file, place))).collect();
    assert!(gone.is_empty(), "docs/src/soundness.md lists {gone:?}, in which nothing is unsafe");
}

/// A crate that holds nothing unsafe says so, and the compiler keeps it so.
#[test]
fn crates_that_need_no_unsafe_code_forbid_it() {
    let mut roots = vec![];
    for folder in ON_TARGET.into_iter().chain(["bench", "tests/components", "tools"]) {
        let mut files = vec![];
        sources(&root().join(folder), &mut files);
        roots.extend(files.into_iter().filter(|file| file.ends_with("src/lib.rs") || file.ends_with("src/main.rs")));
    }
    assert!(roots.len() > 40, "{roots:?}");
    let text = |file: &Path| std::fs::read_to_string(file).expect("the file is read");
    let mut lenient = vec![];
    for file in roots {
        let folder = file.parent().expect("it is in a folder");
        // A program beside a library is a crate of its own, of one file.
        let is_alone = file.ends_with("main.rs") && folder.join("lib.rs").exists();
        let mut own = vec![file.clone()];
        if !is_alone {
            sources(folder, &mut own);
        }
        if !text(&file).contains("#![forbid(unsafe_code)]") && !own.iter().any(|file| is_unsafe(&text(file))) {
            lenient.push(file);
        }
    }
    assert!(lenient.is_empty(), "these do not say `#![forbid(unsafe_code)]`: {lenient:?}");
}
