//! A switch: joins its clients to a network of their own, without a device.
//!
//! It is a provider of the net class ([`culm_net::provider`]). A frame goes to the client with its
//! destination's address, one for a group or for all to every other client. With an uplink, which
//! makes it a client of another provider besides, one of its clients can be reached from outside:
//! the one whose address is the uplink's (`mac` in the system file). The others stay among
//! themselves. Where the uplink is `promiscuous`, all clients can be reached from outside.
//!
//! Whatever clients do, they get no more than their part of the switch: they take turns
//! ([`turns`]), and one that makes it work without use is left alone for a while
//! ([`Port::mark_due`]).

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(test)]
mod tests;
mod turns;

use alloc::vec::Vec;
use culm::connection::NetProviderClient;
use culm::{Channels, Component, Progress, ROUNDS, run_rounds, start};
use culm_net::provider::{Frame, Port};
use culm_net::{Client, Mac, PacketHeader};
use turns::Turns;

culm::component!(Switch);

/// Turns of each client, and of the uplink, in one round.
const TURNS: usize = 64;

struct Switch {
    ports: Vec<Port>,
    uplink: Option<Client>,
    /// Turns of the clients and, behind them, of the uplink.
    turns: Turns,
    /// The last round left something to do.
    has_more: bool,
    /// It was logged that a frame is too long for the uplink.
    has_warned: bool,
}

impl Component for Switch {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let clients = start::list::<NetProviderClient>(connections.clients.clients);
        let mut this = Self::new(clients.iter().map(Port::new).collect(), connections.uplink.map(Client::new));
        this.turn();
        this
    }

    fn notified(&mut self, channels: Channels) {
        let mut has_pause_ended = false;
        for port in &mut self.ports {
            has_pause_ended |= port.mark_due(channels);
        }
        if has_pause_ended || self.is_due(channels) {
            self.turn();
        }
    }
}

impl Switch {
    fn new(ports: Vec<Port>, uplink: Option<Client>) -> Self {
        let turns = Turns::new(ports.len() + 1);
        Self { ports, uplink, turns, has_more: false, has_warned: false }
    }

    /// Returns whether there may be something to do, if no pause has ended: not if only clients
    /// notify that are paused.
    fn is_due(&self, mut channels: Channels) -> bool {
        let is_paused = |channel| self.ports.iter().any(|port| port.is_paused() && port.has(channel));
        self.has_more || channels.is_empty() || channels.any(|channel| !is_paused(channel))
    }

    fn turn(&mut self) {
        run_rounds(ROUNDS, || self.round());
    }

    /// Passes on what there is, a bounded amount of it.
    fn round(&mut self) -> Progress {
        for port in &mut self.ports {
            port.begin();
        }
        let mut progress = Progress::Asleep;
        if let Some(uplink) = &mut self.uplink {
            uplink.begin();
        }
        progress &= self.pass_all();
        for port in &mut self.ports {
            progress &= port.end_round();
            let tally = port.tally();
            counters::FRAMES.add(tally.delivered);
            counters::DROPS.add(tally.missed);
            counters::ENTRIES_REFUSED.add(tally.entries_refused);
        }
        progress &= self.uplink.as_mut().map_or(Progress::Asleep, Client::end_round);
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

    /// Passes on frames of a client, or of the uplink, as long as its turn allows.
    fn serve(&mut self, source: usize) -> Progress {
        self.turns.begin(source);
        while self.turns.may_send(source) {
            let passed = if source < self.ports.len() { self.pass_from(source) } else { self.pass_in() };
            let Some((length, copies)) = passed else { return Progress::Asleep };
            self.turns.charge(source, length, copies);
        }
        Progress::More
    }

    /// Passes on a frame of a client. `None`: there is none; else returns its length, and to how
    /// many it was given.
    fn pass_from(&mut self, from: usize) -> Option<(usize, usize)> {
        let frame = self.ports.get_mut(from)?.next_frame()?;
        Some((frame.length(), self.pass(from, &frame)))
    }

    /// Gives a client's frame to those that it is for; returns how many they are.
    fn pass(&mut self, from: usize, frame: &Frame) -> usize {
        let to = frame.destination();
        let is_for_all = to.is_group();
        let mut copies = 0;
        let mut is_known = false;
        for target in (0..self.ports.len()).filter(|target| *target != from) {
            if let Ok([sender, receiver]) = self.ports.get_disjoint_mut([from, target])
                && (is_for_all || receiver.mac() == to)
            {
                is_known = true;
                copies += usize::from(receiver.deliver(sender, frame));
            }
        }
        copies + usize::from((is_for_all || !is_known) && self.pass_out(from, frame))
    }

    /// Passes a client's frame to the uplink, if that is the client's too. Returns whether it was
    /// sent.
    fn pass_out(&mut self, from: usize, frame: &Frame) -> bool {
        let (Some(uplink), Some(port)) = (&mut self.uplink, self.ports.get(from)) else { return false };
        if !uplink.is_promiscuous() && uplink.mac() != port.mac() {
            return false;
        }
        let longest = uplink.transmitter.longest_frame();
        if frame.length() > longest && !self.has_warned {
            self.has_warned = true;
            culm::warn!("a client's frame of {} bytes is dropped: the uplink takes {longest}", frame.length());
        }
        let sent = uplink.transmitter.send(frame.length(), |bytes| {
            // It has the length that is asked for.
            let _ = port.read(frame, bytes);
            (PacketHeader::default(), ())
        });
        counters::UPLINK_OUT.add(u64::from(sent.is_some()));
        counters::DROPS.add(u64::from(sent.is_none()));
        sent.is_some()
    }

    /// Passes on a frame that came over the uplink, as [`Self::pass_from`] does a client's.
    fn pass_in(&mut self) -> Option<(usize, usize)> {
        let uplink = self.uplink.as_mut()?;
        // Without this, what comes is for the client with the uplink's address.
        let (is_promiscuous, mac) = (uplink.is_promiscuous(), uplink.mac());
        let packet = uplink.receiver.receive()?;
        let to = Mac::new(*packet.frame().first_chunk()?);
        let is_for = |port: &Port| match is_promiscuous {
            true => to.is_group() || port.mac() == to,
            false => port.mac() == mac,
        };
        let mut copies = 0;
        for port in self.ports.iter_mut().filter(|port| is_for(port)) {
            copies += usize::from(port.deliver_bytes(packet.header(), packet.frame()));
        }
        counters::UPLINK_IN.add(1);
        Some((packet.frame().len(), copies))
    }
}
