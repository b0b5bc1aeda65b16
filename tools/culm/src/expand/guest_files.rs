//! The files that guests boot from: kernels and initial RAM disks.

use super::draft::Draft;
use super::memory::in_words;
use crate::description::guest::GuestTable;
use crate::folder;
use crate::guest::initrd;
use crate::guest::kernel::{Kernel, NoKernel};
use crate::guest::source::{self, Source, is_within};
use crate::plan::Initrd;
use culm_manifest::Located;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Advice for a path at which nothing is.
const BESIDE: &str = "a path is relative to the system file";

/// Where the named file is, and whether it can be read already; none after a mistake.
fn path(draft: &mut Draft<'_>, named: &Located<String>) -> Option<(PathBuf, bool)> {
    let Some(source) = Source::parse(&named.value) else {
        let diagnostic = draft.at(&named.span, format!("`{}` names no file of a package", named.value)).help(
            "write `debian:PACKAGE/FILE`, with the file's path in the package, or `debian:PACKAGE` for its kernel",
        );
        draft.error(diagnostic);
        return None;
    };
    let tree = &draft.catalogue.tree;
    let (path, is_there) = source.path(tree, |path| draft.beside(path));
    let Source::Debian { package, file } = source else { return Some((path, true)) };
    if !is_there || path.exists() {
        return Some((path, is_there));
    }
    let message = match file {
        Some(file) => format!("the package `{package}` has no file `{file}`"),
        None => format!("the package `{package}` has no kernel"),
    };
    let folder = source::folder(tree, package);
    let diagnostic = draft.at(&named.span, message).help(format!("what it has is in {}", folder.display()));
    draft.error(diagnostic);
    None
}

/// The kernel's file and what it needs. One that was not fetched yet is taken to fit: it is checked
/// when the system is built.
pub fn kernel(draft: &mut Draft<'_>, table: &GuestTable) -> Option<(PathBuf, Kernel)> {
    let kernel = table.kernel.as_ref()?;
    let (path, is_there) = path(draft, kernel)?;
    if !is_there {
        return Some((path, Kernel { file: 0, image: 0 }));
    }
    let error = match Kernel::read(&path) {
        Ok(found) => return Some((path, found)),
        Err(error) => error,
    };
    let (what, help) = match error {
        NoKernel::Unreadable(error) => (format!("`{}` cannot be read: {error}", kernel.value), BESIDE.to_string()),
        NoKernel::Packed { by, help } => (format!("`{}` is packed by {by}", kernel.value), help.to_string()),
        NoKernel::NoImage => (
            format!("`{}` is no arm64 Image", kernel.value),
            "a guest boots what Linux builds as `arch/arm64/boot/Image`; Debian has it in `/boot` as `vmlinuz`"
                .to_string(),
        ),
        NoKernel::BigEndian => {
            (format!("`{}` is for big-endian processors", kernel.value), "build it for little-endian ones".to_string())
        }
        NoKernel::Offset(offset) => (
            format!("`{}` wants to stand {} above the start of memory", kernel.value, in_words(offset)),
            "take a kernel whose `text_offset` is 0: Linux 5.10 or later".to_string(),
        ),
    };
    let diagnostic = draft.at(&kernel.span, what).help(help);
    draft.error(diagnostic);
    None
}

/// The initial RAM disk and its bytes; none and 0 where there is none.
pub fn initrd(draft: &mut Draft<'_>, table: &GuestTable) -> Option<(Option<Initrd>, u64)> {
    let Some(initrd) = &table.initrd else { return packed(draft, table) };
    if let Some((first, _)) = table.files.first() {
        let diagnostic = draft
            .at(&first.span, format!("`files` beside `initrd` in guest `{}`", table.name.value))
            .related(draft.source, initrd.span.clone(), "the initial RAM disk")
            .help("`files` are packed into an initial RAM disk: leave one of the two out");
        draft.error(diagnostic);
        return None;
    }
    let path = draft.beside(&initrd.value);
    let error = match std::fs::metadata(&path) {
        Ok(metadata) if metadata.is_file() => return Some((Some(Initrd::File(path)), metadata.len())),
        Ok(_) => "no regular file".to_string(),
        Err(error) => error.to_string(),
    };
    let diagnostic = draft.at(&initrd.span, format!("`{}` cannot be read: {error}", initrd.value)).help(BESIDE);
    draft.error(diagnostic);
    None
}

/// The initial RAM disk that is packed from `files`. Where something was not fetched yet, it is
/// taken to fit: it is checked when the system is built.
fn packed(draft: &mut Draft<'_>, table: &GuestTable) -> Option<(Option<Initrd>, u64)> {
    let Some((first, _)) = table.files.first() else { return Some((None, 0)) };
    let (mut files, mut are_there, mut are_well) = (BTreeMap::new(), true, true);
    for (at, named) in &table.files {
        are_well &= is_place(draft, table, at);
        match path(draft, named) {
            Some((path, is_there)) => {
                are_well &= !is_there || can_be_packed(draft, named, &path);
                are_there &= is_there;
                files.insert(at.value.clone(), path);
            }
            None => are_well = false,
        }
    }
    if !are_well {
        return None;
    }
    if !are_there {
        return Some((Some(Initrd::Packed(files)), 0));
    }
    match initrd::pack(&files) {
        Ok(bytes) => Some((Some(Initrd::Packed(files)), bytes.len() as u64)),
        // All of them could be read a moment ago.
        Err(failure) => {
            let diagnostic = draft.at(&first.span, failure.message()).help("check it again");
            draft.error(diagnostic);
            None
        }
    }
}

/// Whether a file can be at this path of the initial RAM disk; reports why not.
fn is_place(draft: &mut Draft<'_>, table: &GuestTable, at: &Located<String>) -> bool {
    let mut others =
        table.files.iter().map(|(other, _)| other).filter(|other| other.value != at.value && is_within(&other.value));
    let diagnostic = if !is_within(&at.value) {
        draft
            .at(&at.span, format!("`{}` is no path in an initial RAM disk", at.value))
            .help("write it from the root, without a slash before it and without `..`: \"bin/busybox\"")
    } else if let Some(file) = others.find(|other| Path::new(&at.value).starts_with(&other.value)) {
        draft
            .at(&at.span, format!("`{}` cannot be there: `{}` is a file", at.value, file.value))
            .related(draft.source, file.span.clone(), "the file")
            .help("give one of the two another path")
    } else {
        return true;
    };
    draft.error(diagnostic);
    false
}

/// Whether a file can be read from its beginning to its end; reports why not.
fn can_be_packed(draft: &mut Draft<'_>, named: &Located<String>, path: &Path) -> bool {
    let (message, help) = if path.is_dir() {
        (format!("`{}` is a folder", named.value), "list its files, each with its path in the initial RAM disk")
    } else {
        match folder::copy(path, &mut std::io::sink()) {
            Ok(_) => return true,
            Err(failure) => (failure.message().to_string(), "a path of the host is relative to the system file"),
        }
    };
    let diagnostic = draft.at(&named.span, message).help(help);
    draft.error(diagnostic);
    false
}
