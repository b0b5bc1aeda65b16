//! Errors of the volume and of the disk, as clients of files are told of them.

use culm_file::Error;

/// Returns what a client is told of an error of the volume's.
pub fn of_volume(error: culm_fat::Error) -> Error {
    use culm_fat::Error as Fat;
    match error {
        Fat::NotFound => Error::NotFound,
        Fat::NotAFolder | Fat::IsAFolder => Error::WrongKind,
        Fat::Exists => Error::Exists,
        Fat::NotEmpty => Error::NotEmpty,
        Fat::BadPath => Error::Name,
        Fat::IntoItself | Fat::BadFile => Error::Invalid,
        Fat::Full | Fat::FolderFull | Fat::TooLarge | Fat::Fragmented => Error::Full,
        Fat::FolderTooLong => Error::Unsupported,
        Fat::TooManyOpen => Error::TooMany,
        Fat::Busy => Error::Busy,
        Fat::ReadOnly => Error::ReadOnly,
        Fat::Corrupt | Fat::NotFat(_) => Error::Damaged,
        Fat::Failed | Fat::NotReady => Error::Failed,
    }
}

/// Returns what a client is told of an error of the disk's.
pub fn of_disk(error: culm_block::Error) -> Error {
    use culm_block::Error as Disk;
    match error {
        Disk::Absent => Error::Absent,
        Disk::Changed => Error::Changed,
        Disk::ReadOnly => Error::ReadOnly,
        Disk::Invalid | Disk::OutOfRange | Disk::Unsupported | Disk::Failed => Error::Failed,
    }
}
