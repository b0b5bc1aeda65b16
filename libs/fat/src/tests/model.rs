//! Random operations, against a map of paths.

use super::*;
use proptest::prelude::*;
use proptest::strategy::ValueTree as _;
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

/// Paths, with the content of each that is a file's.
pub(crate) type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// An operation of which a model knows what it does.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    Write(String, Vec<u8>),
    Append(String, Vec<u8>),
    /// A folder is made, and a new file in it, whose folder is removed before it is published, and
    /// made again before it is published once more.
    Unnamed(String, Vec<u8>),
    MakeFolder(String),
    Remove(String),
    Rename(String, String, bool),
    Sync,
    Rest,
}

fn parent(path: &str) -> &str {
    path.rsplit_once('/').map_or("", |(parent, _)| parent)
}

/// Says what an act makes of a tree, or why nothing.
pub(crate) fn expected(tree: &mut Tree, act: &Act) -> Result<(), Error> {
    let is_folder = |tree: &Tree, path: &str| match path {
        "" => Ok(()),
        _ => match tree.get(path) {
            Some(None) => Ok(()),
            Some(Some(_)) => Err(Error::NotAFolder),
            None => Err(Error::NotFound),
        },
    };
    let check_parent = |tree: &Tree, path: &str| {
        let mut at = String::new();
        for name in parent(path).split('/').filter(|name| !name.is_empty()) {
            at = if at.is_empty() { name.into() } else { format!("{at}/{name}") };
            is_folder(tree, &at)?;
        }
        Ok(())
    };
    match act {
        Act::Write(path, content) | Act::Append(path, content) => {
            check_parent(tree, path)?;
            let is_new = matches!(act, Act::Write(..));
            match tree.entry(path.clone()).or_insert_with(|| Some(Vec::new())) {
                None => return Err(Error::IsAFolder),
                Some(old) if is_new => *old = content.clone(),
                Some(old) => old.extend_from_slice(content),
            }
        }
        Act::MakeFolder(path) | Act::Unnamed(path, _) => {
            check_parent(tree, path)?;
            if tree.contains_key(path) {
                return Err(Error::Exists);
            }
            tree.insert(path.clone(), None);
        }
        Act::Remove(path) => {
            check_parent(tree, path)?;
            let inside = format!("{path}/");
            match tree.get(path) {
                None => return Err(Error::NotFound),
                Some(None) if tree.keys().any(|other| other.starts_with(&inside)) => return Err(Error::NotEmpty),
                Some(_) => tree.remove(path),
            };
        }
        Act::Rename(from, to, replace) => {
            check_parent(tree, from)?;
            let what = tree.get(from).ok_or(Error::NotFound)?.clone();
            if to.starts_with(&format!("{from}/")) && what.is_none() {
                return Err(Error::IntoItself);
            }
            if parent(to) == from.as_str() || to.starts_with(&format!("{from}/")) {
                return Err(Error::IntoItself);
            }
            check_parent(tree, to)?;
            match tree.get(to) {
                _ if from == to => return Ok(()),
                Some(other) if !replace || other.is_none() || what.is_none() => return Err(Error::Exists),
                _ => {}
            }
            let inside = format!("{from}/");
            let moved: Vec<String> = tree.keys().filter(|path| path.starts_with(&inside)).cloned().collect();
            for path in moved {
                let content = tree.remove(&path).expect("it is there");
                tree.insert(format!("{to}/{}", &path[inside.len()..]), content);
            }
            tree.remove(from);
            tree.insert(to.clone(), what);
        }
        Act::Sync | Act::Rest => {}
    }
    Ok(())
}

/// Does it on a volume.
pub(crate) fn perform(volume: &mut Volume, disk: &mut Disk, act: &Act) -> Result<(), Error> {
    let operation = match act.clone() {
        Act::Write(path, content) => return write(volume, disk, &path, &content),
        Act::Append(path, content) => return append(volume, disk, &path, &content),
        Act::Unnamed(path, content) => {
            let folder = || Operation::MakeFolder { path: path.clone() };
            run(volume, disk, folder())?;
            let name = Operation::Append { path: format!("{path}/unnamed") };
            let (file, _) = opened(volume, disk, name)?;
            run(volume, disk, Operation::Remove { path: path.clone() })?;
            assert_eq!(write_open(volume, disk, file, 0, &content), Err(Error::NotFound));
            run(volume, disk, folder())?;
            let again = Operation::Publish { file, size: content.len() as u64 };
            assert_eq!(run(volume, disk, again), Err(Error::BadFile));
            Operation::Close { file }
        }
        Act::MakeFolder(path) => Operation::MakeFolder { path },
        Act::Remove(path) => Operation::Remove { path },
        Act::Rename(from, to, replace) => Operation::Rename { from, to, replace },
        Act::Sync => Operation::Sync,
        Act::Rest => Operation::Rest,
    };
    run(volume, disk, operation).map(|_| ())
}

