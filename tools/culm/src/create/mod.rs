//! `culm new`: makes a component with a system that runs it, a driver, or a workspace outside of
//! the checkout, from the templates in `tools/template`.
//!
//! The templates are components like any others; only the names in them that stand for others are
//! replaced.

mod names;
mod workspace;

use crate::commands;
use crate::description::catalogue::{Catalogue, WORKSPACE_FOLDER};
use crate::failure::Failure;
use crate::tree::Tree;
use anyhow::Result;
use clap::Subcommand;
use culm_manifest::problem::suggest;
use culm_manifest::{ConnectionKind, DeviceClass};
use names::camel_case;
use std::fs;
use std::path::{Path, PathBuf};

/// The thing to make.
#[derive(Subcommand, Clone, Debug)]
pub enum New {
    /// Make a component that builds, boots and has a host test, and a system that runs it
    Component {
        /// Its name: lower-case letters, digits, `-` and `_`
        name: String,
    },
    /// Make a driver that builds and has host tests against a fake device
    Driver {
        /// Class and chip, for example serial/uart16550
        #[arg(value_name = "CLASS/CHIP")]
        device: Device,
    },
    /// Make a folder outside of Culm's checkout for components and systems of your own, with one of
    /// each
    Workspace {
        /// The folder; its name is the first component's
        path: PathBuf,
    },
}

/// The device that a driver is for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Device {
    class: &'static str,
    chip: String,
}

impl Device {
    /// The name of the component that drives it, like its folder.
    fn component(&self) -> String {
        format!("{}-{}", self.class, self.chip)
    }
}

impl std::str::FromStr for Device {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let names = DeviceClass::names().iter().map(|(name, _)| *name);
        let (class, chip) = text.split_once('/').ok_or("expected CLASS/CHIP, for example serial/uart16550")?;
        let found = names.clone().find(|name| *name == class);
        let class = found.ok_or_else(|| {
            let help = suggest(class, names).unwrap_or_default();
            format!("there is no device class `{class}`: {help}")
        })?;
        Ok(Self { class, chip: chip.to_string() })
    }
}

/// `culm new`.
pub fn new(what: &New) -> Result<()> {
    let catalogue = commands::catalogue()?;
    match what {
        New::Component { name } => {
            check(&catalogue, name)?;
            let made = make(&catalogue.tree, &Template::component(&catalogue.tree, name))?;
            say(&catalogue.tree, &made);
            println!("\nrun it:   ./culm run {name}\ntest it:  cargo test -p {name}");
        }
        New::Driver { device } => {
            let name = device.component();
            check(&catalogue, &name)?;
            let made = make(&catalogue.tree, &Template::driver(&catalogue.tree, device))?;
            say(&catalogue.tree, &made);
            let guide = catalogue.root.join("docs/src/guides/driver.md");
            let guide = catalogue.shown(&guide);
            println!("\ntest it:  cargo test -p {name}\ngo on:    {}, from \"The manifest\"", guide.display());
        }
        New::Workspace { path } => workspace::new(&catalogue, path)?,
    }
    Ok(())
}

fn say(tree: &Tree, made: &[PathBuf]) {
    for path in made {
        println!("made {}", tree.shown(path).display());
    }
}

/// Whether a new component can have this name.
fn check(catalogue: &Catalogue, name: &str) -> Result<(), Failure> {
    // Without a lock file nothing is known of other crates; cargo will tell.
    let lock = fs::read_to_string(catalogue.root.join("Cargo.lock")).unwrap_or_default();
    if let Some(other) = catalogue.components.get(name) {
        let folder = catalogue.shown(&other.folder).display().to_string();
        return Err(Failure::new(format!("there is a component `{name}` in {folder}")).help("choose another name"));
    }
    names::check(name, &names::dependencies(&lock))
}

