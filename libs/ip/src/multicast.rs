//! Telling routers, and the switches that listen to them, which groups of IPv6 this host is in
//! (RFC 3810, and RFC 2710 where a router speaks that).
//!
//! A host is in the solicited-node group of each of its addresses. A switch that passes groups'
//! packets on only to where somebody reported them would otherwise keep questions for the host from
//! it (RFC 4861 §7.2.1). All nodes' group is in nobody's report (RFC 3810 §6). Over IPv4 a host is
//! in no group but that of all hosts, which is not reported either (RFC 3376 §6).

use crate::bytes::{Reader, Writer};
use crate::icmp::ICMPV6;
use crate::ipv6::{HEADER, Ipv6};
use crate::time::part;
use crate::{Instant, Malformed};
use core::net::Ipv6Addr;
use core::time::Duration;
use culm_packet::checksum::Sum;

/// Groups in one report; a host with more addresses than that is in more than it tells of.
pub const GROUPS: usize = 12;

/// Bytes of the longest packet that this module writes.
pub const LONGEST: usize = HEADER + OPTION.len() + 8 + GROUPS * RECORD;

/// All routers that understand version 2 (RFC 3810 §5.2.14).
pub const ALL_ROUTERS_2: Ipv6Addr = Ipv6Addr::new(0xff02, 0, 0, 0, 0, 0, 0, 0x16);

/// The option by which routers look into a packet that is not for them (RFC 2711 §2.1), in a
/// hop-by-hop header before ICMPv6: padded, for multicast listener discovery.
const OPTION: [u8; 8] = [ICMPV6, 0, 5, 2, 0, 0, 1, 0];

/// Bytes of a group's record in a report of version 2.
const RECORD: usize = 20;

/// Types of messages.
mod kind {
    pub const QUERY: u8 = 130;
    pub const REPORT_1: u8 = 131;
    pub const REPORT_2: u8 = 143;
}

/// Types of records (RFC 3810 §5.2.12): all senders are listened to.
const IS_EXCLUDING: u8 = 2;
const CHANGES_TO_EXCLUDING: u8 = 4;

/// How often a change is told (RFC 3810 §9.1), and in which time at most the last of these.
const REPEATS: u8 = 2;
const INTERVAL: Duration = Duration::from_secs(1);

/// How long a router that speaks version 1 is spoken to in it (RFC 3810 §9.12, with the times that
/// routers have by themselves).
const OLDER: Duration = Duration::from_secs(260);

/// Asks which groups hosts are in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Query {
    /// The group that is asked for; unspecified for all.
    pub group: Ipv6Addr,
    /// How long the answer may take.
    pub patience: Duration,
    /// Whether the router speaks version 1 only.
    pub is_first_version: bool,
}

impl Query {
    /// Reads the query in `content`, which is what `packet` carries behind its extension headers.
    ///
    /// # Errors
    ///
    /// It is no query ([`Malformed::Version`]), it comes from beyond the link
    /// ([`Malformed::Distance`]; RFC 3810 §5.1.14), or it is cut off or not intact.
    pub fn parse(packet: &Ipv6<'_>, content: &[u8]) -> Result<Self, Malformed> {
        let mut reader = Reader(content);
        let [kind, code] = reader.array()?;
        if kind != kind::QUERY || code != 0 {
            return Err(Malformed::Version);
        }
        if packet.hop_limit != 1 || !packet.source.is_unicast_link_local() {
            return Err(Malformed::Distance);
        }
        if !Sum::pseudo_header(packet.source, packet.destination, ICMPV6, content.len()).add_bytes(content).is_intact()
        {
            return Err(Malformed::Checksum);
        }
        reader.half()?;
        let delay = reader.half()?;
        reader.half()?;
        let group = reader.ipv6()?;
        let is_first_version = reader.0.is_empty();
        // Version 2 has longer times as a floating-point number (RFC 3810 §5.1.3).
        let milliseconds = match delay {
            0x8000.. if !is_first_version => u64::from(delay & 0x0fff | 0x1000) << ((delay >> 12 & 7) + 3),
            _ => delay.into(),
        };
        Ok(Self { group, patience: Duration::from_millis(milliseconds), is_first_version })
    }
}

