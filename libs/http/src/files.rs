//! Files that are not in memory: on a disk, behind a service, anywhere that takes time to answer.
//!
//! Nothing here waits. What a connection asks for is begun, and asked after again when whoever
//! implements [`Files`] has said to the server that there is news of that slot
//! ([`Server::ready`](crate::Server::ready)). Each slot has one thing under way at a time, from
//! [`Files::begin`] to [`Files::close`].
//!
//! A file is replaced as a whole: what is uploaded has another place until [`Files::commit`] is
//! done, and a reader that has begun with the old file ends with it.

use crate::caching;
use crate::response::{Head, Refusal, Status};
use core::net::IpAddr;

/// The operations on files that clients are offered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Offer {
    /// There are none.
    #[default]
    Nothing,
    /// Read them.
    Read,
    /// Read them; and with permission replace and remove them.
    Write {
        /// Bytes that an upload may have: 413 beyond.
        limit: u64,
    },
}

/// The reason for which a path is looked up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// To send the file.
    Read,
    /// To replace or remove it. From here to [`Files::close`] no other slot changes what is at the
    /// path.
    Change,
}

/// A path's content.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Found {
    /// A file.
    File(Entry),
    /// A folder.
    Folder,
    /// Nothing.
    Missing,
}

/// The properties of a file that responses tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its bytes.
    pub length: u64,
    /// A number that is another one after each change.
    pub version: u64,
    /// Whether `version` is a strong validator (RFC 9110 §8.8.1): sure to be another one after the
    /// next change. If not, two contents may have one version, and the entity tag is a weak one.
    pub is_strong: bool,
    /// When it was changed, as HTTP writes it, if that is known.
    pub modified: Option<[u8; 29]>,
}

/// The head of the response with all of a file, without its date and its end. It is made when the
/// file is sent first; a file that is opened anew has an empty one.
#[derive(Default)]
pub struct KeptHead {
    head: Option<Head>,
    /// Whether the entity tag in it is a strong one.
    is_strong: bool,
}

impl KeptHead {
    /// The head for a file with these properties, if it was made.
    #[inline]
    pub(crate) fn of(&self, entry: &Entry) -> Option<&[u8]> {
        self.head.as_ref().filter(|_| self.is_strong == entry.is_strong).map(Head::as_bytes)
    }

    pub(crate) fn keep(&mut self, head: Head, entry: &Entry) {
        (self.head, self.is_strong) = (Some(head), entry.is_strong);
    }
}

/// The reason why something cannot be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Too much else is under way.
    Busy,
    /// No file can have such a name.
    BadName,
    /// The folder that the file would be in is not there.
    NoFolder,
    /// There is no room.
    Full,
    /// No file can be as long as that.
    TooLarge,
    /// The files cannot be changed now.
    ReadOnly,
    /// Another file is at the path than the one that was found.
    Changed,
    /// The medium failed, or whoever answers for it.
    Failed,
    /// It is not known whether a change was made.
    Unknown,
}

impl Trouble {
    /// The answer to a client.
    pub(crate) const fn refusal(self) -> Refusal {
        match self {
            Self::Busy => Refusal::new(Status::Unavailable, "Too much is under way. Try again in a moment.")
                .with("Retry-After: 1\r\n"),
            Self::BadName => Refusal::new(Status::BadRequest, "No file can have this name here."),
            Self::NoFolder => Refusal::new(Status::Conflict, "The folder that the file would be in is not there."),
            Self::Full => Refusal::new(Status::InsufficientStorage, "There is no room for this."),
            Self::TooLarge => Refusal::new(Status::ContentTooLarge, "No file here can be as long as that."),
            Self::ReadOnly => Refusal::new(Status::Forbidden, "These files cannot be changed."),
            Self::Changed => Refusal::new(Status::Unavailable, "The file was changed meanwhile. Try again.")
                .with("Retry-After: 1\r\n"),
            Self::Failed => Refusal::new(Status::InternalError, "The medium of the files failed."),
            Self::Unknown => {
                Refusal::new(Status::Unavailable, "It is not known whether this was done.").with("Retry-After: 1\r\n")
            }
        }
    }
}

/// Whether a client may change files, or do what else a token guards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Permission {
    /// It may.
    Granted,
    /// Its token is not the one, or it has none.
    Denied,
    /// It has guessed too often, and must wait; whether its token is the one was not looked at.
    Later,
}

/// Files that take time to answer, and the permission to change them.
///
/// Paths are relative to the root, `/` between folders, without empty segments and segments of
/// dots.
pub trait Files {
    /// Returns what clients are offered, which does not change.
    fn offer(&self) -> Offer;

    /// Whether the client at `peer`, which has sent this token, may change files.
    fn permit(&mut self, token: Option<&[u8]>, peer: Option<IpAddr>, now: u64) -> Permission;

    /// Begins to look up `path` for the connection in `slot`, which has nothing under way.
    fn begin(&mut self, slot: usize, purpose: Purpose, path: &str);

    /// Returns the path's content, once that is known.
    fn found(&mut self, slot: usize) -> Option<Result<Found, Trouble>>;

    /// Returns how many bytes of the file from `at` on are here for [`Self::take`]: no more than
    /// `count`, which is not 0; 0 while they are on their way. No more are asked for than are sent
    /// at once.
    ///
    /// # Errors
    ///
    /// If they cannot be had.
    fn fetch(&mut self, slot: usize, at: u64, count: usize) -> Result<usize, Trouble>;

