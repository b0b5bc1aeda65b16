//! The catalogue of components, boards and systems, which are found by their place in the tree.

use crate::diagnostics::{Diagnostic, Diagnostics, Location, Source};
use crate::tree::Tree;
use culm_manifest::problem::suggest;
use culm_manifest::reader::{Problems, TableReader, parse_table};
use culm_manifest::{Located, Manifest};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Folders that hold component crates, and how many levels below.
const COMPONENT_FOLDERS: &[(&str, usize)] = &[
    ("drivers", 2),
    ("virtualisers", 2),
    ("services", 1),
    ("apps", 1),
    ("vmm", 0),
    ("bench/components", 1),
    ("tests/components", 1),
];

/// Folders whose components exist for what else is in them: no system that is for use gets them.
const KEPT: &[&str] = &["bench", "tests"];

/// The folder of systems that are for use.
const SYSTEMS: &str = "systems";

/// The folder of a user's workspace that holds component crates, drivers too.
pub const WORKSPACE_FOLDER: &str = "components";

/// A component crate.
#[derive(Clone, Debug)]
pub struct CatalogueComponent {
    /// Folder of its crate.
    pub folder: PathBuf,
    /// Its crate's name, as far as that could be read.
    pub crate_name: Option<String>,
    /// Its manifest, if that could be read; else the mistakes in it.
    pub manifest: Result<Manifest, Diagnostics>,
}

/// Components and boards of Culm's sources, and of the user's workspace if there is one.
#[derive(Clone, Debug)]
pub struct Catalogue {
    /// Root of Culm's sources.
    pub root: PathBuf,
    /// Where everything is.
    pub tree: Tree,
    /// Every component by its name: the manifest's, or the folder's where the manifest cannot be
    /// read.
    pub components: BTreeMap<String, CatalogueComponent>,
}

impl Catalogue {
    /// Looks through Culm's sources at `root`, alone.
    pub fn read(root: &Path) -> Self {
        Self::of(&Tree::new(root.to_path_buf(), None))
    }

    /// Looks through a tree. A mistake in a component is reported only to systems that use it.
    pub fn of(tree: &Tree) -> Self {
        let mut manifests = Vec::new();
        for (folder, depth) in COMPONENT_FOLDERS {
            find_manifests(&tree.culm.join(folder), *depth, &mut manifests);
        }
        manifests.sort();
        // Behind Culm's own: of two components of a name it is the user's who must take another.
        let mut own = Vec::new();
        if let Some(workspace) = &tree.workspace {
            find_manifests(&workspace.join(WORKSPACE_FOLDER), 1, &mut own);
        }
        own.sort();
        manifests.append(&mut own);
        let mut catalogue = Self { root: tree.culm.clone(), tree: tree.clone(), components: BTreeMap::new() };
        let mut places: BTreeMap<String, Location> = BTreeMap::new();
        for path in manifests {
            catalogue.add(&path, &mut places);
        }
        catalogue.fuse();
        catalogue
    }

    /// Gives each driver that fuses another one what that one says of its devices.
    fn fuse(&mut self) {
        let fusing = |component: &CatalogueComponent| {
            component.manifest.as_ref().ok()?.driver.as_ref()?.fuses.clone().map(|fuses| (component.clone(), fuses))
        };
        let fusing: Vec<_> =
            self.components.iter().filter_map(|(name, component)| Some((name.clone(), fusing(component)?))).collect();
        for (name, (component, fuses)) in fusing {
            let manifest = component.manifest.and_then(|manifest| self.fused(&component.folder, manifest, &fuses));
            if let Some(component) = self.components.get_mut(&name) {
                component.manifest = manifest;
            }
        }
    }

