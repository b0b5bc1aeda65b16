//! Which partition is meant.

use crate::{Partition, Uuid};
use core::fmt;

/// The description of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Selector<'a> {
    /// By its number.
    Number(u32),
    /// By its name in a GPT.
    Name(&'a str),
    /// By its identifier.
    Uuid(Uuid),
}

/// A text that describes no partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BadSelector;

impl<'a> Selector<'a> {
    /// Reads a description: a number, `name=` with a name, or `uuid=` with what `lsblk -o PARTUUID`
    /// shows: a GUID, or eight and two hexadecimal digits for a partition of an MBR.
    ///
    /// # Errors
    ///
    /// If it is none of them.
    pub fn parse(text: &'a str) -> Result<Self, BadSelector> {
        if let Some(name) = text.strip_prefix("name=") {
            let fits = !name.is_empty() && name.encode_utf16().count() <= 36 && !name.contains('\0');
            return if fits { Ok(Self::Name(name)) } else { Err(BadSelector) };
        }
        if let Some(uuid) = text.strip_prefix("uuid=") {
            return Uuid::parse(uuid).map(Self::Uuid).ok_or(BadSelector);
        }
        match text.parse() {
            Ok(number) if number > 0 && text.bytes().all(|byte| byte.is_ascii_digit()) => Ok(Self::Number(number)),
            _ => Err(BadSelector),
        }
    }

    pub(crate) fn describes(&self, partition: &Partition) -> bool {
        match self {
            Self::Number(number) => partition.number == *number,
            Self::Name(name) => name.encode_utf16().eq(partition.units()),
            Self::Uuid(uuid) => partition.uuid == *uuid,
        }
    }
}

impl Uuid {
    /// Reads a GUID, or the number of a disk with an MBR and that of a partition.
    fn parse(text: &str) -> Option<Self> {
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_hexdigit());
        let (first, rest) = text.split_once('-')?;
        if first.len() != 8 || !digits(first) {
            return None;
        }
        if rest.len() == 2 && digits(rest) {
            let signature = u32::from_str_radix(first, 16).ok()?;
            let number = u8::from_str_radix(rest, 16).ok()?;
            return Some(Self::Mbr { signature, number });
        }
        let mut bytes = [0; 16];
        let (mut place, mut groups) = (bytes.iter_mut(), 0);
        for (group, length) in text.split('-').zip([8, 4, 4, 4, 12]) {
            if group.len() != length || !digits(group) {
                return None;
            }
            for (pair, byte) in group.as_bytes().chunks(2).zip(&mut place) {
                *byte = u8::from_str_radix(core::str::from_utf8(pair).ok()?, 16).ok()?;
            }
            groups += 1;
        }
        (groups == 5 && text.len() == 36).then_some(Self::Gpt(bytes))
    }
}

impl fmt::Display for BadSelector {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter
            .write_str("no partition is described so: say 2, name=boot, or uuid= with what lsblk shows as PARTUUID")
    }
}

impl core::error::Error for BadSelector {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn descriptions_are_read() {
        assert_eq!(Selector::parse("2"), Ok(Selector::Number(2)));
        assert_eq!(Selector::parse("name=boot"), Ok(Selector::Name("boot")));
        let mbr = Uuid::Mbr { signature: 0x1234_abcd, number: 10 };
        assert_eq!(Selector::parse("uuid=1234abcd-0A"), Ok(Selector::Uuid(mbr)));
        let guid = Uuid::Gpt(*b"\xc1\x2a\x73\x28\xf8\x1f\x11\xd2\xba\x4b\x00\xa0\xc9\x3e\xc9\x3b");
        assert_eq!(Selector::parse("uuid=C12A7328-F81F-11D2-BA4B-00A0C93EC93B"), Ok(Selector::Uuid(guid)));
    }

    #[test]
    fn what_describes_nothing_is_refused() {
        let texts = [
            "",
            "0",
            "+1",
            "-1",
            "4294967296",
            "boot",
            "name=",
            "name=0123456789012345678901234567890123456",
            "uuid=",
            "uuid=1234abcd",
            "uuid=1234abcd-0",
            "uuid=C12A7328-F81F-11D2-BA4B-00A0C93EC93",
            "uuid=C12A7328-F81F-11D2-BA4B-00A0C93EC93B-0",
            "uuid=C12A7328-F81F-11D2-BA4B",
            "uuid=C12A732 -F81F-11D2-BA4B-00A0C93EC93B",
        ];
        for text in texts {
            assert_eq!(Selector::parse(text), Err(BadSelector), "{text}");
        }
    }
}
