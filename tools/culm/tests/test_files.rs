//! Test files do not stand between production files: a file that is compiled for tests only is
//! called `tests.rs`, or lies in a folder `tests`.

use std::path::{Path, PathBuf};

/// Returns the modules that the file with this text has for tests only, each in a file of its own.
fn test_modules(text: &str) -> Vec<String> {
    let mut found = vec![];
    let mut for_tests = false;
    for line in text.lines().map(str::trim) {
        if line.starts_with("#[") {
            for_tests |= line.starts_with("#[cfg(test)]") || line.starts_with("#[cfg(all(test");
            continue;
        }
        let module = line.strip_suffix(';').and_then(|line| line.split_once("mod ")).map(|(_, name)| name);
        found.extend(module.filter(|_| for_tests).map(str::to_string));
        for_tests = false;
    }
    found
}

/// Returns whether a file at this path can be for tests only.
fn is_apart(path: &Path) -> bool {
    path.ends_with("tests.rs") || path.components().any(|part| part.as_os_str() == "tests")
}

/// Adds the Rust files below `folder` to `files`, except those that cargo or the tool has made.
fn rust_files(folder: &Path, files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    for path in entries.map(|entry| entry.expect("the folder is readable").path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
        if path.is_dir() {
            if !name.starts_with('.') && !["target", "build"].contains(&name.as_str()) {
                rust_files(&path, files);
            }
        } else if name.ends_with(".rs") {
            files.push(path);
        }
    }
}

#[test]
fn test_files_lie_apart() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![];
    rust_files(&root, &mut files);
    rust_files(&root.join("tools/culm/src/build"), &mut files);
    assert!(files.len() > 300, "only {} files are found", files.len());
    let mut wrong = vec![];
    for file in files {
        let name = file.strip_prefix(&root).expect("it is in the checkout");
        if is_apart(name) {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("the file is text");
        let modules = test_modules(&text).into_iter().filter(|module| module != "tests");
        wrong.extend(modules.map(|module| format!("{}: mod {module}", name.display())));
        if name.file_stem().is_some_and(|stem| stem.to_string_lossy().ends_with("_tests")) {
            wrong.push(name.display().to_string());
        }
    }
    wrong.sort();
    assert!(wrong.is_empty(), "make them `tests.rs`, or files in a folder `tests`:\n{}", wrong.join("\n"));
}

#[test]
fn modules_for_tests_are_known_by_their_attributes() {
    let text = "mod queue;\n#[cfg(test)]\nmod fake;\n    #[cfg(all(test, not(loom)))]\n#[rustfmt::skip]\npub(crate) mod models;\n\
                #[cfg(any(test, feature = \"crash\"))]\npub mod crash;\n#[cfg(test)]\nmod tests {\n    use super::*;\n}\nmod entry;\n";
    assert_eq!(test_modules(text), ["fake", "models"]);
    assert!(is_apart(Path::new("libs/queue/src/tests.rs")) && is_apart(Path::new("libs/queue/src/tests/links.rs")));
    assert!(!is_apart(Path::new("libs/queue/src/link_tests.rs")));
}
