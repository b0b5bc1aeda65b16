//! The code map in `ARCHITECTURE.md` holds: every package and every folder stands in it, it names
//! only what is there, and a package depends on no other package of this tree but those that its
//! row allows.

use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Folders that are made, not written.
const MADE: &[&str] = &["build", "target"];

/// Folders that hold nothing but others, each of which is in the map by itself.
const SHELVES: &[&str] = &["bench", "bench/components", "tests", "tests/components", "tools"];

/// Folders of components, one crate each.
const COMPONENTS: &[&str] = &["drivers", "virtualisers", "services", "apps", "bench/components", "tests/components"];

/// The row of what only the tests within a package link.
const OF_TESTS: &str = "dev-dependencies";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).expect("the tool is in tools/culm").to_path_buf()
}

/// One row: the folders that it is about, and those of the packages that they may depend on.
#[derive(Debug)]
struct Row {
    folders: Vec<String>,
    allowed: Vec<String>,
}

/// The code map.
struct Map {
    rows: Vec<Row>,
    /// Edges that no row allows, each with a reason in the document.
    exceptions: BTreeSet<(String, String)>,
}

/// Returns what stands between backticks.
fn code_spans(text: &str) -> Vec<String> {
    text.split('`').skip(1).step_by(2).map(str::to_string).collect()
}

impl Map {
    /// Reads the map out of the document's section of that name.
    fn read(document: &str) -> Self {
        let section = document.split("\n## ").find(|section| section.starts_with("Code map\n"));
        let mut map = Self { rows: Vec::new(), exceptions: BTreeSet::new() };
        for line in section.expect("ARCHITECTURE.md has a section `Code map`").lines() {
            if line.starts_with("| `") {
                let cells: Vec<_> = line.split('|').map(str::trim).collect();
                assert_eq!(cells.len(), 6, "a row of the code map has four columns: {line}");
                map.rows.push(Row { folders: code_spans(cells[1]), allowed: code_spans(cells[3]) });
            } else if line.starts_with("- `") && line.contains("` → `") {
                let mut spans = code_spans(line).into_iter();
                let (from, to) = spans.next().zip(spans.next()).expect("an exception names two folders");
                map.exceptions.insert((from, to));
            }
        }
        map
    }

    /// The row that says most exactly what `folder` is: the one with the fewest words in capitals.
    fn row(&self, folder: &str) -> Option<(usize, &Row, Words)> {
        let matching = self.rows.iter().enumerate().flat_map(|(number, row)| {
            let words = row.folders.iter().filter_map(|pattern| matches(pattern, folder));
            words.map(move |words| (number, row, words))
        });
        matching.min_by_key(|(_, _, words)| words.len())
    }

    /// Why a package must not depend on another, if it must not.
    fn fault(&self, from: &str, to: &str, in_tests: bool) -> Option<String> {
        let Some((_, row, words)) = self.row(from) else {
            return Some(format!("{from} is not in the code map"));
        };
        let of_tests = self.rows.iter().filter(|row| in_tests && row.folders == [OF_TESTS]);
        let mut allowed = row.allowed.iter().chain(of_tests.flat_map(|row| &row.allowed));
        let fits = allowed.any(|pattern| matches(&filled(pattern, &words), to).is_some());
        let excepted = self.exceptions.contains(&(from.to_string(), to.to_string()));
        (!fits && !excepted).then(|| format!("{from} must not depend on {to}: its row allows {:?}", row.allowed))
    }
}

/// The words in capitals of a pattern, each with what it stands for in a folder's path.
type Words = Vec<(String, String)>;

fn is_word(segment: &str) -> bool {
    !segment.is_empty() && segment.bytes().all(|byte| byte.is_ascii_uppercase())
}

/// Compares a path with a pattern, in which a word in capitals stands for any one name.
fn matches(pattern: &str, folder: &str) -> Option<Words> {
    let (pattern, folder): (Vec<_>, Vec<_>) = (pattern.split('/').collect(), folder.split('/').collect());
    if pattern.len() != folder.len() {
        return None;
    }
    let pairs = pattern.into_iter().zip(folder);
    let pairs: Vec<_> = pairs.filter(|(segment, name)| segment != name).collect();
    let words = pairs.iter().map(|(segment, name)| (segment.to_string(), name.to_string())).collect();
    pairs.iter().all(|(segment, _)| is_word(segment)).then_some(words)
}

