//! The tree as cargo sees it: a folder of the workspace in which there is no crate fails every
//! build.

use super::catalogue::Catalogue;
use crate::diagnostics::{Diagnostic, Diagnostics, Source};
use culm_manifest::reader::{Problems, TableReader, parse_table};
use std::path::{Path, PathBuf};

/// What is wrong with the crates of the workspace, as far as cargo would read them before it builds
/// any.
pub fn check(catalogue: &Catalogue) -> Diagnostics {
    let mut found = Diagnostics::default();
    for folder in members(&catalogue.root) {
        let shown = catalogue.shown(&folder);
        let file = folder.join("Cargo.toml");
        if !file.exists() {
            let message = format!("{} belongs to the workspace, and has no Cargo.toml", shown.display());
            found.push(
                Diagnostic::general(message)
                    .help("cargo builds nothing while it is there: remove it, or make a crate of it"),
            );
            continue;
        }
        match catalogue.source(&file) {
            Ok(source) => found.extend(&source, mistakes(&source)),
            Err(diagnostic) => found.push(diagnostic),
        }
    }
    found
}

fn mistakes(source: &Source) -> Problems {
    let mut problems = Problems::new();
    parse_table(&source.text, &mut problems);
    problems
}

/// The folders that the workspace takes in. Where it cannot be read, cargo will say so.
fn members(root: &Path) -> Vec<PathBuf> {
    let mut problems = Problems::new();
    let text = std::fs::read_to_string(root.join("Cargo.toml")).unwrap_or_default();
    let document = parse_table(&text, &mut problems);
    let workspace = TableReader::new("the workspace", 0..0, document.get_ref())
        .take("workspace")
        .and_then(|entry| entry.table("[workspace]", &mut problems));
    let Some(mut workspace) = workspace else { return Vec::new() };
    let mut texts = |key| workspace.take(key).and_then(|entry| entry.texts(&mut problems)).unwrap_or_default();
    let (members, excluded) = (texts("members"), texts("exclude"));
    let mut folders: Vec<PathBuf> = members.iter().flat_map(|member| expand(root, member)).collect();
    folders.retain(|folder| !excluded.iter().any(|excluded| *folder == root.join(&excluded.value)));
    folders.sort();
    folders
}

/// The folders of a member, in whose path `*` stands for any name.
fn expand(root: &Path, member: &str) -> Vec<PathBuf> {
    member.split('/').fold(vec![root.to_path_buf()], |folders, part| match part {
        "*" => folders.iter().flat_map(|folder| folders_in(folder)).collect(),
        name => folders.iter().map(|folder| folder.join(name)).collect(),
    })
}

fn folders_in(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    entries.map(|entry| entry.path()).filter(|path| path.is_dir()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn folders_without_a_crate_are_found() {
        let root = tempfile::tempdir().expect("there is a place for temporary files");
        let write = |file: &str, text: &str| {
            let file = root.path().join(file);
            fs::create_dir_all(file.parent().expect("it is in a folder")).expect("the folder is writable");
            fs::write(file, text).expect("the folder is writable");
        };
        write(
            "Cargo.toml",
            "[workspace]\nmembers = [\"apps/*\", \"drivers/*/*\", \"gone\"]\nexclude = [\"apps/other\"]\n",
        );
        write("apps/good/Cargo.toml", "[package]\nname = \"good\"\n");
        write("apps/other/README.md", "Excluded.");
        write("apps/README.md", "No folder.");
        write("apps/half/Cargo.toml", "[package");
        write("drivers/net/empty/src/main.rs", "");
        fs::create_dir(root.path().join("apps/rome")).expect("the folder is writable");
        let found = check(&Catalogue::read(root.path()));
        let messages: Vec<&str> = found.sorted().into_iter().map(|found| found.message.as_str()).collect();
        assert_eq!(messages.len(), 4, "{found}");
        for folder in ["apps/rome", "drivers/net/empty", "gone"] {
            let message = format!("{folder} belongs to the workspace, and has no Cargo.toml");
            assert!(messages.contains(&message.as_str()), "{folder}: {found}");
        }
        assert!(found.render(false).contains("apps/half/Cargo.toml:1:"), "{found}");
    }

    #[test]
    fn all_folders_of_this_tree_are_crates() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tree is there");
        assert!(members(&root).len() > 20);
        let found = check(&Catalogue::read(&root));
        assert!(found.is_empty(), "{found}");
    }
}
