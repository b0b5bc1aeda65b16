//! The shared libraries that a program of Debian's is linked with, found as its loader finds them,
//! by the names in the files themselves: those of the program, and of each library in turn. They
//! are looked for in the packages that the package of the file with the name depends on.
//!
//! Fetching everything that packages depend on would be simpler and many times as much: the
//! dependencies of libraries' packages lead to interpreters, tools and configuration, too.

use super::{DEPENDS, unpack_each};
use anyhow::{Context as _, Result, bail};
use object::LittleEndian;
use object::elf::{DT_NEEDED, DT_RPATH, DT_RUNPATH, FileHeader64};
use object::read::elf::FileHeader as _;
use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

/// Where Debian's loader looks after a file's own folders (ld.so(8)), before and after the merge of
/// /usr.
const FOLDERS: [&str; 4] = ["lib/aarch64-linux-gnu", "usr/lib/aarch64-linux-gnu", "lib", "usr/lib"];

/// Makes sure that a package and those with its program's libraries are unpacked below `folders`,
/// each in a folder of its own; `cache` is for what apt keeps. Returns the program's file, and
/// those of its libraries by the names under which the loader looks for them.
pub fn linked(
    cache: &Path,
    folders: &Path,
    package: &str,
    program: &str,
) -> Result<(PathBuf, BTreeMap<String, PathBuf>)> {
    let mut packages = vec![package.to_owned()];
    loop {
        unpack_each(cache, folders, &packages)?;
        let found = Found::of(folders, &packages, program)?;
        let mut more = Vec::new();
        for owner in found.missing.values() {
            let text = fs::read_to_string(folders.join(owner).join(DEPENDS)).unwrap_or_default();
            more.extend(depends(&text).filter(|name| !packages.contains(name)));
        }
        more.sort();
        more.dedup();
        match found.missing.first_key_value() {
            None => return Ok((folders.join(package).join(program), found.libraries)),
            Some((name, owner)) if more.is_empty() => {
                bail!("no package that {owner} depends on has the library {name}, with which {program} is linked")
            }
            Some(_) => packages.extend(more),
        }
    }
}

/// The libraries of a program, as far as the packages have them.
#[derive(Debug, Default)]
struct Found {
    /// Their files.
    libraries: BTreeMap<String, PathBuf>,
    /// Those that no package has, and which package has a file that needs it.
    missing: BTreeMap<String, String>,
}

impl Found {
    /// Follows the names from the program, which is the first package's, through `packages`.
    fn of(folders: &Path, packages: &[String], program: &str) -> Result<Found> {
        let mut found = Found::default();
        let first = packages.first().context("a program is of a package")?;
        let mut left = vec![(first.as_str(), folders.join(first).join(program))];
        while let Some((owner, path)) = left.pop() {
            let content = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
            let needs = Needs::of(&content).with_context(|| format!("{} is no program", path.display()))?;
            for name in needs.libraries {
                if found.libraries.contains_key(&name) || found.missing.contains_key(&name) {
                    continue;
                }
                let places = needs.folders.iter().map(String::as_str).chain(FOLDERS);
                let mut files = places
                    .flat_map(|place| packages.iter().map(move |package| (package, folders.join(package).join(place))));
                let file = files.find_map(|(package, place)| {
                    let file = place.join(&name);
                    file.is_file().then_some((package, file))
                });
                match file {
                    Some((package, file)) => {
                        left.push((package, file.clone()));
                        found.libraries.insert(name, file);
                    }
                    None => drop(found.missing.insert(name, owner.to_owned())),
                }
            }
        }
        Ok(found)
    }
}

/// The part of an ELF file that its loader follows (System V ABI, "Dynamic Section").
#[derive(Debug, Default)]
struct Needs {
    /// Names of libraries, each without a folder.
    libraries: Vec<String>,
    /// Folders that are searched first, relative to the root. One relative to the file's own place
    /// is not among them: Debian's libraries of the system have none.
    folders: Vec<String>,
}

