//! `culm new workspace`: a folder outside of Culm's checkout with a component and a system, that
//! builds on the checkout as on any versioned dependency.
//!
//! It is a cargo workspace of its own. Its `Cargo.toml` names each crate of Culm that components
//! may use, with its path and its version; its lock file begins as Culm's, so that nothing is
//! fetched that Culm does not use already.

use super::{Template, camel_case, check, make};
use crate::description::catalogue::{Catalogue, WORKSPACE_FOLDER};
use crate::failure::Failure;
use crate::tree::Tree;
use std::fs;
use std::io;
use std::path::{Path, PathBuf};

/// Folders of the crates that components may use.
const OPEN: &[&str] = &["runtime", "libs/", "classes/"];

/// The folders within those that are no component's business.
const CLOSED: &[&str] = &["runtime/macros", "libs/manifest"];

/// Makes the workspace, and says what can be done there.
pub fn new(catalogue: &Catalogue, path: &Path) -> Result<(), Failure> {
    let folder = std::path::absolute(path).map_err(|error| Failure::io("find the current folder", &error))?;
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    check(catalogue, name)
        .map_err(|failure| failure.detail("the folder's last name is that of the first component in it"))?;
    check_place(&catalogue.root, &folder)?;
    let tree = Tree::new(catalogue.root.clone(), Some(folder.clone()));
    let template = template(&tree, name)?;
    let made = make(&tree, &template).inspect_err(|_| remove_empty(&folder))?;
    for made in &made {
        println!("made {}", path.join(tree.shown(made)).display());
    }
    println!("\ngo there:  cd {}\nrun it:    ./culm run {name}\ntest it:   ./culm test", path.display());
    Ok(())
}

/// The workspace is in a folder of its own, and not in Culm's.
fn check_place(culm: &Path, folder: &Path) -> Result<(), Failure> {
    let refuse = |why: &str| {
        Err(Failure::new(format!("{} {why}", folder.display())).help("name a folder that is not there yet"))
    };
    // The folders above it exist, or are made: their links must not lead into the checkout.
    let above = folder.ancestors().find_map(|above| above.canonicalize().ok()).unwrap_or_default();
    if above.starts_with(culm.canonicalize().unwrap_or_else(|_| culm.into())) {
        return refuse("is within Culm's own checkout");
    }
    match fs::read_dir(folder).map(|mut entries| entries.next().is_some()) {
        Ok(true) => refuse("exists already, and is not empty"),
        Err(error) if error.kind() == io::ErrorKind::NotADirectory => refuse("is a file"),
        _ => Ok(()),
    }
}

fn template(tree: &Tree, name: &str) -> Result<Template, Failure> {
    let file = tree.culm.join("Cargo.toml");
    let text =
        fs::read_to_string(&file).map_err(|error| Failure::io(format_args!("read {}", file.display()), &error))?;
    let root = tree.culm.display().to_string();
    if root.contains(['"', '\\', '\n']) {
        return Err(Failure::new(format!("the path of Culm's checkout cannot stand in a Cargo.toml: {root}"))
            .help("move it to a folder without quotation marks and backslashes in its path"));
    }
    Ok(Template {
        copies: vec![
            ("workspace/Cargo.toml", "Cargo.toml".into()),
            ("../../Cargo.lock", "Cargo.lock".into()),
            ("workspace/README.md", "README.md".into()),
            ("workspace/culm", "culm".into()),
            ("workspace/gitignore", ".gitignore".into()),
            ("component", Path::new(WORKSPACE_FOLDER).join(name)),
            ("system.toml", PathBuf::from(format!("systems/{name}.toml"))),
        ],
        replacements: vec![
            ("{crates}", crates(&text, &root)),
            ("{name}", name.to_string()),
            ("{rust}", env!("CARGO_PKG_RUST_VERSION").to_string()),
            ("new-component", name.to_string()),
            ("NewComponent", camel_case(name)),
        ],
    })
}

/// Lines for the crates of Culm that components may use, from the `Cargo.toml` of its checkout.
fn crates(cargo_toml: &str, culm: &str) -> String {
    let table: toml::Table = cargo_toml.parse().unwrap_or_default();
    let dependencies = table.get("workspace").and_then(|workspace| workspace.get("dependencies")?.as_table());
    let paths =
        dependencies.into_iter().flatten().filter_map(|(name, crate_)| Some((name, crate_.get("path")?.as_str()?)));
    let is_open = |path: &str| {
        OPEN.iter().any(|open| path == *open || (open.ends_with('/') && path.starts_with(open)))
            && !CLOSED.contains(&path)
    };
    let line = |(name, path): (&String, &str)| {
        format!("{name} = {{ version = \"{}\", path = \"{culm}/{path}\" }}", env!("CARGO_PKG_VERSION"))
    };
    paths.filter(|(_, path)| is_open(path)).map(line).collect::<Vec<_>>().join("\n")
}

