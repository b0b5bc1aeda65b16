//! A request's content, told apart from what frames it, as it comes (RFC 9112 §6 and §7.1).
//!
//! Two servers that read the same framing differently are how requests are smuggled, so only the
//! form that the RFC writes down is taken: lines end with CR LF, a chunk's size is hexadecimal
//! digits without a sign, and what follows a chunk's data is its line's end and nothing else.
//! Extensions and trailers are dropped; how many bytes they may have is bounded.

use crate::limits;
use crate::response::{Refusal, Status};
use crate::scan::{self, classes};

/// How far the content of one request has come.
#[derive(Clone, Copy, Debug)]
pub struct Content {
    state: State,
    /// Bytes of extensions that may still come, over all chunks.
    extensions: u16,
    /// Bytes of trailers that may still come.
    trailers: u16,
}

/// The meaning of the next bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Piece {
    /// As many of them frame the content: drop them.
    Framing(usize),
    /// As many of them are content: say with [`Content::take`] how many were taken.
    Content(usize),
    /// There are none: more must come.
    Wait,
    /// The content is at its end.
    End,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// Content without chunks, of which this is left.
    Plain(u64),
    /// In a chunk's size, of which these digits were read.
    Size {
        size: u64,
        digits: u8,
    },
    /// In the white space after a size, which only an extension can follow.
    Blank {
        size: u64,
    },
    Extension {
        size: u64,
    },
    /// Before the line feed after a size.
    SizeEnd {
        size: u64,
    },
    /// In a chunk's data, of which this is left.
    Data(u64),
    /// Before the carriage return after a chunk's data.
    DataEnd,
    DataEndFeed,
    /// At the beginning of a trailer's line.
    Line,
    Name,
    Value,
    ValueEnd,
    /// Before the last line feed.
    LastEnd,
    Done,
}

const BAD_CHUNK: Refusal = Refusal::new(Status::BadRequest, "A chunk is not SIZE, CR LF, DATA, CR LF.");
const BAD_TRAILER: Refusal = Refusal::new(Status::BadRequest, "A trailer line is not NAME, colon, VALUE, CR LF.");
const LONG_EXTENSIONS: Refusal =
    Refusal::new(Status::BadRequest, "The extensions of chunks are longer than this server takes.");
const LONG_TRAILERS: Refusal = Refusal::new(Status::FieldsTooLarge, "The trailers are longer than this server takes.");

/// As many hexadecimal digits fit a size.
const DIGITS: u8 = 16;

impl Content {
    /// Content of so many bytes.
    pub fn plain(length: u64) -> Self {
        Self { state: State::Plain(length), extensions: 0, trailers: 0 }
    }

    /// Content in chunks.
    pub fn chunked() -> Self {
        let state = State::Size { size: 0, digits: 0 };
        Self { state, extensions: limits::CHUNK_EXTENSIONS, trailers: limits::TRAILERS }
    }

    /// Says what `bytes` begin with, which are those after the last that were taken or dropped.
    ///
    /// # Errors
    ///
    /// If it cannot be known where the content ends. The connection must end then.
    pub fn next(&mut self, bytes: &[u8]) -> Result<Piece, Refusal> {
        let mut read = 0;
        loop {
            match self.state {
                State::Plain(0) | State::Done if read == 0 => return Ok(Piece::End),
                State::Plain(left) | State::Data(left) if read == 0 => {
                    let count = usize::try_from(left).unwrap_or(usize::MAX).min(bytes.len());
                    return Ok(if count == 0 { Piece::Wait } else { Piece::Content(count) });
                }
                State::Plain(_) | State::Data(_) | State::Done => return Ok(Piece::Framing(read)),
                _ => {}
            }
            let Some(&byte) = bytes.get(read) else {
                return Ok(if read == 0 { Piece::Wait } else { Piece::Framing(read) });
            };
            self.state = self.step(byte)?;
            read += 1;
        }
    }

    /// `count` bytes of content were taken, no more than [`Self::next`] has said.
    pub fn take(&mut self, count: usize) {
        self.state = match self.state {
            State::Plain(left) => State::Plain(left.saturating_sub(count as u64)),
            State::Data(left) if left <= count as u64 => State::DataEnd,
            State::Data(left) => State::Data(left - count as u64),
            other => other,
        };
    }

