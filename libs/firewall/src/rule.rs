//! Rules as data: what each applies to and what it says.

use crate::Ranges;
use crate::zone::{ZoneSet, Zones};
use alloc::vec::Vec;
use core::net::Ipv4Addr;
use core::ops::Range;

/// What becomes of a connection's first packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// It passes, and with it the packets of its connection and what belongs to it.
    Allow,
    /// It is dropped; nobody is told.
    Deny,
    /// It is dropped; who sent it is told, by a reset (TCP) or an ICMP message.
    Reject,
}

/// An action, and whether the packet is logged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Outcome {
    /// What becomes of the packet.
    pub action: Action,
    /// Whether the log tells of it.
    pub logs: bool,
}

/// A version of the Internet Protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// IPv4.
    V4,
    /// IPv6.
    V6,
}

impl Family {
    /// Both.
    pub const ALL: [Self; 2] = [Self::V4, Self::V6];
}

/// Numbers of protocols (IANA's "Assigned Internet Protocol Numbers").
pub mod protocol {
    /// ICMP (RFC 792).
    pub const ICMP: u8 = 1;
    /// TCP (RFC 9293).
    pub const TCP: u8 = 6;
    /// UDP (RFC 768).
    pub const UDP: u8 = 17;
    /// GRE (RFC 2784).
    pub const GRE: u8 = 47;
    /// ESP (RFC 4303).
    pub const ESP: u8 = 50;
    /// AH (RFC 4302).
    pub const AH: u8 = 51;
    /// ICMPv6 (RFC 4443).
    pub const ICMPV6: u8 = 58;
    /// SCTP (RFC 9260).
    pub const SCTP: u8 = 132;
}

/// A set of protocols, for each family.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Protocols {
    v4: [u128; 2],
    v6: [u128; 2],
}

impl Protocols {
    /// No protocol.
    pub const EMPTY: Self = Self { v4: [0; 2], v6: [0; 2] };
    /// Every protocol.
    pub const ALL: Self = Self { v4: [u128::MAX; 2], v6: [u128::MAX; 2] };

    fn of(&self, family: Family) -> &[u128; 2] {
        match family {
            Family::V4 => &self.v4,
            Family::V6 => &self.v6,
        }
    }

    /// Returns the set with the protocol of this number besides, over `family`.
    pub fn with(mut self, family: Family, number: u8) -> Self {
        let [low, high] = match family {
            Family::V4 => &mut self.v4,
            Family::V6 => &mut self.v6,
        };
        *(if number < 128 { low } else { high }) |= 1 << (number % 128);
        self
    }

    /// Returns whether the protocol of this number is in the set, over `family`.
    pub fn contains(&self, family: Family, number: u8) -> bool {
        let [low, high] = self.of(family);
        (if number < 128 { low } else { high }) >> (number % 128) & 1 != 0
    }

    /// Returns whether a protocol over `family` is in the set.
    pub fn has(&self, family: Family) -> bool {
        *self.of(family) != [0; 2]
    }

    /// Returns whether the set has the same protocols over both families.
    pub(crate) fn is_same_over_both(&self) -> bool {
        self.v4 == self.v6
    }

    /// Returns those of the set that are over `family`.
    pub(crate) fn only(self, family: Family) -> Self {
        match family {
            Family::V4 => Self { v6: [0; 2], ..self },
            Family::V6 => Self { v4: [0; 2], ..self },
        }
    }

    fn covers(&self, other: &Self, family: Family) -> bool {
        self.of(family).iter().zip(other.of(family)).all(|(ours, theirs)| ours & theirs == *theirs)
    }

    /// Returns whether a protocol over `family` is in both sets.
    pub(crate) fn meets(&self, other: &Self, family: Family) -> bool {
        self.of(family).iter().zip(other.of(family)).any(|(ours, theirs)| ours & theirs != 0)
    }
}

/// A set of addresses of both families.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Addresses {
    /// Those of IPv4, as numbers.
    pub v4: Ranges<u32>,
    /// Those of IPv6, as numbers.
    pub v6: Ranges<u128>,
}

impl Addresses {
    /// Returns the set of every address.
    pub fn all() -> Self {
        Self { v4: Ranges::all(), v6: Ranges::all() }
    }

    /// Returns whether no address is left out.
    pub fn is_all(&self) -> bool {
        self.v4.is_all() && self.v6.is_all()
    }

    /// Returns whether an address of `family` is in the set.
    pub fn has(&self, family: Family) -> bool {
        match family {
            Family::V4 => !self.v4.is_empty(),
            Family::V6 => !self.v6.is_empty(),
        }
    }

    fn covers(&self, other: &Self, family: Family) -> bool {
        match family {
            Family::V4 => self.v4.covers(&other.v4),
            Family::V6 => self.v6.covers(&other.v6),
        }
    }

    fn meets(&self, other: &Self, family: Family) -> bool {
        match family {
            Family::V4 => self.v4.meets(&other.v4),
            Family::V6 => self.v6.meets(&other.v6),
        }
    }
}

/// Which packets a rule is about: those of which everything is in the set for it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Match {
    /// Where they come from.
    pub entries: ZoneSet,
    /// Where they go to.
    pub exits: ZoneSet,
    /// Their protocols.
    pub protocols: Protocols,
    /// Who sent them.
    pub sources: Addresses,
    /// Whom they are for.
    pub destinations: Addresses,
    /// The ports from which they come. Protocols without ports have 0 here.
    pub source_ports: Ranges<u16>,
    /// The ports to which they go. ICMP and ICMPv6 have their types here, other protocols without
    /// ports 0.
    pub destination_ports: Ranges<u16>,
}

