//! What the rules say of a new flow: whether it passes, and what it is translated to.
//!
//! The rules' own tables find the rule of a packet ([`Engine`]); here is what follows from it: the
//! addresses and ports that NAT lends, as pools, and how often each rule has decided.

use crate::networks::Networks;
use alloc::vec;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, SocketAddrV4};
use culm_firewall::{Ends, Engine, Key, Lender, Outcome, RuleSet, TooLarge, Verdict, Zone};
use culm_flow::{Flow, ICMP, ICMP6, Inward, Mistake, Nat, Packet, Pool, Transport, Tuple};
use culm_report::Counts;

/// Bytes that the rules' tables take at most.
const TABLES: usize = 1 << 20;

/// Pools of outer addresses that there can be: a network of 256 addresses.
const POOLS: usize = 256;

/// Why rules cannot be used that are right by themselves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unusable {
    /// Their tables would be too large.
    Tables,
    /// NAT lends more addresses than there can be pools.
    Pools,
    /// NAT lends ports twice.
    Overlap,
}

impl core::fmt::Display for Unusable {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self {
            Self::Tables => write!(formatter, "their tables take more than {TABLES} bytes"),
            Self::Pools => write!(formatter, "their NAT has more than {POOLS} addresses"),
            Self::Overlap => formatter.write_str("their NAT lends a port by two rules"),
        }
    }
}

/// How a new flow is translated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Translation {
    /// What its destination becomes, if that is something else.
    to: Option<SocketAddrV4>,
    /// The pool of which its source gets an address and port, if it gets others.
    pool: Option<usize>,
}

/// The pools of a rule of NAT.
#[derive(Clone, Copy, Debug, Default)]
struct Lent {
    first: usize,
    count: usize,
}

/// Rules in use.
#[derive(Debug)]
pub struct Policy {
    engine: Engine,
    rules: RuleSet,
    /// By rule of NAT, and for [`Lender::Own`] by network.
    lent: Vec<Vec<Lent>>,
    nat: Nat,
    /// Outer addresses of pools that are not the router's own, for which it answers.
    lent_addresses: Vec<Ipv4Addr>,
    zones: Vec<Zone>,
    /// How many packets of no known flow each rule has decided on, the default's last.
    counts: Vec<u64>,
    /// Where others see that.
    shown: Counts<'static>,
    /// Spreads sources over the addresses of a rule.
    spread: culm_flow::Key,
}

/// What becomes of the first packet of a flow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Judgement {
    /// What becomes of it.
    pub outcome: Outcome,
    /// The line of the rule that says so; 0 is the default.
    pub line: u32,
}

impl Policy {
    /// Makes tables of rules, for these networks and so many flows. The key is of random bits.
    ///
    /// # Errors
    ///
    /// If they cannot be used.
    pub fn new(rules: RuleSet, networks: &Networks, key: culm_flow::Key, flows: usize) -> Result<Self, Unusable> {
        let engine = Engine::new(&rules, TABLES).map_err(|TooLarge| Unusable::Tables)?;
        let (mut pools, mut lent): (Vec<Pool>, Vec<Vec<Lent>>) = (Vec::new(), Vec::new());
        for rule in rules.nats() {
            let of_range =
                |first: Ipv4Addr, last: Ipv4Addr, pools: &mut Vec<Pool>| lend(first, last, rule.ports, pools);
            lent.push(match rule.to {
                Lender::Range(first, last) => vec![of_range(first, last, &mut pools)?],
                Lender::Own => {
                    let own = networks.all().iter().map(|network| network.v4.map(|own| own.address));
                    let own = own.map(|own| own.map_or(Ok(Lent::default()), |own| of_range(own, own, &mut pools)));
                    own.collect::<Result<_, _>>()?
                }
            });
        }
        // The rules were checked: what remains are a range and the router's own address in it.
        let nat = Nat::new(key, &pools, &[], flows).map_err(|_: Mistake| Unusable::Overlap)?;
        let lent_addresses = pools.iter().map(|pool| *pool.first.ip());
        let mut lent_addresses: Vec<Ipv4Addr> =
            lent_addresses.filter(|address| networks.owner((*address).into()).is_none()).collect();
        lent_addresses.sort_unstable();
        lent_addresses.dedup();
        let zones = networks.all().iter().filter_map(|network| rules.zones().find(network.name)).collect();
        let counts = vec![0; rules.rules().len() + 1];
        Ok(Self { engine, rules, lent, nat, lent_addresses, zones, counts, shown: Counts::default(), spread: key })
    }

    /// Returns whether the router answers for an address that it lends.
    pub fn lends(&self, address: Ipv4Addr) -> bool {
        self.lent_addresses.binary_search(&address).is_ok()
    }