/// A pattern with its words replaced: `libs/CLASS` is the library of the driver's own class.
fn filled(pattern: &str, words: &Words) -> String {
    let known = |segment: &str| words.iter().find(|(word, _)| word == segment).map(|(_, name)| name.clone());
    pattern
        .split('/')
        .map(|segment| known(segment).unwrap_or_else(|| segment.to_string()))
        .collect::<Vec<_>>()
        .join("/")
}

/// A package of the tree: its name and folder, and the folders of the packages that it depends on.
struct Package {
    name: String,
    folder: String,
    needs: Vec<(String, bool)>,
}

/// The packages of the three workspaces, by `cargo metadata`.
fn packages() -> Vec<Package> {
    let root = root();
    let folder = |path: &Path| path.strip_prefix(&root).expect("it is in the tree").to_string_lossy().into_owned();
    let mut found = Vec::new();
    for workspace in ["", "tools/door", "fuzz"] {
        let cargo = std::env::var_os("CARGO").expect("cargo runs the tests");
        let output = Command::new(cargo)
            .args(["metadata", "--offline", "--no-deps", "--locked", "--format-version", "1"])
            .current_dir(root.join(workspace))
            .output()
            .expect("cargo runs");
        assert!(output.status.success(), "{workspace}: {}", String::from_utf8_lossy(&output.stderr));
        let metadata: Value = serde_json::from_slice(&output.stdout).expect("cargo writes JSON");
        for package in metadata["packages"].as_array().expect("there are packages") {
            let manifest = Path::new(package["manifest_path"].as_str().expect("it has a manifest"));
            let needs = package["dependencies"].as_array().expect("there is a list");
            let needs = needs.iter().filter_map(|need| {
                let path = Path::new(need["path"].as_str()?);
                Some((folder(path), need["kind"] == "dev"))
            });
            let needs = needs.collect();
            let name = package["name"].as_str().expect("it has a name").to_string();
            found.push(Package { name, folder: folder(manifest.parent().expect("a file is in a folder")), needs });
        }
    }
    found
}

fn map() -> Map {
    Map::read(&std::fs::read_to_string(root().join("ARCHITECTURE.md")).expect("there is ARCHITECTURE.md"))
}

fn folders_in(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).expect("the folder is there").flatten();
    let folders = entries.filter(|entry| entry.path().is_dir());
    let names = folders.map(|entry| entry.file_name().to_string_lossy().into_owned());
    names.filter(|name| !name.starts_with('.') && !MADE.contains(&name.as_str())).collect()
}

#[test]
fn a_package_depends_on_what_its_row_allows() {
    let map = map();
    let packages = packages();
    assert!(packages.len() > 40, "only {} packages are found", packages.len());
    let faults: Vec<_> = packages
        .iter()
        .flat_map(|package| package.needs.iter().map(|(to, in_tests)| (&package.folder, to, *in_tests)))
        .filter_map(|(from, to, in_tests)| map.fault(from, to, in_tests))
        .collect();
    assert!(faults.is_empty(), "{}", faults.join("\n"));
    for (from, to) in &map.exceptions {
        let needed =
            packages.iter().any(|package| package.folder == *from && package.needs.iter().any(|need| need.0 == *to));
        assert!(needed, "the exception {from} → {to} is not needed any more: remove it from the code map");
    }
}

/// The name of the package in a folder: a component's is what its shelf calls it, `net-rx` for
/// `virtualisers/net/rx`; any other's begins with `culm`, and does not say that it is a library.
fn name_in(folder: &str) -> String {
    let of_component = COMPONENTS.iter().find_map(|shelf| folder.strip_prefix(shelf)?.strip_prefix('/'));
    match folder {
        // The names with which every component and every command begins are short.
        "runtime" => "culm".into(),
        "tools/culm" => "culm-tool".into(),
        _ => match of_component {
            Some(name) => name.replace('/', "-"),
            None => {
                let plain = ["libs/", "classes/", "tools/"].iter().find_map(|shelf| folder.strip_prefix(shelf));
                format!("culm-{}", plain.unwrap_or(folder).replace('/', "-"))
            }
        },
    }
}

