//! A switch: joins its clients, and the networks outside that it is a client of itself, to one.
//!
//! It is a provider of the net class ([`culm_net::provider`]) and a learning bridge
//! ([`culm_bridge`]): a frame goes to where its destination was last heard, one for a group, for
//! all or for a station that nobody has heard of to every other port. Ports are the clients and,
//! behind them, up to four uplinks ([`ports`] says which may reach which). The address of a client
//! is its own, whoever else claims it, and behind a client there is nobody else, unless its port
//! says so.
//!
//! A frame is copied once for each port where it goes out: a client's buffers are nobody else's, so
//! that no two of them can share a copy, and nobody may change what was checked.
//!
//! Whatever clients do, they get no more than their part of the switch: they take turns
//! ([`turns`]), and one that makes it work without use is left alone for a while
//! ([`Port::mark_due`]).

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod ports;
#[cfg(test)]
mod tests;
mod turns;

use alloc::vec::Vec;
use culm::connection::NetProviderClient;
use culm::{Channels, Component, Progress, ROUNDS, Region, run_rounds, start, time};
use culm_bridge::bridge::Cause;
use culm_bridge::counts::{COUNT_WORDS, Count, Counts};
use culm_bridge::vlan::{AT, LENGTH};
use culm_bridge::{Bridge, Forwarding, HEAD, Verdict};
use culm_net::checksum;
use culm_net::client::{Receiver, Transmitter, end_round};
use culm_net::header::RawHeader;
use culm_net::provider::{Beginning, Frame, Port};
use culm_net::{Client, PacketHeader};
use turns::Turns;

culm::component!(Switch);

/// Turns of each port in one round.
const TURNS: usize = 64;

/// Bytes of the longest beginning that stands in the place of a frame's own.
const BEGINNING: usize = AT + LENGTH;

struct Switch {
    clients: Vec<Port>,
    /// The halves of the uplinks.
    receivers: Vec<Receiver>,
    transmitters: Vec<Transmitter>,
    bridge: Bridge,
    /// Turns of the clients and, behind them, of the uplinks.
    turns: Turns,
    /// What is counted of each port, where others see it.
    counts: Counts<'static>,
    /// When the round began, in nanoseconds since the machine was switched on.
    now: u64,
    /// The same in whole seconds.
    second: u32,
    /// What was done with frames at the uplinks in this round.
    tally: Tally,
    /// The last round left something to do.
    has_more: bool,
    /// It was logged that a frame is too long for an uplink.
    has_warned: bool,
}

/// Frames at the uplinks.
#[derive(Clone, Copy, Default)]
struct Tally {
    came: u64,
    went: u64,
    /// Those for which there was no buffer.
    dropped: u64,
}

impl Tally {
    /// Counts a frame for an uplink, sent or not.
    #[inline(always)]
    fn count_sent(&mut self, is_sent: bool) -> bool {
        if is_sent {
            self.went += 1;
        } else {
            self.dropped += 1;
        }
        is_sent
    }
}

impl Component for Switch {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let Connections { clients, uplink, uplink2, uplink3, uplink4, .. } = connections;
        let uplinks = [uplink, uplink2, uplink3, uplink4].into_iter().zip(ports::UPLINKS);
        let uplinks: Vec<_> = uplinks.filter_map(|(uplink, name)| Some((Client::new(uplink?), name))).collect();
        let clients: Vec<_> = start::list::<NetProviderClient>(clients.clients)
            .iter()
            .map(|client| (Port::new(client), start::text(client.name)))
            .collect();
        let table = ports::table(clients.len() + uplinks.len(), config.stations, config.age);
        let bridge = ports::bridge(&clients, &uplinks, table, config.ports.iter());
        let names = clients.iter().map(|(_, name)| *name).chain(uplinks.iter().map(|(_, name)| *name));
        let counts = connections.port_counts.map_or_else(Counts::default, |region| counts(&region, names));
        let clients = clients.into_iter().map(|(port, _)| port).collect();
        let mut this = Self::new(clients, uplinks.into_iter().map(|(uplink, _)| uplink).collect(), bridge, counts);
        this.turn();
        this
    }

    fn notified(&mut self, channels: Channels) {
        let mut has_pause_ended = false;
        for port in &mut self.clients {
            has_pause_ended |= port.mark_due(channels);
        }
        if has_pause_ended || self.is_due(channels) {
            self.turn();
        }
    }
}