/// The files to copy, and where to, below the folder in which the user works, and what in it is
/// replaced.
struct Template {
    copies: Vec<(&'static str, PathBuf)>,
    replacements: Vec<(&'static str, String)>,
}

impl Template {
    fn component(tree: &Tree, name: &str) -> Self {
        let folder = if tree.workspace.is_some() { WORKSPACE_FOLDER } else { "apps" };
        Self {
            copies: vec![
                ("component", Path::new(folder).join(name)),
                ("system.toml", Path::new("systems").join(format!("{name}.toml"))),
            ],
            replacements: vec![("new-component", name.to_string()), ("NewComponent", camel_case(name))],
        }
    }

    fn driver(tree: &Tree, device: &Device) -> Self {
        let folder = match tree.workspace {
            Some(_) => Path::new(WORKSPACE_FOLDER).join(device.component()),
            None => Path::new("drivers").join(device.class).join(&device.chip),
        };
        let class = DeviceClass::named(device.class);
        let kind = class.and_then(|class| class.provided_by().next()).map_or("", ConnectionKind::name);
        Self {
            copies: vec![("driver", folder)],
            replacements: vec![
                ("new-chip", device.chip.clone()),
                ("NewChip", camel_case(&device.chip)),
                ("new-class", device.class.to_string()),
                ("new-kind", kind.to_string()),
            ],
        }
    }
}

/// Copies a template; returns the files made. Nothing that exists is touched.
fn make(tree: &Tree, template: &Template) -> Result<Vec<PathBuf>, Failure> {
    for (_, to) in &template.copies {
        if tree.home().join(to).exists() {
            return Err(
                Failure::new(format!("{} exists already", to.display())).help("choose another name, or remove it")
            );
        }
    }
    let mut made = Vec::new();
    for (from, to) in &template.copies {
        let from = tree.culm.join("tools/template").join(from);
        if let Err(failure) = copy(&from, &tree.home().join(to), &template.replacements, &mut made) {
            remove(tree.home(), template);
            return Err(failure);
        }
    }
    Ok(made)
}

/// Removes what was made of a template before something failed: half of it would be in the way of
/// the next attempt. None of it was there before.
fn remove(home: &Path, template: &Template) {
    for path in template.copies.iter().map(|(_, to)| home.join(to)) {
        // A file that was not made yet is not there; for the rest nothing better can be done.
        let _ = if path.is_dir() { fs::remove_dir_all(&path) } else { fs::remove_file(&path) };
    }
}

/// Copies a file, or a folder with all that is in it.
fn copy(from: &Path, to: &Path, replacements: &[(&str, String)], made: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let reading = |error| Failure::io(format_args!("read the template {}", from.display()), &error);
    if !from.is_dir() {
        let text = fs::read_to_string(from).map_err(reading)?;
        let text = replacements.iter().fold(text, |text, (name, by)| text.replace(name, by));
        let folder = to.parent().map_or(Ok(()), fs::create_dir_all);
        // With the template's permissions: a script can be run.
        folder
            .and_then(|()| fs::write(to, text))
            .and_then(|()| fs::set_permissions(to, fs::metadata(from)?.permissions()))
            .map_err(|error| Failure::io(format_args!("write {}", to.display()), &error))?;
        made.push(to.to_path_buf());
        return Ok(());
    }
    fs::create_dir_all(to).map_err(|error| Failure::io(format_args!("make the folder {}", to.display()), &error))?;
    let mut entries = fs::read_dir(from).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(reading)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        copy(&entry.path(), &to.join(entry.file_name()), replacements, made)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A folder with the templates, and nothing else.
    fn sources() -> tempfile::TempDir {
        let root = tempfile::tempdir().expect("there is a place for temporary files");
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../template");
        fs::create_dir_all(root.path().join("systems")).expect("the folder is writable");
        fs::create_dir_all(root.path().join("tools")).expect("the folder is writable");
        copy(&original, &root.path().join("tools/template"), &[], &mut Vec::new()).expect("it can be copied");
        root
    }

    fn read(path: &Path) -> String {
        fs::read_to_string(path).expect("it was made")
    }

    #[test]
    fn the_template_becomes_a_component_and_a_system() {
        let root = sources();
        let tree = Tree::new(root.path().into(), None);
        let template = Template::component(&tree, "rate-limiter");
        let made = make(&tree, &template).expect("nothing is in the way");
        assert_eq!(made.len(), 4, "{made:?}");
        for path in &made {
            let text = read(path);
            assert!(text.contains("rate-limiter"), "{} lacks the name", path.display());
            assert!(!text.contains("new-") && !text.contains("New"), "{} has the template's name", path.display());
        }
        let main = read(&root.path().join("apps/rate-limiter/src/main.rs"));
        assert!(main.contains("culm::component!(RateLimiter);"));
        let again = make(&tree, &template).expect_err("it exists");
        assert_eq!(again.message(), "apps/rate-limiter exists already");
    }

    #[test]
    fn all_is_made_or_nothing() {
        let root = sources();
        let tree = Tree::new(root.path().into(), None);
        // In the place of the folder: even the superuser can write nothing below a file.
        fs::remove_dir(root.path().join("systems")).expect("it is empty");
        fs::write(root.path().join("systems"), "").expect("the folder is writable");
        let template = Template::component(&tree, "romy");
        let failure = make(&tree, &template).expect_err("there is no place for the system");
        assert!(failure.message().contains("systems/romy.toml"), "{}", failure.message());
        assert!(!root.path().join("apps/romy").exists());
    }

    #[test]
    fn the_template_becomes_a_driver_of_each_class() {
        let root = sources();
        let tree = Tree::new(root.path().into(), None);
        for (class, _) in DeviceClass::names() {
            let device: Device = format!("{class}/uart-2").parse().expect("the class is known");
            make(&tree, &Template::driver(&tree, &device)).expect("nothing is in the way");
            let folder = root.path().join(format!("drivers/{class}/uart-2"));
            let manifest = read(&folder.join("component.toml"));
            let manifest = culm_manifest::Manifest::parse(&manifest).expect("a good manifest");
            assert_eq!(manifest.name, format!("{class}-uart-2"));
            assert!(read(&folder.join("src/main.rs")).contains("culm::component!(Uart2);"));
        }
    }

    #[test]
    fn a_device_is_a_class_and_a_chip() {
        let wrong = |text: &str| text.parse::<Device>().expect_err(text);
        assert!(wrong("uart").contains("CLASS/CHIP"));
        assert!(wrong("seriel/uart").contains("did you mean `serial`?"));
    }
}
