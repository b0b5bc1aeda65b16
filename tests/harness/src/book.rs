//! The tasks that a page of the book gives its reader: files to write and lines to type, in their
//! order.
//!
//! A block of code below a line such as `<!-- components/welcome/src/main.rs -->` is a part of that
//! file; all parts of a file, one after the other, are the whole file. A block of the kind
//! `console` has lines to type, which begin with `$ `, each followed by lines of what is to be seen
//! then.

/// One thing that the reader does.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Writes a file, as far as the page has shown it.
    Write {
        /// The file's path in the checkout.
        file: String,
        /// Its content.
        text: String,
    },
    /// Types a line.
    Type {
        /// The line.
        line: String,
        /// The lines that are to be seen then, other lines in between.
        seen: Vec<String>,
    },
}

/// Returns what the page tells to do.
///
/// # Panics
/// Where the page is not as the head of this file says.
pub fn steps(page: &str) -> Vec<Step> {
    let mut steps: Vec<Step> = Vec::new();
    let mut lines = page.lines();
    let mut file = None;
    while let Some(line) = lines.next() {
        if let Some(named) = line.strip_prefix("<!-- ").and_then(|rest| rest.strip_suffix(" -->")) {
            file = Some(named.to_string());
            continue;
        }
        let Some(kind) = line.strip_prefix("```") else {
            assert!(file.is_none(), "a block of code follows the name of its file, not `{line}`");
            continue;
        };
        let code: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        match file.take() {
            Some(file) => steps.push(written(&steps, file, &code)),
            None if kind == "console" => typed(&mut steps, &code),
            None => {}
        }
    }
    steps
}

/// The file with one more part of it.
fn written(steps: &[Step], file: String, code: &[&str]) -> Step {
    let before = steps.iter().rev().find_map(|step| match step {
        Step::Write { file: other, text } if *other == file => Some(format!("{text}\n")),
        _ => None,
    });
    Step::Write { file, text: before.unwrap_or_default() + &code.join("\n") + "\n" }
}

fn typed(steps: &mut Vec<Step>, code: &[&str]) {
    for text in code {
        match (text.strip_prefix("$ "), steps.last_mut()) {
            (Some(line), _) => steps.push(Step::Type { line: line.to_string(), seen: Vec::new() }),
            (None, Some(Step::Type { seen, .. })) => seen.push((*text).to_string()),
            (None, _) => panic!("`{text}` is seen before anything was typed"),
        }
    }
}
