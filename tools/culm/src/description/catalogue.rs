//! What there is to build systems from: components, boards and systems, found by where they lie in the tree.

use crate::diagnostics::{Diagnostic, Diagnostics, Source};
use culm_manifest::Manifest;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folders that hold component crates, and how many levels below.
const COMPONENT_FOLDERS: &[(&str, usize)] =
    &[("drivers", 2), ("virtualisers", 2), ("services", 1), ("apps", 1), ("vmm", 0)];

/// A component crate.
#[derive(Clone, Debug)]
pub struct CatalogueComponent {
    /// Folder of its crate.
    pub folder: PathBuf,
    /// Its manifest file.
    pub source: Arc<Source>,
    /// Its manifest, if that could be read; else what is wrong with it.
    pub manifest: Result<Manifest, Diagnostics>,
}

/// Components and boards of one source tree.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Root of the tree.
    pub root: PathBuf,
    /// Every component by its name: the manifest's, or the folder's where the manifest cannot be read.
    pub components: BTreeMap<String, CatalogueComponent>,
}

impl Catalogue {
    /// Looks through the tree at `root`. Fails where two components have one name.
    pub fn read(root: &Path) -> Result<Self, Diagnostics> {
        let mut manifests = Vec::new();
        for (folder, depth) in COMPONENT_FOLDERS {
            find_manifests(&root.join(folder), *depth, &mut manifests);
        }
        manifests.sort();
        let mut catalogue = Self { root: root.to_path_buf(), components: BTreeMap::new() };
        let mut diagnostics = Diagnostics::default();
        for path in manifests {
            match Source::read(&path) {
                Ok(source) => catalogue.add(&path, source, &mut diagnostics),
                Err(diagnostic) => diagnostics.push(diagnostic),
            }
        }
        if diagnostics.is_empty() { Ok(catalogue) } else { Err(diagnostics) }
    }

    fn add(&mut self, path: &Path, source: Arc<Source>, diagnostics: &mut Diagnostics) {
        let folder = path.parent().unwrap_or(&self.root).to_path_buf();
        let source = Source::new(self.shown(&source.path), source.text.clone());
        let manifest = Manifest::parse(&source.text).map_err(|problems| {
            let mut found = Diagnostics::default();
            found.extend(&source, problems);
            found
        });
        let name = match &manifest {
            Ok(manifest) => manifest.name.clone(),
            Err(_) => folder.file_name().unwrap_or_default().to_string_lossy().into_owned(),
        };
        if let Some(other) = self.components.get(&name) {
            diagnostics.push(
                Diagnostic::at(
                    &source,
                    0..source.text.lines().next().map_or(0, str::len),
                    format!("two components are called `{name}`"),
                )
                .related(&other.source, 0..0, "the other one"),
            );
        }
        self.components.insert(name, CatalogueComponent { folder, source, manifest });
    }

    /// A path as messages show it: relative to the root, where it lies there.
    pub fn shown(&self, path: &Path) -> PathBuf {
        path.strip_prefix(&self.root).unwrap_or(path).to_path_buf()
    }

    /// The file of a system: `system` is a name, or a path that ends in `.toml`.
    pub fn system_file(&self, system: &str) -> Result<PathBuf, Diagnostic> {
        if system.ends_with(".toml") || system.contains('/') {
            return Ok(PathBuf::from(system));
        }
        find_named(&self.systems(), system, "system", "./culm systems")
    }

    /// The file of a board: `board` is a name, or a path that ends in `.toml`.
    pub fn board_file(&self, board: &str) -> Result<PathBuf, Diagnostic> {
        if board.ends_with(".toml") || board.contains('/') {
            return Ok(PathBuf::from(board));
        }
        find_named(&self.boards(), board, "board", "./culm boards")
    }

    /// Files of all systems, by name.
    pub fn systems(&self) -> BTreeMap<String, PathBuf> {
        toml_files(&self.root.join("systems"))
    }

    /// Files of all boards, by name.
    pub fn boards(&self) -> BTreeMap<String, PathBuf> {
        toml_files(&self.root.join("boards"))
    }
}

fn find_named(files: &BTreeMap<String, PathBuf>, name: &str, what: &str, command: &str) -> Result<PathBuf, Diagnostic> {
    files.get(name).cloned().ok_or_else(|| {
        let help = culm_manifest::problem::suggest(name, files.keys().map(String::as_str));
        Diagnostic::general(format!("there is no {what} called `{name}`"))
            .maybe_help(help.or_else(|| Some(format!("`{command}` lists what there is"))))
    })
}

fn find_manifests(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) {
    let manifest = folder.join("component.toml");
    if manifest.is_file() {
        found.push(manifest);
        return;
    }
    if depth == 0 {
        return;
    }
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.path().is_dir() {
            find_manifests(&entry.path(), depth - 1, found);
        }
    }
}

fn toml_files(folder: &Path) -> BTreeMap<String, PathBuf> {
    std::fs::read_dir(folder)
        .into_iter()
        .flatten()
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .filter_map(|path| Some((path.file_stem()?.to_str()?.to_string(), path)))
        .collect()
}
