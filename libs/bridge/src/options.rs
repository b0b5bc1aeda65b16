//! The options of a port, as a description writes them: words like `vlan 10` and `trunk 20,30-39`.

use crate::vlan::{self, VlanSet};
use alloc::vec::Vec;
use core::fmt;

/// The most frames for many that a port can be allowed in a second.
pub const MAX_RATE: u32 = 10_000_000;

/// The options of a port.
///
/// | Words | Meaning |
/// | --- | --- |
/// | `vlan N` | frames without a tag belong to VLAN N, and leave without one |
/// | `trunk N,N-N` | tagged frames of these VLANs come and go; without `vlan` no others do |
/// | `stations` | behind the port of a client there are further stations: they are learned |
/// | `isolated` | nothing passes between this port and others that are isolated |
/// | `mirror` | it gets a copy of each frame that comes by another port, and sends none |
/// | `storm N` | frames a second, at most: for all, for groups, for unknown stations, N of each |
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PortOptions {
    /// The VLAN of frames without a tag.
    pub vlan: Option<u16>,
    /// The VLANs of tagged frames; none if this is empty.
    pub trunk: VlanSet,
    /// Whether there are further stations behind the port of a client.
    pub stations: bool,
    /// Whether nothing passes between this port and others that are isolated.
    pub isolated: bool,
    /// Whether the port is given what comes by all others, and nothing else.
    pub mirror: bool,
    /// Frames in a second for all, for groups, and for stations that are not known, of each.
    pub storm: Option<u32>,
}

/// What is wrong with a port's options: the word at fault, if there is one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mistake<'a> {
    /// There is no such option.
    Unknown(&'a str),
    /// The option is there twice.
    Twice(&'a str),
    /// Behind this option its value is missing.
    NoValue(&'a str),
    /// This is no VLAN's number.
    NoVlan(&'a str),
    /// This range ends before it begins.
    NoRange(&'a str),
    /// This is no rate.
    NoRate(&'a str),
}

impl fmt::Display for Mistake<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Unknown(word) => write!(formatter, "`{word}` is no option of a port"),
            Self::Twice(word) => write!(formatter, "`{word}` is there twice"),
            Self::NoValue(word) => write!(formatter, "`{word}` needs a value"),
            Self::NoVlan(word) => write!(formatter, "`{word}` is no VLAN"),
            Self::NoRange(word) => write!(formatter, "`{word}` ends before it begins"),
            Self::NoRate(word) => write!(formatter, "`{word}` is no count of frames"),
        }
    }
}

impl Mistake<'_> {
    /// Returns what would be right.
    pub fn advice(&self) -> &'static str {
        match self {
            Self::Unknown(_) => {
                "a port has `vlan 10`, `trunk 20,30-39`, `stations`, `isolated`, `mirror` and `storm 1000`, or some of them"
            }
            Self::Twice(_) => "say each option once; several VLANs stand in one list, `trunk 20,30-39`",
            Self::NoValue("trunk") => "write `trunk 20,30-39`, without spaces in the list",
            Self::NoValue(_) => "write `vlan 10`, `storm 1000`",
            Self::NoVlan(_) => "VLANs are numbered from 1 to 4094",
            Self::NoRange(_) => "write the smaller number first",
            Self::NoRate(_) => "it is from 1 to 10000000 frames a second",
        }
    }
}

impl PortOptions {
    /// Reads the options of a port, words with spaces between them.
    ///
    /// # Errors
    ///
    /// The first mistake.
    pub fn parse(text: &str) -> Result<Self, Mistake<'_>> {
        let mut options = Self::default();
        let mut words = text.split_ascii_whitespace();
        while let Some(word) = words.next() {
            let mut value = || words.next().ok_or(Mistake::NoValue(word));
            let is_new = match word {
                "vlan" => options.vlan.replace(vlan_number(value()?)?).is_none(),
                "trunk" => core::mem::replace(&mut options.trunk, vlan_list(value()?)?).is_empty(),
                "stations" => !core::mem::replace(&mut options.stations, true),
                "isolated" => !core::mem::replace(&mut options.isolated, true),
                "mirror" => !core::mem::replace(&mut options.mirror, true),
                "storm" => options.storm.replace(rate(value()?)?).is_none(),
                _ => return Err(Mistake::Unknown(word)),
            };
            if !is_new {
                return Err(Mistake::Twice(word));
            }
        }
        Ok(options)
    }

    /// Returns the VLANs that the options of a port name, as ranges of the first and the last one,
    /// in the order of the text.
    ///
    /// # Errors
    ///
    /// A VLAN that is none; other mistakes are passed over.
    pub fn vlan_ranges(text: &str) -> Result<Vec<(u16, u16)>, Mistake<'_>> {
        let mut words = text.split_ascii_whitespace();
        let mut ranges = Vec::new();
        while let Some(word) = words.next() {
            if matches!(word, "vlan" | "trunk") {
                let list = words.next().unwrap_or_default().split(',');
                list.map(vlan_range).try_for_each(|range| range.map(|range| ranges.push(range)))?;
            }
        }
        Ok(ranges)
    }

    /// Returns whether frames of a VLAN go out by the port, on a bridge where some port has VLANs.
    pub fn joins(&self, vlan: u16) -> bool {
        !self.mirror && (self.own_vlan() == Some(vlan) || self.trunk.contains(vlan))
    }

    /// Returns the VLAN of frames without a tag; `None`: a trunk takes tagged ones only.
    pub fn own_vlan(&self) -> Option<u16> {
        if self.trunk.is_empty() { Some(self.vlan.unwrap_or(vlan::DEFAULT)) } else { self.vlan }
    }

    /// Returns whether the port has VLANs.
    pub fn has_vlans(&self) -> bool {
        self.vlan.is_some() || !self.trunk.is_empty()
    }
}

