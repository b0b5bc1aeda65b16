//! `culm image`: makes the image of a disk from a description.

use crate::build::Profile;
use crate::build::command::build_plan;
use crate::commands::System;
use crate::diagnostics::{Diagnostics, Source};
use crate::disk::read::{Context, read};
use crate::disk::{Disk, FileSource, SECTOR, Volume, make};
use crate::failure::Failure;
use anyhow::Result;
use culm_manifest::reader::{Problems, TableReader, parse_table};
use culm_manifest::units::format_size;
use std::fs::Metadata;
use std::os::unix::fs::MetadataExt as _;
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
    let mut disk = describe(&options.file)?;
    check_output(options)?;
    for partition in &mut disk.partitions {
        if let Some(volume) = &mut partition.volume {
            add_system(volume)?;
        }
    }
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
        read(table, &Context { name: &name, find: &find, boots: true, is_card: false }, &mut problems)
    } else {
        None
    };
    let mut found = Diagnostics::default();
    found.extend(&source, problems);
    disk.ok_or_else(|| found.into())
}

/// Builds the system that firmware is to find on a volume, if there is one, and adds it with what
/// tells U-Boot of it.
fn add_system(volume: &mut Volume) -> Result<()> {
    let Some(system) = &volume.boot else { return Ok(()) };
    let plan = System { system: system.clone(), board: None }.plan()?;
    let built = build_plan(&plan, Profile::Release)?;
    let file = format!("{}.img", plan.name);
    volume.more.insert(MENU.to_string(), FileSource::Text(menu(&plan.name, &file)));
    volume.more.insert(file, FileSource::Path(built.image));
    Ok(())
}

/// The file by which U-Boot finds what to boot: its standard boot looks for it on every partition
/// that is marked for it, or on the first one.
const MENU: &str = "extlinux/extlinux.conf";

/// Returns the text of that file. The device tree is U-Boot's own: Culm asks it for nothing.
fn menu(system: &str, file: &str) -> String {
    format!("default {system}\n\nlabel {system}\n  kernel /{file}\n")
}

/// Refuses to write over something, and over the description in any case.
fn check_output(options: &Options) -> Result<(), Failure> {
    let Ok(metadata) = std::fs::metadata(&options.output) else { return Ok(()) };
    let path = options.output.display();
    let file = |metadata: &Metadata| (metadata.dev(), metadata.ino());
    if std::fs::metadata(&options.file).is_ok_and(|description| file(&description) == file(&metadata)) {
        return Err(Failure::new(format!("{path} is the description itself")).help("choose another name for the image"));
    }
    if !metadata.is_file() {
        return Err(Failure::new(format!("{path} is no regular file"))
            .help("write the image to a file, then copy it to a card: dd if=FILE of=/dev/DISK bs=1M conv=fsync"));
    }
    if options.force {
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
            let boots = volume.boot.as_ref().map_or(String::new(), |system| format!(", boots {system}"));
            format!("FAT{}{from}{boots}", volume.kind.bits())
        });
        let (first, size) = (format_size(partition.first * SECTOR), format_size(partition.sectors * SECTOR));
        text += &format!("  {number}  {}: {size} at {first}, {volume}\n", partition.name);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_description_is_not_written_over() {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let (file, link) = (folder.path().join("card.toml"), folder.path().join("card.img"));
        let text = "partition = [{ name = \"data\", size = \"1MiB\" }]\n";
        std::fs::write(&file, text).expect("it can be written");
        std::os::unix::fs::symlink(&file, &link).expect("it can be linked");
        for output in [&file, &link] {
            let options = Options { file: file.clone(), output: output.clone(), force: true };
            let refused = image(&options).expect_err("it is the description").to_string();
            assert!(refused.contains("is the description itself"), "{refused}");
        }
        assert_eq!(std::fs::read_to_string(&file).expect("it is there"), text);
        let options = Options { file, output: folder.path().join("new.img"), force: false };
        image(&options).expect("it can be made");
        let refused = image(&options).expect_err("it is there already").to_string();
        assert!(refused.contains("is there already"), "{refused}");
        image(&Options { force: true, ..options }).expect("it is lost on purpose");
    }
}
