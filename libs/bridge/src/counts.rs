//! What was counted at each port, in memory that a switch writes and others map for reading.
//!
//! Each word has one writer, the switch, which adds to it without a lock; a reader sees each count
//! whole, and counts of one port that may be a frame apart. Neither side trusts the other: a name
//! is shown as far as it is one, and no more ports than there can be.

use crate::MAX_PORTS;
use core::fmt::{self, Write};
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};

/// Words of a port: its name, its counts, and some that are free.
const WORDS: usize = 16;

/// Words of a port's name, in bytes of UTF-8 with zeros behind.
const NAME: usize = 4;

/// Words for as many ports as there can be, behind a head of as many words as a port has. The first
/// word of the head is the number of ports.
pub const COUNT_WORDS: usize = WORDS * (1 + MAX_PORTS);

/// What is counted of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Count {
    /// Frames that came by it.
    FramesIn,
    /// Their bytes.
    BytesIn,
    /// Frames that went out by it.
    FramesOut,
    /// Their bytes.
    BytesOut,
    /// Frames that were to go out by it, and found no place there, or were too long.
    NoPlace,
    /// Frames for many stations that came by it, beyond its rate.
    Storm,
    /// Frames that came by it, kept by isolation from all ports for which they were.
    Isolated,
    /// Frames that came by it of a VLAN that it is not in, or with a tag that would hide a second
    /// one.
    Vlan,
    /// Frames that came by it without a whole header, or from an address that nobody may send from.
    Source,
}

impl Count {
    /// All of them in the order of their words, with their names for programs.
    pub const ALL: [(Self, &str); 9] = [
        (Self::FramesIn, "frames_in"),
        (Self::BytesIn, "bytes_in"),
        (Self::FramesOut, "frames_out"),
        (Self::BytesOut, "bytes_out"),
        (Self::NoPlace, "no_place_drops"),
        (Self::Storm, "storm_drops"),
        (Self::Isolated, "isolated_drops"),
        (Self::Vlan, "vlan_drops"),
        (Self::Source, "source_drops"),
    ];
}

const _: () = assert!(NAME + Count::ALL.len() <= WORDS);

/// The words of a port.
type Record = [AtomicU64; WORDS];

/// The switch's side.
#[derive(Clone, Copy, Debug, Default)]
pub struct Counts<'a> {
    ports: &'a [Record],
}

impl<'a> Counts<'a> {
    /// Counts of ports with these names, all 0, in `words`. Ports for which there is no room are
    /// counted nowhere.
    pub fn new<'b>(words: &'a [AtomicU64], names: impl Iterator<Item = &'b str>) -> Self {
        let Some((head, ports)) = words.as_chunks::<WORDS>().0.split_first() else { return Self::default() };
        head[0].store(0, Relaxed);
        let mut count = 0;
        for (port, name) in ports.iter().take(MAX_PORTS).zip(names) {
            port.iter().for_each(|word| word.store(0, Relaxed));
            for (word, part) in port[..NAME].iter().zip(name.as_bytes().chunks(8)) {
                let mut bytes = [0; 8];
                bytes.iter_mut().zip(part).for_each(|(to, from)| *to = *from);
                word.store(u64::from_le_bytes(bytes), Relaxed);
            }
            count += 1;
        }
        // Whoever sees the count sees the names.
        head[0].store(count, Release);
        Self { ports: ports.get(..count as usize).unwrap_or_default() }
    }

    /// Adds to a count of a port.
    #[inline]
    pub fn add(&self, port: usize, which: Count, count: u64) {
        if let Some(port) = self.ports.get(port) {
            add(port, which, count);
        }
    }

    /// Counts a frame that came by a port.
    #[inline]
    pub fn came(&self, port: usize, length: usize) {
        if let Some(port) = self.ports.get(port) {
            add(port, Count::FramesIn, 1);
            add(port, Count::BytesIn, length as u64);
        }
    }

    /// Counts a frame that was to go out by a port: `went` says whether it did.
    #[inline]
    pub fn went(&self, port: usize, length: usize, went: bool) {
        let Some(port) = self.ports.get(port) else { return };
        if went {
            add(port, Count::FramesOut, 1);
            add(port, Count::BytesOut, length as u64);
        } else {
            add(port, Count::NoPlace, 1);
        }
    }
}

