//! The file that a device of an emulated machine has for its disk.

use crate::disk::read::{self as description, Context};
use crate::disk::{Disk, Medium, write_table};
use crate::expand::draft::Draft;
use crate::plan::HostFile;
use culm_abi::connection::block::BLOCK;
use culm_manifest::Located;
use culm_manifest::reader::{Entry, Problems};
use culm_partition::{MAX_READ, NoTable, Scan, Selector, Table};
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

/// The file, and what is on the disk.
pub struct Image {
    /// The file.
    pub file: HostFile,
    /// Its name in messages.
    pub name: String,
    /// The numbers of its file system and of the file there, which tell it from every other one
    /// whatever its paths; `None` if it is yet to be made.
    pub identity: Option<(u64, u64)>,
    /// Where the system file names it.
    pub at: Range<usize>,
    /// Blocks of the disk.
    pub blocks: u64,
    /// Its partitions.
    pub table: Result<Table, NoTable>,
}

/// How the device of an image treats it.
#[derive(Clone, Copy)]
pub struct Use {
    /// Nobody can write.
    pub read_only: bool,
    /// It is an SD card that QEMU emulates, which can always be written.
    pub is_card: bool,
}

/// The value of the key `image`.
pub enum Given {
    /// The path of a file that is there.
    File(Located<String>),
    /// A disk that the first run makes.
    Disk(Located<Disk>),
}

impl Given {
    /// Reads the value for the device of this name, which is an emulated SD card or not; `None` if
    /// it is neither a path nor a disk.
    pub fn read(
        draft: &Draft<'_>,
        entry: &Entry<'_>,
        (device, is_card): (&str, bool),
        problems: &mut Problems,
    ) -> Option<Self> {
        if !entry.is_table() {
            return entry.text(problems).map(Self::File);
        }
        let table = entry.table("`image`", problems)?;
        let stem = draft.path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        let system = draft.file.name.as_ref().map_or(stem.as_str(), |name| name.value.as_str());
        let find = |path: &str| draft.as_written(path);
        let context = Context { name: &format!("{system} {device}"), find: &find, boots: false, is_card };
        let disk = description::read(table, &context, problems);
        disk.map(|disk| Self::Disk(Located::new(disk, entry.key.span.clone())))
    }

    fn span(&self) -> &Range<usize> {
        match self {
            Self::File(file) => &file.span,
            Self::Disk(disk) => &disk.span,
        }
    }
}

/// An image that a description names.
pub enum Found {
    /// A file that is there.
    Given(Located<String>),
    /// One with this on it that the first run makes.
    Described(Located<Disk>),
    /// One of so many blocks that the first run makes.
    Made(Located<u64>),
}

/// Returns the image that the device's table at `header` names, by a path or a count of blocks;
/// reports if it names none or two.
pub fn find(
    draft: &mut Draft<'_>,
    header: &Range<usize>,
    given: Option<Given>,
    size: Option<Located<u64>>,
) -> Option<Found> {
    let board = &draft.board.board;
    let (name, is_emulated) = (board.name.clone(), board.qemu.is_some());
    let diagnostic = match (given, size) {
        (Some(given), Some(size)) => draft
            .at(&size.span, "the image has its size already")
            .related(draft.source, given.span().clone(), "the image")
            .help("leave out `size`; without `image`, the first run makes an empty one of that size"),
        (None, None) if is_emulated => draft
            .at(header, "the emulated disk has no image")
            .help("add `image = \"…\"`, a file that is there, or `size = \"64MiB\"` for an empty one that the first run makes"),
        (None, None) => return None,
        (given, size) if !is_emulated => draft
            .at(
                given.as_ref().map(Given::span).or(size.as_ref().map(|size| &size.span)).unwrap_or(header),
                format!("QEMU does not emulate the board `{name}`: its disk is no file"),
            )
            .help("leave out `image` and `size`"),
        (Some(Given::File(file)), None) => return Some(Found::Given(file)),
        (Some(Given::Disk(disk)), None) => return Some(Found::Described(disk)),
        (None, Some(size)) => return Some(Found::Made(size)),
    };
    draft.error(diagnostic);
    None
}

