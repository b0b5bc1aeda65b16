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

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use culm::connection::NetProviderClient;
use culm::{Channels, Component, Progress, start, time};
use culm_net::provider::{Frame, Port};
use culm_net::{BUFFER_SIZE, Client, ETHERNET_HEADER, Mac, PacketHeader};

culm::component!(Switch);

/// Rounds in one turn before others of the same priority get theirs.
const ROUNDS: u32 = 8;

/// Frames of one client, or of the uplink, before the next gets its turn.
const BATCH: usize = 64;

struct Switch {
    ports: Vec<Port>,
    uplink: Option<Client>,
    /// A frame on its way to the uplink.
    scratch: Box<[u8]>,
}

impl Component for Switch {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let clients = start::list::<NetProviderClient>(connections.clients.clients);
        let mut this = Self {
            ports: clients.iter().map(Port::new).collect(),
            uplink: connections.uplink.map(Client::new),
            scratch: vec![0; BUFFER_SIZE as usize].into_boxed_slice(),
        };
        this.take_turn();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.take_turn();
    }
}

impl Switch {
    fn take_turn(&mut self) {
        for _ in 0..ROUNDS {
            if self.round().is_asleep() {
                return;
            }
        }
        culm::wake_at(time::now());
    }

    /// Passes on what there is, a bounded amount of it.
    fn round(&mut self) -> Progress {
        for port in &mut self.ports {
            port.begin();
        }
        let mut progress = Progress::Asleep;
        for from in 0..self.ports.len() {
            progress &= self.pass_from(from);
        }
        progress &= self.pass_in();
        for port in &mut self.ports {
            progress &= port.settle();
            let tally = port.tally();
            counters::FRAMES.add(tally.delivered);
            counters::DROPS.add(tally.missed);
            counters::REFUSED.add(tally.refused);
        }
        self.uplink.as_mut().map_or(Progress::Asleep, Client::settle) & progress
    }

    /// Passes on what a client sends, no more than its turn allows.
    fn pass_from(&mut self, from: usize) -> Progress {
        for _ in 0..BATCH {
            let Some(frame) = self.ports[from].next_frame() else { return Progress::Asleep };
            let header = self.ports[from].header(frame);
            self.pass(from, frame, destination(&header));
        }
        Progress::More
    }

    fn pass(&mut self, from: usize, frame: Frame, to: Mac) {
        let is_for_all = to.is_group();
        let mut is_known = false;
        for target in (0..self.ports.len()).filter(|target| *target != from) {
            if !is_for_all && self.ports[target].mac() != to {
                continue;
            }
            is_known = true;
            if let Ok([sender, receiver]) = self.ports.get_disjoint_mut([from, target]) {
                receiver.deliver(sender, frame);
            }
        }
        if is_for_all || !is_known {
            self.pass_out(from, frame);
        }
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

    /// Passes on what comes over the uplink, no more than its turn allows.
    fn pass_in(&mut self) -> Progress {
        let Some(uplink) = &mut self.uplink else { return Progress::Asleep };
        uplink.begin();
        let mac = uplink.mac();
        for _ in 0..BATCH {
            let Some(packet) = uplink.receiver.receive() else { return Progress::Asleep };
            for port in self.ports.iter_mut().filter(|port| port.mac() == mac) {
                port.deliver_bytes(packet.header(), packet.frame());
            }
            counters::UPLINK_IN.add(1);
        }
        Progress::More
    }
}

/// The destination in an Ethernet header.
fn destination(header: &[u8; ETHERNET_HEADER]) -> Mac {
    let [a, b, c, d, e, f, ..] = *header;
    Mac::new([a, b, c, d, e, f])
}
