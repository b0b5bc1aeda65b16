//! A client's writes that are not durable.
//!
//! A flush at the driver is of all clients: it makes durable what was answered before it was sent,
//! and if it fails, nobody knows what is lost of all that was not durable then. So one flush at a
//! time is there. Each client is told by its own next flush what has become of its own writes: at
//! once if a flush of another one's has covered them, or if there are none.

use culm_block::Error;

/// A client's writes and clears since its last flush that said that they are durable.
#[derive(Clone, Copy, Debug, Default)]
pub struct Unflushed {
    /// Whether some were answered since the last flush of all was sent.
    is_changed: bool,
    /// Whether the flush under way covers some.
    is_covered: bool,
    /// Whether some may be lost since a flush failed, and the client does not know.
    is_lost: bool,
}

/// The way in which a flush is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Flush {
    /// By this, at once.
    Answered(Result<(), Error>),
    /// By what becomes of another one.
    Waits,
    /// By the driver.
    Sent,
}

impl Unflushed {
    /// Begins with a client that may have writes that are not durable, or has none.
    pub fn new(is_changed: bool) -> Self {
        Self { is_changed, ..Self::default() }
    }

    /// Records that a write or clear is answered.
    #[inline]
    pub fn change(&mut self) {
        self.is_changed = true;
    }

    /// Records that a flush is sent, whosever it is.
    pub fn cover(&mut self) {
        (self.is_changed, self.is_covered) = (false, self.is_changed);
    }

    /// Records what became of the flush under way. One that did not reach the device, since its
    /// client was restarted or the medium is another one, is as if it had not been sent.
    pub fn flush_ended(&mut self, result: Result<(), Error>) {
        self.is_lost |= (self.is_covered || self.is_changed) && result == Err(Error::Failed);
        self.is_changed |= self.is_covered && result.is_err();
        self.is_covered = false;
    }

    /// Records that a flush has failed while a write was under way, or at a time that nobody knows.
    #[cold]
    pub fn lose(&mut self) {
        self.is_lost |= self.is_changed || self.is_covered;
    }

    /// Returns whether the client is still to be told that writes of its own may be lost.
    pub fn is_lost(&self) -> bool {
        self.is_lost
    }

    /// Records that the client is told that its flush has failed.
    pub fn tell(&mut self) {
        self.is_lost = false;
    }

    /// Returns how to answer a flush of the client's, while one is under way or none.
    pub fn flush(&mut self, is_under_way: bool) -> Flush {
        match self {
            _ if core::mem::take(&mut self.is_lost) => Flush::Answered(Err(Error::Failed)),
            Self { is_changed: false, is_covered: false, .. } => Flush::Answered(Ok(())),
            _ if is_under_way => Flush::Waits,
            _ => Flush::Sent,
        }
    }
}