/// Returns what is in an image; reports why it cannot serve.
pub fn read(draft: &mut Draft<'_>, found: Found, how: Use) -> Option<Image> {
    let read_only = how.read_only;
    let given = match found {
        Found::Given(given) => given,
        Found::Made(blocks) => {
            let size = blocks.value * BLOCK as u64;
            let file = HostFile { path: None, disk: None, size, read_only };
            let (name, table) = ("the empty image".to_string(), Err(NoTable::None));
            return Some(Image { file, name, identity: None, at: blocks.span, blocks: blocks.value, table });
        }
        Found::Described(Located { value: disk, span }) => {
            let (table, blocks, size) = (table_of(&disk), disk.sectors, disk.size());
            let file = HostFile { path: None, disk: Some(disk), size, read_only };
            let name = "the image".to_string();
            return Some(Image { file, name, identity: None, at: span, blocks, table });
        }
    };
    let path = draft.beside(&given.value);
    match open(&path, how) {
        Ok((file, size)) => {
            let blocks = size / BLOCK as u64;
            let table = scan(blocks, |at, bytes| file.read_exact_at(bytes, at).is_ok());
            // Its number on its file system (POSIX.1-2017, sys/stat.h).
            let identity = file.metadata().ok().map(|metadata| (metadata.dev(), metadata.ino()));
            let file = HostFile { path: Some(path), disk: None, size, read_only };
            Some(Image { file, name: format!("`{}`", given.value), identity, at: given.span, blocks, table })
        }
        Err((what, help)) => {
            let diagnostic = draft.at(&given.span, format!("`{}` {what}", given.value)).help(help);
            draft.error(diagnostic);
            None
        }
    }
}

/// Opens an image; returns its bytes too. An error is what is wrong with it, and what to do.
fn open(path: &Path, how: Use) -> Result<(File, u64), (String, String)> {
    let make = "paths are relative to the system file; `truncate -s 64M FILE` makes an empty image, `sfdisk FILE` partitions \
                in it, and `size = \"64MiB\"` in place of `image` has the tool make an empty one";
    let failed = |error: &std::io::Error| match error.kind() {
        ErrorKind::NotFound => ("does not exist".to_string(), make.to_string()),
        ErrorKind::PermissionDenied => (format!("cannot be read: {error}"), "let its owner permit it".to_string()),
        _ => (format!("cannot be read: {error}"), make.to_string()),
    };
    let metadata: Metadata = std::fs::metadata(path).map_err(|error| failed(&error))?;
    if !metadata.is_file() {
        let what = if metadata.is_dir() { "is a folder, not the image of a disk" } else { "is no regular file" };
        return Err((what.to_string(), make.to_string()));
    }
    let size = metadata.len();
    if size == 0 || !size.is_multiple_of(BLOCK as u64) {
        let what = format!("has {size} bytes: no whole count of blocks, of {BLOCK} bytes each");
        let more = (size + 1).next_multiple_of(BLOCK as u64);
        return Err((what, format!("`truncate -s {more} FILE` makes it large enough; is it the image of a disk?")));
    }
    if !how.read_only && metadata.permissions().readonly() {
        let help = match how.is_card {
            true => "`chmod u+w FILE`: QEMU has no SD card that cannot be written",
            false => "say `read_only = true`, or `chmod u+w FILE`",
        };
        return Err(("cannot be written".to_string(), help.to_string()));
    }
    File::open(path).map(|file| (file, size)).map_err(|error| failed(&error))
}

/// Returns the partition table of a disk that is not made yet.
fn table_of(disk: &Disk) -> Result<Table, NoTable> {
    let mut medium = Medium::in_memory(disk.size());
    if write_table(disk, &mut medium).is_err() {
        return Err(NoTable::Unreadable);
    }
    scan(disk.sectors, |at, bytes| medium.read_at(at, bytes).is_ok())
}

/// Returns the partition table of an image, as the virtualiser will find it; `read` reads what is
/// at a byte of it.
fn scan(blocks: u64, mut read: impl FnMut(u64, &mut [u8]) -> bool) -> Result<Table, NoTable> {
    let mut scan = Scan::new(blocks, 0, MAX_READ);
    while let Some(wanted) = scan.wants() {
        let mut bytes = vec![0; wanted.blocks as usize * BLOCK];
        let is_read = read(wanted.block * BLOCK as u64, &mut bytes);
        scan.give(is_read.then_some(&bytes[..]));
    }
    scan.finish().unwrap_or(Err(NoTable::Unreadable))
}

/// Returns what a selector says, for messages.
pub fn described(selector: &str) -> String {
    match Selector::parse(selector) {
        Ok(Selector::Name(name)) => format!("partition `{name}`"),
        _ => format!("partition {}", selector.trim_start_matches("uuid=")),
    }
}

/// Returns the partitions of a table, for advice.
pub fn list(table: &Table) -> String {
    let all = table.partitions.iter().map(|partition| {
        let name: String = partition.name().collect();
        let quoted = if name.is_empty() { String::new() } else { format!(" `{name}`") };
        format!("{}{quoted}", partition.number)
    });
    all.collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt as _;

    /// A card is not to be said `read_only` of, which the next run would refuse.
    #[test]
    fn the_advice_for_an_unwritable_image_is_one_that_helps() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("card.img");
        std::fs::write(&path, [0; 1024]).expect("a file");
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o444)).expect("it is ours");
        let advice = |read_only, is_card| open(&path, Use { read_only, is_card }).err().map(|(_, help)| help);
        assert_eq!(advice(true, false), None);
        assert!(advice(false, false).expect("it cannot be written").contains("read_only"));
        let card = advice(false, true).expect("it cannot be written");
        assert!(card.contains("chmod u+w") && !card.contains("read_only"), "{card}");
    }
}
