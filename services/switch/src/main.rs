//! A switch: joins its clients to a network of their own, without a device.
//!
//! It is a provider of the net class ([`culm_net::provider`]). A frame goes to the client with its
//! destination's address, one for a group or for all to every other client. With an uplink, which
//! makes it a client of another provider besides, one of its clients can be reached from outside:
//! the one whose address is the uplink's (`mac` in the system file). The others stay among
//! themselves.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use culm::connection::NetProviderClient;
use culm::{Channels, Component, Progress, ROUNDS, run_rounds, start};
use culm_net::provider::{Frame, Port};
use culm_net::{BUFFER_SIZE, Client, ETHERNET_HEADER, Mac, PacketHeader};

culm::component!(Switch);

/// Frames of each client, and of the uplink, in one round.
const BATCH: usize = 64;

struct Switch {
    ports: Vec<Port>,
    /// Whose frame comes first in the next round: a client's or, behind them, the uplink's. It is
    /// the one after the last whose frame arrived, so that a client which has few free buffers gets
    /// frames of all others in turns.
    first: usize,
    uplink: Option<Client>,
    /// A frame on its way to the uplink.
    scratch: Box<[u8]>,
}

impl Component for Switch {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let clients = start::list::<NetProviderClient>(connections.clients.clients);
        let mut this = Self::new(clients.iter().map(Port::new).collect(), connections.uplink.map(Client::new));
        this.take_turn();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.take_turn();
    }
}

impl Switch {
    fn new(ports: Vec<Port>, uplink: Option<Client>) -> Self {
        Self { ports, first: 0, uplink, scratch: vec![0; BUFFER_SIZE as usize].into_boxed_slice() }
    }

    fn take_turn(&mut self) {
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
            progress &= port.settle();
            let tally = port.tally();
            counters::FRAMES.add(tally.delivered);
            counters::DROPS.add(tally.missed);
            counters::REFUSED.add(tally.refused);
        }
        self.uplink.as_mut().map_or(Progress::Asleep, Client::settle) & progress
    }

    /// Passes on frames of everybody, one of each after the other, no more than a round allows.
    fn pass_all(&mut self) -> Progress {
        let (first, sources) = (self.first, self.ports.len() + 1);
        for _ in 0..BATCH {
            let mut is_empty = true;
            for source in (first..sources).chain(0..first) {
                let passed = if source < self.ports.len() { self.pass_from(source) } else { self.pass_in() };
                is_empty &= passed.is_none();
                if passed == Some(true) {
                    self.first = (source + 1) % sources;
                }
            }
            if is_empty {
                return Progress::Asleep;
            }
        }
        Progress::More
    }

    /// Passes on a frame of a client. `None`: there is none; else returns whether it arrived.
    fn pass_from(&mut self, from: usize) -> Option<bool> {
        let frame = self.ports[from].next_frame()?;
        let header = self.ports[from].header(frame);
        Some(self.pass(from, frame, destination(&header)))
    }

    fn pass(&mut self, from: usize, frame: Frame, to: Mac) -> bool {
        let is_for_all = to.is_group();
        let mut arrived = false;
        let mut is_known = false;
        for target in (0..self.ports.len()).filter(|target| *target != from) {
            if !is_for_all && self.ports[target].mac() != to {
                continue;
            }
            is_known = true;
            if let Ok([sender, receiver]) = self.ports.get_disjoint_mut([from, target]) {
                arrived |= receiver.deliver(sender, frame);
            }
        }
        if is_for_all || !is_known {
            self.pass_out(from, frame);
        }
        arrived
    }

    /// Passes a client's frame to the uplink, if it is that client's.
    fn pass_out(&mut self, from: usize, frame: Frame) {
        let port = &mut self.ports[from];
        let Some(uplink) = self.uplink.as_mut().filter(|uplink| uplink.mac() == port.mac()) else { return };
        let Some(frame) = port.read(frame, &mut self.scratch).and_then(|length| self.scratch.get(..length)) else {
            return;
        };
        let sent = uplink.transmitter.send(frame.len(), |bytes| {
            bytes.copy_from_slice(frame);
            (PacketHeader::default(), ())
        });
        counters::UPLINK_OUT.add(u64::from(sent.is_some()));
        counters::DROPS.add(u64::from(sent.is_none()));
    }

    /// Passes on a frame that came over the uplink, as [`Self::pass_from`] does a client's.
    fn pass_in(&mut self) -> Option<bool> {
        let uplink = self.uplink.as_mut()?;
        let mac = uplink.mac();
        let packet = uplink.receiver.receive()?;
        let mut arrived = false;
        for port in self.ports.iter_mut().filter(|port| port.mac() == mac) {
            arrived |= port.deliver_bytes(packet.header(), packet.frame());
        }
        counters::UPLINK_IN.add(1);
        Some(arrived)
    }
}

/// The destination in an Ethernet header.
fn destination(header: &[u8; ETHERNET_HEADER]) -> Mac {
    let [a, b, c, d, e, f, ..] = *header;
    Mac::new([a, b, c, d, e, f])
}