/// What is to be told of the groups that the host is in.
#[derive(Clone, Debug)]
pub struct Reports {
    /// How often a change is still to be told.
    changes: u8,
    due: Instant,
    /// Until when routers are told in version 1.
    older_until: Instant,
}

impl Default for Reports {
    fn default() -> Self {
        Self { changes: 0, due: Instant::NEVER, older_until: Instant::default() }
    }
}

/// A report that is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Report {
    /// One of all groups, in version 2.
    All {
        /// Whether it answers a query, and does not tell of a change.
        is_answer: bool,
    },
    /// One for each group, in version 1.
    Each,
}

impl Reports {
    /// Takes note that the host is in another group than before.
    pub fn joined(&mut self, now: Instant) {
        (self.changes, self.due) = (REPEATS, now);
    }

    /// Takes a query. `random` chooses when it is answered.
    pub fn asked(&mut self, query: &Query, now: Instant, random: u32) {
        if query.is_first_version {
            self.older_until = now + OLDER;
        }
        self.due = self.due.min(now + part(query.patience, random));
    }

    /// When [`Self::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        self.due
    }

    /// Returns the report that is due by `now`. `random` chooses when the next one is.
    pub fn poll(&mut self, now: Instant, random: u32) -> Option<Report> {
        if now < self.due {
            return None;
        }
        let is_answer = self.changes == 0;
        self.changes = self.changes.saturating_sub(1);
        self.due = if self.changes > 0 { now + part(INTERVAL, random) } else { Instant::NEVER };
        Some(if now < self.older_until { Report::Each } else { Report::All { is_answer } })
    }
}

/// Writes a report of version 2 about `groups`, of which [`GROUPS`] are taken; returns its length,
/// `None` if `buffer` has less than [`LONGEST`] bytes and it does not fit.
pub fn write_all(
    source: Ipv6Addr,
    groups: impl Iterator<Item = Ipv6Addr> + Clone,
    is_answer: bool,
    buffer: &mut [u8],
) -> Option<usize> {
    let count = groups.clone().take(GROUPS).count();
    let mut writer = begin(source, ALL_ROUTERS_2, 8 + count * RECORD, buffer)?;
    writer.put(&[kind::REPORT_2, 0, 0, 0, 0, 0, 0, count as u8])?;
    for group in groups.take(GROUPS) {
        writer.put(&[if is_answer { IS_EXCLUDING } else { CHANGES_TO_EXCLUDING }, 0, 0, 0])?;
        writer.put(&group.octets())?;
    }
    end(writer, source, ALL_ROUTERS_2)
}

/// Writes a report of version 1 about `group`; returns its length, `None` if it does not fit into
/// `buffer`.
pub fn write_one(source: Ipv6Addr, group: Ipv6Addr, buffer: &mut [u8]) -> Option<usize> {
    let mut writer = begin(source, group, 24, buffer)?;
    writer.put(&[kind::REPORT_1, 0, 0, 0, 0, 0, 0, 0])?;
    writer.put(&group.octets())?;
    end(writer, source, group)
}

fn begin(source: Ipv6Addr, destination: Ipv6Addr, length: usize, buffer: &mut [u8]) -> Option<Writer<'_>> {
    let mut writer = Writer::new(buffer);
    let packet = Ipv6 { source, destination, next_header: 0, hop_limit: 1, payload: &[] };
    packet.write_header(&mut writer, OPTION.len() + length)?;
    writer.put(&OPTION)?;
    Some(writer)
}

