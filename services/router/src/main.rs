//! A router with a firewall: forwards packets between networks, each on a card of its own, as its
//! rules say.
//!
//! What becomes of a packet is decided in [`router`], which knows neither queues nor clocks; rules
//! are [`policy`]'s, addresses and routes [`networks`]'s, neighbours [`station`]'s. This file has
//! frames come and go.
//!
//! Whatever comes, the router gets over it: tables are bounded and allocated when it starts, and
//! each network gets its turn.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod desk;
mod journal;
mod networks;
mod policy;
mod reset;
mod router;
mod settings;
mod station;
#[cfg(test)]
mod tests;

use alloc::boxed::Box;
use alloc::vec;
use alloc::vec::Vec;
use culm::time::Duration;
use culm::{Channels, Component, Progress, ROUNDS, run_rounds, time};
use culm_net::client::{Receiver, Transmitter};
use culm_net::{Client, PacketHeader};
use desk::Desk;
use router::{Cards, LONGEST_FRAME, Router, Tally};

culm::component!(Forwarder);

/// Frames of each network in its turn, and turns of each in a round.
const FRAMES: usize = 32;
const TURNS: usize = 8;

struct Forwarder {
    clients: Vec<Client>,
    desk: Desk,
    router: Router,
    /// For a frame that lies in several of a card's buffers.
    whole: Box<[u8]>,
}

impl Component for Forwarder {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let (router, desk, clients) = settings::start(config, connections);
        let mut this = Self { clients, desk, router, whole: vec![0; LONGEST_FRAME].into_boxed_slice() };
        this.turn();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

impl Forwarder {
    fn turn(&mut self) {
        self.desk.serve(&mut self.router);
        run_rounds(ROUNDS, || self.round());
        let deadline = self.router.deadline();
        if deadline != culm_ip::Instant::NEVER {
            let now = instant();
            culm::wake_at(time::now() + deadline.since(now).max(Duration::from_micros(1)));
        }
    }

    /// Passes on what there is, a bounded amount of it.
    fn round(&mut self) -> Progress {
        for client in &mut self.clients {
            client.begin();
        }
        self.router.begin(instant(), &mut AllCards { transmitters: Transmitters::All(&mut self.clients) });
        let mut frames = 0;
        let mut progress = Progress::More;
        for _ in 0..TURNS {
            let mut taken = 0;
            for network in 0..self.clients.len() {
                taken += self.serve(network);
            }
            frames += taken;
            if taken == 0 {
                progress = Progress::Asleep;
                break;
            }
        }
        for client in &mut self.clients {
            progress &= client.end_round();
        }
        counters::FRAMES.add(frames as u64);
        count(&self.router.tally());
        progress
    }

    /// Takes frames that came over a network, as many as its turn allows. Returns how many.
    fn serve(&mut self, network: usize) -> usize {
        let Some((before, rest)) = self.clients.split_at_mut_checked(network) else { return 0 };
        let Some((Client { receiver, transmitter, .. }, after)) = rest.split_first_mut() else { return 0 };
        let mut cards = AllCards { transmitters: Transmitters::Around { before, own: transmitter, after } };
        let router = &mut self.router;
        for count in 0..FRAMES {
            let taken =
                take(receiver, &mut self.whole, |header, frame| router.take(network, header, frame, &mut cards));
            if taken.is_none() {
                return count;
            }
        }
        FRAMES
    }
}

/// Has `act` look at the next frame, if there is one. One in several buffers is put together.
#[inline(always)]
fn take(receiver: &mut Receiver, whole: &mut [u8], act: impl FnOnce(PacketHeader, &[u8])) -> Option<()> {
    receiver.receive_pieces(|header, pieces| match pieces {
        [frame] => act(header, frame),
        pieces => act(header, join(pieces, whole)),
    })
}

/// Puts pieces one behind the other, as far as there is room.
#[inline(never)]
fn join<'a>(pieces: &[&[u8]], whole: &'a mut [u8]) -> &'a [u8] {
    let mut length = 0;
    for piece in pieces {
        // A frame that is longer than any is cut, and then no packet.
        let Some(place) = whole.get_mut(length..length + piece.len()) else { break };
        place.copy_from_slice(piece);
        length += piece.len();
    }
    whole.get(..length).unwrap_or_default()
}

/// The time, as the router has it.
fn instant() -> culm_ip::Instant {
    culm_ip::Instant(time::now().microseconds())
}

/// The transmitters of all cards, while one of them receives or none does.
enum Transmitters<'a> {
    All(&'a mut [Client]),
    Around { before: &'a mut [Client], own: &'a mut Transmitter, after: &'a mut [Client] },
}

struct AllCards<'a> {
    transmitters: Transmitters<'a>,
}

impl AllCards<'_> {
    #[inline(always)]
    fn get(&mut self, card: usize) -> Option<&mut Transmitter> {
        match &mut self.transmitters {
            Transmitters::All(clients) => clients.get_mut(card).map(|client| &mut client.transmitter),
            Transmitters::Around { before, own, after } => match card.checked_sub(before.len()) {
                None => before.get_mut(card).map(|client| &mut client.transmitter),
                Some(0) => Some(own),
                Some(behind) => after.get_mut(behind - 1).map(|client| &mut client.transmitter),
            },
        }
    }
}

impl Cards for AllCards<'_> {
    #[inline(always)]
    fn send(&mut self, card: usize, length: usize, write: impl FnOnce(&mut [u8]) -> Option<PacketHeader>) -> bool {
        let Some(transmitter) = self.get(card) else { return false };
        transmitter.send_checked(length, |bytes| Some((write(bytes)?, ()))).is_some()
    }

    fn send_segments(
        &mut self,
        card: usize,
        length: usize,
        kind: u8,
        payload: u16,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Some(transmitter) = self.get(card) else { return false };
        length <= LONGEST_FRAME && transmitter.send_segments(length, kind, payload, write).is_some()
    }

    fn divides(&mut self, card: usize, kind: u8) -> bool {
        self.get(card).is_some_and(|transmitter| transmitter.divides(kind) && transmitter.has_large())
    }

    #[inline(always)]
    fn offloads_checksum(&mut self, card: usize) -> bool {
        self.get(card).is_some_and(|transmitter| transmitter.offloads_checksum())
    }
}

/// Adds what was done to the counters.
fn count(tally: &Tally) {
    for (counter, count) in [
        (&counters::FORWARDED_PACKETS, tally.forwarded),
        (&counters::FLOWS_BEGUN, tally.begun),
        (&counters::FLOWS_ENDED, tally.ended),
        (&counters::FLOWS_MADE_WAY, tally.made_way),
        (&counters::DENIED_PACKETS, tally.denied),
        (&counters::SPOOFED_DROPPED, tally.spoofed),
        (&counters::MALFORMED_DROPPED, tally.malformed),
        (&counters::STRAY_DROPPED, tally.stray),
        (&counters::FRAGMENTS_DROPPED, tally.fragments),
        (&counters::CONGESTION_DROPS, tally.congestion),
        (&counters::UNREACHABLE_DROPPED, tally.unreachable),
        (&counters::ICMP_ERRORS, tally.errors),
        (&counters::ECHO_REPLIES, tally.echoes),
    ] {
        counter.add(count);
    }
}