    /// Returns where packets to an address of the router's, or one that it lends, are forwarded.
    pub fn inward(&self, packet: &Packet, tuple: &Tuple, entry: usize, is_own: bool) -> Option<SocketAddrV4> {
        let IpAddr::V4(destination) = tuple.destination else { return None };
        let exit = if is_own { Zone::SELF } else { self.zone(entry) };
        let key = self.key(packet, tuple, self.zone(entry), exit)?;
        if let Some(forward) = self.engine.forward(&key) {
            return Some(SocketAddrV4::new(forward.to, forward.port.unwrap_or(tuple.destination_port)));
        }
        // An echo request is for the router itself: no host inside is asked by its identifier.
        if tuple.protocol == ICMP {
            return None;
        }
        match self.nat.inward(tuple.protocol, SocketAddrV4::new(destination, tuple.destination_port))? {
            Inward::Forwarded(inner) | Inward::Mapped(inner) => Some(inner),
        }
    }

    /// Returns what becomes of a packet from one network to another; `exit` is `None` if it is for
    /// the router itself. Its tuple is that after forwarding. The rule counts it.
    pub fn judge(&mut self, packet: &Packet, tuple: &Tuple, entry: usize, exit: Option<usize>) -> Judgement {
        let exit = exit.map_or(Zone::SELF, |exit| self.zone(exit));
        let verdict = match self.key(packet, tuple, self.zone(entry), exit) {
            Some(key) => self.engine.filter(&key),
            None => Verdict { outcome: self.rules.default_outcome(), rule: None },
        };
        let count = verdict.rule.unwrap_or(self.rules.rules().len());
        if let Some(own) = self.counts.get_mut(count) {
            *own += 1;
            self.shown.set(count, *own);
        }
        Judgement { outcome: verdict.outcome, line: self.line(&verdict) }
    }

    /// Returns how a new flow from `entry` to `exit` is translated, whose destination becomes `to`
    /// if that is something. `None`: its source would get an address that the router has not.
    ///
    /// `hit` is the network whose address of the router's the packet was sent to, if it was: who
    /// reaches a host on his own network by it must be answered by way of the router
    /// (hairpinning, RFC 4787 REQ-9), and is seen there as from outside.
    pub fn translation(
        &self,
        packet: &Packet,
        original: &Tuple,
        to: Option<SocketAddrV4>,
        [entry, exit]: [usize; 2],
        hit: Option<usize>,
    ) -> Option<Translation> {
        if !original.is_v4() {
            return Some(Translation { to: None, pool: None });
        }
        let exit = if entry == exit { hit.unwrap_or(exit) } else { exit };
        let seen = match to {
            Some(to) => Tuple { destination: (*to.ip()).into(), destination_port: to.port(), ..*original },
            None => *original,
        };
        let pool = match self.pool(packet, &seen, entry, exit) {
            Some(pool) => Some(pool?),
            None => None,
        };
        let to = to.map(|to| SocketAddrV4::new(*to.ip(), if original.protocol == ICMP { 0 } else { to.port() }));
        Some(Translation { to, pool })
    }

    /// Returns the tuple of packets that answer those of a new flow. `None`: there is no port left
    /// for it.
    pub fn answer(&mut self, original: &Tuple, translation: &Translation) -> Option<Tuple> {
        if !original.is_v4() {
            return Some(original.reversed());
        }
        self.nat.begin(original, translation.to, translation.pool)
    }

    /// Returns the pool from which the source of a new flow is, if a rule says that it gets another
    /// one: `Some(None)` if the router has no address there.
    fn pool(&self, packet: &Packet, seen: &Tuple, entry: usize, exit: usize) -> Option<Option<usize>> {
        let key = self.key(packet, seen, self.zone(entry), self.zone(exit))?;
        let rule = self.engine.nat(&key)?;
        let number = self.rules.nats().iter().position(|other| other.line == rule.line)?;
        let lent = self.lent.get(number)?;
        let lent = if rule.to == Lender::Own { lent.get(exit) } else { lent.first() };
        let Some(lent) = lent.filter(|lent| lent.count > 0) else { return Some(None) };
        // A host has one address outside, whatever it begins (RFC 4787 REQ-2).
        let IpAddr::V4(source) = seen.source else { return Some(None) };
        let step = self.spread.hash(&[source.to_bits().into()]) % lent.count as u64;
        Some(Some(lent.first + step as usize))
    }

    /// Records that a flow is gone.
    pub fn release(&mut self, flow: &Flow) {
        self.nat.release(flow);
    }

    /// Records that a flow did not come about, which had its reply's tuple from [`Self::answer`].
    pub fn release_tuples(&mut self, original: &Tuple, reply: &Tuple) {
        self.nat.release_tuples(original, reply);
    }

    /// Returns the line of each rule in the filter, in their order.
    pub fn lines(&self) -> impl ExactSizeIterator<Item = u32> {
        self.rules.rules().iter().map(|rule| rule.line)
    }

    /// Counts rules there, too, from now on.
    pub fn count_at(&mut self, shown: Counts<'static>) {
        self.shown = shown;
    }