impl Match {
    /// Returns what is about every packet.
    pub fn all() -> Self {
        Self {
            entries: ZoneSet::ALL,
            exits: ZoneSet::ALL,
            protocols: Protocols::ALL,
            sources: Addresses::all(),
            destinations: Addresses::all(),
            source_ports: Ranges::all(),
            destination_ports: Ranges::all(),
        }
    }

    /// Returns whether it is about packets of this family.
    pub fn has(&self, family: Family) -> bool {
        self.sources.has(family) && self.destinations.has(family) && self.protocols.has(family)
    }

    /// Returns whether it is about every packet that `other` is about.
    pub fn covers(&self, other: &Self) -> bool {
        let covers = |family| {
            self.protocols.covers(&other.protocols, family)
                && self.sources.covers(&other.sources, family)
                && self.destinations.covers(&other.destinations, family)
        };
        self.entries.covers(other.entries)
            && self.exits.covers(other.exits)
            && self.source_ports.covers(&other.source_ports)
            && self.destination_ports.covers(&other.destination_ports)
            && Family::ALL.into_iter().all(|family| !other.has(family) || covers(family))
    }

    /// Returns whether both are about some packet.
    pub fn meets(&self, other: &Self) -> bool {
        let meets = |family| {
            self.protocols.meets(&other.protocols, family)
                && self.sources.meets(&other.sources, family)
                && self.destinations.meets(&other.destinations, family)
        };
        self.entries.meets(other.entries)
            && self.exits.meets(other.exits)
            && self.source_ports.meets(&other.source_ports)
            && self.destination_ports.meets(&other.destination_ports)
            && Family::ALL.into_iter().any(meets)
    }

    /// Returns how many ranges of addresses and ports it has.
    pub(crate) fn ranges(&self) -> usize {
        let addresses = |set: &Addresses| set.v4.parts().len() + set.v6.parts().len();
        let ports = self.source_ports.parts().len() + self.destination_ports.parts().len();
        addresses(&self.sources) + addresses(&self.destinations) + ports
    }
}

/// A rule of the filter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Rule {
    /// The number of its line, from 1.
    pub line: u32,
    /// The bytes of the text that are the rule.
    pub span: Range<usize>,
    /// What it is about.
    pub matching: Match,
    /// What becomes of that.
    pub outcome: Outcome,
}

/// Whose address a packet gets that leaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lender {
    /// The router's own in the zone to which the packet goes.
    Own,
    /// One of these, both included.
    Range(Ipv4Addr, Ipv4Addr),
}

/// A rule that gives packets that leave another source (source NAT, IPv4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Nat {
    /// The number of its line, from 1.
    pub line: u32,
    /// The bytes of the text that are the rule.
    pub span: Range<usize>,
    /// What it is about.
    pub matching: Match,
    /// The addresses.
    pub to: Lender,
    /// The first and last port (of ICMP echo: identifier).
    pub ports: (u16, u16),
}

/// A rule that gives packets that come in another destination (port forwarding, IPv4).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Forward {
    /// The number of its line, from 1.
    pub line: u32,
    /// The bytes of the text that are the rule.
    pub span: Range<usize>,
    /// What it is about. Where no address is named in the rule, these are packets for the router
    /// itself.
    pub matching: Match,
    /// The new destination.
    pub to: Ipv4Addr,
    /// The new port, if it is another.
    pub port: Option<u16>,
}

/// All rules of a router, checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RuleSet {
    pub(crate) zones: Zones,
    pub(crate) default: Outcome,
    pub(crate) rules: Vec<Rule>,
    pub(crate) nats: Vec<Nat>,
    pub(crate) forwards: Vec<Forward>,
}

impl RuleSet {
    /// Returns the zones.
    pub fn zones(&self) -> &Zones {
        &self.zones
    }

    /// Returns what becomes of packets that no rule is about.
    pub fn default_outcome(&self) -> Outcome {
        self.default
    }

    /// Returns the rules of the filter, in order; the first that is about a packet decides.
    pub fn rules(&self) -> &[Rule] {
        &self.rules
    }

    /// Returns the rules of source NAT, in order.
    pub fn nats(&self) -> &[Nat] {
        &self.nats
    }

    /// Returns the rules of port forwarding, in order.
    pub fn forwards(&self) -> &[Forward] {
        &self.forwards
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn protocols_are_of_a_family() {
        let set = Protocols::EMPTY.with(Family::V6, protocol::ICMPV6).with(Family::V4, 255);
        assert!(set.contains(Family::V6, 58) && !set.contains(Family::V4, 58) && set.contains(Family::V4, 255));
        assert!(!set.contains(Family::V4, 127) && set.has(Family::V4));
        assert!(Protocols::ALL.covers(&set, Family::V4) && !set.covers(&Protocols::ALL, Family::V6));
    }

    #[test]
    fn a_family_without_packets_needs_no_cover() {
        let v4_only = Addresses { v4: Ranges::all(), v6: Ranges::EMPTY };
        let mut one = Match { sources: v4_only.clone(), ..Match::all() };
        let other = Match { destinations: v4_only, ..Match::all() };
        assert!(one.covers(&other) && other.covers(&one) && one.meets(&other));
        one.sources.v4 = Ranges::new(alloc::vec![(5, 9)]);
        assert!(!one.covers(&other) && other.covers(&one));
        let v6 = Match { sources: Addresses { v4: Ranges::EMPTY, v6: Ranges::all() }, ..Match::all() };
        assert!(!v6.meets(&other) && !v6.covers(&other) && Match::all().covers(&v6) && !v6.has(Family::V4));
    }
}
