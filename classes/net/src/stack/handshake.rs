//! Reading a segment that belongs to no connection.
//!
//! A flood of them must cost little, and what answers them goes back to the station that they came
//! from: so only their headers are looked at, and whoever cannot be answered is passed over.

use super::classify::{Key, Segment};
use super::cookie::Offer;
use super::frame::{Link, Route, usual_segment};
use super::station::Station;
use crate::wire::{Ethernet, types};
use core::net::IpAddr;
use culm_ip::{Cidr, is_host};
use culm_tcp::{Flags, Header};

/// A segment of which no connection is known.
#[derive(Clone, Copy, Default)]
pub(super) struct UnmatchedSegment {
    /// Where its frame came from.
    pub(super) link: Link,
    pub(super) key: Key,
    pub(super) is_version_4: bool,
    pub(super) header: Header,
    /// Bytes of its payload.
    pub(super) length: u32,
    /// Whether its packet bears a mark of congestion (CE, RFC 3168 §5).
    pub(super) is_marked: bool,
}

impl UnmatchedSegment {
    /// Reads the segment that was found in a frame; returns its payload. None where it is damaged,
    /// not for this station, or from nobody who could be answered: then some of it may have been
    /// read. In place, since it is large to be moved.
    #[inline(always)]
    pub(super) fn read<'a>(&mut self, frame: &'a [u8], segment: &Segment, station: &Station) -> Option<&'a [u8]> {
        let ethernet = Ethernet::at(frame, 0)?;
        self.link = ethernet.source();
        (self.key, self.is_version_4) = (segment.key, ethernet.kind() == types::IPV4);
        let is_for_us = ethernet.destination() == station.mac && station.can_answer(&self.key, self.is_version_4);
        if !is_for_us || self.link[0] & 1 != 0 {
            return None;
        }
        let bytes = segment.of(frame);
        let length = self.header.read(bytes).ok()?;
        let payload = bytes.get(length..).filter(|_| self.header.source != 0)?;
        (self.length, self.is_marked) = (payload.len() as u32, segment.is_marked);
        Some(payload)
    }

    /// Returns whether it brings bytes or the sender's end, and so is sent again until it is
    /// acknowledged.
    pub(super) fn wants_answer(&self) -> bool {
        self.length > 0 || self.header.flags.has(Flags::FIN)
    }

    /// Returns what it offers, if it is a SYN.
    pub(super) fn offer(&self) -> Offer {
        let options = &self.header.options;
        // No segment can be empty: who says so has said nothing.
        let segment = options.mss.filter(|bytes| *bytes > 0).unwrap_or(usual_segment(self.is_version_4));
        Offer::new(segment, options.window_scale, options.sack_permitted)
    }

    /// Returns how answers get to its sender.
    pub(super) fn route(&self, station: &Station) -> Route {
        Route::new(station, self.link, &self.key, self.is_version_4)
    }
}

/// Whether an address is one station's, and not that of all on a link.
pub(super) fn is_station(address: IpAddr, own: &[Cidr]) -> bool {
    match address {
        IpAddr::V4(address) => is_host(address) && !own.iter().any(|own| own.is_everybody(address)),
        IpAddr::V6(address) => !address.is_multicast() && !address.is_unspecified() && !address.is_loopback(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mac;
    use crate::checksum::Sum;
    use crate::stack::classify;
    use crate::wire::protocols;
    use proptest::prelude::*;
    use std::vec;

    proptest! {
        #[test]
        fn any_segment_is_survived(bytes in proptest::collection::vec(any::<u8>(), 40..100), is_version_4: bool) {
            let mut frame = vec![0; 12];
            frame.extend(if is_version_4 { [8, 0] } else { [0x86, 0xdd] });
            frame.extend(&bytes);
            if is_version_4 {
                frame[14..20].copy_from_slice(&[0x45, 0, 0, bytes.len() as u8, 0, 0]);
                (frame[20..24]).copy_from_slice(&[0, 0, 64, protocols::TCP]);
                frame[24..26].fill(0);
                let sum = !Sum::ZERO.add_bytes(&frame[14..34]).fold();
                frame[24..26].copy_from_slice(&sum.to_le_bytes());
            } else {
                frame[14..21].copy_from_slice(&[0x60, 0, 0, 0, 0, bytes.len() as u8 - 40, protocols::TCP]);
            }
            if let Some(segment) = classify::segment(&frame) {
                let own = Cidr::new(segment.key.addresses(is_version_4).1, 24).expect("a network");
                let _ = UnmatchedSegment::default().read(&frame, &segment, &Station::new(Mac::new([0; 6]), &[own]));
            }
        }
    }

    /// RFC 9293, MUST-15, MUST-57, MUST-63: a SYN over IPv6 that says no size, from and to
    /// stations, groups and nobody.
    #[test]
    fn who_says_no_size_gets_the_usual_one_and_groups_open_nothing() {
        let own = [Cidr::new("fd00::2".parse().expect("an address"), 64).expect("a network")];
        let read = |source: &str, destination: &str| {
            let [source, destination] = [source, destination].map(|text| text.parse::<core::net::Ipv6Addr>());
            let mut frame = vec![2; 12];
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, protocols::TCP, 64]);
            frame.extend(source.expect("an address").octets());
            frame.extend(destination.expect("an address").octets());
            frame.extend([0xc0, 0x01, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x02, 0, 0, 0, 0, 0, 0]);
            let segment = classify::segment(&frame).expect("TCP");
            let mut unmatched = UnmatchedSegment::default();
            let payload = unmatched.read(&frame, &segment, &Station::new(Mac::new([2; 6]), &own));
            payload.map(|_| unmatched.offer().options().mss)
        };
        assert_eq!(read("fd00::1", "fd00::2"), Some(Some(1220)));
        for (source, destination) in
            [("fd00::1", "ff02::1"), ("ff02::1", "fd00::2"), ("::", "fd00::2"), ("::1", "fd00::2")]
        {
            assert_eq!(read(source, destination), None, "{source} to {destination}");
        }
    }
}
