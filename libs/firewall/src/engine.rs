//! What becomes of a packet: a set of rules, made into tables.

use crate::rule::{Action, Family, Forward, Match, Nat, Outcome, RuleSet};
use crate::table::{Builder, RowId, Rows, Sorted, TooLarge, Trie};
use crate::zone::{MAX_ZONES, Zone};
use alloc::vec::Vec;
use core::net::{Ipv4Addr, Ipv6Addr};

/// Zones, the router itself among them.
const ZONES: usize = MAX_ZONES + 1;

/// From whom to whom a packet goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ends {
    /// Over IPv4.
    V4 {
        /// The sender.
        source: Ipv4Addr,
        /// The receiver.
        destination: Ipv4Addr,
    },
    /// Over IPv6.
    V6 {
        /// The sender.
        source: Ipv6Addr,
        /// The receiver.
        destination: Ipv6Addr,
    },
}

/// All of a packet that rules ask about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Key {
    /// Where it comes from.
    pub entry: Zone,
    /// Where it goes to.
    pub exit: Zone,
    /// From whom to whom.
    pub ends: Ends,
    /// The number of its protocol; over IPv6 that behind the extension headers.
    pub protocol: u8,
    /// The port of the sender, if the protocol is TCP, UDP or SCTP; otherwise 0.
    pub source_port: u16,
    /// The port of the receiver, if the protocol is TCP, UDP or SCTP; the type, if it is ICMP or
    /// ICMPv6; otherwise 0.
    pub destination_port: u16,
}

/// What becomes of a packet, and who says so.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What becomes of it.
    pub outcome: Outcome,
    /// The index of the rule among [`RuleSet::rules`]; `None` if it is the default.
    pub rule: Option<usize>,
}

/// Rules as tables.
///
/// A question takes no memory. Its cost has these parts, for a packet of IPv4 and *n* rules:
///
/// - at most 14 loads to find the packet's six rows: two by its zones and its protocol, 4 for each
///   address, 2 for each port;
/// - six words of these rows for their summaries, and six for each word in which a rule may be.
///   These are few if rules of a kind stand together, and at most *n* / 64.
///
/// Over IPv6 an address is searched for in a sorted list: a step for each power of two of the
/// ranges that the rules have.
#[derive(Clone, Debug)]
pub struct Engine {
    filter: Classifier,
    nat: Classifier,
    forward: Classifier,
    outcomes: Vec<Outcome>,
    default: Outcome,
    nats: Vec<Nat>,
    forwards: Vec<Forward>,
    bytes: usize,
}

impl Engine {
    /// Makes tables of at most `limit` bytes for `rules`. Meanwhile about twice as much is used.
    ///
    /// # Errors
    ///
    /// If the tables would be larger, or larger than any can be (32,768 different rows, or as many
    /// nodes of 512 bytes in one table).
    pub fn new(rules: &RuleSet, limit: usize) -> Result<Self, TooLarge> {
        let filter: Vec<&Match> = rules.rules.iter().map(|rule| &rule.matching).collect();
        let nat: Vec<&Match> = rules.nats.iter().map(|nat| &nat.matching).collect();
        let forward: Vec<&Match> = rules.forwards.iter().map(|forward| &forward.matching).collect();
        let (filter, left) = Classifier::new(&filter, limit)?;
        let (nat, left) = Classifier::new(&nat, left)?;
        let (forward, left) = Classifier::new(&forward, left)?;
        Ok(Self {
            filter,
            nat,
            forward,
            outcomes: rules.rules.iter().map(|rule| rule.outcome).collect(),
            default: rules.default,
            nats: rules.nats.clone(),
            forwards: rules.forwards.clone(),
            bytes: limit - left,
        })
    }

    /// Returns how many bytes the tables take.
    pub fn bytes(&self) -> usize {
        self.bytes
    }

    /// Returns what becomes of a packet. Its destination is that after forwarding, its source that
    /// before NAT.
    #[inline]
    pub fn filter(&self, key: &Key) -> Verdict {
        let rule = self.filter.first(key);
        match rule.and_then(|rule| self.outcomes.get(rule)) {
            Some(outcome) => Verdict { outcome: *outcome, rule },
            None => Verdict { outcome: self.default, rule: None },
        }
    }

