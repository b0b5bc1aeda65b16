//! Why an operation ends without its effect.

use core::fmt;

/// The reason why an operation failed. Unless it says otherwise, the operation had no effect.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Error {
    /// There is no such file or folder.
    NotFound,
    /// A name on the way, or the last one, is a file's where a folder is needed.
    NotAFolder,
    /// The path is a folder's where a file is needed.
    IsAFolder,
    /// The name is there already.
    Exists,
    /// The folder is not empty.
    NotEmpty,
    /// The path is none: empty or long names, `.`, `..`, characters that a name cannot have, or too
    /// many folders ([`crate::MAX_PATH`], [`crate::MAX_DEPTH`]).
    BadPath,
    /// The folder would be moved into itself.
    IntoItself,
    /// There is no space on the volume.
    Full,
    /// The folder has as many entries as it can have.
    FolderFull,
    /// The folder is too long for the cache.
    FolderTooLong,
    /// The file would be larger than [`crate::MAX_FILE`].
    TooLarge,
    /// The free space is in too many pieces for one file.
    Fragmented,
    /// As many files as possible are open.
    TooManyOpen,
    /// The file is being written by somebody else.
    Busy,
    /// There is no open file of this number, or it is not open for writing, or it was new and could
    /// not be named when it was published.
    BadFile,
    /// The file, or the volume, cannot be written.
    ReadOnly,
    /// The volume is damaged in what the operation had to look at.
    Corrupt,
    /// The volume is none that is understood.
    NotFat(NotFat),
    /// The medium failed. After a failed write or flush the operation may have had its effect in
    /// part, and the volume must be mounted again; after a failed read it stays mounted.
    Failed,
    /// The volume is not mounted, or another operation has not ended.
    NotReady,
}

/// The reason why a volume is not understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotFat {
    /// There is no boot sector with a FAT's fields.
    NoBootSector,
    /// It is exFAT.
    ExFat,
    /// It is NTFS.
    Ntfs,
    /// It is FAT12: fewer than 4085 clusters.
    Fat12,
    /// It has fields of FAT32 and too few clusters for it, or the other way round.
    WrongCount,
    /// A field of the boot sector is outside what FAT allows.
    BadField,
    /// A cluster is larger than 64 KiB.
    LargeClusters,
    /// It is longer than its partition.
    TooLong,
    /// Its clusters do not begin at blocks of the device.
    Unaligned,
}

impl fmt::Display for NotFat {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NoBootSector => "there is no boot sector of FAT",
            Self::ExFat => "it is exFAT, which is not supported: format it as FAT32",
            Self::Ntfs => "it is NTFS, which is not supported: format it as FAT32",
            Self::Fat12 => "it is FAT12, which is not supported: make it larger, or its clusters smaller",
            Self::WrongCount => "its count of clusters is not that of its kind of FAT",
            Self::BadField => "its boot sector has fields that FAT does not allow",
            Self::LargeClusters => "its clusters are larger than 64 KiB",
            Self::TooLong => "it is longer than its partition",
            Self::Unaligned => "its clusters do not begin at blocks of the device",
        })
    }
}

impl fmt::Display for Error {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::NotFound => "there is no such file or folder",
            Self::NotAFolder => "it is not a folder",
            Self::IsAFolder => "it is a folder",
            Self::Exists => "the name is there already",
            Self::NotEmpty => "the folder is not empty",
            Self::BadPath => "the path is none",
            Self::IntoItself => "a folder cannot be moved into itself",
            Self::Full => "the volume is full",
            Self::FolderFull => "the folder is full",
            Self::FolderTooLong => "the folder is too long for the cache",
            Self::TooLarge => "the file would be too large",
            Self::Fragmented => "the free space is in too many pieces",
            Self::TooManyOpen => "too many files are open",
            Self::Busy => "the file is being written",
            Self::BadFile => "the file is not open, or not so",
            Self::ReadOnly => "it cannot be written",
            Self::Corrupt => "the volume is damaged",
            Self::NotFat(reason) => return reason.fmt(formatter),
            Self::Failed => "the medium failed",
            Self::NotReady => "the volume is not ready",
        })
    }
}

impl core::error::Error for Error {}
impl core::error::Error for NotFat {}