    /// The state after one byte of framing.
    fn step(&mut self, byte: u8) -> Result<State, Refusal> {
        let next = match (self.state, byte) {
            (State::Size { size, digits }, b'0'..=b'9' | b'a'..=b'f' | b'A'..=b'F') if digits < DIGITS => {
                let digit = u64::from(char::from(byte).to_digit(16).unwrap_or(0));
                State::Size { size: size << 4 | digit, digits: digits + 1 }
            }
            (State::Size { size, digits: 1.. }, b'\r') => State::SizeEnd { size },
            (State::Size { size, digits: 1.. } | State::Blank { size }, b' ' | b'\t') => {
                spend(&mut self.extensions, LONG_EXTENSIONS)?;
                State::Blank { size }
            }
            (State::Size { size, digits: 1.. } | State::Blank { size }, b';') => {
                spend(&mut self.extensions, LONG_EXTENSIONS)?;
                State::Extension { size }
            }
            (State::Extension { size }, b'\r') => State::SizeEnd { size },
            (State::Extension { .. }, byte) if may_stand(byte) => {
                spend(&mut self.extensions, LONG_EXTENSIONS)?;
                self.state
            }
            (State::SizeEnd { size: 0 }, b'\n') => State::Line,
            (State::SizeEnd { size }, b'\n') => State::Data(size),
            (State::DataEnd, b'\r') => State::DataEndFeed,
            (State::DataEndFeed, b'\n') => State::Size { size: 0, digits: 0 },
            (State::Line, b'\r') => State::LastEnd,
            (State::LastEnd, b'\n') => State::Done,
            (State::Name, b':') => State::Value,
            (State::Value, b'\r') => State::ValueEnd,
            (State::ValueEnd, b'\n') => State::Line,
            (State::Line | State::Name, byte) if scan::class(byte) & classes::TOKEN != 0 => {
                spend(&mut self.trailers, LONG_TRAILERS)?;
                State::Name
            }
            (State::Value, byte) if may_stand(byte) => {
                spend(&mut self.trailers, LONG_TRAILERS)?;
                State::Value
            }
            (State::Line | State::LastEnd | State::Name | State::Value | State::ValueEnd, _) => {
                return Err(BAD_TRAILER);
            }
            _ => return Err(BAD_CHUNK),
        };
        Ok(next)
    }
}

/// Whether `byte` may stand in a value: no control character but the tab.
fn may_stand(byte: u8) -> bool {
    byte == b'\t' || !scan::is_control(byte)
}

