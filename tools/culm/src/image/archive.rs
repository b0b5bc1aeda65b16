//! Files and folders that configurations name, as components will find them.
//!
//! A folder is packed into one archive (`culm::archive` in the runtime reads it): little-endian `u32`s, the
//! count of files, then per file the offset and length of its path and the offset and length of its content, counted from the
//! start of the archive; then the bytes. Paths are sorted bytewise and use `/`.

use crate::failure::Failure;
use crate::plan::{ConfigValue, Plan};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Contents by the path that the plan gives.
#[derive(Clone, Debug, Default)]
pub struct Contents {
    by_path: BTreeMap<PathBuf, Vec<u8>>,
}

impl Contents {
    /// Reads all files and packs all folders that configurations in `plan` name.
    pub fn read(plan: &Plan) -> Result<Self, Failure> {
        let mut by_path = BTreeMap::new();
        for value in plan.domains.iter().flat_map(|domain| &domain.config) {
            let (path, folder) = match value {
                ConfigValue::File(path) => (path, false),
                ConfigValue::Folder(path) => (path, true),
                _ => continue,
            };
            if !by_path.contains_key(path) {
                let content = if folder { pack_folder(path)? } else { read(path)? };
                by_path.insert(path.clone(), content);
            }
        }
        Ok(Self { by_path })
    }

    /// The content at `path`; empty where the plan does not name it.
    pub fn get(&self, path: &Path) -> &[u8] {
        self.by_path.get(path).map_or(&[], Vec::as_slice)
    }

    /// Bytes of each.
    pub fn sizes(&self) -> BTreeMap<PathBuf, u64> {
        self.by_path.iter().map(|(path, content)| (path.clone(), content.len() as u64)).collect()
    }
}

impl FromIterator<(PathBuf, Vec<u8>)> for Contents {
    fn from_iter<T: IntoIterator<Item = (PathBuf, Vec<u8>)>>(contents: T) -> Self {
        Self { by_path: contents.into_iter().collect() }
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::io(format_args!("read {}", path.display()), &error))
}

/// Packs all regular files in `folder` and below. Files and folders whose names begin with a dot are left out: editors
/// and version control leave such.
pub fn pack_folder(folder: &Path) -> Result<Vec<u8>, Failure> {
    let mut files = BTreeMap::new();
    collect(folder, "", &mut files)?;
    pack(&files).ok_or_else(|| {
        Failure::new(format!("the folder {} is larger than 4 GiB", folder.display()))
            .help("an archive's offsets have 32 bits; leave something out")
    })
}

fn collect(folder: &Path, prefix: &str, files: &mut BTreeMap<String, Vec<u8>>) -> Result<(), Failure> {
    let failed = |error: std::io::Error| Failure::io(format_args!("list {}", folder.display()), &error);
    for entry in std::fs::read_dir(folder).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let Ok(name) = entry.file_name().into_string() else {
            return Err(Failure::new(format!("the name of {} is not UTF-8", entry.path().display()))
                .help("rename it; a component sees paths as text"));
        };
        if name.starts_with('.') {
            continue;
        }
        let path = format!("{prefix}{name}");
        // Follows links, so that a site may be put together from them; a link that leads nowhere is an error.
        let metadata = std::fs::metadata(entry.path())
            .map_err(|error| Failure::io(format_args!("read {}", entry.path().display()), &error))?;
        if metadata.is_dir() {
            if prefix.matches('/').count() >= MAX_DEPTH {
                return Err(Failure::new(format!("{} is nested too deeply", entry.path().display()))
                    .help("is there a link that leads back to a folder above?"));
            }
            collect(&entry.path(), &format!("{path}/"), files)?;
        } else {
            files.insert(path, read(&entry.path())?);
        }
    }
    Ok(())
}

/// Folders within folders that are still looked into.
const MAX_DEPTH: usize = 32;

/// Packs files, given by path; `None` where the archive would pass 4 GiB.
fn pack(files: &BTreeMap<String, Vec<u8>>) -> Option<Vec<u8>> {
    let mut head: Vec<u32> = vec![files.len().try_into().ok()?];
    let mut body: Vec<u8> = Vec::new();
    let base = 4 + 16 * files.len();
    for (path, content) in files {
        for bytes in [path.as_bytes(), content] {
            // Content that is word-aligned is faster to copy.
            body.resize(body.len().next_multiple_of(8), 0);
            head.push((base + body.len()).try_into().ok()?);
            head.push(bytes.len().try_into().ok()?);
            body.extend_from_slice(bytes);
        }
    }
    let mut archive: Vec<u8> = head.into_iter().flat_map(u32::to_le_bytes).collect();
    archive.extend(body);
    Some(archive)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn word(archive: &[u8], index: usize) -> usize {
        u32::from_le_bytes(archive[index * 4..index * 4 + 4].try_into().expect("four bytes")) as usize
    }

    #[test]
    fn a_folder_is_packed_in_the_order_of_paths() {
        let folder = tempfile::tempdir().expect("a folder");
        std::fs::create_dir(folder.path().join("b")).expect("a folder");
        for (path, content) in [("z.txt", "last"), ("b/c", "22"), (".hidden", "no"), ("a", "")] {
            std::fs::write(folder.path().join(path), content).expect("a file");
        }
        let archive = pack_folder(folder.path()).expect("packs");
        assert_eq!(word(&archive, 0), 3);
        let files: Vec<_> = (0..3)
            .map(|file| {
                let at = |field: usize| word(&archive, 1 + file * 4 + field);
                let text = |offset: usize, length: usize| String::from_utf8_lossy(&archive[offset..offset + length]);
                format!("{}={}", text(at(0), at(1)), text(at(2), at(3)))
            })
            .collect();
        assert_eq!(files, ["a=", "b/c=22", "z.txt=last"]);
    }

    #[test]
    fn a_missing_folder_is_named() {
        let failure = pack_folder(Path::new("/nonexistent")).expect_err("missing").to_string();
        assert!(failure.contains("/nonexistent"), "{failure}");
    }
}