    /// Returns the manifest of a driver that fuses the one called `fuses`, complete.
    fn fused(&self, folder: &Path, mut manifest: Manifest, fuses: &Located<String>) -> Result<Manifest, Diagnostics> {
        let source = self.source(&folder.join("component.toml"))?;
        let is_plain = |manifest: &Manifest| manifest.driver.as_ref().is_some_and(|driver| driver.fuses.is_none());
        let drivers = self.components.values().filter_map(|component| component.manifest.as_ref().ok());
        let drivers: Vec<&str> = drivers.filter(|other| is_plain(other)).map(|other| other.name.as_str()).collect();
        let wrong = |message: String| {
            let help = suggest(&fuses.value, drivers.iter().copied());
            Diagnostic::at(&source, fuses.span.clone(), message).maybe_help(help)
        };
        let other = match self.component(&fuses.value).map(|component| &component.manifest) {
            None => return Err(wrong(format!("there is no driver called `{}`", fuses.value)).into()),
            Some(Err(_)) => {
                let message = format!("`{}` is fused here and has mistakes in its own manifest", fuses.value);
                let diagnostic = Diagnostic::at(&source, fuses.span.clone(), message);
                return Err(diagnostic.help("correct those; `./culm check` lists them").into());
            }
            Some(Ok(other)) => other,
        };
        match &other.driver {
            Some(driver) if driver.fuses.is_none() => match manifest.fuse(driver) {
                Ok(()) => Ok(manifest),
                Err(problems) => {
                    let mut found = Diagnostics::default();
                    found.extend(&source, problems);
                    Err(found)
                }
            },
            Some(_) => Err(wrong(format!("`{}` is a fused driver itself", fuses.value)).into()),
            None => Err(wrong(format!("`{}` is no driver", fuses.value)).into()),
        }
    }

    /// Adds the component of this manifest; `places` has where each name stands that came before.
    fn add(&mut self, path: &Path, places: &mut BTreeMap<String, Location>) {
        let folder = path.parent().unwrap_or(&self.root).to_path_buf();
        let folder_name = folder.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let source = match self.source(path) {
            Ok(source) => source,
            Err(diagnostic) => {
                let component = CatalogueComponent { folder, crate_name: None, manifest: Err(diagnostic.into()) };
                self.components.entry(folder_name).or_insert(component);
                return;
            }
        };
        let manifest = Manifest::parse(&source.text).map_err(|problems| {
            let mut found = Diagnostics::default();
            found.extend(&source, problems);
            found
        });
        let name = Manifest::name_in(&source.text).unwrap_or_else(|| Located::new(folder_name, 0..0));
        let (name, span) = (name.value, name.span);
        let of_crate = self.crate_name(&folder);
        let manifest = manifest.and_then(|manifest| match &of_crate {
            Some((file, name)) if name.value != manifest.name => {
                Err(crate_of_another_name(&source, &manifest, file, name).into())
            }
            _ => Ok(manifest),
        });
        let crate_name = of_crate.map(|(_, name)| name.value);
        let place = Location { source: source.clone(), span: span.clone() };
        let component = match places.get(&name) {
            None => CatalogueComponent { folder, crate_name, manifest },
            Some(other) => {
                let diagnostic = Diagnostic::at(&source, span, format!("two components are called `{name}`"))
                    .related(&other.source, other.span.clone(), "the other one")
                    .help("give one of them, and its crate, another name");
                CatalogueComponent { folder, crate_name, manifest: Err(diagnostic.into()) }
            }
        };
        places.insert(name.clone(), place);
        self.components.insert(name, component);
    }

    /// The name of the crate in a folder, and where it stands.
    fn crate_name(&self, folder: &Path) -> Option<(Arc<Source>, Located<String>)> {
        let file = self.source(&folder.join("Cargo.toml")).ok()?;
        let mut problems = Problems::new();
        let document = parse_table(&file.text, &mut problems);
        let mut table = TableReader::new("the crate", 0..0, document.get_ref());
        let mut package = table.take("package")?.table("[package]", &mut problems)?;
        let name = package.take("name")?.text(&mut problems)?;
        Some((file, name))
    }

    /// The component of this name: as its manifest says, or its crate, where the manifest is wrong
    /// about it.
    pub fn component(&self, name: &str) -> Option<&CatalogueComponent> {
        let by_crate = |component: &&CatalogueComponent| component.crate_name.as_deref() == Some(name);
        self.components.get(name).or_else(|| self.components.values().find(by_crate))
    }

