//! Where a guest's files come from: from beside the system file, or out of Debian's packages.

use crate::debian::{self, RELEASE};
use crate::description::guest::GuestTable;
use crate::description::system::SystemFile;
use crate::tree::Tree;
use anyhow::Result;
use std::path::{Component, Path, PathBuf};

/// How a file of a package begins in a description.
const DEBIAN: &str = "debian:";

/// A file, as a description names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source<'a> {
    /// A path, relative to the system file.
    Path(&'a str),
    /// Of a package of Debian's.
    Debian {
        /// The package.
        package: &'a str,
        /// The file's path in it; without one it is the kernel.
        file: Option<&'a str>,
    },
}

impl<'a> Source<'a> {
    /// Reads what a description says; none where it names a package as no package is named, or a
    /// file outside of it.
    pub fn parse(text: &'a str) -> Option<Self> {
        let Some(named) = text.strip_prefix(DEBIAN) else { return Some(Self::Path(text)) };
        let (package, file) = match named.split_once('/') {
            Some((package, file)) => (package, Some(file)),
            None => (named, None),
        };
        // Debian Policy Manual, 5.6.7.
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"+-.".contains(&byte);
        let begins = package.starts_with(|first: char| first.is_ascii_lowercase() || first.is_ascii_digit());
        let is_package = package.len() >= 2 && begins && package.bytes().all(is_name);
        (is_package && file.is_none_or(is_within)).then_some(Self::Debian { package, file })
    }

    /// The file's path, and whether the file is where it can be read: a package that was not
    /// fetched yet is not.
    pub fn path(&self, tree: &Tree, beside: impl FnOnce(&str) -> PathBuf) -> (PathBuf, bool) {
        let (package, file) = match *self {
            Self::Path(path) => return (beside(path), true),
            Self::Debian { package, file } => (package, file),
        };
        let folder = folder(tree, package);
        let path = match file {
            Some(file) => within(&folder, file),
            None => kernel(&folder),
        };
        (path, debian::has(&folder, &[package]))
    }
}

/// Whether a path names something below the folder that it is in.
pub fn is_within(path: &str) -> bool {
    let is_plain = |part| matches!(part, Component::Normal(_));
    !path.is_empty() && !path.contains('\0') && Path::new(path).components().all(is_plain)
}

/// Fetches all packages that a system's guests have files of and that were not fetched yet.
pub fn fetch(tree: &Tree, file: &SystemFile<'_>) -> Result<()> {
    for text in file.guests.iter().flat_map(GuestTable::sources) {
        if let Some(Source::Debian { package, .. }) = Source::parse(text) {
            debian::unpack(&cache(tree), &folder(tree, package), &[package])?;
        }
    }
    Ok(())
}

fn cache(tree: &Tree) -> PathBuf {
    tree.build.join("debian")
}

/// The folder of a package's files, which is there after it was fetched.
pub fn folder(tree: &Tree, package: &str) -> PathBuf {
    cache(tree).join(format!("{RELEASE}-arm64")).join(package)
}

/// The file in a package's folder. `*` in its path stands for the one thing that is there, such as
/// the folder of a kernel's modules, which has the version's name.
fn within(folder: &Path, file: &str) -> PathBuf {
    Path::new(file).iter().fold(folder.to_path_buf(), |path, part| {
        let only = (part == "*").then(|| std::fs::read_dir(&path).into_iter().flatten().flatten());
        let only = only.and_then(|entries| entries.map(|entry| entry.path()).min());
        only.unwrap_or_else(|| path.join(part))
    })
}

/// The kernel in a package's folder; where there is none, a path at which nothing is.
fn kernel(folder: &Path) -> PathBuf {
    const KERNEL: &str = "vmlinuz";
    let boot = folder.join("boot");
    let entries = std::fs::read_dir(&boot).into_iter().flatten().flatten().map(|entry| entry.path());
    let is_kernel =
        |path: &PathBuf| path.file_name().is_some_and(|name| name.as_encoded_bytes().starts_with(KERNEL.as_bytes()));
    entries.filter(is_kernel).min().unwrap_or_else(|| boot.join(KERNEL))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_source_is_a_path_or_of_a_package() {
        assert_eq!(Source::parse("../Image"), Some(Source::Path("../Image")));
        let busybox = Source::Debian { package: "busybox-static", file: Some("bin/busybox") };
        assert_eq!(Source::parse("debian:busybox-static/bin/busybox"), Some(busybox));
        let kernel = Source::Debian { package: "linux-image-arm64", file: None };
        assert_eq!(Source::parse("debian:linux-image-arm64"), Some(kernel));
        for text in
            ["debian:", "debian:x", "debian:../a", "debian:-o/x", "debian:ab/", "debian:ab/../c", "debian:ab//c/.."]
        {
            assert_eq!(Source::parse(text), None, "{text}");
        }
    }

    #[test]
    fn what_is_of_a_package_is_there_after_it_was_fetched() {
        let place = tempfile::tempdir().unwrap();
        let tree = Tree::new(place.path().into(), None);
        let found = |text| Source::parse(text).unwrap().path(&tree, |path| path.into());
        assert_eq!(found("a/b"), ("a/b".into(), true));
        assert!(!found("debian:some-kernel").1);
        let folder = folder(&tree, "some-kernel");
        std::fs::create_dir_all(folder.join("boot")).unwrap();
        std::fs::write(folder.join("boot/vmlinuz-6.1"), "").unwrap();
        std::fs::write(folder.join("boot/System.map-6.1"), "").unwrap();
        std::fs::write(folder.join(".complete"), "some-kernel").unwrap();
        assert_eq!(found("debian:some-kernel"), (folder.join("boot/vmlinuz-6.1"), true));
        assert_eq!(found("debian:some-kernel/boot/x"), (folder.join("boot/x"), true));
        std::fs::create_dir_all(folder.join("lib/modules/6.1")).unwrap();
        assert_eq!(found("debian:some-kernel/lib/modules/*/x.ko"), (folder.join("lib/modules/6.1/x.ko"), true));
        assert_eq!(found("debian:some-kernel/nothing/*/x").0, folder.join("nothing/*/x"));
    }
}