    /// Copies bytes from `at` on that are here. Returns how many: as many as `into` has, if
    /// [`Self::fetch`] has said in this turn that there are so many. Files may forget those that
    /// were taken.
    fn take(&mut self, slot: usize, at: u64, into: &mut [u8]) -> usize;

    /// Returns room for the head that goes in front of the file, for all who read it and find the
    /// same [`Entry`]; nothing if there is no such room.
    fn kept_head(&mut self, slot: usize) -> Option<&mut KeptHead> {
        let _ = slot;
        None
    }

    /// Begins a new file to be put at the path: of so many bytes, if that is known. [`Self::done`]
    /// says whether it can be written: [`Trouble::Full`] if there is no room for them beside what
    /// is there.
    fn replace(&mut self, slot: usize, length: Option<u64>);

    /// Takes bytes of the new file, and returns how many.
    ///
    /// # Errors
    ///
    /// If they, or earlier ones, cannot be written.
    fn write(&mut self, slot: usize, bytes: &[u8]) -> Result<usize, Trouble>;

    /// Puts the new file, which is complete, at the path. It is there to stay when [`Self::done`]
    /// says so.
    fn commit(&mut self, slot: usize);

    /// Begins to remove the file at the path.
    fn remove(&mut self, slot: usize);

    /// The end of what [`Self::replace`], [`Self::commit`] or [`Self::remove`] began, once it is
    /// known.
    fn done(&mut self, slot: usize) -> Option<Result<(), Trouble>>;

    /// Ends what the slot has under way, if anything. A new file that was not committed is gone.
    fn close(&mut self, slot: usize);

    /// Returns the `Cache-Control` of the file at `path`.
    fn cache_control(&self, path: &str) -> &str {
        let _ = path;
        caching::DEFAULT
    }
}

/// A server without such files: nothing is ever begun.
impl Files for () {
    fn offer(&self) -> Offer {
        Offer::Nothing
    }

    fn permit(&mut self, _: Option<&[u8]>, _: Option<IpAddr>, _: u64) -> Permission {
        Permission::Denied
    }

    fn begin(&mut self, _: usize, _: Purpose, _: &str) {}

    fn found(&mut self, _: usize) -> Option<Result<Found, Trouble>> {
        Some(Ok(Found::Missing))
    }

    fn fetch(&mut self, _: usize, _: u64, _: usize) -> Result<usize, Trouble> {
        Err(Trouble::Failed)
    }

    fn take(&mut self, _: usize, _: u64, _: &mut [u8]) -> usize {
        0
    }

    fn replace(&mut self, _: usize, _: Option<u64>) {}

    fn write(&mut self, _: usize, _: &[u8]) -> Result<usize, Trouble> {
        Err(Trouble::Failed)
    }

    fn commit(&mut self, _: usize) {}

    fn remove(&mut self, _: usize) {}

    fn done(&mut self, _: usize) -> Option<Result<(), Trouble>> {
        Some(Err(Trouble::Failed))
    }

    fn close(&mut self, _: usize) {}
}

/// A server that has files, or none.
impl<F: Files> Files for Option<F> {
    fn offer(&self) -> Offer {
        self.as_ref().map_or(Offer::Nothing, Files::offer)
    }

    fn permit(&mut self, token: Option<&[u8]>, peer: Option<IpAddr>, now: u64) -> Permission {
        self.as_mut().map_or(Permission::Denied, |files| files.permit(token, peer, now))
    }

    fn begin(&mut self, slot: usize, purpose: Purpose, path: &str) {
        if let Some(files) = self {
            files.begin(slot, purpose, path);
        }
    }

    fn found(&mut self, slot: usize) -> Option<Result<Found, Trouble>> {
        self.as_mut().map_or(Some(Ok(Found::Missing)), |files| files.found(slot))
    }

    #[inline]
    fn fetch(&mut self, slot: usize, at: u64, count: usize) -> Result<usize, Trouble> {
        self.as_mut().map_or(Err(Trouble::Failed), |files| files.fetch(slot, at, count))
    }

    #[inline]
    fn take(&mut self, slot: usize, at: u64, into: &mut [u8]) -> usize {
        self.as_mut().map_or(0, |files| files.take(slot, at, into))
    }

    #[inline]
    fn kept_head(&mut self, slot: usize) -> Option<&mut KeptHead> {
        self.as_mut()?.kept_head(slot)
    }

    fn replace(&mut self, slot: usize, length: Option<u64>) {
        if let Some(files) = self {
            files.replace(slot, length);
        }
    }

    fn write(&mut self, slot: usize, bytes: &[u8]) -> Result<usize, Trouble> {
        self.as_mut().map_or(Err(Trouble::Failed), |files| files.write(slot, bytes))
    }

    fn commit(&mut self, slot: usize) {
        if let Some(files) = self {
            files.commit(slot);
        }
    }

    fn remove(&mut self, slot: usize) {
        if let Some(files) = self {
            files.remove(slot);
        }
    }

    fn done(&mut self, slot: usize) -> Option<Result<(), Trouble>> {
        self.as_mut().map_or(Some(Err(Trouble::Failed)), |files| files.done(slot))
    }

    fn close(&mut self, slot: usize) {
        if let Some(files) = self {
            files.close(slot);
        }
    }

    fn cache_control(&self, path: &str) -> &str {
        self.as_ref().map_or(caching::DEFAULT, |files| files.cache_control(path))
    }
}