/// Reads a number without sign, leading zero or anything else.
fn number(text: &str) -> Option<u32> {
    let is_plain = text.bytes().all(|byte| byte.is_ascii_digit()) && !text.starts_with('0');
    text.parse().ok().filter(|_| is_plain)
}

fn vlan_number(text: &str) -> Result<u16, Mistake<'_>> {
    let number = number(text).and_then(|number| u16::try_from(number).ok());
    number.filter(|number| (1..=vlan::MAX).contains(number)).ok_or(Mistake::NoVlan(text))
}

fn vlan_range(part: &str) -> Result<(u16, u16), Mistake<'_>> {
    let (first, last) = part.split_once('-').unwrap_or((part, part));
    let (first, last) = (vlan_number(first)?, vlan_number(last)?);
    if last < first { Err(Mistake::NoRange(part)) } else { Ok((first, last)) }
}

fn vlan_list(text: &str) -> Result<VlanSet, Mistake<'_>> {
    let mut set = VlanSet::default();
    for part in text.split(',') {
        let (first, last) = vlan_range(part)?;
        (first..=last).for_each(|vlan| set.add(vlan));
    }
    Ok(set)
}

fn rate(text: &str) -> Result<u32, Mistake<'_>> {
    number(text).filter(|rate| (1..=MAX_RATE).contains(rate)).ok_or(Mistake::NoRate(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::string::ToString;
    use std::vec;

    #[test]
    fn options_are_read_as_the_reference_says() {
        let read = PortOptions::parse("vlan 10  trunk 20,30-32,4094 stations isolated mirror storm 1000");
        let options = read.expect("it is right");
        assert_eq!(
            (options.vlan, options.stations, options.isolated, options.mirror, options.storm),
            (Some(10), true, true, true, Some(1000))
        );
        let trunk: std::vec::Vec<u16> = (0..=u16::MAX).filter(|vlan| options.trunk.contains(*vlan)).collect();
        assert_eq!(trunk, [20, 30, 31, 32, 4094]);
        assert_eq!(PortOptions::parse(""), Ok(PortOptions::default()));
    }

    #[test]
    fn a_port_joins_the_vlans_that_it_names() {
        let joined = |text| {
            let options = PortOptions::parse(text).expect(text);
            (1..=vlan::MAX).filter(|vlan| options.joins(*vlan)).collect::<Vec<u16>>()
        };
        assert_eq!(joined("vlan 10 trunk 20,30-31"), [10, 20, 30, 31]);
        assert_eq!(joined("isolated"), [vlan::DEFAULT]);
        assert_eq!(joined("trunk 7"), [7]);
        assert_eq!(joined("vlan 10 mirror"), []);
        assert_eq!(PortOptions::vlan_ranges("vlan 10 storm 9 trunk 20,30-31"), Ok(vec![(10, 10), (20, 20), (30, 31)]));
        assert_eq!(PortOptions::vlan_ranges("trunk"), Err(Mistake::NoVlan("")));
    }

    #[test]
    fn mistakes_are_told() {
        for (text, mistake) in [
            ("vlna 10", Mistake::Unknown("vlna")),
            ("10", Mistake::Unknown("10")),
            ("vlan", Mistake::NoValue("vlan")),
            ("vlan 0", Mistake::NoVlan("0")),
            ("vlan 4095", Mistake::NoVlan("4095")),
            ("vlan 65546", Mistake::NoVlan("65546")),
            ("vlan +1", Mistake::NoVlan("+1")),
            ("vlan 010", Mistake::NoVlan("010")),
            ("vlan 10 vlan 10", Mistake::Twice("vlan")),
            ("trunk 1 trunk 2", Mistake::Twice("trunk")),
            ("stations stations", Mistake::Twice("stations")),
            ("isolated isolated", Mistake::Twice("isolated")),
            ("trunk 1,", Mistake::NoVlan("")),
            ("trunk 5-1", Mistake::NoRange("5-1")),
            ("trunk 1-2-3", Mistake::NoVlan("2-3")),
            ("storm 0", Mistake::NoRate("0")),
            ("storm fast", Mistake::NoRate("fast")),
            ("storm 10000001", Mistake::NoRate("10000001")),
        ] {
            let found = PortOptions::parse(text).expect_err(text);
            assert_eq!(found, mistake);
            assert!(!found.to_string().is_empty() && !found.advice().is_empty());
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read_or_refused(text in ".{0,40}") {
            let _ = PortOptions::parse(&text);
        }
    }
}
