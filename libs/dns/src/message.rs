//! Messages (RFC 1035 §4): a header, a question, and records in three sections.
//!
//! [`Message::parse`] reads all of a message once; what it returns cannot fail afterwards. A
//! message has one question here, as every message that anybody asks or answers with has (RFC
//! 9619).

use crate::{LONGEST, Name};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// Bytes of the header.
pub const HEADER: usize = 12;

/// Bits of the header's second half-word (RFC 1035 §4.1.1, RFC 4035 §3.2).
pub mod flags {
    /// It is an answer.
    pub const ANSWER: u16 = 0x8000;
    /// What is asked for: 0 for an ordinary question.
    pub const OPERATION: u16 = 0x7800;
    /// The answer is not whole.
    pub const TRUNCATED: u16 = 0x0200;
    /// Who is asked is to ask others.
    pub const RECURSION_DESIRED: u16 = 0x0100;
    /// Who has answered does so.
    pub const RECURSION_AVAILABLE: u16 = 0x0080;
    /// Who asks checks signatures itself.
    pub const CHECKING_DISABLED: u16 = 0x0010;
    /// The result.
    pub const RESULT: u16 = 0x000f;
}

/// Results (RFC 1035 §4.1.1).
pub mod result {
    /// There is an answer, or the name has no such record.
    pub const FINE: u16 = 0;
    /// The question could not be read.
    pub const FORMAT_ERROR: u16 = 1;
    /// Nobody who could answer was reached.
    pub const SERVER_FAILURE: u16 = 2;
    /// There is no such name.
    pub const NO_SUCH_NAME: u16 = 3;
    /// That kind of question is not known.
    pub const NOT_IMPLEMENTED: u16 = 4;
    /// The server does not answer that.
    pub const REFUSED: u16 = 5;
}

/// Types of records (RFC 1035 §3.2.2, RFC 3596, RFC 6891).
pub mod kind {
    /// An IPv4 address.
    pub const A: u16 = 1;
    /// Another name, which is the proper one.
    pub const CNAME: u16 = 5;
    /// The start of a zone, which says how long it holds that something does not exist.
    pub const SOA: u16 = 6;
    /// An IPv6 address.
    pub const AAAA: u16 = 28;
    /// What who sends the message can do; no record of a name.
    pub const OPT: u16 = 41;
    /// Questions about a transfer or a transaction, which are not for a forwarder (RFC 6895 §3.1).
    pub const TRANSACTIONS: core::ops::RangeInclusive<u16> = 249..=254;
}

/// The class of the Internet.
pub const INTERNET: u16 = 1;

/// The bit of an OPT record's time to live that asks for signatures (RFC 3225 §3).
const WANTS_SIGNATURES: u32 = 0x8000;

/// Why a message is not read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It ends before what it says that it has.
    Short,
    /// A name's pointer does not lead to the front.
    Pointer,
    /// A name is too long, or has a label of a kind that is none.
    Label,
    /// It has no question, or several.
    Questions,
    /// Bytes follow behind its last record.
    Long,
    /// A record has a length that its type cannot have, or OPT stands where it may not.
    Record,
}

impl fmt::Display for Malformed {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(match self {
            Self::Short => "it ends before what it says that it has",
            Self::Pointer => "a name's pointer does not lead to the front",
            Self::Label => "a name is too long, or has a label of an unknown kind",
            Self::Questions => "it has no question, or several",
            Self::Long => "bytes follow behind its last record",
            Self::Record => "a record has a length that its type cannot have, or stands in a wrong section",
        })
    }
}

impl core::error::Error for Malformed {}

/// What is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Question {
    /// Of which name; case does not matter.
    pub name: Name,
    /// For records of which type.
    pub kind: u16,
    /// Of which class.
    pub class: u16,
}

/// The sections of records.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Section {
    /// What answers the question.
    Answer,
    /// Who is in charge.
    Authority,
    /// What may be of use besides.
    Additional,
}

/// A record.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record<'a> {
    /// Where it stands.
    pub section: Section,
    /// Whose it is.
    pub name: Name,
    /// Its type.
    pub kind: u16,
    /// Its class.
    pub class: u16,
    /// How many seconds it holds; a number with the highest bit set counts as 0 (RFC 2181 §8).
    pub time_to_live: u32,
    /// The offset of that number in the message.
    pub time_to_live_at: usize,
    /// Its data.
    pub data: &'a [u8],
    /// The offset of the data in the message, for names in it.
    pub data_at: usize,
}