impl Switch {
    fn new(clients: Vec<Port>, uplinks: Vec<Client>, bridge: Bridge, counts: Counts<'static>) -> Self {
        let turns = Turns::new(clients.len() + uplinks.len());
        let (receivers, transmitters) = uplinks.into_iter().map(Client::into_halves).unzip();
        Self {
            clients,
            receivers,
            transmitters,
            bridge,
            turns,
            counts,
            now: 0,
            second: 0,
            tally: Tally::default(),
            has_more: false,
            has_warned: false,
        }
    }

    /// Returns whether there may be something to do, if no pause has ended: not if only clients
    /// notify that are paused.
    fn is_due(&self, mut channels: Channels) -> bool {
        let is_paused = |channel| self.clients.iter().any(|port| port.is_paused() && port.has(channel));
        self.has_more || channels.is_empty() || channels.any(|channel| !is_paused(channel))
    }

    fn turn(&mut self) {
        run_rounds(ROUNDS, || self.round());
    }

    /// Passes on what there is, a bounded amount of it.
    fn round(&mut self) -> Progress {
        // It overflows after 584 years.
        let now = time::now().since_start();
        (self.now, self.second) = (now.as_nanos() as u64, now.as_secs() as u32);
        for port in &mut self.clients {
            port.begin();
        }
        for (receiver, transmitter) in self.receivers.iter_mut().zip(&mut self.transmitters) {
            receiver.begin();
            transmitter.begin();
        }
        self.bridge.sweep(self.now);
        let mut progress = self.pass_all();
        for port in &mut self.clients {
            progress &= port.end_round();
            let tally = port.tally();
            counters::FRAMES.add(tally.delivered);
            counters::DROPS.add(tally.missed);
            counters::ENTRIES_REFUSED.add(tally.entries_refused);
        }
        for (receiver, transmitter) in self.receivers.iter_mut().zip(&mut self.transmitters) {
            progress &= end_round(receiver, transmitter);
        }
        let tally = core::mem::take(&mut self.tally);
        counters::UPLINK_IN.add(tally.came);
        counters::UPLINK_OUT.add(tally.went);
        counters::DROPS.add(tally.dropped);
        let tally = self.bridge.tally();
        counters::LEARNED.add(tally.learned);
        counters::NOT_LEARNED.add(tally.unlearned);
        counters::FLOODED.add(tally.flooded);
        self.has_more = progress.is_more();
        progress
    }

    /// Passes on frames of everybody in turns, no more than a round allows.
    fn pass_all(&mut self) -> Progress {
        for _ in 0..TURNS {
            let mut is_empty = true;
            for source in self.turns.order() {
                is_empty &= self.serve(source).is_asleep();
            }
            if is_empty {
                return Progress::Asleep;
            }
        }
        Progress::More
    }

    /// Passes on frames that come by a port, as long as its turn allows.
    fn serve(&mut self, source: usize) -> Progress {
        let mut turn = self.turns.begin(source);
        let mut progress = Progress::More;
        while turn.may_send() {
            let passed = match source.checked_sub(self.clients.len()) {
                None => self.pass_from(source),
                Some(uplink) => self.pass_in(uplink, source),
            };
            let Some((length, copies)) = passed else {
                progress = Progress::Asleep;
                break;
            };
            turn.charge(length, copies);
        }
        self.turns.end(source, &turn);
        progress
    }

    /// Passes on a frame of a client. `None`: there is none; else returns its length, and to how
    /// many it was given.
    fn pass_from(&mut self, from: usize) -> Option<(usize, usize)> {
        let frame = self.clients.get_mut(from)?.next_frame()?;
        self.counts.came(from, frame.length());
        let mut copies = 0;
        for mirror in self.bridge.mirrors().iter() {
            copies += usize::from(self.show(from, &frame, mirror));
        }
        if let Some(forwarding) = forwarding(self.bridge.decide(self.now, from, frame.head()), from, &self.counts) {
            for to in forwarding.targets.iter() {
                copies += usize::from(self.pass(from, &frame, &forwarding, to));
            }
        }
        Some((frame.length(), copies))
    }

