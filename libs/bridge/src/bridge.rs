//! The decision: where a frame goes.

use crate::recent::{Question, Recent};
use crate::storm::{Kind, Storm};
use crate::table::{Heard, Table};
use crate::vlan::{Edit, Membership, VlanSet, hides_tag, is_cut, tag_of};
use crate::{Address, MAX_PORTS, PortOptions, PortSet};
use alloc::boxed::Box;
use alloc::vec::Vec;

/// Nanoseconds of a second.
const SECOND: u64 = 1_000_000_000;

/// A port, as it is described.
#[derive(Clone, Debug, Default)]
pub struct PortSetup {
    /// Its options.
    pub options: PortOptions,
    /// The address of the station behind it, if there is a single one that the description names:
    /// nobody else has it.
    pub owner: Option<Address>,
    /// Whether its stations are heard at all. Behind the port of a client that sends from its own
    /// address only, there is nobody else to be learned.
    pub learns: bool,
    /// The ports that its frames may go to; `None`: all others.
    pub reaches: Option<PortSet>,
}

/// Why a frame goes nowhere.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cause {
    /// It has no whole header, or comes from a group or from no station.
    Malformed,
    /// It is for this link alone (IEEE 802.1Q-2018, table 8-1).
    LinkLocal,
    /// It is of no VLAN of the port's, or would go out with a tag that nobody has checked.
    Vlan,
    /// It comes from the address of another port's owner.
    Stolen,
    /// There were too many frames for many.
    Storm,
    /// It comes from an isolated port, and is for such alone.
    Isolated,
    /// Whoever it is for is behind the port where it came from; or no other port is in its VLAN, or
    /// may be reached from there.
    Nobody,
}

/// Where a frame goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// To these ports.
    Forward(Forwarding),
    /// Nowhere.
    Drop(Cause),
}

/// Where a frame goes, and as what.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Forwarding {
    /// The ports.
    pub targets: PortSet,
    /// The frame's VLAN; 0 in a transparent bridge.
    vlan: u16,
    /// The tag with which it came.
    tag: Option<u16>,
}

/// Counts of what came of addresses and frames, since they were last asked for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Stations that were learned, or moved.
    pub learned: u64,
    /// Stations that were heard and found no place in the table.
    pub unlearned: u64,
    /// Frames that went to all ports, since nobody knows where their station is.
    pub flooded: u64,
}

#[derive(Clone, Debug)]
struct Port {
    membership: Membership,
    storm: Storm,
    owner: Option<Address>,
    learns: bool,
    /// The ports that its frames may go to.
    reaches: PortSet,
    /// The ports where a station that was heard is not looked for elsewhere: this one, those that
    /// it may reach, and those that only isolation keeps from it.
    finds: PortSet,
}

/// A bridge.
#[derive(Clone, Debug)]
pub struct Bridge {
    ports: Box<[Port]>,
    /// Ports behind which there is their owner alone: nobody is looked for there.
    closed: PortSet,
    /// Ports that are given what comes by all others, which they are no part of.
    mirrors: PortSet,
    /// No port has VLANs: tags are content.
    is_transparent: bool,
    table: Table,
    recent: Recent,
    tally: Tally,
}

impl Bridge {
    /// Creates a bridge of these ports, [`MAX_PORTS`] at most; further ones are left out.
    pub fn new(ports: impl IntoIterator<Item = PortSetup>, table: Table) -> Self {
        let setups: Vec<PortSetup> = ports.into_iter().take(MAX_PORTS).collect();
        let is_transparent = !setups.iter().any(|setup| setup.options.has_vlans());
        let (mut all, mut isolated, mut closed) = (PortSet::default(), PortSet::default(), PortSet::default());
        let mut mirrors = PortSet::default();
        for (port, setup) in setups.iter().enumerate() {
            all.add(port);
            if setup.options.isolated {
                isolated.add(port);
            }
            if setup.options.mirror {
                mirrors.add(port);
            }
            if setup.owner.is_some() && !setup.learns {
                closed.add(port);
            }
        }
        let port = |(port, setup): (usize, PortSetup)| {
            let others = if setup.options.mirror { PortSet::default() } else { all.without(mirrors) };
            let others = others.without(PortSet::of(port));
            let others = setup.reaches.map_or(others, |reaches| others.and(reaches));
            let reaches = if setup.options.isolated { others.without(isolated) } else { others };
            let mut finds = others;
            finds.add(port);
            let own = setup.options.own_vlan();
            let PortOptions { trunk, storm, .. } = setup.options;
            let membership = match is_transparent {
                true => Membership { own: Some(0), tagged: VlanSet::default() },
                false => Membership { own, tagged: trunk },
            };
            Port { membership, storm: Storm::new(storm), owner: setup.owner, learns: setup.learns, reaches, finds }
        };
        let ports = setups.into_iter().enumerate().map(port).collect();
        Self { ports, closed, mirrors, is_transparent, table, recent: Recent::default(), tally: Tally::default() }
    }