impl Record<'_> {
    /// Returns the address that it gives, if it gives one.
    pub fn address(&self) -> Option<IpAddr> {
        match (self.class, self.kind) {
            (INTERNET, kind::A) => <[u8; 4]>::try_from(self.data).ok().map(|octets| Ipv4Addr::from(octets).into()),
            (INTERNET, kind::AAAA) => <[u8; 16]>::try_from(self.data).ok().map(|octets| Ipv6Addr::from(octets).into()),
            _ => None,
        }
    }
}

/// What who sends a message can do (RFC 6891 §6.1.2).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Extension {
    /// Bytes of the longest message that it takes: 512 at least.
    pub longest: u16,
    /// Whether it wants signatures.
    pub wants_signatures: bool,
    /// The version of the extension; only 0 exists.
    pub version: u8,
}

/// A message that was read.
#[derive(Clone, Copy, Debug)]
pub struct Message<'a> {
    bytes: &'a [u8],
    question: Question,
    /// The offset behind the question.
    records_at: usize,
    extension: Option<Extension>,
}

fn half(bytes: &[u8], at: usize) -> Option<u16> {
    bytes.get(at..)?.first_chunk().copied().map(u16::from_be_bytes)
}

fn word(bytes: &[u8], at: usize) -> Option<u32> {
    bytes.get(at..)?.first_chunk().copied().map(u32::from_be_bytes)
}

impl<'a> Message<'a> {
    /// Reads a message, all of it.
    ///
    /// # Errors
    ///
    /// [`Malformed`] says which.
    pub fn parse(bytes: &'a [u8]) -> Result<Self, Malformed> {
        if bytes.len() < HEADER {
            return Err(Malformed::Short);
        }
        if half(bytes, 4) != Some(1) {
            return Err(Malformed::Questions);
        }
        let (name, at) = Name::read(bytes, HEADER)?;
        let kind = half(bytes, at).ok_or(Malformed::Short)?;
        let class = half(bytes, at + 2).ok_or(Malformed::Short)?;
        let question = Question { name, kind, class };
        let mut message = Self { bytes, question, records_at: at + 4, extension: None };
        let mut records = message.walk();
        while let Some(record) = records.next_record() {
            let record = record?;
            let is_length_right = match (record.class, record.kind) {
                (INTERNET, kind::A) => record.data.len() == 4,
                (INTERNET, kind::AAAA) => record.data.len() == 16,
                (_, kind::CNAME) => Name::read(bytes, record.data_at)?.1 == record.data_at + record.data.len(),
                (_, kind::SOA) => record.data.len() >= 22,
                (_, kind::OPT) => {
                    // One, of the root, in the last section (RFC 6891 §6.1.1).
                    let is_first = message.extension.is_none();
                    message.extension = Some(Extension {
                        longest: record.class.max(512),
                        wants_signatures: record.time_to_live & WANTS_SIGNATURES != 0,
                        version: record.time_to_live.to_be_bytes()[1],
                    });
                    is_first && record.section == Section::Additional && record.name == Name::ROOT
                }
                _ => true,
            };
            if !is_length_right {
                return Err(Malformed::Record);
            }
        }
        if records.at != bytes.len() {
            return Err(Malformed::Long);
        }
        Ok(message)
    }

    /// Returns its number.
    pub fn id(&self) -> u16 {
        half(self.bytes, 0).unwrap_or(0)
    }

    /// Returns its [`flags`].
    pub fn flags(&self) -> u16 {
        half(self.bytes, 2).unwrap_or(0)
    }

    /// Returns its [`result`].
    pub fn result(&self) -> u16 {
        self.flags() & flags::RESULT
    }

    /// Returns what is asked.
    pub fn question(&self) -> &Question {
        &self.question
    }

    /// Returns what its sender can do, if it says that.
    pub fn extension(&self) -> Option<Extension> {
        self.extension
    }

    /// Returns its records, in their order, without OPT, which is none.
    pub fn records(&self) -> impl Iterator<Item = Record<'a>> + use<'a> {
        // What was read once can be read again.
        let mut walk = self.walk();
        core::iter::from_fn(move || walk.next_record()?.ok()).filter(|record| record.kind != kind::OPT)
    }

    /// Returns the name at an offset, like that in a record's data.
    pub fn name_at(&self, at: usize) -> Option<Name> {
        Name::read(self.bytes, at).ok().map(|(name, _)| name)
    }

    fn walk(&self) -> Walk<'a> {
        let count = |at| half(self.bytes, at).unwrap_or(0);
        let counts = [count(6), count(8), count(10)];
        Walk { bytes: self.bytes, at: self.records_at, counts, section: Section::Answer }
    }
}

/// Goes from record to record.
struct Walk<'a> {
    bytes: &'a [u8],
    at: usize,
    /// Records that are left in each section.
    counts: [u16; 3],
    section: Section,
}