    /// Gives a client's frame to a mirror as it came. Returns whether it was given: one that has no
    /// room for it misses it.
    fn show(&mut self, from: usize, frame: &Frame, mirror: usize) -> bool {
        if self.bridge.mirrors().contains(from) {
            return false;
        }
        match self.clients.get_disjoint_mut([from, mirror]) {
            Ok([sender, receiver]) => {
                let is_given = receiver.deliver(sender, frame, Beginning::default());
                self.counts.went(mirror, frame.length(), is_given);
                is_given
            }
            Err(_) => false,
        }
    }

    /// Gives a client's frame to the port `to`. Returns whether it was given.
    fn pass(&mut self, from: usize, frame: &Frame, forwarding: &Forwarding, to: usize) -> bool {
        let mut room = [0; BEGINNING];
        let beginning = beginning(&self.bridge, forwarding, to, frame.head(), &mut room);
        let length = frame.length_with(&beginning);
        if let Ok([sender, receiver]) = self.clients.get_disjoint_mut([from, to]) {
            let is_given = receiver.deliver(sender, frame, beginning);
            self.counts.went(to, length, is_given);
            return is_given;
        }
        let Some(number) = to.checked_sub(self.clients.len()) else { return false };
        let (Some(uplink), Some(port)) = (self.transmitters.get_mut(number), self.clients.get(from)) else {
            return false;
        };
        let longest = uplink.longest_frame();
        if length > longest && !self.has_warned {
            self.has_warned = true;
            culm::warn!("a client's frame of {length} bytes is dropped: the uplink takes {longest}");
        }
        let sent = uplink.send(length, |bytes| {
            // It has the length that is asked for.
            let _ = port.read(frame, beginning, bytes);
            (PacketHeader::default(), ())
        });
        self.counts.went(to, length, sent.is_some());
        self.tally.count_sent(sent.is_some())
    }

    /// Passes on a frame that came over an uplink, whose port is `from`, as [`Self::pass_from`]
    /// does a client's. One that goes to another uplink as others like it a moment ago, which most
    /// do, takes the short way.
    #[inline(always)]
    fn pass_in(&mut self, number: usize, from: usize) -> Option<(usize, usize)> {
        let Self { clients, receivers, transmitters, bridge, counts, tally, .. } = self;
        let packet = receivers.get_mut(number)?.receive()?;
        tally.came += 1;
        let frame = packet.frame();
        counts.came(from, frame.len());
        let other = bridge.decided(self.second, from, frame).and_then(|to| Some((to, to.checked_sub(clients.len())?)));
        if let Some((to, other)) = other
            && let Some(other) = transmitters.get_mut(other)
        {
            let is_given = tally.count_sent(send_on(other, packet.raw_header(), frame));
            counts.went(to, frame.len(), is_given);
            return Some((frame.len(), usize::from(is_given)));
        }
        let mut uplink = Uplink { clients, transmitters, bridge, counts, tally, now: self.now, from };
        Some((frame.len(), uplink.pass(packet.header(), frame)))
    }
}

/// An uplink over which a frame has come, and where it can go.
struct Uplink<'a> {
    clients: &'a mut [Port],
    transmitters: &'a mut [Transmitter],
    bridge: &'a mut Bridge,
    counts: &'a Counts<'static>,
    tally: &'a mut Tally,
    now: u64,
    /// The uplink's port.
    from: usize,
}