    /// Returns the line of the rule by which a flow that is there may go on, 0 for the default.
    /// `None`: these rules would not let it begin, or do not lend what it was translated to. Asked
    /// once of each flow, before packets come: what it says is noted of the flow's ports.
    ///
    /// A flow is not translated anew: its peers know it as it is.
    pub fn readmit(&mut self, flow: &Flow, networks: &Networks) -> Option<u32> {
        let (Flow { original, reply, .. }, zone) = (flow, |way: crate::networks::Way| self.zone(way.network));
        let seen = Tuple { destination: reply.source, destination_port: reply.source_port, ..*original };
        let entry = zone(networks.way(seen.source)?);
        let exit = zone(networks.way(seen.destination)?);
        let ports = match seen.protocol {
            // No other message of ICMP begins a flow.
            ICMP | ICMP6 => (0, echo(seen.protocol, true)),
            _ => (seen.source_port, seen.destination_port),
        };
        let verdict = self.engine.filter(&key(&seen, ports, entry, exit)?);
        let may_go_on = verdict.allows() && self.leads_inward(flow, entry, networks) && self.nat.believe(flow);
        may_go_on.then(|| self.line(&verdict))
    }

    /// Returns whether these rules have the destination of a flow become what it did become, or
    /// leave it as it is where it was left. One that went to a lent port was led by the flow that
    /// has that, not by a rule.
    fn leads_inward(&self, flow: &Flow, entry: Zone, networks: &Networks) -> bool {
        let Flow { original, reply, .. } = flow;
        let (IpAddr::V4(before), IpAddr::V4(after)) = (original.destination, reply.source) else { return true };
        if (before, original.destination_port) == (after, reply.source_port) {
            return true;
        }
        let exit = if networks.owner(original.destination).is_some() { Zone::SELF } else { entry };
        let ports = match original.protocol {
            ICMP => (0, echo(ICMP, true)),
            _ => (original.source_port, original.destination_port),
        };
        match key(original, ports, entry, exit).and_then(|key| self.engine.forward(&key)) {
            Some(forward) if original.protocol == ICMP => forward.to == after,
            Some(forward) => {
                (forward.to, forward.port.unwrap_or(original.destination_port)) == (after, reply.source_port)
            }
            None => self.nat.lends(SocketAddrV4::new(before, original.destination_port)),
        }
    }

    fn line(&self, verdict: &Verdict) -> u32 {
        verdict.rule.and_then(|rule| self.rules.rules().get(rule)).map_or(0, |rule| rule.line)
    }

    fn zone(&self, network: usize) -> Zone {
        self.zones.get(network).copied().unwrap_or(Zone::SELF)
    }

    fn key(&self, packet: &Packet, tuple: &Tuple, entry: Zone, exit: Zone) -> Option<Key> {
        let ports = match packet.transport {
            // Rules have the type of a message there.
            Transport::Echo { is_request, .. } => (0, echo(tuple.protocol, is_request)),
            Transport::Control { kind, .. } => (0, kind.into()),
            _ => (tuple.source_port, tuple.destination_port),
        };
        key(tuple, ports, entry, exit)
    }
}

/// Returns what rules are asked about: a packet with this tuple, but for its ports.
fn key(tuple: &Tuple, (source_port, destination_port): (u16, u16), entry: Zone, exit: Zone) -> Option<Key> {
    let ends = match (tuple.source, tuple.destination) {
        (IpAddr::V4(source), IpAddr::V4(destination)) => Ends::V4 { source, destination },
        (IpAddr::V6(source), IpAddr::V6(destination)) => Ends::V6 { source, destination },
        _ => return None,
    };
    Some(Key { entry, exit, ends, protocol: tuple.protocol, source_port, destination_port })
}

/// Returns the type of an echo (RFC 792, RFC 4443 §4).
fn echo(protocol: u8, is_request: bool) -> u16 {
    match (protocol, is_request) {
        (ICMP6, true) => 128,
        (ICMP6, false) => 129,
        (_, true) => 8,
        (_, false) => 0,
    }
}

/// Adds pools of these addresses and ports, if they are not there, and returns which they are.
fn lend(first: Ipv4Addr, last: Ipv4Addr, ports: (u16, u16), pools: &mut Vec<Pool>) -> Result<Lent, Unusable> {
    let pool = |bits: u32| Pool { first: SocketAddrV4::new(bits.into(), ports.0), last: ports.1, keeps_parity: false };
    let count = (last.to_bits() - first.to_bits()) as usize + 1;
    let is_it = |at: &usize| {
        let last = pools.get(at.saturating_add(count) - 1);
        pools.get(*at) == Some(&pool(first.to_bits())) && last == Some(&pool(last_bits(first, count)))
    };
    if let Some(first) = (0..pools.len()).find(is_it) {
        return Ok(Lent { first, count });
    }
    if pools.len() + count > POOLS {
        return Err(Unusable::Pools);
    }
    let lent = Lent { first: pools.len(), count };
    pools.extend((first.to_bits()..=last.to_bits()).map(pool));
    Ok(lent)
}

fn last_bits(first: Ipv4Addr, count: usize) -> u32 {
    first.to_bits().saturating_add(count as u32 - 1)
}