impl<'a> Walk<'a> {
    fn next_record(&mut self) -> Option<Result<Record<'a>, Malformed>> {
        while self.counts.get(self.section as usize) == Some(&0) {
            self.section = match self.section {
                Section::Answer => Section::Authority,
                Section::Authority => Section::Additional,
                Section::Additional => return None,
            };
        }
        if let Some(count) = self.counts.get_mut(self.section as usize) {
            *count -= 1;
        }
        Some(self.read())
    }

    fn read(&mut self) -> Result<Record<'a>, Malformed> {
        let (name, at) = Name::read(self.bytes, self.at)?;
        let kind = half(self.bytes, at).ok_or(Malformed::Short)?;
        let class = half(self.bytes, at + 2).ok_or(Malformed::Short)?;
        let time_to_live = word(self.bytes, at + 4).ok_or(Malformed::Short)?;
        let length = half(self.bytes, at + 8).ok_or(Malformed::Short)?;
        let data_at = at + 10;
        let data = self.bytes.get(data_at..data_at + usize::from(length)).ok_or(Malformed::Short)?;
        self.at = data_at + data.len();
        Ok(Record { section: self.section, name, kind, class, time_to_live, time_to_live_at: at + 4, data, data_at })
    }
}

/// A message under way, of at most [`LONGEST`] bytes.
#[derive(Clone, Debug)]
pub struct Draft {
    bytes: [u8; LONGEST],
    length: usize,
}

impl Default for Draft {
    fn default() -> Self {
        Self { bytes: [0; LONGEST], length: 0 }
    }
}

impl Draft {
    /// Returns what was written.
    pub fn as_bytes(&self) -> &[u8] {
        self.bytes.get(..self.length).unwrap_or_default()
    }

    /// Returns what was written, to be changed.
    pub fn as_bytes_mut(&mut self) -> &mut [u8] {
        self.bytes.get_mut(..self.length).unwrap_or_default()
    }

    /// Begins anew, with a header and a question, which always fit.
    pub fn begin(&mut self, id: u16, flags: u16, question: &Question) {
        self.length = 0;
        self.put(&id.to_be_bytes());
        self.put(&flags.to_be_bytes());
        self.put(&[0, 1, 0, 0, 0, 0, 0, 0]);
        self.put(question.name.as_bytes());
        self.put(&question.kind.to_be_bytes());
        self.put(&question.class.to_be_bytes());
    }

    /// Begins anew, with a header alone.
    pub fn begin_without_question(&mut self, id: u16, flags: u16) {
        self.length = 0;
        self.put(&id.to_be_bytes());
        self.put(&flags.to_be_bytes());
        self.put(&[0; 8]);
    }

    /// Appends an OPT record, which fits behind a question, and which the header counts then.
    pub fn put_extension(&mut self, wants_signatures: bool) {
        let [high, low] = (LONGEST as u16).to_be_bytes();
        let flags = if wants_signatures { 0x80 } else { 0 };
        self.put(&[0, 0, kind::OPT as u8, high, low, 0, 0, flags, 0, 0, 0]);
        if let Some(count) = self.bytes.get_mut(11) {
            *count += 1;
        }
    }

    /// Becomes a copy of `message`; returns whether that fits.
    pub fn copy(&mut self, message: &[u8]) -> bool {
        self.length = 0;
        self.put(message)
    }

    /// Returns the [`flags`].
    pub fn flags(&self) -> u16 {
        half(&self.bytes, 2).unwrap_or(0)
    }

    /// Sets the [`flags`].
    pub fn set_flags(&mut self, flags: u16) {
        if let Some(place) = self.bytes.get_mut(2..).and_then(<[u8]>::first_chunk_mut) {
            *place = flags.to_be_bytes();
        }
    }

    /// Sets the question's name to one that is as long as the one there.
    pub fn set_name(&mut self, name: &Name) {
        let end = HEADER + name.as_bytes().len();
        if let Some(place) = self.bytes.get_mut(HEADER..end).filter(|_| end <= self.length) {
            place.copy_from_slice(name.as_bytes());
        }
    }

    /// Sets the number.
    pub fn set_id(&mut self, id: u16) {
        if let Some(place) = self.bytes.first_chunk_mut() {
            *place = id.to_be_bytes();
        }
    }

    fn put(&mut self, bytes: &[u8]) -> bool {
        let end = self.length + bytes.len();
        let Some(place) = self.bytes.get_mut(self.length..end) else { return false };
        place.copy_from_slice(bytes);
        self.length = end;
        true
    }
}
