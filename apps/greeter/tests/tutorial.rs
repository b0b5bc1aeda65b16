//! The tutorial's code is this component's own: each block in the page that names a file must stand in that file.

use std::fs;
use std::path::Path;

/// A block of code in the page, and the file that it is from.
struct Block {
    file: String,
    code: String,
}

/// The blocks that follow a line like `<!-- apps/greeter/src/main.rs -->`.
fn blocks(page: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = page.lines();
    while let Some(line) = lines.next() {
        let Some(file) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) else { continue };
        let fence = lines.next().unwrap_or_default();
        assert!(fence.starts_with("```"), "a block of code follows `{line}`, not `{fence}`");
        let code: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(Block { file: file.to_owned(), code: code.join("\n") });
    }
    blocks
}

#[test]
fn the_tutorial_shows_the_code_that_runs() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let page = fs::read_to_string(root.join("docs/src/tutorial.md")).expect("the page");
    let blocks = blocks(&page);
    assert!(blocks.len() >= 8, "the page shows its code: {} blocks found", blocks.len());
    for Block { file, code } in blocks {
        let content = fs::read_to_string(root.join(&file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        assert!(content.contains(&code), "docs/src/tutorial.md shows code that is not in {file}:\n\n{code}");
    }
}
