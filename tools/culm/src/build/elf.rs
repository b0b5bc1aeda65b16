//! ELF files, as far as the layout needs to read them.

use crate::failure::Failure;
use culm_abi::system::KernelLayout;
use object::elf::{PF_W, PF_X, PT_LOAD};
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection};
use std::path::{Path, PathBuf};
use zerocopy::FromBytes;

/// A program, as linked.
#[derive(Clone, Debug)]
pub struct Program {
    /// Where the file is.
    pub path: PathBuf,
    /// Virtual address of the entry point.
    pub entry: u64,
    /// Segments to load, sorted by [`Segment::load_address`].
    pub segments: Vec<Segment>,
}

/// A part of a program that is loaded (`PT_LOAD`).
#[derive(Clone, Debug)]
pub struct Segment {
    /// Virtual address at which the program uses it.
    pub address: u64,
    /// Virtual address at which its content is put (`p_paddr`): another than `address` where the
    /// program copies its initialised data by itself.
    pub load_address: u64,
    /// Bytes that it takes at `address`.
    pub size: u64,
    /// Its content; what is missing up to `size` is zero.
    pub content: Vec<u8>,
    /// The program writes it.
    pub write: bool,
    /// The program executes it.
    pub execute: bool,
}

impl Program {
    /// Reads the ELF file at `path`.
    pub fn read(path: &Path) -> Result<Self, Failure> {
        let data = read(path)?;
        let file = parse(path, &data)?;
        let endian = file.endian();
        let mut segments = Vec::new();
        for header in file.elf_program_headers() {
            if header.p_type(endian) != PT_LOAD || header.p_memsz(endian) == 0 {
                continue;
            }
            let content = header
                .data(endian, &*data)
                .map_err(|()| Failure::new(format!("{} is cut short: a segment lies outside it", path.display())))?;
            segments.push(Segment {
                address: header.p_vaddr(endian),
                load_address: header.p_paddr(endian),
                size: header.p_memsz(endian),
                content: content.to_vec(),
                write: header.p_flags(endian).0 & PF_W.0 != 0,
                execute: header.p_flags(endian).0 & PF_X.0 != 0,
            });
        }
        segments.sort_by_key(|segment| segment.load_address);
        if let Some(segment) = segments.iter().find(|segment| segment.write && segment.execute) {
            return Err(Failure::new(format!(
                "{} has a segment at {:#x} that is both writable and executable",
                path.display(),
                segment.address
            ))
            .help("link it with the linker script of the runtime"));
        }
        Ok(Self { path: path.into(), entry: file.entry(), segments })
    }

    /// Bytes of code.
    pub fn text_size(&self) -> u64 {
        self.segments.iter().filter(|segment| segment.execute).map(|segment| segment.size).sum()
    }

    /// Bytes of constants.
    pub fn rodata_size(&self) -> u64 {
        self.segments.iter().filter(|segment| !segment.execute && !segment.write).map(|segment| segment.size).sum()
    }

    /// Bytes of data that the program writes, initialised or zero.
    pub fn data_size(&self) -> u64 {
        self.segments.iter().filter(|segment| segment.write).map(|segment| segment.size).sum()
    }
}

/// Reads the sizes of its state that the kernel tells in the section `.culm.layout`.
pub fn kernel_layout(path: &Path) -> Result<KernelLayout, Failure> {
    let data = read(path)?;
    let file = parse(path, &data)?;
    let section = file
        .section_by_name(".culm.layout")
        .and_then(|section| section.data().ok())
        .ok_or_else(|| Failure::new(format!("{} has no section `.culm.layout`", path.display())))?;
    let (layout, _) = KernelLayout::read_from_prefix(section).map_err(|_| {
        Failure::new(format!("the section `.culm.layout` of {} is {} bytes short", path.display(), section.len()))
    })?;
    if layout.version != culm_abi::VERSION {
        return Err(Failure::new(format!(
            "the kernel has version {} of the tables, this tool version {}",
            layout.version,
            culm_abi::VERSION
        ))
        .help("build both from the same sources"));
    }
    Ok(layout)
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    std::fs::read(path).map_err(|error| Failure::io(format_args!("read {}", path.display()), &error))
}

fn parse<'data>(path: &Path, data: &'data [u8]) -> Result<ElfFile64<'data, Endianness>, Failure> {
    ElfFile64::<Endianness>::parse(data)
        .map_err(|error| Failure::new(format!("{} is not a 64-bit ELF file: {error}", path.display())))
}
