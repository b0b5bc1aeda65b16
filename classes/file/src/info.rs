//! Files' and volumes' properties, and how a file's lie in the client's memory: in the last
//! [`SIZE`] bytes of those that a request with a path has, in little-endian words.

use culm::Region;
use culm::region::OutOfBounds;

/// Bytes of an [`Info`] in memory.
pub const SIZE: usize = 64;

/// A file or folder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Info {
    /// It is a folder.
    pub is_folder: bool,
    /// It can only be read, whoever asks.
    pub is_read_only: bool,
    /// Bytes of a file; 0 of a folder.
    pub size: u64,
    /// When it was changed, in seconds since 1970 by the clock of whoever wrote it, which on most
    /// media is local time of an unknown zone; 0 if that is not known.
    pub modified: u64,
    /// A number for the content's place on the medium. A file that takes the place of another one
    /// has another number while both are there.
    pub mark: u64,
}

/// Bits of an [`Info`]'s last word.
mod flag {
    pub const FOLDER: u64 = 1 << 0;
    pub const READ_ONLY: u64 = 1 << 1;
}

impl Info {
    /// Returns whether the two can be taken for the same content.
    pub fn is_same(&self, other: &Self) -> bool {
        self == other
    }

    /// Writes it to memory.
    ///
    /// # Errors
    ///
    /// If the memory has no [`SIZE`] bytes there.
    pub fn write(&self, memory: &Region, offset: usize) -> Result<(), OutOfBounds> {
        let flag = |is: bool, flag: u64| if is { flag } else { 0 };
        let flags = flag(self.is_folder, flag::FOLDER) | flag(self.is_read_only, flag::READ_ONLY);
        let words = [self.size, self.modified, self.mark, flags, 0, 0, 0, 0];
        memory.store::<[u64; SIZE / 8]>(offset, &words.map(u64::to_le))
    }

    /// Reads it from memory, in which a peer may have written anything.
    ///
    /// # Errors
    ///
    /// If the memory has no [`SIZE`] bytes there.
    pub fn read(memory: &Region, offset: usize) -> Result<Self, OutOfBounds> {
        let words: [u64; SIZE / 8] = memory.load(offset)?;
        let [size, modified, mark, flags, ..] = words.map(u64::from_le);
        let is = |flag: u64| flags & flag != 0;
        Ok(Self { is_folder: is(flag::FOLDER), is_read_only: is(flag::READ_ONLY), size, modified, mark })
    }
}

/// The volume with a client's files, or why there is none.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Volume {
    /// Its number: another one if another medium is there. The provider's next life gives the same
    /// volume the same number.
    pub number: u32,
    /// The client can change nothing.
    pub read_only: bool,
    /// The error of every request, if there is no volume that can be used; `number` is 0 then.
    pub fault: Option<crate::Error>,
}

impl Volume {
    /// No medium.
    pub const ABSENT: Self = Self { number: 0, read_only: false, fault: Some(crate::Error::Absent) };

    /// Creates a volume that can be used; `number` is not 0.
    pub const fn new(number: u32, read_only: bool) -> Self {
        Self { number, read_only, fault: None }
    }

    /// Returns whether files can be asked for.
    #[inline(always)]
    pub const fn is_present(&self) -> bool {
        self.fault.is_none()
    }

    /// Returns whether it is one or the other: a peer may have written anything.
    pub const fn is_valid(&self) -> bool {
        self.fault.is_none() == (self.number != 0)
    }
}
