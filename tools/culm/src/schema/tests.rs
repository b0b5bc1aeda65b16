//! Schemas, by a validator that is not ours, against every file of the tree and against the bad
//! examples: what a reader takes a schema takes, and what a schema can know it refuses.

use super::{Of, schema};
use jsonschema::Validator;
use serde_json::Value;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn validator(of: Of) -> Validator {
    let schema = schema(of);
    assert!(jsonschema::meta::is_valid(&schema), "no schema: {schema:#}");
    jsonschema::draft7::new(&schema).unwrap_or_else(|error| panic!("{error}"))
}

/// A TOML file as a JSON value, if it is TOML.
fn read(path: &Path) -> Option<Value> {
    let table: toml::Table = std::fs::read_to_string(path).ok()?.parse().ok()?;
    serde_json::to_value(table).ok()
}

/// The TOML files of a folder, in the order of their names.
fn files(folder: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(root().join(folder)).unwrap_or_else(|error| panic!("{folder}: {error}"));
    let paths = entries.map(|entry| entry.expect("readable").path());
    let mut files: Vec<PathBuf> =
        paths.filter(|path| path.extension().is_some_and(|extension| extension == "toml")).collect();
    files.sort();
    files
}

fn components(folder: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        match entry.path() {
            path if path.is_dir() => components(&path, found),
            path if path.ends_with("component.toml") => found.push(path),
            _ => {}
        }
    }
}

#[test]
fn every_file_of_the_tree_is_taken() {
    let mut manifests = Vec::new();
    for folder in ["apps", "drivers", "services", "virtualisers", "bench/components", "tests/components"] {
        components(&root().join(folder), &mut manifests);
    }
    let systems = ["systems", "tests/systems", "bench/systems", "tests/bad/world/systems", "tests/bad/odd"];
    let systems: Vec<PathBuf> = systems.iter().flat_map(|folder| files(folder)).collect();
    let boards: Vec<PathBuf> = ["boards", "tests/bad/world/boards"].iter().flat_map(|folder| files(folder)).collect();
    assert!(manifests.len() >= 20 && systems.len() >= 20 && boards.len() >= 3);
    for (of, files) in [(Of::System, systems), (Of::Board, boards), (Of::Component, manifests)] {
        let validator = validator(of);
        for file in files {
            let value = read(&file).unwrap_or_else(|| panic!("{} is no TOML", file.display()));
            let wrong: Vec<String> = validator.iter_errors(&value).map(|error| error.to_string()).collect();
            assert!(wrong.is_empty(), "{}: {wrong:?}", file.display());
        }
    }
}

/// Which bad examples an editor underlines is recorded: none is to be lost by accident.
#[test]
fn what_a_schema_can_know_it_refuses() {
    let mut found = String::from("# Bad examples that a schema finds. CULM_BLESS=1 writes this file.\n");
    let folders = [(Of::System, "tests/bad"), (Of::Board, "tests/bad/boards"), (Of::Component, "tests/bad/components")];
    for (of, folder) in folders {
        let validator = validator(of);
        for file in files(folder) {
            let name = file.file_name().expect("a file has a name").display();
            if read(&file).is_some_and(|value| !validator.is_valid(&value)) {
                let _ = writeln!(found, "{folder}/{name}");
            }
        }
    }
    let record = root().join("tests/bad/schema.txt");
    if std::env::var_os("CULM_BLESS").is_some() {
        std::fs::write(&record, &found).expect("the tree is writable");
    }
    assert_eq!(std::fs::read_to_string(&record).unwrap_or_default(), found, "run this test with CULM_BLESS=1");
}
