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
use culm_net::client::{self, Receiver, Transmitter, end_round};
use culm_net::header::RawHeader;
use culm_net::{Client, PacketHeader};
use desk::Desk;
use router::{Cards, LONGEST_FRAME, Room, Router, Tally};

culm::component!(Forwarder);

/// Frames of each network in its turn, and turns of each in a round.
const FRAMES: usize = 32;
const TURNS: usize = 8;

struct Forwarder {
    /// The cards, in the order of their networks.
    receivers: Vec<Receiver>,
    transmitters: Vec<Transmitter>,
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
        let (receivers, transmitters) = clients.into_iter().map(Client::into_halves).unzip();
        let mut this = Self { receivers, transmitters, desk, router, whole: vec![0; LONGEST_FRAME].into_boxed_slice() };
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
        for (receiver, transmitter) in self.receivers.iter_mut().zip(&mut self.transmitters) {
            receiver.begin();
            transmitter.begin();
        }
        self.router.begin(instant(), &mut AllCards(&mut self.transmitters));
        let mut frames = 0;
        let mut progress = Progress::More;
        for _ in 0..TURNS {
            let mut taken = 0;
            for network in 0..self.receivers.len() {
                taken += self.serve(network);
            }
            frames += taken;
            if taken == 0 {
                progress = Progress::Asleep;
                break;
            }
        }
        for (receiver, transmitter) in self.receivers.iter_mut().zip(&mut self.transmitters) {
            progress &= end_round(receiver, transmitter);
        }
        counters::FRAMES.add(frames as u64);
        count(&self.router.tally());
        progress
    }

    /// Takes frames that came over a network, as many as its turn allows. Returns how many.
    fn serve(&mut self, network: usize) -> usize {
        let Self { receivers, transmitters, router, whole, .. } = self;
        let Some(receiver) = receivers.get_mut(network) else { return 0 };
        let mut context = (router, AllCards(transmitters));
        for count in 0..FRAMES {
            let taken = receiver.receive_with(
                &mut context,
                |(router, cards), header, frame| router.take(network, header, frame, cards),
                |(router, cards), header, pieces| router.take_generally(network, header, join(pieces, whole), cards),
            );
            if taken.is_none() {
                return count;
            }
        }
        FRAMES
    }
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

/// The transmitters of all cards.
struct AllCards<'a>(&'a mut [Transmitter]);

impl Room for client::Room<'_> {
    #[inline(always)]
    fn frame(&mut self) -> &mut [u8] {
        self.frame()
    }

    #[inline(always)]
    fn send(self, header: PacketHeader) {
        self.send(header);
    }

    #[inline(always)]
    fn send_on(self, header: RawHeader<'_>) {
        self.send_on(header);
    }
}

impl Cards for AllCards<'_> {
    type Room<'a>
        = client::Room<'a>
    where
        Self: 'a;

    #[inline(always)]
    fn room(&mut self, card: usize, length: usize) -> Option<client::Room<'_>> {
        self.0.get_mut(card)?.room(length)
    }

    fn send_segments(
        &mut self,
        card: usize,
        length: usize,
        kind: u8,
        payload: u16,
        write: impl FnOnce(&mut [u8]),
    ) -> bool {
        let Some(transmitter) = self.0.get_mut(card) else { return false };
        length <= LONGEST_FRAME && transmitter.send_segments(length, kind, payload, write).is_some()
    }

    fn divides(&mut self, card: usize, kind: u8) -> bool {
        self.0.get_mut(card).is_some_and(|transmitter| transmitter.divides(kind) && transmitter.has_large())
    }

    #[inline(always)]
    fn offloads_checksum(&mut self, card: usize) -> bool {
        self.0.get_mut(card).is_some_and(|transmitter| transmitter.offloads_checksum())
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