impl Uplink<'_> {
    /// Passes on a frame. Returns to how many it was given.
    #[inline(never)]
    fn pass(&mut self, header: PacketHeader, frame: &[u8]) -> usize {
        let Self { clients, transmitters, bridge, counts, tally, now, from } = self;
        let head = frame.get(..HEAD).unwrap_or(frame);
        let mut copies = 0;
        for mirror in bridge.mirrors().iter() {
            let port = clients.get_mut(mirror);
            let is_given = port.is_some_and(|port| port.deliver_bytes(header, frame, Beginning::default()));
            counts.went(mirror, frame.len(), is_given);
            copies += usize::from(is_given);
        }
        let Some(forwarding) = forwarding(bridge.decide(*now, *from, head), *from, counts) else { return copies };
        for to in forwarding.targets.iter() {
            let mut room = [0; BEGINNING];
            let beginning = beginning(bridge, &forwarding, to, head, &mut room);
            let other = to.checked_sub(clients.len()).and_then(|other| transmitters.get_mut(other));
            let is_given = match (clients.get_mut(to), other) {
                (Some(port), _) => port.deliver_bytes(header, frame, beginning),
                (None, Some(other)) => tally.count_sent(send_with(other, header, frame, beginning)),
                (None, None) => false,
            };
            let length = (frame.len() + beginning.bytes.len()).saturating_sub(beginning.instead_of);
            counts.went(to, length, is_given);
            copies += usize::from(is_given);
        }
        copies
    }
}

/// Returns the counts of ports with these names, in a region.
fn counts<'a>(region: &Region, names: impl Iterator<Item = &'a str>) -> Counts<'static> {
    let words = COUNT_WORDS.min(region.len() / 8);
    Counts::new(region.atomics_u64(0, words).unwrap_or_default(), names)
}

/// Returns where a frame goes that came by the port `from`; `None`: nowhere, for a reason that is
/// counted.
#[inline]
fn forwarding(verdict: Verdict, from: usize, counts: &Counts<'_>) -> Option<Forwarding> {
    match verdict {
        Verdict::Forward(forwarding) => Some(forwarding),
        Verdict::Drop(cause) => {
            dropped(cause, from, counts);
            None
        }
    }
}

#[inline(never)]
fn dropped(cause: Cause, from: usize, counts: &Counts<'_>) {
    let (counter, count) = match cause {
        // What is for somebody behind the same port is no loss to anybody.
        Cause::Nobody | Cause::LinkLocal => return,
        Cause::Isolated => return counts.add(from, Count::Isolated, 1),
        Cause::Malformed | Cause::Stolen => (&counters::SOURCES_REFUSED, Count::Source),
        Cause::Vlan => (&counters::VLANS_REFUSED, Count::Vlan),
        Cause::Storm => (&counters::STORM_DROPS, Count::Storm),
    };
    counter.add(1);
    counts.add(from, count, 1);
}

/// Returns how a frame begins where it goes out by the port `to`: with the tag that it must have
/// there.
fn beginning<'a>(
    bridge: &Bridge,
    forwarding: &Forwarding,
    to: usize,
    head: &[u8],
    room: &'a mut [u8; BEGINNING],
) -> Beginning<'a> {
    let (bytes, instead_of) = bridge.edit(forwarding, to).beginning(head, room);
    Beginning { bytes, instead_of }
}

/// Sends a frame that came over one uplink over another one. Returns whether it was sent.
#[inline(always)]
fn send_on(uplink: &mut Transmitter, header: RawHeader<'_>, frame: &[u8]) -> bool {
    let Some(mut room) = uplink.room(frame.len()) else { return false };
    room.frame().copy_from_slice(frame);
    // Its sender may have left the checksum to the device, which is not the one that sends it now.
    room.send_on(header);
    true
}

/// Does the same with another beginning.
fn send_with(uplink: &mut Transmitter, header: PacketHeader, frame: &[u8], beginning: Beginning<'_>) -> bool {
    let Some(rest) = frame.get(beginning.instead_of..) else { return false };
    let (header, offloads) = (beginning.shift(header), uplink.offloads_checksum());
    let sent = uplink.send(beginning.bytes.len() + rest.len(), |bytes| {
        // They have the length that is asked for.
        if let Some((start, behind)) = bytes.split_at_mut_checked(beginning.bytes.len()) {
            start.copy_from_slice(beginning.bytes);
            behind.copy_from_slice(rest);
        }
        (checksum::finish(bytes, &header, offloads), ())
    });
    sent.is_some()
}
