//! The rotation of a series of files: `log.txt` becomes `log-1.txt`, what was `log-1.txt` becomes
//! `log-2.txt`, and so on up to the first number that is free; if none is, the oldest file makes
//! way. If there is no `log.txt`, an earlier rotation has moved it, and nothing is done.
//!
//! Files move one by one, the oldest first, and each move is durable before the next. So a power
//! cut leaves a number free at most, which the next rotation fills, and the files in the order of
//! their numbers are the series in its order at any moment.

use alloc::format;
use alloc::string::String;
use culm_file::{Client, Error, NotSent};

/// The greatest number of a file that any configuration allows.
const MOST: u32 = 99;

/// A series of files: the newest, and those before it by their numbers.
#[derive(Clone, Copy, Debug)]
pub struct Series {
    /// The first part of the files' names.
    name: &'static str,
    /// How many files with a number are kept.
    count: u32,
    /// Files beyond them, which a greater count in an earlier configuration has left, were looked
    /// for.
    is_trimmed: bool,
}

impl Series {
    /// The series of this name, which keeps so many files with a number.
    pub fn new(name: &'static str, count: u32) -> Self {
        Self { name, count, is_trimmed: false }
    }

    /// Returns how many files with a number are kept.
    pub fn count(&self) -> u32 {
        self.count
    }

    /// Returns the path of the newest file.
    pub fn newest(&self) -> String {
        format!("/{}.txt", self.name)
    }

    /// Returns the path of a file before it: 1 is the last one.
    pub fn numbered(&self, number: u32) -> String {
        format!("/{}-{number}.txt", self.name)
    }
}

/// A rotation under way, by what is asked for next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Rotation {
    /// The removal of a file beyond those that are kept, the oldest first.
    Trim(u32),
    /// Whether a number is free; 0 is the newest file.
    Look(u32),
    /// The removal of the oldest file.
    Remove(u32),
    /// The move of a file to the number behind; 0 is the newest.
    Move(u32),
}

impl Rotation {
    /// Returns the first step.
    pub fn begin(series: &Series) -> Self {
        if series.is_trimmed || series.count >= MOST { Self::Look(0) } else { Self::Trim(MOST) }
    }

    /// Asks for the present step.
    ///
    /// # Errors
    ///
    /// See [`NotSent`].
    pub fn ask(self, series: &Series, client: &mut Client<()>) -> Result<(), NotSent> {
        match self {
            Self::Look(0) => client.stat(&series.newest(), ()),
            Self::Look(number) => client.stat(&series.numbered(number), ()),
            Self::Trim(number) | Self::Remove(number) => client.remove(&series.numbered(number), ()),
            Self::Move(0) => client.rename(&series.newest(), &series.numbered(1), ()),
            Self::Move(number) => client.rename(&series.numbered(number), &series.numbered(number + 1), ()),
        }
    }

    /// Takes the answer to the present step; returns the next one, if it was not the last.
    ///
    /// # Errors
    ///
    /// If the rotation cannot go on; it is begun again later.
    pub fn answer(self, series: &mut Series, result: Result<(), Error>) -> Result<Option<Self>, Error> {
        match (self, result) {
            (Self::Trim(number), Ok(()) | Err(Error::NotFound)) => {
                series.is_trimmed = number == series.count + 1;
                Ok(Some(if series.is_trimmed { Self::Look(0) } else { Self::Trim(number - 1) }))
            }
            // There is nothing to move.
            (Self::Look(0) | Self::Move(0), Err(Error::NotFound)) | (Self::Move(0), Ok(())) => Ok(None),
            // None is kept besides the newest, whose place the next one takes when it is committed.
            (Self::Look(0), Ok(())) if series.count == 0 => Ok(None),
            (Self::Look(number), Ok(())) if number == 0 || number < series.count => Ok(Some(Self::Look(number + 1))),
            (Self::Look(number), Ok(())) => Ok(Some(Self::Remove(number))),
            // The number is free: what is before it moves up.
            (Self::Look(number), Err(Error::NotFound)) | (Self::Remove(number), Ok(()) | Err(Error::NotFound)) => {
                Ok(Some(Self::Move(number - 1)))
            }
            (Self::Move(number), Ok(()) | Err(Error::NotFound)) => Ok(Some(Self::Move(number - 1))),
            (_, Err(error)) => Err(error),
        }
    }
}
