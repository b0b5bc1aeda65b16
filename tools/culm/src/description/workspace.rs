//! The tree as cargo sees it: a folder of a cargo workspace in which there is no crate fails every
//! build; and a user's workspace is made for one version of Culm.

use super::catalogue::Catalogue;
use crate::diagnostics::{Diagnostic, Diagnostics, Source};
use culm_manifest::Located;
use culm_manifest::reader::{Problems, TableReader, parse_table};
use std::path::{Path, PathBuf};

/// The version of Culm that this tool is of.
const VERSION: &str = env!("CARGO_PKG_VERSION");

/// Returns what is wrong with the crates of Culm and of the user's workspace, as far as cargo would
/// read them before it builds any.
pub fn check(catalogue: &Catalogue) -> Diagnostics {
    let mut found = Diagnostics::default();
    let mut folders = members(&catalogue.root);
    if let Some(workspace) = &catalogue.tree.workspace {
        folders.extend(members(workspace));
        check_version(catalogue, workspace, &mut found);
    }
    for folder in folders {
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

/// The version of Culm for which a workspace is made fits this one, as cargo takes versions.
fn check_version(catalogue: &Catalogue, workspace: &Path, found: &mut Diagnostics) {
    // A file that cannot be read is reported of all workspaces alike, or by cargo.
    let Ok(source) = catalogue.source(&workspace.join("Cargo.toml")) else { return };
    let Some(wanted) = wanted_version(&source) else { return };
    if compatible_part(&wanted) != compatible_part(VERSION) {
        let message = format!("this workspace is made for Culm {}, this is Culm {VERSION}", wanted.value);
        found.push(Diagnostic::at(&source, wanted.span, message).help(format!(
            "CHANGES.md of Culm says what is different; then write `version = \"{VERSION}\"` here and for its other crates"
        )));
    }
}

/// The version of the runtime that `[workspace.dependencies]` asks for.
fn wanted_version(source: &Source) -> Option<Located<String>> {
    let mut problems = Problems::new();
    let document = parse_table(&source.text, &mut problems);
    let mut table = TableReader::new("the workspace", 0..0, document.get_ref());
    for key in ["workspace", "dependencies", "culm"] {
        table = table.take(key)?.table(key, &mut problems)?;
    }
    table.take("version")?.text(&mut problems)
}

/// The numbers of a version that change with what would break its users.
fn compatible_part(version: &str) -> Vec<&str> {
    let numbers: Vec<&str> = version.trim_start_matches('^').split('.').take(2).collect();
    let count = if numbers.first() == Some(&"0") { 2 } else { 1 };
    numbers.into_iter().take(count).collect()
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
    use crate::tree::Tree;
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
    fn a_workspace_is_made_for_a_version() {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let write = |version: &str| {
            let text = format!(
                "[workspace]\nmembers = []\n[workspace.dependencies]\nculm = {{ version = \"{version}\", path = \"x\" }}\n"
            );
            fs::write(folder.path().join("Cargo.toml"), text).expect("the folder is writable");
        };
        let tree = Tree::new(folder.path().join("culm"), Some(folder.path().into()));
        write(VERSION);
        let found = check(&Catalogue::of(&tree));
        assert!(found.is_empty(), "{found}");
        write("0.999.1");
        let said = check(&Catalogue::of(&tree)).render(false);
        assert!(said.contains("this workspace is made for Culm 0.999.1"), "{said}");
        assert!(said.contains("--> Cargo.toml:4:20"), "{said}");
        assert_eq!((compatible_part("1.2.3"), compatible_part("0.2.3")), (vec!["1"], vec!["0", "2"]));
    }

    #[test]
    fn all_folders_of_this_tree_are_crates() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tree is there");
        assert!(members(&root).len() > 20);
        let found = check(&Catalogue::read(&root));
        assert!(found.is_empty(), "{found}");
    }
}