    /// Returns how many ports it has.
    pub fn port_count(&self) -> usize {
        self.ports.len()
    }

    /// Returns the ports that are given every frame that comes by another port, as it comes,
    /// whatever is decided on it.
    pub fn mirrors(&self) -> PortSet {
        self.mirrors
    }

    /// Decides on a frame that came by a port, at `now`, in nanoseconds; `head` is its beginning,
    /// [`HEAD`](crate::HEAD) bytes where it has them.
    #[inline]
    pub fn decide(&mut self, now: u64, from: usize, head: &[u8]) -> Verdict {
        let (second, changes) = ((now / SECOND) as u32, self.table.changes());
        let question = Question::new(head, from, second, changes, self.is_transparent);
        if let Some(question) = &question
            && let Some(forwarding) = self.recent.find(question)
        {
            return Verdict::Forward(forwarding);
        }
        self.decide_anew(now, from, head)
    }

    /// Returns the port to which alone a frame goes as it came, if that was decided on one like it
    /// a moment ago: what [`Self::decide`] says of it, in short. `second` is the time in whole
    /// seconds.
    #[inline(always)]
    pub fn decided(&self, second: u32, from: usize, head: &[u8]) -> Option<usize> {
        let question = Question::new(head, from, second, self.table.changes(), self.is_transparent)?;
        self.recent.find_alone(&question)
    }

    /// Returns the port to which alone a frame goes as it came, and no mirror sees it.
    fn alone(&self, forwarding: &Forwarding) -> Option<usize> {
        let port = forwarding.targets.iter().next()?;
        let is_alone = forwarding.targets == PortSet::of(port) && self.mirrors.is_empty();
        (is_alone && self.edit(forwarding, port) == Edit::Keep).then_some(port)
    }

    #[inline(never)]
    fn decide_anew(&mut self, now: u64, from: usize, head: &[u8]) -> Verdict {
        match self.try_decide(now, from, head) {
            Ok((forwarding, kind)) => {
                // If the table has learned from this frame, the next one finds it changed so.
                let (second, changes) = ((now / SECOND) as u32, self.table.changes());
                let question = Question::new(head, from, second, changes, self.is_transparent);
                if let Some(question) = question.filter(|_| kind.is_none()) {
                    let alone = self.alone(&forwarding);
                    self.recent.keep(question, forwarding, alone);
                }
                Verdict::Forward(forwarding)
            }
            Err(cause) => Verdict::Drop(cause),
        }
    }

    /// Decides, and says of what kind a frame for many is.
    fn try_decide(&mut self, now: u64, from: usize, head: &[u8]) -> Result<(Forwarding, Option<Kind>), Cause> {
        let (destination, source) = addresses(head).ok_or(Cause::Malformed)?;
        if is_group(source) || source == [0; 6] {
            return Err(Cause::Malformed);
        }
        if is_link_local(destination) {
            return Err(Cause::LinkLocal);
        }
        if self.mirrors.contains(from) {
            return Err(Cause::Nobody);
        }
        let port = self.ports.get(from).ok_or(Cause::Nobody)?;
        if !self.is_transparent && is_cut(head) {
            return Err(Cause::Malformed);
        }
        let tag = if self.is_transparent { None } else { tag_of(head) };
        let vlan = port.membership.classify(tag).ok_or(Cause::Vlan)?;
        let seconds = (now / SECOND) as u32;
        self.hear(seconds, vlan, source, from)?;
        let found = if is_group(destination) { None } else { self.find(seconds, vlan, destination, from) };
        let (targets, kind) = match found {
            Some(target) => (self.reachable(vlan, from, PortSet::of(target)), None),
            None if destination == [0xff; 6] => (self.reachable(vlan, from, PortSet::ALL), Some(Kind::Broadcast)),
            None if is_group(destination) => (self.reachable(vlan, from, PortSet::ALL), Some(Kind::Multicast)),
            None => (self.reachable(vlan, from, PortSet::ALL.without(self.closed)), Some(Kind::Unknown)),
        };
        if targets.is_empty() {
            let of = found.map_or(PortSet::ALL, PortSet::of);
            return Err(if self.is_isolated(vlan, from, of) { Cause::Isolated } else { Cause::Nobody });
        }
        let targets = if tag.is_some() && hides_tag(head) { self.keeping_tag(vlan, targets) } else { targets };
        if targets.is_empty() {
            return Err(Cause::Vlan);
        }
        if let Some(kind) = kind {
            let port = self.ports.get_mut(from).ok_or(Cause::Nobody)?;
            if !port.storm.admits(kind, now) {
                return Err(Cause::Storm);
            }
            self.tally.flooded += u64::from(kind == Kind::Unknown);
        }
        Ok((Forwarding { targets, vlan, tag }, kind))
    }