    /// The folder whose systems alone may use this component, if the system in `file` may not: what
    /// breaks rules for a test, say, must not come into a system that somebody relies on.
    pub fn kept_from(&self, file: &Path, component: &CatalogueComponent) -> Option<&'static str> {
        let is_for_use = self.shown(file).starts_with(SYSTEMS) || file.starts_with(self.root.join(SYSTEMS));
        let folder = component.folder.strip_prefix(&self.root).ok()?;
        KEPT.iter().copied().find(|kept| is_for_use && folder.starts_with(kept))
    }

    /// Components in which drivers are looked for, whatever their manifests say.
    pub fn likely_drivers(&self) -> impl Iterator<Item = &CatalogueComponent> {
        let own = self.tree.workspace.as_ref().map(|workspace| workspace.join(WORKSPACE_FOLDER));
        let folders: Vec<PathBuf> = std::iter::once(self.root.join("drivers")).chain(own).collect();
        let is_within =
            move |component: &&CatalogueComponent| folders.iter().any(|folder| component.folder.starts_with(folder));
        self.components.values().filter(is_within)
    }

    /// A path as messages show it: relative to where the user works, if it lies there.
    pub fn shown(&self, path: &Path) -> PathBuf {
        self.tree.shown(path).to_path_buf()
    }

    /// Reads a file; messages show its path as [`Catalogue::shown`] has it.
    pub fn source(&self, path: &Path) -> Result<Arc<Source>, Diagnostic> {
        let shown = |source: &Source| Source::new(self.shown(&source.path), source.text.clone());
        Source::read(path).map(|source| shown(&source)).map_err(|mut diagnostic| {
            if let Some(place) = &mut diagnostic.place {
                place.source = shown(&place.source);
            }
            diagnostic
        })
    }

    /// The file of a system: `system` is a name, or a path that ends in `.toml`.
    pub fn system_file(&self, system: &str) -> Result<PathBuf, Diagnostic> {
        let is_path = system.ends_with(".toml") || system.contains('/');
        if is_path && Path::new(system).is_file() {
            return Ok(PathBuf::from(system));
        }
        let found = match is_path {
            true => Source::read(Path::new(system)).map(|_| PathBuf::from(system)),
            false => find_named(&self.systems(), system, "system", "./culm systems"),
        };
        // A folder's own description says it best.
        found.map_err(|diagnostic| match self.meant(system) {
            Some(meant) if diagnostic.help.is_none() || !is_path => diagnostic.help(meant),
            _ => diagnostic,
        })
    }

    /// Returns what someone may have meant by this, who named neither a system nor a file that is
    /// there.
    fn meant(&self, name: &str) -> Option<String> {
        let is_path = name.contains('/') || name.ends_with(".toml");
        let last = name.rsplit('/').next().unwrap_or(name);
        let stem = last.split('.').next().unwrap_or(last);
        if let Some(file) = self.systems().get(stem) {
            return Some(match is_path {
                true => format!("did you mean `{}`?", self.tree.shown(file).display()),
                false => format!("did you mean `{stem}`?"),
            });
        }
        if let Some(file) = self.boards().get(stem) {
            return Some(format!("`{stem}` is a board: `./culm check {}`", self.tree.shown(file).display()));
        }
        if let Some(component) = self.components.get(stem) {
            let file = self.shown(&component.folder.join("component.toml")).display().to_string();
            return Some(format!("`{stem}` is a component: `./culm check {file}`"));
        }
        None
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
        self.files(SYSTEMS)
    }

    /// Files of all boards, by name.
    pub fn boards(&self) -> BTreeMap<String, PathBuf> {
        self.files("boards")
    }

    /// Files of a folder of Culm's sources and of the workspace, by name: the user's go first.
    fn files(&self, folder: &str) -> BTreeMap<String, PathBuf> {
        let mut files = toml_files(&self.root.join(folder));
        files.extend(self.tree.workspace.iter().flat_map(|workspace| toml_files(&workspace.join(folder))));
        files
    }
}

/// The mistake of a component whose crate bears another name, by which nobody would find the
/// program.
fn crate_of_another_name(
    source: &Arc<Source>,
    manifest: &Manifest,
    file: &Arc<Source>,
    crate_name: &Located<String>,
) -> Diagnostic {
    let message = format!("the component is called `{}`, its crate `{}`", manifest.name, crate_name.value);
    Diagnostic::at(source, manifest.name_span.clone(), message)
        .related(file, crate_name.span.clone(), "the crate's name")
        .help("give both the same name: the tool finds the program by it")
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
