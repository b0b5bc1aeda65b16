//! The file that a device of an emulated machine has for its disk.

use crate::expand::draft::Draft;
use crate::plan::HostFile;
use culm_abi::connection::block::BLOCK;
use culm_manifest::Located;
use culm_partition::{MAX_READ, NoTable, Scan, Selector, Table};
use std::fs::{File, Metadata};
use std::io::ErrorKind;
use std::ops::Range;
use std::os::unix::fs::FileExt as _;
use std::path::Path;

/// The file, and what is on the disk.
pub struct Image {
    /// The file.
    pub file: HostFile,
    /// Its name in messages.
    pub name: String,
    /// Where the system file names it.
    pub at: Range<usize>,
    /// Blocks of the disk.
    pub blocks: u64,
    /// Its partitions.
    pub table: Result<Table, NoTable>,
}

/// An image that a description names.
pub enum Found {
    /// A file that is there.
    Given(Located<String>),
    /// One of so many blocks that the first run makes.
    Made(Located<u64>),
}

/// Returns the image that the device's table at `header` names, by a path or a count of blocks;
/// reports if it names none or two.
pub fn find(
    draft: &mut Draft<'_>,
    header: &Range<usize>,
    given: Option<Located<String>>,
    size: Option<Located<u64>>,
) -> Option<Found> {
    let board = &draft.board.board;
    let (name, is_emulated) = (board.name.clone(), board.qemu.is_some());
    let diagnostic = match (given, size) {
        (Some(given), Some(size)) => draft
            .at(&size.span, "the image has its size already")
            .related(draft.source, given.span, "the image")
            .help("leave out `size`; without `image`, the first run makes an empty one of that size"),
        (None, None) if is_emulated => draft
            .at(header, "the emulated disk has no image")
            .help("add `image = \"…\"`, a file that is there, or `size = \"64MiB\"` for an empty one that the first run makes"),
        (None, None) => return None,
        (Some(Located { span, .. }), None) | (None, Some(Located { span, .. })) if !is_emulated => draft
            .at(&span, format!("QEMU does not emulate the board `{name}`: its disk is no file"))
            .help("leave out `image` and `size`"),
        (Some(given), None) => return Some(Found::Given(given)),
        (None, Some(size)) => return Some(Found::Made(size)),
    };
    draft.error(diagnostic);
    None
}

/// Returns what is in an image; reports why it cannot serve.
pub fn read(draft: &mut Draft<'_>, found: Found, read_only: bool) -> Option<Image> {
    let given = match found {
        Found::Given(given) => given,
        Found::Made(blocks) => {
            let size = blocks.value * BLOCK as u64;
            let file = HostFile { path: None, size, read_only };
            let (name, table) = ("the empty image".to_string(), Err(NoTable::None));
            return Some(Image { file, name, at: blocks.span, blocks: blocks.value, table });
        }
    };
    let path = draft.beside(&given.value);
    match open(&path, read_only) {
        Ok((file, size)) => {
            let blocks = size / BLOCK as u64;
            let table = scan(&file, blocks);
            let file = HostFile { path: Some(path), size, read_only };
            Some(Image { file, name: format!("`{}`", given.value), at: given.span, blocks, table })
        }
        Err((what, help)) => {
            let diagnostic = draft.at(&given.span, format!("`{}` {what}", given.value)).help(help);
            draft.error(diagnostic);
            None
        }
    }
}

/// Opens an image; returns its bytes too. An error is what is wrong with it, and what to do.
fn open(path: &Path, read_only: bool) -> Result<(File, u64), (String, String)> {
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
    if !read_only && metadata.permissions().readonly() {
        return Err(("cannot be written".to_string(), "say `read_only = true`, or `chmod u+w FILE`".to_string()));
    }
    File::open(path).map(|file| (file, size)).map_err(|error| failed(&error))
}

/// Returns the partition table of an image, as the virtualiser will find it.
fn scan(file: &File, blocks: u64) -> Result<Table, NoTable> {
    let mut scan = Scan::new(blocks, 0, MAX_READ);
    while let Some(read) = scan.wants() {
        let mut bytes = vec![0; read.blocks as usize * BLOCK];
        let is_read = file.read_exact_at(&mut bytes, read.block * BLOCK as u64).is_ok();
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
