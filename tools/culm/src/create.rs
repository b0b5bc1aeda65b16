//! `culm new component NAME`: makes a component and a system that runs it from the template in `tools/template`.
//!
//! The template is a component like any other, called `new-component`; only its name is replaced.

use crate::commands;
use crate::failure::Failure;
use anyhow::Result;
use clap::Subcommand;
use culm_manifest::reader::check_name;
use culm_manifest::{Located, Problem};
use std::fs;
use std::path::{Path, PathBuf};

/// The template's name, and that of its type.
const NAME: &str = "new-component";
const TYPE: &str = "NewComponent";

/// What to make.
#[derive(Subcommand, Clone, Debug)]
pub enum New {
    /// Make a component that builds, boots and has a host test, and a system that runs it
    Component {
        /// Its name: lower-case letters, digits, `-` and `_`
        name: String,
    },
}

/// `culm new`.
pub fn new(what: &New) -> Result<()> {
    let New::Component { name } = what;
    let catalogue = commands::catalogue()?;
    check(name)?;
    if let Some(other) = catalogue.components.get(name) {
        let folder = catalogue.shown(&other.folder).display().to_string();
        return Err(Failure::new(format!("there is a component `{name}` in {folder}"))
            .help("choose another name")
            .into());
    }
    for path in make(&catalogue.root, name)? {
        println!("made {}", catalogue.shown(&path).display());
    }
    println!("\nrun it:   ./culm run {name}\ntest it:  cargo test -p {name}");
    Ok(())
}

/// Names that Rust or the workspace has taken: a crate of that name would not build.
const TAKEN: &[&str] = &["alloc", "core", "culm", "kernel", "proc_macro", "std", "test"];

/// Whether `name` can name a component.
fn check(name: &str) -> Result<(), Failure> {
    if TAKEN.contains(&name) || name.starts_with("culm-") {
        return Err(Failure::new(format!("`{name}` means something else already")).help("choose another name"));
    }
    let mut problems = Vec::<Problem>::new();
    check_name(&Located::new(name.to_owned(), 0..name.len()), "component", "-_", &mut problems);
    match problems.pop() {
        None => Ok(()),
        Some(Problem { message, help, .. }) => Err(match help {
            Some(help) => Failure::new(message).help(help),
            None => Failure::new(message),
        }),
    }
}

/// Copies the template below `root`; returns the files made. Nothing that exists is touched.
fn make(root: &Path, name: &str) -> Result<Vec<PathBuf>, Failure> {
    let template = root.join("tools/template");
    let folder = root.join("apps").join(name);
    let system = root.join("systems").join(format!("{name}.toml"));
    for path in [&folder, &system] {
        if path.exists() {
            let path = path.strip_prefix(root).unwrap_or(path).display();
            return Err(Failure::new(format!("{path} exists already")).help("choose another name, or remove it"));
        }
    }
    let mut made = Vec::new();
    copy_folder(&template.join("component"), &folder, name, &mut made)?;
    copy_file(&template.join("system.toml"), &system, name, &mut made)?;
    Ok(made)
}

fn copy_folder(from: &Path, to: &Path, name: &str, made: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let reading = |error| Failure::io(format_args!("read the template {}", from.display()), &error);
    fs::create_dir_all(to).map_err(|error| Failure::io(format_args!("make the folder {}", to.display()), &error))?;
    let mut entries = fs::read_dir(from).and_then(Iterator::collect::<Result<Vec<_>, _>>).map_err(reading)?;
    entries.sort_by_key(fs::DirEntry::file_name);
    for entry in entries {
        let (from, to) = (entry.path(), to.join(entry.file_name()));
        if from.is_dir() {
            copy_folder(&from, &to, name, made)?;
        } else {
            copy_file(&from, &to, name, made)?;
        }
    }
    Ok(())
}

fn copy_file(from: &Path, to: &Path, name: &str, made: &mut Vec<PathBuf>) -> Result<(), Failure> {
    let text = fs::read_to_string(from)
        .map_err(|error| Failure::io(format_args!("read the template {}", from.display()), &error))?;
    let text = text.replace(NAME, name).replace(TYPE, &camel_case(name));
    fs::write(to, text).map_err(|error| Failure::io(format_args!("write {}", to.display()), &error))?;
    made.push(to.to_path_buf());
    Ok(())
}

/// `rate-limiter` becomes `RateLimiter`.
fn camel_case(name: &str) -> String {
    let capital = |part: &str| {
        let mut letters = part.chars();
        letters.next().map(|first| first.to_ascii_uppercase()).into_iter().chain(letters).collect::<String>()
    };
    name.split(['-', '_']).map(capital).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_template_becomes_a_component_and_a_system() {
        let root = tempfile::tempdir().expect("there is a place for temporary files");
        let template = root.path().join("tools/template");
        let original = Path::new(env!("CARGO_MANIFEST_DIR")).join("../template");
        copy_folder(&original, &template, NAME, &mut Vec::new()).expect("the template can be copied");
        fs::create_dir(root.path().join("systems")).expect("the folder is writable");
        let made = make(root.path(), "rate-limiter").expect("nothing is in the way");
        assert_eq!(made.len(), 4, "{made:?}");
        for path in &made {
            let text = fs::read_to_string(path).expect("it was made");
            assert!(text.contains("rate-limiter"), "{} lacks the name", path.display());
            assert!(!text.contains(NAME) && !text.contains(TYPE), "{} has the template's name", path.display());
        }
        let main = fs::read_to_string(root.path().join("apps/rate-limiter/src/main.rs")).expect("it was made");
        assert!(main.contains("culm::component!(RateLimiter);"));
        let again = make(root.path(), "rate-limiter").expect_err("it exists");
        assert_eq!(again.message(), "apps/rate-limiter exists already");
    }

    #[test]
    fn names_are_checked() {
        assert!(check("rate-limiter_2").is_ok());
        for name in ["", "2fast", "Loud", "a b", "../up", "ünicode", "test", "culm-x"] {
            assert!(check(name).is_err(), "{name}");
        }
    }

    #[test]
    fn types_are_in_camel_case() {
        assert_eq!(camel_case("welcome"), "Welcome");
        assert_eq!(camel_case("rate-limiter_2"), "RateLimiter2");
    }
}
