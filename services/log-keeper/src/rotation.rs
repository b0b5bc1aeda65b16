//! The rotation: `log.txt` becomes `log-1.txt`, what was `log-1.txt` becomes `log-2.txt`, and so on
//! up to the first number that is free; if none is, the oldest file makes way.
//!
//! Files move one by one, the oldest first, and each move is durable before the next. So a power
//! cut leaves a number free at most, which the next rotation fills, and the files in the order of
//! their numbers have the log in its order at any moment.

use alloc::format;
use alloc::string::String;
use culm_file::{Client, Done, Error, NotSent};

/// The path of the file that is written.
pub const CURRENT: &str = "/log.txt";

/// Returns the path of a full file: 1 is the newest.
pub fn full(number: u32) -> String {
    format!("/log-{number}.txt")
}

/// A rotation under way, by what is asked for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// Whether a number is free.
    Look(u32),
    /// The removal of the oldest file.
    Remove(u32),
    /// The move of a file to the number behind; 0 is the file that is written.
    Move(u32),
}

impl Rotation {
    /// The first step.
    pub const BEGIN: Self = Self::Look(1);

    /// Asks for the present step.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn ask(self, client: &mut Client<()>) -> Result<(), NotSent> {
        match self {
            Self::Look(number) => client.stat(&full(number), ()),
            Self::Remove(number) => client.remove(&full(number), ()),
            Self::Move(0) => client.rename(CURRENT, &full(1), ()),
            Self::Move(number) => client.rename(&full(number), &full(number + 1), ()),
        }
    }

    /// Takes the answer to the present step, of a rotation that keeps `count` full files; returns
    /// the next one, if it was not the last.
    ///
    /// # Errors
    ///
    /// If the rotation cannot go on; it is begun again later.
    pub fn answer(self, result: Result<Done, Error>, count: u32) -> Result<Option<Self>, Error> {
        match (self, result) {
            (Self::Look(number), Ok(_)) if number < count => Ok(Some(Self::Look(number + 1))),
            (Self::Look(number), Ok(_)) => Ok(Some(Self::Remove(number))),
            // The number is free: what is before it moves up.
            (Self::Look(number), Err(Error::NotFound)) | (Self::Remove(number), Ok(_) | Err(Error::NotFound)) => {
                Ok(Some(Self::Move(number - 1)))
            }
            // Somebody else has removed a file: there is nothing to move.
            (Self::Move(0), Ok(_) | Err(Error::NotFound)) => Ok(None),
            (Self::Move(number), Ok(_) | Err(Error::NotFound)) => Ok(Some(Self::Move(number - 1))),
            (_, Err(error)) => Err(error),
        }
    }
}