    /// Returns where a packet is forwarded that has just come in, if it is. As far as is known
    /// before that, a packet for an address of the router's goes to [`Zone::SELF`].
    pub fn forward(&self, key: &Key) -> Option<&Forward> {
        self.forwards.get(self.forward.first(key)?)
    }

    /// Returns the NAT for a packet that leaves, if there is one. Its destination is that after
    /// forwarding.
    pub fn nat(&self, key: &Key) -> Option<&Nat> {
        self.nats.get(self.nat.first(key)?)
    }
}

impl Verdict {
    /// Returns whether the packet passes.
    pub fn allows(&self) -> bool {
        self.outcome.action == Action::Allow
    }
}

/// Finds the first of a list of rules that is about a packet.
#[derive(Clone, Debug)]
struct Classifier {
    /// Whether there is no rule.
    is_empty: bool,
    rows: Rows,
    /// By entry and exit.
    zones: Vec<RowId>,
    /// By protocol, those over IPv4 first.
    protocols: Vec<RowId>,
    sources: Sides,
    destinations: Sides,
    source_ports: Trie<2>,
    destination_ports: Trie<2>,
}

/// Rows by address.
#[derive(Clone, Debug)]
struct Sides {
    v4: Trie<4>,
    v6: Sorted,
}

impl Classifier {
    /// Makes the tables, and returns with them what they leave of `limit`.
    fn new(rules: &[&Match], limit: usize) -> Result<(Self, usize), TooLarge> {
        let mut builder = Builder::new(rules.len(), limit);
        let pairs: Vec<(Zone, Zone)> =
            Zone::EVERY.iter().flat_map(|entry| Zone::EVERY.map(|exit| (*entry, exit))).collect();
        let zones = builder
            .list(&pairs, rules, |rule, (entry, exit)| rule.entries.contains(*entry) && rule.exits.contains(*exit))?;
        let numbers: Vec<(Family, u8)> =
            Family::ALL.into_iter().flat_map(|family| (0..=u8::MAX).map(move |number| (family, number))).collect();
        let protocols =
            builder.list(&numbers, rules, |rule, (family, number)| rule.protocols.contains(*family, *number))?;
        let mut sides = |side: fn(&Match) -> &crate::Addresses| {
            let v4 = builder.trie_32(rules.iter().map(|rule| side(rule).v4.parts()))?;
            let v6 = builder.sorted(rules.iter().map(|rule| side(rule).v6.parts()))?;
            Ok(Sides { v4, v6 })
        };
        let sources = sides(|rule| &rule.sources)?;
        let destinations = sides(|rule| &rule.destinations)?;
        let source_ports = builder.trie_16(rules.iter().map(|rule| rule.source_ports.parts()))?;
        let destination_ports = builder.trie_16(rules.iter().map(|rule| rule.destination_ports.parts()))?;
        let (rows, left) = builder.finish();
        let is_empty = rules.is_empty();
        Ok((Self { is_empty, rows, zones, protocols, sources, destinations, source_ports, destination_ports }, left))
    }

    /// Returns the first rule that is about a packet.
    #[inline]
    fn first(&self, key: &Key) -> Option<usize> {
        if self.is_empty {
            return None;
        }
        let pair = key.entry.index() * ZONES + key.exit.index();
        let (family, source, destination) = match key.ends {
            Ends::V4 { source, destination } => {
                (0, self.sources.v4.find(source.octets()), self.destinations.v4.find(destination.octets()))
            }
            Ends::V6 { source, destination } => {
                (256, self.sources.v6.find(source.into()), self.destinations.v6.find(destination.into()))
            }
        };
        let rows = [
            self.zones.get(pair).copied()?,
            self.protocols.get(family + usize::from(key.protocol)).copied()?,
            source,
            destination,
            self.source_ports.find(key.source_port.to_be_bytes()),
            self.destination_ports.find(key.destination_port.to_be_bytes()),
        ];
        self.rows.first_in_all(rows)
    }
}