/// Removes the folders of a workspace that could not be made: they hold nothing then.
fn remove_empty(folder: &Path) {
    for empty in [folder.join(WORKSPACE_FOLDER), folder.join("systems"), folder.into()] {
        // A file that was not made is not there.
        let _ = fs::remove_dir(empty);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn culm() -> PathBuf {
        Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").canonicalize().expect("the tree is there")
    }

    fn catalogue() -> Catalogue {
        Catalogue::read(&culm())
    }

    #[test]
    fn a_workspace_builds_on_the_crates_of_the_checkout() {
        let above = tempfile::tempdir().expect("there is a place for temporary files");
        let folder = above.path().join("rate-limiter");
        new(&catalogue(), &folder).expect("nothing is in the way");
        let read = |file: &str| fs::read_to_string(folder.join(file)).unwrap_or_else(|error| panic!("{file}: {error}"));
        let manifest: toml::Table = read("Cargo.toml").parse().expect("it is TOML");
        let dependencies = &manifest["workspace"]["dependencies"];
        let (version, root) = (env!("CARGO_PKG_VERSION"), culm());
        for name in ["culm", "culm-net", "culm-mmio"] {
            let path = dependencies[name]["path"].as_str().expect("it has a path");
            assert!(Path::new(path).starts_with(&root) && Path::new(path).join("Cargo.toml").is_file(), "{path}");
            assert_eq!(dependencies[name]["version"].as_str(), Some(version), "{name}");
        }
        assert!(
            ["culm-manifest", "culm-macros", "culm-kernel-core"].iter().all(|name| dependencies.get(name).is_none())
        );
        assert!(!read("README.md").contains('{') && !read("systems/rate-limiter.toml").contains("new-"));
        let tree = Tree::new(root, Some(folder.clone()));
        let catalogue = Catalogue::of(&tree);
        assert!(catalogue.components["rate-limiter"].manifest.is_ok());
        assert!(catalogue.systems().contains_key("rate-limiter") && catalogue.systems().contains_key("web"));
        let found = crate::description::workspace::check(&catalogue);
        assert!(found.is_empty(), "{found}");
        let again = new(&Catalogue::read(&culm()), &folder).expect_err("it is there");
        assert!(again.message().contains("exists already"), "{again}");
    }

    #[test]
    fn a_workspace_has_a_place_and_a_name_of_its_own() {
        let above = tempfile::tempdir().expect("there is a place for temporary files");
        let refused = |path: &Path| new(&catalogue(), path).expect_err("it cannot be").to_string();
        let within = refused(&culm().join("apps/mine"));
        assert!(within.contains("is within Culm's own checkout") && within.contains("help: "), "{within}");
        fs::write(above.path().join("taken"), "").expect("the folder is writable");
        assert!(refused(&above.path().join("taken")).contains("is a file"));
        let hello = refused(&above.path().join("hello"));
        assert!(hello.contains("there is a component `hello`") && hello.contains("the folder's last name"), "{hello}");
        assert!(refused(&above.path().join("2 Fast")).contains("is not a name for a component"));
        assert!(!above.path().join("hello").exists());
    }

    #[test]
    fn a_workspace_is_built_as_culm_is() {
        let profiles = |file: &str| {
            let text = fs::read_to_string(culm().join(file)).expect("it is there");
            let table: toml::Table = text.replace("{crates}", "").parse().expect("it is TOML");
            let mut release = table["profile"]["release"].as_table().expect("a profile").clone();
            let packages = release.remove("package").and_then(|packages| packages.as_table().cloned());
            (release, packages.unwrap_or_default(), table["profile"]["dev"]["panic"].clone())
        };
        let (release, packages, panic) = profiles("tools/template/workspace/Cargo.toml");
        let (culms, mut all, its_panic) = profiles("Cargo.toml");
        assert_eq!((release, panic), (culms, its_panic));
        // Cargo warns of packages that nobody depends on: a workspace names those that every
        // component has.
        all.retain(|name, _| name == "culm" || name == "talc");
        assert_eq!(packages, all);
    }
}
