//! The files that both sides serve or read in benchmarks, of the sizes that the founding documents
//! measured.

use anyhow::{Context, Result};
use culm_bench_guest::file;
use std::fs;
use std::path::{Path, PathBuf};

/// The small page, served as the index too.
pub const SMALL: usize = 354;
/// The middle page.
pub const MIDDLE: usize = 10_240;
/// The large file.
pub const LARGE: usize = 33_400_000;

const SITE: &[(&str, usize)] = &[("index.html", SMALL), ("10K.html", MIDDLE), ("large.bin", LARGE)];

/// The files of the web server beside a guest.
const BESIDE: &[(&str, usize)] = &[("index.html", SMALL)];

/// The files of the FAT volume that both sides read.
const VOLUME: &[(&str, usize)] = &[("10K.html", MIDDLE), (file::PATH.split_at(1).1, file::SIZE as usize)];

/// Writes the files of web servers to `folder`, unless they are there.
pub fn write(folder: &Path) -> Result<PathBuf> {
    write_files(folder, SITE)
}

/// Writes the files of the web server beside a guest to `folder`, unless they are there.
pub fn write_beside(folder: &Path) -> Result<PathBuf> {
    write_files(folder, BESIDE)
}

/// Writes the files of a volume to `folder`, unless they are there.
pub fn write_volume(folder: &Path) -> Result<PathBuf> {
    write_files(folder, VOLUME)
}

fn write_files(folder: &Path, files: &[(&str, usize)]) -> Result<PathBuf> {
    fs::create_dir_all(folder)?;
    for &(name, size) in files {
        let path = folder.join(name);
        if fs::metadata(&path).is_ok_and(|metadata| metadata.len() == size as u64) {
            continue;
        }
        let line = b"Culm: a sealed system that outruns the monolith, and prints the proof. <br>\n";
        let content: Vec<u8> = line.iter().copied().cycle().take(size).collect();
        fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    }
    Ok(folder.to_owned())
}
