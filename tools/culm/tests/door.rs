//! The front door's workspace: what it builds is the tool that the large workspace tests.

use std::collections::BTreeSet;
use std::path::Path;
use std::process::Command;

/// Name and version of each package of a lock file that comes from a registry.
fn packages(file: &str) -> BTreeSet<(String, String)> {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(file);
    let text = std::fs::read_to_string(path).expect("there is a lock file");
    let lock: toml::Table = text.parse().expect("a lock file is TOML");
    let packages = lock["package"].as_array().expect("it lists packages").iter();
    let text = |package: &toml::Value, key: &str| package[key].as_str().expect("text").to_string();
    packages
        .filter(|package| package.get("source").is_some())
        .map(|package| (text(package, "name"), text(package, "version")))
        .collect()
}

#[test]
fn both_workspaces_have_the_same_dependencies() {
    let all = packages("../../Cargo.lock");
    let others: Vec<_> = packages("../door/Cargo.lock").into_iter().filter(|package| !all.contains(package)).collect();
    assert!(
        others.is_empty(),
        "the large workspace has no {others:?}: copy Cargo.lock to tools/door, and build `./culm` without --locked"
    );
}

#[test]
fn the_lock_file_of_the_front_door_is_up_to_date() {
    let manifest = Path::new(env!("CARGO_MANIFEST_DIR")).join("../door/Cargo.toml");
    let mut cargo = Command::new(env!("CARGO"));
    // `metadata` would need the packages of every platform, which only `fetch` downloads.
    cargo.args(["tree", "--locked", "--offline", "--manifest-path"]).arg(manifest);
    let output = cargo.output().expect("cargo starts");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "build `./culm` without --locked, and commit tools/door/Cargo.lock: {errors}");
}

/// Sources the front door, without its last line, and has `find_rust` find none.
#[test]
fn a_machine_without_rust_is_told_all_that_it_lacks() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the checkout is there");
    let text = std::fs::read_to_string(root.join("culm")).expect("the front door is there");
    let (functions, last) = text.trim_end().rsplit_once('\n').expect("it has lines");
    assert_eq!(last, "main \"$@\"");
    let functions = functions.replace("$(readlink -f \"${BASH_SOURCE[0]}\")", &root.join("culm").display().to_string());
    let script = format!("{functions}\nfind_rust() {{ return 1; }}\nmissing_packages tests\n");
    let output = Command::new("bash").args(["-c", &script]).output().expect("there is a bash");
    let (lacks, errors) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{lacks}{errors}");
    for name in ["rust", "vectors", "clippy"] {
        assert!(
            lacks.lines().any(|line| line.starts_with(&format!("{name}|"))),
            "{name} is not named: {lacks}{errors}"
        );
    }
}
