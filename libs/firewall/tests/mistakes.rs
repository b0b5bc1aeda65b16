//! Every mistake has its message: each file of `tests/bad` is parsed, and what is said of it
//! compared with the text beside it. `CULM_BLESS=1` writes the texts anew.

use culm_firewall::{MAX_PROBLEMS, MAX_RANGES, MAX_RULES, MAX_TEXT, Zones, parse};
use std::fmt::Write as _;
use std::path::Path;

fn zones() -> Zones {
    Zones::new(&["inner", "outer", "guest"]).expect("names of zones")
}

/// Returns what is said of `text`.
fn said(name: &str, text: &str) -> String {
    let mut out = String::new();
    for problem in parse(text, &zones()).err().unwrap_or_default() {
        problem.write(&mut out, name, text).expect("a string takes all");
        out.push('\n');
    }
    out
}

#[test]
fn each_mistake_has_its_message() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/bad");
    let entries = std::fs::read_dir(&folder).expect("the folder is there");
    let mut files: Vec<_> = entries.map(|entry| entry.expect("it is readable").path()).collect();
    files.retain(|file| file.extension().is_some_and(|extension| extension == "rules"));
    files.sort();
    assert!(files.len() >= 10, "the files are found: {}", files.len());
    let mut wrong = String::new();
    for file in files {
        let text = std::fs::read_to_string(&file).expect("it is text");
        let name = file.file_name().expect("it has a name").to_string_lossy().into_owned();
        let found = said(&name, &text);
        let expected = file.with_extension("txt");
        if std::env::var_os("CULM_BLESS").is_some() {
            std::fs::write(&expected, &found).expect("it can be written");
        }
        let expected = std::fs::read_to_string(&expected).unwrap_or_default();
        // Each says what to do.
        if found.matches("error:").count() != found.matches("help:").count() {
            _ = writeln!(wrong, "advice lacks in {name}:\n{found}");
        }
        if found.is_empty() || found != expected {
            _ = writeln!(wrong, "of {name} is said:\n{found}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

#[test]
fn what_is_too_much_is_refused_without_reading_on() {
    let first = |text: &str| parse(text, &zones()).expect_err("it is too much").remove(0);
    assert_eq!(first(&"#".repeat(MAX_TEXT + 1)).message, format!("these rules have {} bytes", MAX_TEXT + 1));
    let rules: String = (0..=MAX_RULES).map(|number| format!("allow tcp port {number}\n")).collect();
    let problem = first(&rules);
    let start = rules.len() - format!("allow tcp port {MAX_RULES}\n").len();
    assert_eq!((problem.span.start, problem.message.as_str()), (start, "this is one rule too many"));
    // Each group doubles the one before.
    let groups: String =
        (1..64).map(|level| format!("ports g{level} = g{}\nports x{level} = 1\n", level - 1)).collect();
    assert!(parse(&format!("ports g0 = 1\n{groups}"), &zones()).is_ok());
    let parts: Vec<String> = (0..1024).map(|number| (number * 2).to_string()).collect();
    let uses = "allow tcp port many\n".repeat(MAX_RANGES / 1024);
    let problem = first(&format!("ports many = {}\n{uses}", parts.join(",")));
    assert_eq!(problem.message, "with this, there are too many ranges of addresses and ports");
    assert_eq!(parse(&"nonsense\n".repeat(1000), &zones()).map_err(|problems| problems.len()), Err(MAX_PROBLEMS));
}

#[test]
fn the_most_is_taken() {
    let rules: String = (0..MAX_RULES).map(|number| format!("deny tcp port {number}\n")).collect();
    assert_eq!(parse(&rules, &zones()).expect("rules").rules().len(), MAX_RULES);
}