impl Needs {
    fn of(content: &[u8]) -> object::read::Result<Needs> {
        let header = FileHeader64::<LittleEndian>::parse(content)?;
        let endian = header.endian()?;
        let table = header.sections(endian, content)?.dynamic_table(endian, content)?;
        let mut needs = Needs::default();
        for entry in table.iter() {
            let text = || table.string(entry).map(|text| String::from_utf8_lossy(text).into_owned());
            match entry.tag {
                // One with a folder is no search, and would lead out of the packages.
                DT_NEEDED => needs.libraries.extend(Some(text()?).filter(|name| !name.contains('/'))),
                DT_RUNPATH | DT_RPATH => {
                    let text = text()?;
                    let folders = text.split(':').filter_map(|folder| folder.strip_prefix('/'));
                    needs.folders.extend(folders.filter(|folder| !folder.contains("..")).map(str::to_owned));
                }
                _ => {}
            }
        }
        Ok(needs)
    }
}

/// Names in the fields of a package that say what it depends on (Debian Policy Manual, 7.1). Of
/// alternatives it is the first, which is the one that apt prefers.
fn depends(text: &str) -> impl Iterator<Item = String> {
    // A field's further lines begin with a space (5.1).
    let text = text.replace("\n ", " ");
    let fields = text.lines().filter_map(|line| line.split_once(": ")).map(|(_, packages)| packages);
    let first = |package: &str| {
        let end = package.find(|byte: char| byte.is_whitespace() || "|(:".contains(byte)).unwrap_or(package.len());
        package[..end].to_owned()
    };
    let names = fields.flat_map(|packages| packages.split(',')).map(move |package| first(package.trim()));
    names.filter(|name| !name.is_empty()).collect::<Vec<_>>().into_iter()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// This test's own file is a program that is linked with the C library.
    fn program() -> Vec<u8> {
        fs::read(std::env::current_exe().unwrap()).unwrap()
    }

    #[test]
    fn the_first_alternative_of_each_dependency_counts() {
        let text =
            "Depends: libaio1 (>= 0.3.93), python3:any, debconf (>= 0.5) | debconf-2.0, a|b\nPre-Depends: libc6\n";
        let names: Vec<_> = depends(text).collect();
        assert_eq!(names, ["libaio1", "python3", "debconf", "a", "libc6"]);
        assert_eq!(depends("").count() + depends("Depends: ,\nx").count(), 0);
    }

    #[test]
    fn a_library_is_found_in_any_package_or_named_with_who_lacks_it() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| {
            let path = place.path().join(name);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            path
        };
        fs::write(path("one/usr/bin/program"), program()).unwrap();
        let packages = ["one", "two"].map(str::to_owned);
        let found = Found::of(place.path(), &packages, "usr/bin/program").unwrap();
        assert_eq!(found.missing.get("libc.so.6").map(String::as_str), Some("one"), "{found:?}");
        // A library that needs itself and the others: each is followed once.
        fs::write(path("two/usr/lib/libc.so.6"), program()).unwrap();
        let found = Found::of(place.path(), &packages, "usr/bin/program").unwrap();
        assert_eq!(found.libraries.get("libc.so.6"), Some(&place.path().join("two/usr/lib/libc.so.6")));
        assert!(!found.missing.contains_key("libc.so.6"));
        fs::write(path("two/usr/lib/libc.so.6"), "no program").unwrap();
        let error = Found::of(place.path(), &packages, "usr/bin/program").unwrap_err();
        assert!(error.to_string().contains("libc.so.6 is no program"), "{error}");
    }

    #[test]
    fn a_file_that_was_cut_off_is_refused_or_needs_nothing() {
        let whole = program();
        assert!(!Needs::of(&whole).unwrap().libraries.is_empty());
        for length in [0, 3, 16, 63, 64, 4096, whole.len() / 2, whole.len() - 1] {
            let _ = Needs::of(&whole[..length]).map(|needs| assert!(needs.libraries.is_empty()));
        }
    }
}