#[test]
fn a_package_is_named_like_its_folder() {
    let wrong = packages().into_iter().filter(|package| package.name != name_in(&package.folder));
    let wrong: Vec<_> = wrong.map(|package| format!("{} in {}", package.name, package.folder)).collect();
    assert!(wrong.is_empty(), "not named like their folders: {wrong:?}");
}

#[test]
fn every_folder_has_a_row() {
    let map = map();
    let packages = packages().into_iter().map(|package| package.folder);
    let shelves = SHELVES
        .iter()
        .flat_map(|shelf| folders_in(&root().join(shelf)).into_iter().map(move |name| format!("{shelf}/{name}")));
    let first = |folder: &str| folder.split('/').next().unwrap_or_default().to_string();
    let known: BTreeSet<_> = map.rows.iter().flat_map(|row| &row.folders).map(|folder| first(folder)).collect();
    let mut missing: Vec<_> = packages.chain(shelves).filter(|folder| map.row(folder).is_none()).collect();
    missing.retain(|folder| !SHELVES.contains(&folder.as_str()));
    missing.extend(folders_in(&root()).into_iter().filter(|name| !known.contains(name)));
    assert!(missing.is_empty(), "the code map in ARCHITECTURE.md lacks {missing:?}");
}

#[test]
fn every_row_names_what_is_there_and_depends_on_rows_above() {
    let map = map();
    let tree: Vec<_> = packages().into_iter().map(|package| package.folder).collect();
    for (number, row) in map.rows.iter().enumerate() {
        for folder in row.folders.iter().filter(|folder| *folder != OF_TESTS) {
            let there = root().join(folder).is_dir() || tree.iter().any(|name| matches(folder, name).is_some());
            assert!(there, "the code map has a row for {folder}, which is not there");
        }
        for pattern in &row.allowed {
            let of_pattern = |name: &&String| matches(pattern, name).is_some();
            let targets: Vec<_> = tree.iter().filter(of_pattern).filter_map(|name| map.row(name)).collect();
            assert!(!targets.is_empty(), "{:?} may depend on {pattern}, which is no package", row.folders);
            let below = targets.iter().find(|(target, ..)| *target >= number);
            assert!(below.is_none(), "{:?} may depend on {pattern}, whose row is not above", row.folders);
        }
    }
}

#[test]
fn the_map_is_read_as_it_is_meant() {
    let map = Map::read(
        "# House\n\n## Code map\n\n| Folder | What | May | Begin |\n| --- | --- | --- | --- |\n\
         | `abi` | facts | nothing | |\n| `libs/net`, `libs/clock` | classes | `abi` | |\n\
         | `drivers/CLASS/CHIP` | drivers | `libs/CLASS` | |\n| `drivers/net/odd` | one | `abi` | |\n\
         | `dev-dependencies` | tests | `abi` | |\n\n- `libs/net` → `libs/clock`: a reason.\n\n## Next\n\n| `none` | a | b | c |\n",
    );
    let refused = |from: &str, to: &str| map.fault(from, to, false);
    assert_eq!(refused("libs/net", "abi"), None);
    assert_eq!(refused("libs/net", "libs/clock"), None, "an exception");
    assert_eq!(refused("drivers/net/virtio", "libs/net"), None, "its own class");
    assert_eq!(map.fault("drivers/net/virtio", "abi", true), None, "in tests");
    assert_eq!(refused("drivers/net/odd", "abi"), None, "the exact row");
    assert_eq!(
        refused("abi", "libs/net").as_deref(),
        Some("abi must not depend on libs/net: its row allows []"),
        "nothing above"
    );
    assert!(refused("drivers/net/odd", "libs/net").is_some(), "the exact row alone");
    assert!(refused("drivers/net/virtio", "libs/clock").is_some(), "another class");
    assert_eq!(refused("none", "abi").as_deref(), Some("none is not in the code map"), "another section");
}