#[inline]
fn add(port: &Record, which: Count, count: u64) {
    if let Some(word) = port.get(NAME + which as usize) {
        word.store(word.load(Relaxed).wrapping_add(count), Relaxed);
    }
}

/// The side of who shows the counts.
#[derive(Clone, Copy, Debug)]
pub struct View<'a> {
    words: &'a [AtomicU64],
}

impl<'a> View<'a> {
    /// A view of the words that a switch writes.
    pub fn new(words: &'a [AtomicU64]) -> Self {
        Self { words }
    }

    /// Writes an array of JSON: an object for each port, with its name and all counts.
    ///
    /// # Errors
    ///
    /// Those of the writer.
    pub fn write_json(&self, into: &mut impl Write) -> fmt::Result {
        into.write_char('[')?;
        if let Some((head, ports)) = self.words.as_chunks::<WORDS>().0.split_first() {
            let count = usize::try_from(head[0].load(Acquire)).unwrap_or(usize::MAX).min(MAX_PORTS);
            for (number, port) in ports.iter().take(count).enumerate() {
                into.write_str(if number == 0 { "{\"name\":\"" } else { ",{\"name\":\"" })?;
                write_name(port, into)?;
                into.write_char('"')?;
                for ((_, name), word) in Count::ALL.iter().zip(&port[NAME..]) {
                    write!(into, ",\"{name}\":{}", word.load(Relaxed))?;
                }
                into.write_char('}')?;
            }
        }
        into.write_char(']')
    }
}

/// Writes the name of a port; in place of what no name has, `?`.
fn write_name(port: &Record, into: &mut impl Write) -> fmt::Result {
    let bytes = port[..NAME].iter().flat_map(|word| word.load(Relaxed).to_le_bytes());
    for byte in bytes.take_while(|byte| *byte != 0) {
        let is_of_names = byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
        into.write_char(if is_of_names { byte.into() } else { '?' })?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::string::String;
    use std::vec::Vec;

    fn words(count: usize) -> Vec<AtomicU64> {
        (0..count).map(|_| AtomicU64::new(u64::MAX)).collect()
    }

    fn shown(words: &[AtomicU64]) -> String {
        let mut text = String::new();
        View::new(words).write_json(&mut text).expect("a string takes all");
        text
    }

    #[test]
    fn counts_are_shown_by_name() {
        let words = words(COUNT_WORDS);
        let counts = Counts::new(&words, ["router", "up\"link"].into_iter());
        counts.came(0, 60);
        counts.came(0, 100);
        counts.went(1, 64, true);
        counts.went(1, 64, false);
        counts.add(0, Count::Source, 3);
        counts.add(2, Count::Storm, 1);
        let expected = "[{\"name\":\"router\",\"frames_in\":2,\"bytes_in\":160,\"frames_out\":0,\"bytes_out\":0,\
                        \"no_place_drops\":0,\"storm_drops\":0,\"isolated_drops\":0,\"vlan_drops\":0,\"source_drops\":3},\
                        {\"name\":\"up?link\",\"frames_in\":0,\"bytes_in\":0,\"frames_out\":1,\"bytes_out\":64,\
                        \"no_place_drops\":1,\"storm_drops\":0,\"isolated_drops\":0,\"vlan_drops\":0,\"source_drops\":0}]";
        assert_eq!(shown(&words), expected);
    }

    #[test]
    fn no_more_ports_are_counted_than_there_is_room_for() {
        for (length, ports) in [(0, 0), (WORDS - 1, 0), (WORDS, 0), (3 * WORDS - 1, 1), (3 * WORDS, 2)] {
            let words = words(length);
            let counts = Counts::new(&words, ["a", "b", "c"].into_iter());
            (0..4).for_each(|port| counts.came(port, 60));
            assert_eq!(shown(&words).matches("\"frames_in\":1,").count(), ports, "{length} words");
        }
    }

    /// Whatever is in the memory, what is shown is text of bounded length.
    #[test]
    fn memory_of_anything_is_shown() {
        let text = shown(&words(COUNT_WORDS + WORDS));
        assert_eq!(text.matches("\"name\":\"????????????????????????????????\"").count(), MAX_PORTS);
    }
}