fn spend(left: &mut u16, refusal: Refusal) -> Result<(), Refusal> {
    *left = left.checked_sub(1).ok_or(refusal)?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    /// The content of `bytes`, given in the pieces that `cuts` make, of which `grasp` bytes at most
    /// are taken at a time; and what follows it. Nothing if the content has not ended.
    fn read(
        mut content: Content,
        bytes: &[u8],
        cuts: &[usize],
        grasp: usize,
    ) -> Result<Option<(Vec<u8>, usize)>, Status> {
        let mut taken = Vec::new();
        let mut at = 0;
        for end in cuts.iter().copied().chain([bytes.len()]) {
            let end = end.clamp(at, bytes.len());
            loop {
                match content.next(&bytes[at..end]).map_err(|refusal| refusal.status)? {
                    Piece::Framing(count) => at += count,
                    Piece::Content(count) => {
                        let count = count.min(grasp);
                        taken.extend_from_slice(&bytes[at..at + count]);
                        content.take(count);
                        at += count;
                    }
                    Piece::Wait => break,
                    Piece::End => return Ok(Some((taken, at))),
                }
            }
        }
        Ok(None)
    }

    fn chunked(bytes: &[u8]) -> Result<Option<(Vec<u8>, usize)>, Status> {
        read(Content::chunked(), bytes, &[], usize::MAX)
    }

    #[test]
    fn good_chunks() {
        for (input, expected) in [
            ("0\r\n\r\n", ""),
            ("000\r\n\r\n", ""),
            ("5\r\nabcde\r\n0\r\n\r\n", "abcde"),
            ("A\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
            ("a\r\n0123456789\r\n1\r\nx\r\n0\r\n\r\n", "0123456789x"),
            ("00000000000000a\r\n0123456789\r\n0\r\n\r\n", "0123456789"),
            ("1;x\r\na\r\n0;y=\"z\"\r\n\r\n", "a"),
            ("1 ; x = y\r\na\r\n0\r\n\r\n", "a"),
            ("2\r\n\r\n\r\n0\r\n\r\n", "\r\n"),
            ("0\r\nX: y\r\nZ:\r\n\r\n", ""),
        ] {
            let whole = Some((expected.as_bytes().to_vec(), input.len()));
            assert_eq!(chunked(input.as_bytes()), Ok(whole.clone()), "{input:?}");
            let more = format!("{input}GET / HTTP/1.1\r\n");
            assert_eq!(chunked(more.as_bytes()), Ok(whole), "{input:?} with a request after it");
        }
    }

    #[test]
    fn bad_chunks() {
        for input in [
            "\r\n",
            "x\r\n",
            "-1\r\n",
            "+1\r\n",
            "0x1\r\n",
            " 1\r\n",
            "1 \r\n",
            "1\t\r\n",
            "1 2\r\n",
            "1\n",
            "1\rx",
            "1;\n",
            "1;\0\r\n",
            "1;a\rb\r\n",
            "1\r\nab",
            "1\r\na\n",
            "1\r\na\rb",
            "1\r\na0\r\n",
            "1\r\na\r\n\r\n",
            ";x\r\n",
            "00000000000000001\r\n",
            "fffffffffffffffff\r\n",
            "1,\r\n",
            "1.0\r\n",
            "0\r\n\n",
            "0\r\n\rx",
            "0\r\n x: y\r\n",
            "0\r\nx\r\n",
            "0\r\nx y: z\r\n",
            "0\r\n: y\r\n",
            "0\r\nx: \0\r\n",
            "0\r\nx: a\n",
            "0\r\nx: a\rb",
            "0\n",
        ] {
            assert_eq!(chunked(input.as_bytes()), Err(Status::BadRequest), "{input:?}");
        }
    }

    #[test]
    fn framing_is_bounded() {
        let extensions = usize::from(limits::CHUNK_EXTENSIONS);
        let fitting = format!("1;{}\r\nx\r\n0\r\n\r\n", "e".repeat(extensions - 1));
        assert!(chunked(fitting.as_bytes()).is_ok());
        let many = "1;\r\nx\r\n".repeat(extensions + 1);
        assert_eq!(chunked(many.as_bytes()), Err(Status::BadRequest));
        let trailers = format!("0\r\nX:{}", "y".repeat(usize::from(limits::TRAILERS)));
        assert_eq!(chunked(trailers.as_bytes()), Err(Status::FieldsTooLarge));
    }

    #[test]
    fn the_largest_size_is_waited_for() {
        assert_eq!(chunked(b"ffffffffffffffff\r\nabc"), Ok(None));
    }

    proptest! {
        #[test]
        fn chunks_are_put_together(
            chunks in proptest::collection::vec((proptest::collection::vec(any::<u8>(), 1..40), any::<bool>()), 0..8),
            cuts in proptest::collection::vec(0usize..400, 0..40),
            grasp in 1usize..20,
        ) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            let (mut framed, mut plain) = (Vec::new(), Vec::new());
            for (chunk, extended) in &chunks {
                let extension = if *extended { ";a=b" } else { "" };
                framed.extend(format!("{:x}{extension}\r\n", chunk.len()).bytes());
                framed.extend(chunk);
                framed.extend(b"\r\n");
                plain.extend(chunk);
            }
            framed.extend(b"0\r\n\r\n");
            let length = framed.len();
            framed.extend(b"GET / HTTP/1.1\r\n\r\n");
            prop_assert_eq!(read(Content::chunked(), &framed, &cuts, grasp), Ok(Some((plain.clone(), length))));
            let mut followed = plain.clone();
            followed.extend(b"GET");
            let counted = read(Content::plain(plain.len() as u64), &followed, &cuts, grasp);
            let length = plain.len();
            prop_assert_eq!(counted, Ok(Some((plain, length))));
        }

        #[test]
        fn pieces_decide_nothing(
            bytes in proptest::collection::vec(proptest::sample::select(b"012fA;\r\n :x\t".to_vec()), 0..60),
            cuts in proptest::collection::vec(0usize..60, 0..20),
        ) {
            let mut cuts = cuts;
            cuts.sort_unstable();
            prop_assert_eq!(read(Content::chunked(), &bytes, &cuts, 1), chunked(&bytes));
        }
    }
}
