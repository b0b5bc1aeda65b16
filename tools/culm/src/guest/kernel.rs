//! The header of a guest's kernel: an arm64 Image (Linux, Documentation/arch/arm64/booting.rst).

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

/// Bytes of the header.
const HEADER: usize = 64;

/// Forms in which kernels are packed, which Debian does not use and others do: what such a file has
/// at which place, the form's name, and how to unpack it.
const PACKED: &[(usize, &[u8], &str, &str)] = &[
    (0, &[0x1f, 0x8b], "gzip", "unpack it: `gzip -dc FILE > NEW`"),
    (0, b"\xfd7zXZ\0", "xz", "unpack it: `xz -dc FILE > NEW`"),
    (0, &[0x28, 0xb5, 0x2f, 0xfd], "zstd", "unpack it: `zstd -dc FILE > NEW`"),
    // Linux, drivers/firmware/efi/libstub/zboot-header.S.
    (4, b"zimg", "EFI zboot", "take `arch/arm64/boot/Image` from the same build, or build without CONFIG_EFI_ZBOOT"),
];

/// The most bytes that a kernel can use: what a processor can address without FEAT_LPA (Arm ARM,
/// D8.1). A header that says more is none, and sums with it could overflow.
const LARGEST: u64 = 1 << 48;

/// A kernel's needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Kernel {
    /// Bytes of its file.
    pub file: u64,
    /// Bytes from its beginning that it uses.
    pub image: u64,
}

/// Why a file is no kernel for a guest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NoKernel {
    /// It cannot be read, in the operating system's words.
    Unreadable(String),
    /// It is packed.
    Packed {
        /// The form's name.
        by: &'static str,
        /// How to unpack it.
        help: &'static str,
    },
    /// It has no header of an arm64 Image.
    NoImage,
    /// It is for big-endian processors.
    BigEndian,
    /// It wants to stand at this offset, not at the beginning of memory.
    Offset(u64),
}

impl Kernel {
    /// Reads the header of the file at `path`.
    pub fn read(path: &Path) -> Result<Self, NoKernel> {
        let unreadable = |error: std::io::Error| NoKernel::Unreadable(error.to_string());
        let file = File::open(path).map_err(unreadable)?;
        let metadata = file.metadata().map_err(unreadable)?;
        if !metadata.is_file() {
            return Err(NoKernel::Unreadable("no regular file".to_string()));
        }
        let mut header = Vec::new();
        file.take(HEADER as u64).read_to_end(&mut header).map_err(unreadable)?;
        Self::from_header(&header, metadata.len())
    }

    fn from_header(header: &[u8], file: u64) -> Result<Self, NoKernel> {
        let is_there =
            |(at, sign, ..): &&(usize, &[u8], _, _)| header.get(*at..).is_some_and(|rest| rest.starts_with(sign));
        if let Some(&(_, _, by, help)) = PACKED.iter().find(is_there) {
            return Err(NoKernel::Packed { by, help });
        }
        let Ok(header) = <&[u8; HEADER]>::try_from(header) else { return Err(NoKernel::NoImage) };
        let word = |at: usize| header[at..at + 8].iter().rev().fold(0, |word, byte| word << 8 | u64::from(*byte));
        let (offset, image, flags) = (word(8), word(16), word(24));
        if header[56..60] != *b"ARM\x64" || image == 0 || image > LARGEST {
            return Err(NoKernel::NoImage);
        }
        if flags & 1 != 0 {
            return Err(NoKernel::BigEndian);
        }
        if offset != 0 {
            return Err(NoKernel::Offset(offset));
        }
        Ok(Self { file, image: image.max(file) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(offset: u64, image: u64, flags: u64, magic: &[u8; 4]) -> Vec<u8> {
        let mut header = vec![0; HEADER];
        for (at, word) in [(8, offset), (16, image), (24, flags)] {
            header[at..at + 8].copy_from_slice(&word.to_le_bytes());
        }
        header[56..60].copy_from_slice(magic);
        header
    }

    #[test]
    fn a_header_tells_what_the_kernel_needs() {
        let read = |header: Vec<u8>| Kernel::from_header(&header, 5000);
        assert_eq!(read(header(0, 9000, 0b1010, b"ARM\x64")), Ok(Kernel { file: 5000, image: 9000 }));
        assert_eq!(read(header(0, 100, 0, b"ARM\x64")), Ok(Kernel { file: 5000, image: 5000 }));
        assert_eq!(read(header(0, 0, 0, b"ARM\x64")), Err(NoKernel::NoImage));
        assert_eq!(read(header(0, u64::MAX, 0, b"ARM\x64")), Err(NoKernel::NoImage));
        assert_eq!(read(header(0, 9000, 0, b"ELF!")), Err(NoKernel::NoImage));
        assert_eq!(read(header(0, 9000, 1, b"ARM\x64")), Err(NoKernel::BigEndian));
        assert_eq!(read(header(0x8_0000, 9000, 0, b"ARM\x64")), Err(NoKernel::Offset(0x8_0000)));
        assert_eq!(read(vec![0; 63]), Err(NoKernel::NoImage));
    }

    #[test]
    fn a_packed_kernel_is_told_from_none() {
        let by = |header: &[u8]| match Kernel::from_header(header, 5000) {
            Err(NoKernel::Packed { by, .. }) => Some(by),
            _ => None,
        };
        assert_eq!(by(b"\x1f\x8b\x08"), Some("gzip"));
        assert_eq!(by(b"\xfd7zXZ\0\0\x04"), Some("xz"));
        assert_eq!(by(b"\x28\xb5\x2f\xfd\x04"), Some("zstd"));
        assert_eq!(by(b"MZ\0\0zimg\0\x20"), Some("EFI zboot"));
        assert_eq!(by(b"MZ\0\0zim"), None);
        assert_eq!(by(&header(0, 9000, 0, b"ARM\x64")), None);
    }
}
