//! Segments that belong to no open connection: reading them, and what becomes of them.
//!
//! A flood of them must cost little, and what answers them goes back to the station that they came
//! from: so only their headers are looked at, and whoever cannot be answered is passed over.

use super::{Tcp, Times};
use crate::client::Transmitter;
use crate::stack::classify::{Key, Segment};
use crate::stack::cookie::Offer;
use crate::stack::frame::{Link, Route, usual_segment};
use crate::stack::station::Station;
use crate::stack::time_wait::Answer;
use crate::wire::{Ethernet, types};
use culm_tcp::{Flags, Header, reset_for};

/// A segment of which no connection is known.
#[derive(Clone, Copy, Default)]
pub(in crate::stack) struct UnmatchedSegment {
    /// Where its frame came from.
    pub(in crate::stack) link: Link,
    pub(in crate::stack) key: Key,
    pub(in crate::stack) is_version_4: bool,
    pub(in crate::stack) header: Header,
    /// Bytes of its payload.
    pub(in crate::stack) length: u32,
    /// Whether its packet bears a mark of congestion (CE, RFC 3168 §5).
    pub(in crate::stack) is_marked: bool,
}

impl UnmatchedSegment {
    /// Reads the segment that was found in a frame; returns its payload. None where it is damaged,
    /// not for this station, or from nobody who could be answered: then some of it may have been
    /// read. In place, since it is large to be moved.
    #[inline(always)]
    pub(in crate::stack) fn read<'a>(
        &mut self,
        frame: &'a [u8],
        segment: &Segment,
        station: &Station,
    ) -> Option<&'a [u8]> {
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
    pub(in crate::stack) fn wants_answer(&self) -> bool {
        self.length > 0 || self.header.flags.has(Flags::FIN)
    }

    /// Returns what it offers, if it is a SYN.
    pub(in crate::stack) fn offer(&self) -> Offer {
        let options = &self.header.options;
        // No segment can be empty: who says so has said nothing.
        let segment = options.mss.filter(|bytes| *bytes > 0).unwrap_or(usual_segment(self.is_version_4));
        Offer::new(segment, options.window_scale, options.sack_permitted)
    }

    /// Returns how answers get to its sender.
    pub(in crate::stack) fn route(&self, station: &Station) -> Route {
        Route::new(station, self.link, &self.key, self.is_version_4)
    }
}

impl Tcp {
    /// Handles a segment that belongs to no open connection, or may begin a new one in place of one
    /// that is over.
    #[cold]
    pub(super) fn ingress_unmatched(
        &mut self,
        hash: u64,
        frame: &[u8],
        segment: &Segment,
        transmitter: &mut Transmitter,
        times: Times,
    ) {
        let listener = self.listener(segment.local_port).copied();
        let is_silent = listener.is_some_and(|listener| listener.awaits_request) && segment.only_acknowledges(frame);
        if is_silent && self.syn_queue.may_begin(hash, times.now) {
            // What the client says first brings the same proof.
            return self.syn_queue.fall_silent(hash, times.now);
        }
        let over = self.time_waits.find(hash, times.now).copied();
        let is_opening = listener.is_some() && segment.opens();
        let mut candidate = None;
        if is_opening && over.is_none() {
            candidate = self.syn_queue.consider(hash, times.now);
            if candidate.is_none() {
                return;
            }
        }
        let mut stray = UnmatchedSegment::default();
        let Some(payload) = stray.read(frame, segment, &self.station) else { return };
        if let Some(candidate) = candidate {
            return self.take_syn(&stray, candidate, transmitter, times);
        }
        if is_opening && over.is_some_and(|over| over.succeeded_by(&stray.header).is_some()) {
            // One that may be an old one is the old connection's (RFC 6191 §2).
            if let Some(candidate) = self.syn_queue.consider(hash, times.now) {
                self.take_syn(&stray, candidate, transmitter, times);
            }
            return;
        }
        let goes_on = over.is_some_and(|over| over.is_continued_by(&stray.header));
        if listener.is_some() && segment.acknowledges() && !goes_on {
            let (theirs, ours) = (stray.header.sequence - 1, stray.header.acknowledgement - 1);
            // The network may bring the segment again by which the connection began that is over:
            // it must not begin another one, with the same request.
            let is_first = over.is_none_or(|over| over.initial() != ours) && !self.spent_cookies.has(hash, ours.0);
            if is_first && let Some(offer) = self.cookies.check(hash, theirs.0, ours.0, times.tcp) {
                if is_silent {
                    return self.syn_queue.fall_silent(hash, times.now);
                }
                if over.is_some() {
                    self.time_waits.forget(hash);
                }
                return self.complete(&stray, hash, payload, offer, transmitter, times);
            }
            if over.is_none() && self.syn_queue.is_silent(hash, times.now) {
                return;
            }
            if over.is_none() && self.syn_queue.has_asked(hash, times.now) {
                // The segment that completes the handshake may have been lost, or dropped because
                // no slot was free. Stay silent: a reset would end the peer's attempt. If its
                // connection has begun, that is over, and the peer may not have heard of it; what
                // only acknowledges, perhaps this side's end, needs no answer.
                if !stray.wants_answer() || self.syn_queue.may_begin(hash, times.now) {
                    return;
                }
            }
        }
        let answer = match self.time_waits.answer(hash, &stray.header, stray.length, times) {
            Answer::Unknown => reset_for(&stray.header, stray.length),
            Answer::Silence => None,
            Answer::Segment(answer) => Some(answer),
        };
        if let Some(answer) = answer {
            // Where there is no buffer, the sender asks again.
            stray.route(&self.station).send_alone(transmitter, &answer);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Mac;
    use crate::checksum::Sum;
    use crate::stack::classify;
    use crate::wire::protocols;
    use culm_ip::Cidr;
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
                let _ = UnmatchedSegment::default().read(&frame, &segment, &Station::new(Mac::new([0; 6]), &[own], 64));
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
            let payload = unmatched.read(&frame, &segment, &Station::new(Mac::new([2; 6]), &own, 64));
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