fn end(mut writer: Writer<'_>, source: Ipv6Addr, destination: Ipv6Addr) -> Option<usize> {
    const START: usize = HEADER + OPTION.len();
    let message = writer.written().get(START..)?;
    let sum = Sum::pseudo_header(source, destination, ICMPV6, message.len()).add_bytes(message);
    writer.patch(START + 2, &sum.checksum().to_be_bytes())?;
    Some(writer.len())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::extension::content;
    use crate::solicited_node;
    use proptest::prelude::*;
    use std::vec::Vec;

    const OWN: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 1);
    const ROUTER: Ipv6Addr = Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0, 0, 2);

    fn after(milliseconds: u64) -> Instant {
        Instant(milliseconds * 1000)
    }

    /// A query in `version`, and the packet that it comes in.
    fn query(version: u8, delay: u16) -> Vec<u8> {
        let mut content = std::vec![kind::QUERY, 0, 0, 0];
        content.extend(delay.to_be_bytes());
        content.extend([0; 18]);
        if version == 2 {
            content.extend([2, 125, 0, 0]);
        }
        let sum = Sum::pseudo_header(ROUTER, crate::ALL_NODES, ICMPV6, content.len()).add_bytes(&content).checksum();
        content[2..4].copy_from_slice(&sum.to_be_bytes());
        content
    }

    fn parse(content: &[u8], hop_limit: u8) -> Result<Query, Malformed> {
        let (source, destination) = (ROUTER, crate::ALL_NODES);
        Query::parse(&Ipv6 { source, destination, next_header: 0, hop_limit, payload: content }, content)
    }

    #[test]
    fn a_change_is_told_twice_and_a_query_answered_once() {
        let mut reports = Reports::default();
        assert_eq!(reports.poll(after(0), 0), None);
        reports.joined(after(0));
        assert_eq!(reports.poll(after(0), 1 << 31), Some(Report::All { is_answer: false }));
        assert_eq!(reports.poll(after(499), 0), None);
        assert_eq!(reports.poll(after(500), 0), Some(Report::All { is_answer: false }));
        assert_eq!(reports.deadline(), Instant::NEVER);
        reports.asked(&parse(&query(2, 1000), 1).expect("a query"), after(1000), 1 << 31);
        assert_eq!(reports.poll(after(1499), 0), None);
        assert_eq!(reports.poll(after(1500), 0), Some(Report::All { is_answer: true }));
        assert_eq!(reports.deadline(), Instant::NEVER);
    }

    #[test]
    fn an_older_router_is_told_in_its_version() {
        let mut reports = Reports::default();
        reports.asked(&parse(&query(1, 1000), 1).expect("a query"), after(0), 0);
        assert_eq!(reports.poll(after(0), 0), Some(Report::Each));
        reports.asked(&parse(&query(2, 1000), 1).expect("a query"), after(259_000), 0);
        assert_eq!(reports.poll(after(259_000), 0), Some(Report::Each));
        reports.asked(&parse(&query(2, 1000), 1).expect("a query"), after(260_000), 0);
        assert_eq!(reports.poll(after(260_000), 0), Some(Report::All { is_answer: true }));
    }

    #[test]
    fn only_routers_of_the_link_may_ask() {
        let good = query(2, 0x9234);
        let expected = Duration::from_millis(u64::from(0x1234_u16) << 4);
        assert_eq!(parse(&good, 1).map(|query| query.patience), Ok(expected));
        assert_eq!(parse(&good, 64), Err(Malformed::Distance));
        assert_eq!(parse(&good[..20], 1), Err(Malformed::Checksum));
        assert_eq!(parse(&[kind::REPORT_2, 0, 0, 0], 1), Err(Malformed::Version));
    }

    #[test]
    fn reports_are_intact_and_tell_routers_to_look() {
        let group = solicited_node(OWN);
        let mut buffer = [0; LONGEST];
        let lengths = [
            write_all(OWN, core::iter::repeat_n(group, 20), false, &mut buffer).expect("fits"),
            write_one(OWN, group, &mut buffer).expect("fits"),
        ];
        assert_eq!(lengths, [LONGEST, HEADER + 8 + 24]);
        let packet = Ipv6::parse(&buffer).expect("a packet");
        assert_eq!((packet.hop_limit, packet.destination), (1, group));
        let found = content(&packet).expect("the option may be passed over");
        assert_eq!((found.protocol, found.payload.first()), (ICMPV6, Some(&kind::REPORT_1)));
        let sum = Sum::pseudo_header(OWN, group, ICMPV6, found.payload.len()).add_bytes(found.payload);
        assert!(sum.is_intact());
    }

    proptest! {
        #[test]
        fn nothing_that_comes_is_a_panic(bytes in prop::collection::vec(any::<u8>(), 0..60), hop_limit in 0_u8..3) {
            let _ = parse(&bytes, hop_limit);
        }
    }
}
