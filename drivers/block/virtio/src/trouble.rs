//! The trouble with a device, for whoever looks at the system.
//!
//! The engine says it as a value: what a component shows has one writer in each domain. That is
//! `block` where the driver has its domain for itself, and the virtualiser where it shares it.

use core::fmt;
use culm_virtio::Unusable;

/// The reason why a device is of no use, or of none just now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// It has blocks of so many bytes, which are none that the class knows.
    Blocks(u32),
    /// It takes segments of so many bytes at most: less than one block of its own.
    Segments(u32),
    /// It has failed, and could not be set up again.
    Unusable(Unusable),
    /// It has answered so many requests by an error, or without saying how they went.
    Requests(u32),
    /// It fails again and again, and is left alone for a while before its next reset.
    Resting,
}

impl fmt::Display for Trouble {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Blocks(bytes) => {
                write!(formatter, "there is no disk: the device has blocks of {bytes} bytes, ")?;
                formatter.write_str("and only powers of two from 512 to 65536 can be used")
            }
            Self::Segments(bytes) => {
                write!(
                    formatter,
                    "there is no disk: the device takes {bytes} bytes at once, less than a block of its own"
                )
            }
            // It may still be at work in the memory of requests.
            Self::Unusable(Unusable::Stuck) => {
                formatter.write_str("the device has failed and does not reset: requests wait, and it is tried again")
            }
            Self::Unusable(reason) => {
                write!(
                    formatter,
                    "there is no disk: the device has failed, cannot be used, and is tried again: {reason}"
                )
            }
            Self::Requests(failed) => {
                write!(formatter, "requests fail: {failed} so far; the disk, or what holds it, may be damaged")
            }
            Self::Resting => formatter.write_str("the device fails again and again: requests wait for its next reset"),
        }
    }
}
