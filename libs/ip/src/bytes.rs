//! Numbers in packets, big-endian, read and written from front to back.

use crate::Malformed;
use core::net::{Ipv4Addr, Ipv6Addr};

/// What is left of a packet.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Reader<'a>(pub(crate) &'a [u8]);

impl<'a> Reader<'a> {
    /// Takes the next `N` bytes.
    pub(crate) fn array<const N: usize>(&mut self) -> Result<[u8; N], Malformed> {
        let (taken, rest) = self.0.split_first_chunk().ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// Takes the next `count` bytes.
    pub(crate) fn take(&mut self, count: usize) -> Result<&'a [u8], Malformed> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(Malformed::Short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(crate) fn half(&mut self) -> Result<u16, Malformed> {
        self.array().map(u16::from_be_bytes)
    }

    pub(crate) fn word(&mut self) -> Result<u32, Malformed> {
        self.array().map(u32::from_be_bytes)
    }

    pub(crate) fn ipv4(&mut self) -> Result<Ipv4Addr, Malformed> {
        self.array::<4>().map(Ipv4Addr::from)
    }

    pub(crate) fn ipv6(&mut self) -> Result<Ipv6Addr, Malformed> {
        self.array::<16>().map(Ipv6Addr::from)
    }
}

/// A packet under way in memory that was given for it.
#[derive(Debug)]
pub(crate) struct Writer<'a> {
    buffer: &'a mut [u8],
    written: usize,
}

impl<'a> Writer<'a> {
    pub(crate) fn new(buffer: &'a mut [u8]) -> Self {
        Self { buffer, written: 0 }
    }

    /// Appends `bytes`; `None` if there is no place for all of them.
    pub(crate) fn put(&mut self, bytes: &[u8]) -> Option<()> {
        let end = self.written.checked_add(bytes.len())?;
        self.buffer.get_mut(self.written..end)?.copy_from_slice(bytes);
        self.written = end;
        Some(())
    }

    /// Writes `bytes` over what was written before at `offset`.
    pub(crate) fn patch(&mut self, offset: usize, bytes: &[u8]) -> Option<()> {
        let end = offset.checked_add(bytes.len())?;
        self.buffer.get_mut(..self.written)?.get_mut(offset..end)?.copy_from_slice(bytes);
        Some(())
    }

    /// Returns what was written.
    pub(crate) fn written(&self) -> &[u8] {
        self.buffer.get(..self.written).unwrap_or_default()
    }

    /// Ends it, and returns how many bytes were written.
    pub(crate) fn len(&self) -> usize {
        self.written
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_lies_behind_the_end_is_not_read() {
        let mut reader = Reader(&[1, 2, 3, 4, 5]);
        assert_eq!(reader.half(), Ok(0x0102));
        assert_eq!(reader.word(), Err(Malformed::Short));
        assert_eq!(reader.take(4), Err(Malformed::Short));
        assert_eq!(reader.take(3), Ok(&[3, 4, 5][..]));
        assert_eq!(reader.half(), Err(Malformed::Short));
    }

    #[test]
    fn what_has_no_place_is_not_written() {
        let mut buffer = [0; 4];
        let mut writer = Writer::new(&mut buffer);
        assert_eq!(writer.put(&[1, 2, 3]), Some(()));
        assert_eq!(writer.put(&[4, 5]), None);
        assert_eq!(writer.patch(2, &[9]), Some(()));
        assert_eq!(writer.patch(2, &[9, 9]), None, "only what was written is written over");
        assert_eq!(writer.written(), [1, 2, 9]);
    }
}
