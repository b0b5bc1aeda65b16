//! The language is its own test suite: one broken description per mistake with the exact message, and what a good
//! description expands to. `CULM_BLESS=1` writes what the tool says now; read the difference before you commit it.

use culm_tool::description::catalogue::Catalogue;
use culm_tool::{expand, show};
use std::path::{Path, PathBuf};

/// Root of the miniature source tree that the descriptions are made from.
const WORLD: &str = "../../tests/bad/world";

fn catalogue() -> Catalogue {
    Catalogue::read(Path::new(WORLD)).expect("the test's own tree is well")
}

/// Compares with the file, or writes it where the person running the test says so.
fn compare(expected: &Path, found: &str) -> Result<(), String> {
    if std::env::var_os("CULM_BLESS").is_some() {
        std::fs::write(expected, found).map_err(|error| format!("cannot write {}: {error}", expected.display()))?;
        return Ok(());
    }
    let wanted = std::fs::read_to_string(expected).unwrap_or_default();
    if wanted == found {
        return Ok(());
    }
    Err(format!("{}\n--- expected\n{wanted}--- found\n{found}", expected.display()))
}

/// Paths as they are in the tree, wherever it lies.
fn neutral(text: &str) -> String {
    let root = Path::new("../..").canonicalize().expect("the tree is there");
    text.replace("../../", "").replace(&format!("{}/", root.display()), "")
}

#[test]
fn each_mistake_has_its_message() {
    let catalogue = catalogue();
    let mut files: Vec<PathBuf> = std::fs::read_dir("../../tests/bad")
        .expect("tests/bad is there")
        .map(|entry| entry.expect("its entries can be read").path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    files.sort();
    assert!(files.len() >= 40, "{} broken descriptions", files.len());
    let mut failures = Vec::new();
    for file in files {
        let message = match expand::expand(&catalogue, &file, None) {
            Ok(_) => "no mistake found\n".to_string(),
            Err(diagnostics) => neutral(&diagnostics.render(false)),
        };
        if message == "no mistake found\n" {
            failures.push(format!("{}: no mistake found", file.display()));
        } else if let Err(failure) = compare(&file.with_extension("txt"), &message) {
            failures.push(failure);
        }
    }
    assert!(failures.is_empty(), "{}", failures.join("\n"));
}

#[test]
fn good_descriptions_expand_as_recorded() {
    let catalogue = catalogue();
    for (name, file) in catalogue.systems() {
        let plan = expand::expand(&catalogue, &file, None).unwrap_or_else(|mistakes| panic!("{name}: {mistakes}"));
        let found = neutral(&show::expanded(&plan));
        toml::from_str::<toml::Table>(&found).expect("an expanded system is TOML");
        if let Err(failure) = compare(&file.with_extension("expanded.txt"), &found) {
            panic!("{failure}");
        }
    }
}
