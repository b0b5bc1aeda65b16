//! An initial RAM disk that is packed from files.

use super::cpio::Archive;
use crate::failure::Failure;
use crate::folder;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// Packs files, each from where it is on the host to its path in the RAM disk. Who may run a file
/// on the host may run it in the guest.
pub fn pack(files: &BTreeMap<String, PathBuf>) -> Result<Vec<u8>, Failure> {
    let mut archive = Archive::default();
    // A folder sorts before what is in it.
    let folders: BTreeSet<&Path> = files.keys().flat_map(|path| Path::new(path).ancestors().skip(1)).collect();
    for folder in folders.iter().filter_map(|folder| folder.to_str()).filter(|folder| !folder.is_empty()) {
        archive.directory(folder);
    }
    for (path, file) in files {
        let mut content = Vec::new();
        folder::copy(file, &mut content)?;
        let metadata = file.metadata().map_err(|error| Failure::io(format_args!("read {}", file.display()), &error))?;
        let is_program = metadata.permissions().mode() & 0o111 != 0;
        archive.file(path, if is_program { 0o755 } else { 0o644 }, &content);
    }
    Ok(archive.finish())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_come_before_their_files_and_programs_stay_programs() {
        let place = tempfile::tempdir().unwrap();
        let (program, text) = (place.path().join("program"), place.path().join("text"));
        std::fs::write(&program, "run").unwrap();
        std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o755)).unwrap();
        std::fs::write(&text, "words").unwrap();
        let files = [("usr/bin/a".to_string(), program), ("usr/b".to_string(), text)].into();
        let mut expected = Archive::default();
        expected.directory("usr");
        expected.directory("usr/bin");
        expected.file("usr/b", 0o644, b"words");
        expected.file("usr/bin/a", 0o755, b"run");
        // Files come in the order of their paths.
        assert_eq!(pack(&files).unwrap(), expected.finish());
    }

    #[test]
    fn a_file_that_is_not_there_is_named() {
        let files = [("a".to_string(), PathBuf::from("/nowhere/a"))].into();
        assert!(pack(&files).unwrap_err().message().contains("/nowhere/a"));
    }
}