/// Reads all of a volume.
pub(crate) fn contents(volume: &mut Volume, disk: &mut Disk) -> Tree {
    let (mut tree, mut folders) = (Tree::new(), vec![String::new()]);
    while let Some(folder) = folders.pop() {
        for name in list(volume, disk, &folder).expect("a list") {
            let bare = name.trim_end_matches('/');
            let path = if folder.is_empty() { bare.into() } else { format!("{folder}/{bare}") };
            if name.ends_with('/') {
                tree.insert(path.clone(), None);
                folders.push(path);
            } else {
                let content = read(volume, disk, &path).unwrap_or_else(|error| panic!("{path}: {error}"));
                tree.insert(path, Some(content));
            }
        }
    }
    tree
}

fn paths() -> impl Strategy<Value = String> {
    let names = prop::sample::select(vec!["a", "b.txt", "A long name of a file.text", "übrig", "sub", "other folder"]);
    prop::collection::vec(names, 1..4).prop_map(|names| names.join("/"))
}

pub(crate) fn acts() -> impl Strategy<Value = Act> {
    let content = || (any::<u64>(), 0..6000_usize).prop_map(|(seed, length)| pattern(seed, length));
    prop_oneof![
        4 => (paths(), content()).prop_map(|(path, content)| Act::Write(path, content)),
        3 => (paths(), content()).prop_map(|(path, content)| Act::Append(path, content)),
        4 => paths().prop_map(Act::MakeFolder),
        1 => (paths(), content()).prop_map(|(path, content)| Act::Unnamed(path, content)),
        2 => paths().prop_map(Act::Remove),
        3 => (paths(), paths(), any::<bool>()).prop_map(|(from, to, replace)| Act::Rename(from, to, replace)),
        1 => Just(Act::Sync),
        1 => Just(Act::Rest),
    ]
}

/// Checks that a run of acts leaves on a disk what it leaves of a tree.
fn check(mut disk: Disk, acts: &[Act]) -> Result<(), TestCaseError> {
    let (mut volume, mut tree) = (mounted(&mut disk), Tree::new());
    for act in acts {
        let (mut after, before) = (tree.clone(), tree.clone());
        let wanted = expected(&mut after, act);
        tree = if wanted.is_ok() { after } else { before };
        let done = perform(&mut volume, &mut disk, act);
        prop_assert_eq!(done, wanted, "{:?}", act);
    }
    prop_assert_eq!(&contents(&mut volume, &mut disk), &tree);
    run(&mut volume, &mut disk, Operation::Rest).expect("rest");
    prop_assert_eq!(disk.complaint(), None);
    let mut volume = mounted(&mut disk);
    prop_assert_eq!(&contents(&mut volume, &mut disk), &tree);
    prop_assert!(!volume.is_marked());
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 60, ..ProptestConfig::default() })]

    #[test]
    fn a_volume_is_a_map_of_paths(acts in prop::collection::vec(acts(), 1..60)) {
        check(Disk::small(), &acts)?;
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 15, ..ProptestConfig::default() })]

    #[test]
    fn it_is_one_on_a_disk_with_large_blocks(acts in prop::collection::vec(acts(), 1..60)) {
        check(Disk::coarse(), &acts)?;
        check(Disk::uneven(), &acts)?;
    }
}

#[test]
fn a_fat32_is_one_on_a_disk_with_large_blocks() {
    let acts = prop::collection::vec(acts(), 150).new_tree(&mut TestRunner::deterministic()).expect("acts").current();
    // Its boot sector, its information sector and their copies share blocks.
    let disk = Disk { unit: 4096, ..Disk::formatted(66_000 * 8 + 2048, &["-F", "32", "-s", "8"]) };
    check(disk, &acts).unwrap();
}
