//! Comments keep to 100 columns, in every Rust file of the checkout. rustfmt does not look at them.

use std::path::{Path, PathBuf};

const COLUMNS: usize = 100;

/// Returns the numbers of the comment lines of `text` that pass [`COLUMNS`]. A line with a single
/// word, such as an address, cannot be broken and may be longer.
fn long_comments(text: &str) -> Vec<usize> {
    let is_long = |line: &str| {
        let comment = line.trim_start();
        comment.starts_with("//") && line.chars().count() > COLUMNS && comment.split_whitespace().count() > 2
    };
    text.lines().enumerate().filter(|(_, line)| is_long(line)).map(|(index, _)| index + 1).collect()
}

/// Adds the Rust files below `folder` to `files`, except those in folders of cargo's output and,
/// directly in `folder`, in those called `made`.
fn rust_files(folder: &Path, made: &[&str], files: &mut Vec<PathBuf>) {
    let entries = std::fs::read_dir(folder).unwrap_or_else(|error| panic!("cannot list {}: {error}", folder.display()));
    for entry in entries {
        let entry = entry.expect("the folder is readable");
        let name = entry.file_name().to_string_lossy().into_owned();
        if entry.file_type().expect("the entry has a type").is_dir() {
            if !name.starts_with('.') && name != "target" && !made.contains(&name.as_str()) {
                rust_files(&entry.path(), &[], files);
            }
        } else if name.ends_with(".rs") {
            files.push(entry.path());
        }
    }
}

#[test]
fn comments_keep_to_100_columns() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut files = vec![];
    rust_files(&root, &["build"], &mut files);
    assert!(files.len() > 100, "the checkout's Rust files are found: {}", files.len());
    files.sort();
    let mut found = vec![];
    for file in files {
        let text = std::fs::read_to_string(&file).expect("the file is text");
        let name = file.strip_prefix(&root).expect("it is in the checkout").display();
        found.extend(long_comments(&text).into_iter().map(|line| format!("{name}:{line}")));
    }
    assert!(found.is_empty(), "comment lines of more than {COLUMNS} columns; break them:\n{}", found.join("\n"));
}

#[test]
fn a_comment_is_measured_in_characters() {
    let comment = |columns: usize| format!("    // a {}", "é".repeat(columns - 9));
    assert_eq!(long_comments(&format!("{}\n{}\n", comment(100), comment(101))), [2]);
    let documentation = format!("{}\n/// {0}\n//! a {0}\n", "x ".repeat(60));
    assert_eq!(long_comments(&documentation), [2, 3]);
}

#[test]
fn code_and_what_cannot_be_broken_may_be_longer() {
    let code = format!("let text = \"{}\"; // a comment behind code", "x ".repeat(60));
    let address = format!("// https://{}", "x".repeat(100));
    assert_eq!(long_comments(&format!("{code}\n{address}\n")), Vec::<usize>::new());
}
