//! Names (RFC 1035 §3.1): labels, each behind its length, up to the empty one.

use crate::message::{HEADER, Malformed};
use core::fmt;
use core::str::FromStr;

/// Bytes of the longest name, with the lengths of its labels (RFC 1035 §2.3.4).
pub const LONGEST: usize = 255;

/// Bytes of the longest label (RFC 1035 §2.3.4).
const LONGEST_LABEL: usize = 63;

/// What the two highest bits of a length say: a pointer to the rest of the name follows (RFC 1035
/// §4.1.4).
const POINTER: u8 = 0xc0;

/// Pointers that a name may lead over: one before each label, of which a name of [`LONGEST`] bytes
/// has this many (RFC 1035 §2.3.4). A pointer to another pointer adds no label, so there could be
/// thousands, which the reader would have to follow for each name of a message.
const MOST_POINTERS: usize = 127;

/// A name, in the form that it has in a message without pointers.
#[derive(Clone, Copy)]
pub struct Name {
    bytes: [u8; LONGEST],
    length: u8,
}

/// A text that is no name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidName;

impl fmt::Display for InvalidName {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("no name of a host: labels of 1 to 63 printable characters with dots between, 253 in all")
    }
}

impl core::error::Error for InvalidName {}

impl Name {
    /// The root, which has no label.
    pub const ROOT: Self = Self { bytes: [0; LONGEST], length: 1 };

    /// Reads the name at the offset `at` of a message; returns it, and the offset behind it.
    ///
    /// # Errors
    ///
    /// It is cut off, longer than [`LONGEST`], has a label of a kind that is none, a pointer
    /// that does not lead further to the front than all before it, or more pointers than a name
    /// has labels.
    pub fn read(message: &[u8], at: usize) -> Result<(Self, usize), Malformed> {
        let (mut name, mut place, mut first, mut end) = (Self { bytes: [0; LONGEST], length: 0 }, at, at, None);
        let mut pointers = 0;
        loop {
            let length = *message.get(place).ok_or(Malformed::Short)?;
            if length & POINTER == POINTER {
                let low = *message.get(place + 1).ok_or(Malformed::Short)?;
                end = end.or(Some(place + 2));
                let target = usize::from(u16::from_be_bytes([length & !POINTER, low]));
                // A name within the header would be none.
                if target >= first || target < HEADER || pointers == MOST_POINTERS {
                    return Err(Malformed::Pointer);
                }
                (place, first, pointers) = (target, target, pointers + 1);
                continue;
            }
            if length & POINTER != 0 {
                return Err(Malformed::Label);
            }
            let label = message.get(place..place + 1 + usize::from(length)).ok_or(Malformed::Short)?;
            name.append(label).ok_or(Malformed::Label)?;
            place += label.len();
            if length == 0 {
                return Ok((name, end.unwrap_or(place)));
            }
        }
    }

    /// Returns the name's bytes, as they stand in a message.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length.into()).unwrap_or_default()
    }

    /// Appends a label with its length; `None` if it does not fit.
    fn append(&mut self, label: &[u8]) -> Option<()> {
        let (start, end) = (usize::from(self.length), usize::from(self.length) + label.len());
        self.bytes.get_mut(start..end)?.copy_from_slice(label);
        self.length = end as u8;
        Some(())
    }

    /// Returns a number that equal names have in common, for a first look (FNV-1a).
    pub(crate) fn hash(&self) -> u32 {
        self.as_bytes()
            .iter()
            .fold(0x811c_9dc5, |hash, byte| (hash ^ u32::from(byte.to_ascii_lowercase())).wrapping_mul(0x0100_0193))
    }
}

/// Case does not matter (RFC 4343).
impl PartialEq for Name {
    fn eq(&self, other: &Self) -> bool {
        // A length is no letter: it is below 64.
        self.as_bytes().eq_ignore_ascii_case(other.as_bytes())
    }
}

impl Eq for Name {}

impl FromStr for Name {
    type Err = InvalidName;

    /// Reads a host's name like `www.example.org`, with or without a dot at the end.
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        let mut name = Self { bytes: [0; LONGEST], length: 0 };
        let text = text.strip_suffix('.').unwrap_or(text);
        for label in text.split('.') {
            let is_printable = label.bytes().all(|byte| byte.is_ascii_graphic());
            if label.is_empty() || label.len() > LONGEST_LABEL || !is_printable {
                return Err(InvalidName);
            }
            name.append(&[label.len() as u8]).ok_or(InvalidName)?;
            name.append(label.as_bytes()).ok_or(InvalidName)?;
        }
        name.append(&[0]).ok_or(InvalidName)?;
        Ok(name)
    }
}

impl fmt::Display for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut rest = self.as_bytes();
        if rest.len() == 1 {
            return formatter.write_str(".");
        }
        let mut is_first = true;
        while let Some((&length, behind)) = rest.split_first() {
            let Some((label, behind)) = behind.split_at_checked(length.into()) else { break };
            if label.is_empty() {
                break;
            }
            if !core::mem::take(&mut is_first) {
                formatter.write_str(".")?;
            }
            for byte in label {
                // A dot within a label, and what cannot be printed (RFC 1035 §5.1).
                if byte.is_ascii_graphic() && !matches!(byte, b'.' | b'\\') {
                    write!(formatter, "{}", char::from(*byte))?;
                } else {
                    write!(formatter, "\\{byte:03}")?;
                }
            }
            rest = behind;
        }
        Ok(())
    }
}

impl fmt::Debug for Name {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "Name({self})")
    }
}