    /// Notes where a station is, unless the address is that of a port's owner.
    fn hear(&mut self, now: u32, vlan: u16, source: Address, from: usize) -> Result<(), Cause> {
        let port = self.ports.get(from).ok_or(Cause::Nobody)?;
        if port.owner == Some(source) {
            return Ok(());
        }
        // An address that is known here cannot be another port's owner's, which is never learned.
        if port.learns && self.table.hear_again(now, vlan, source, from) {
            return Ok(());
        }
        if self.ports.iter().any(|other| other.owner == Some(source)) {
            return Err(Cause::Stolen);
        }
        if port.learns {
            match self.table.hear(now, vlan, source, from) {
                Heard::Known => {}
                Heard::Learned | Heard::Moved(_) => self.tally.learned += 1,
                Heard::Full => self.tally.unlearned += 1,
            }
        }
        Ok(())
    }

    /// Returns the port behind which a station is for who sends to it by `from`: where it was
    /// heard, or that whose owner it is.
    ///
    /// A station that was heard at a port which `from` never reaches is looked for: it may be
    /// behind another one too. Two uplinks that serve a client each may lead to one network; or
    /// somebody behind one claims to be a station behind the other, and would cut it off.
    fn find(&self, now: u32, vlan: u16, destination: Address, from: usize) -> Option<usize> {
        let finds = self.ports.get(from).map_or(PortSet::default(), |port| port.finds);
        let learned = self.table.find(now, vlan, destination).filter(|port| finds.contains(*port));
        learned.or_else(|| self.ports.iter().position(|port| port.owner == Some(destination)))
    }

    /// Returns those of these ports to which frames of a VLAN may go that come by `from`.
    fn reachable(&self, vlan: u16, from: usize, ports: PortSet) -> PortSet {
        let reachable = self.ports.get(from).map_or(PortSet::default(), |port| port.reaches.and(ports));
        self.members(vlan, reachable)
    }

    /// Returns whether frames of a VLAN that come by `from` would go to one of these ports, were it
    /// not isolated.
    fn is_isolated(&self, vlan: u16, from: usize, ports: PortSet) -> bool {
        let kept = self.ports.get(from).map_or(PortSet::default(), |port| port.finds.without(port.reaches).and(ports));
        !self.members(vlan, kept.without(PortSet::of(from))).is_empty()
    }

    /// Returns those of these ports that are in a VLAN.
    fn members(&self, vlan: u16, ports: PortSet) -> PortSet {
        if self.is_transparent {
            return ports;
        }
        let mut members = PortSet::default();
        for port in ports.iter() {
            if self.ports.get(port).is_some_and(|port| port.membership.has(vlan)) {
                members.add(port);
            }
        }
        members
    }

    /// Returns those of these ports where frames of a VLAN go out with a tag.
    fn keeping_tag(&self, vlan: u16, ports: PortSet) -> PortSet {
        let mut keeping = ports;
        for port in ports.iter() {
            if self.ports.get(port).is_none_or(|port| port.membership.own == Some(vlan)) {
                keeping = keeping.without(PortSet::of(port));
            }
        }
        keeping
    }

    /// Returns what is to be done to a frame where it goes out by a port.
    pub fn edit(&self, forwarding: &Forwarding, port: usize) -> Edit {
        match self.ports.get(port) {
            Some(port) if !self.is_transparent => port.membership.edit(forwarding.vlan, forwarding.tag),
            _ => Edit::Keep,
        }
    }

    /// Takes out some of the addresses that are too old at `now`, in nanoseconds.
    pub fn sweep(&mut self, now: u64) {
        self.table.sweep((now / SECOND) as u32);
    }

    /// Returns the counts since this was last called.
    pub fn tally(&mut self) -> Tally {
        core::mem::take(&mut self.tally)
    }
}

/// Destination and source of a frame that has a whole header.
fn addresses(head: &[u8]) -> Option<(Address, Address)> {
    let header: &[u8; 14] = head.first_chunk()?;
    let [a, b, c, d, e, f, g, h, i, j, k, l, ..] = *header;
    Some(([a, b, c, d, e, f], [g, h, i, j, k, l]))
}

/// Whether an address stands for several stations (IEEE 802.3 §3.2.3, the first bit on the wire).
fn is_group(address: Address) -> bool {
    address[0] & 1 != 0
}

/// Whether an address is one of those that no bridge passes on: 01-80-C2-00-00-00 to -0F.
fn is_link_local(address: Address) -> bool {
    matches!(address, [0x01, 0x80, 0xc2, 0, 0, 0..=0x0f])
}
