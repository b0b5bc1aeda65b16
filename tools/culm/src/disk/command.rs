//! `culm image`: makes the image of a disk from a description.

use super::read::{Context, read};
use super::{Disk, SECTOR, make};
use crate::diagnostics::{Diagnostics, Source};
use crate::failure::Failure;
use anyhow::Result;
use culm_manifest::reader::{Problems, TableReader, parse_table};
use culm_manifest::units::format_size;
use std::path::{Path, PathBuf};

/// Arguments of `culm image`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The file that describes the disk
    #[arg(value_name = "FILE")]
    pub file: PathBuf,
    /// The image to write
    #[arg(short, long, value_name = "IMAGE")]
    pub output: PathBuf,
    /// Write the image even if there is one already, which is lost then
    #[arg(long)]
    pub force: bool,
}

/// Makes the image.
pub fn image(options: &Options) -> Result<()> {
    let disk = describe(&options.file)?;
    check_output(&options.output, options.force)?;
    make(&disk, &options.output)?;
    print!("{}", summary(&disk, &options.output));
    Ok(())
}

/// Reads a description of its own file.
pub fn describe(file: &Path) -> Result<Disk> {
    let source = Source::read(file).map_err(Diagnostics::from)?;
    let mut problems = Problems::new();
    let document = parse_table(&source.text, &mut problems);
    let disk = if problems.is_empty() {
        let first_line = 0..source.text.lines().next().map_or(0, str::len);
        let table = TableReader::new("the disk", first_line, document.get_ref());
        let name = file.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let find = |path: &str| file.parent().unwrap_or(Path::new(".")).join(path);
        read(table, &Context { name: &name, find: &find }, &mut problems)
    } else {
        None
    };
    let mut found = Diagnostics::default();
    found.extend(&source, problems);
    disk.ok_or_else(|| found.into())
}

/// Refuses to write over something.
fn check_output(path: &Path, force: bool) -> Result<(), Failure> {
    let Ok(metadata) = std::fs::metadata(path) else { return Ok(()) };
    let path = path.display();
    if !metadata.is_file() {
        return Err(Failure::new(format!("{path} is no regular file"))
            .help("write the image to a file, then copy it to a card: dd if=FILE of=/dev/DISK bs=1M conv=fsync"));
    }
    if force {
        return Ok(());
    }
    Err(Failure::new(format!("{path} is there already")).help("choose another name, or lose what is in it: --force"))
}

/// Says what is on the disk.
fn summary(disk: &Disk, path: &Path) -> String {
    let mut text = format!("made: {} ({})\n", path.display(), format_size(disk.size()));
    for (number, partition) in (1..).zip(&disk.partitions) {
        let volume = partition.volume.as_ref().map_or("no file system".to_string(), |volume| {
            let from = volume.folder.as_ref().map_or(String::new(), |folder| format!(" from {}", folder.given));
            format!("FAT{}{from}", volume.kind.bits())
        });
        let (first, size) = (format_size(partition.first * SECTOR), format_size(partition.sectors * SECTOR));
        text += &format!("  {number}  {}: {size} at {first}, {volume}\n", partition.name);
    }
    text
}
