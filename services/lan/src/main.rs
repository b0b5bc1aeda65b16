//! Serves a network: leases addresses ([`culm_ip::dhcp::server`]), and answers for names by asking
//! name servers ([`culm_dns::Forwarder`]).
//!
//! It is an ordinary station, a client of a card or of a switch; a router beside it knows nothing
//! of it. Questions to name servers go out by that router. Whoever does not belong to the network
//! gets no answer, so that nobody has it flood others from afar.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod network;
mod settings;
#[cfg(test)]
mod tests;

use alloc::vec;
use culm::time::Duration;
use culm::{Channels, Component, Progress, ROUNDS, random, run_rounds, time};
use culm_dns::{Forwarder, Memory, PORT};
use culm_ip::Instant;
use culm_ip::dhcp::server::{LONGEST_ANSWER, Place, Server};
use culm_ip::dhcp::{CLIENT_PORT, SERVER_PORT};
use culm_net::Client;
use network::{Network, Received};
use settings::Settings;

culm::component!(Lan);

/// Frames that are taken in one round.
const FRAMES: usize = 64;

/// Datagrams of the forwarder that are sent in one round.
const DATAGRAMS: usize = 64;

/// Questions that are under way at a time.
const QUESTIONS: usize = 64;

struct Lan {
    network: Network,
    leases: Server<'static>,
    names: Forwarder<'static>,
}

impl Component for Lan {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        if let Some(entropy) = &connections.entropy {
            let _ = culm_entropy::take_seed(entropy);
        }
        let settings = match Settings::read(&config) {
            Ok(settings) => settings,
            Err(error) => panic!("the configuration cannot be used: {error}"),
        };
        let (cache, per_client) = (config.cache as usize, config.questions_per_client as usize);
        let mut this = Self::new(Client::new(connections.net), &settings, cache, per_client);
        this.turn();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

impl Lan {
    /// # Panics
    ///
    /// Where the settings contradict themselves.
    fn new(client: Client, settings: &Settings, cache: usize, per_client: usize) -> Self {
        let places = vec![Place::default(); settings.places()].leak();
        let reserved = settings.reserved.iter().copied();
        let leases = match Server::new(settings.leases, reserved, places) {
            Ok(leases) => leases,
            Err(error) => panic!("the configuration cannot be used: {error}"),
        };
        let seed = random::words().unwrap_or_else(|| {
            culm::warn!("no source of random numbers: answers for names can be forged by who guesses the time");
            [time::now().ticks(), 0, 0, 0]
        });
        let memory = Memory {
            pending: vec![Default::default(); QUESTIONS].leak(),
            entries: vec![Default::default(); cache].leak(),
        };
        let names = Forwarder::new(settings.name_servers, memory, per_client, seed);
        let network = Network::new(client, &settings.leases, now());
        Self { network, leases, names }
    }

    fn turn(&mut self) {
        run_rounds(ROUNDS, || self.round());
    }

    fn round(&mut self) -> Progress {
        let now = now();
        self.network.begin(now);
        let mut is_empty = false;
        for _ in 0..FRAMES {
            if !self.take_frame(now) {
                is_empty = true;
                break;
            }
        }
        let mut is_idle = false;
        for _ in 0..DATAGRAMS {
            let Some(datagram) = self.names.poll(now) else {
                is_idle = true;
                break;
            };
            self.network.send(&datagram, now);
        }
        self.network.poll(now);
        self.count();
        let due = self.names.deadline().min(self.network.deadline());
        if due != Instant::NEVER {
            culm::wake_at(time::now() + due.since(now).max(Duration::from_micros(1)));
        }
        self.network.end_round() & Progress::more_if(!(is_empty && is_idle))
    }

    /// Takes a frame and sends what answers it; returns whether there was one.
    fn take_frame(&mut self, now: Instant) -> bool {
        let mut buffer = [0; culm_ip::host::LARGEST];
        let names = &self.names;
        let takes = |port| port == SERVER_PORT || port == PORT || names.awaits(port);
        let Some(received) = self.network.receive(takes, now, &mut buffer) else { return false };
        counters::FRAMES.add(1);
        let Received::Datagram { from, port, length, is_of_network } = received else { return true };
        let payload = buffer.get(..length).unwrap_or_default();
        match port {
            SERVER_PORT if from.port() == CLIENT_PORT => {
                let mut answer = [0; LONGEST_ANSWER];
                if let Some(to) = self.leases.receive(payload, now, &mut answer) {
                    self.network.send_lease(&to, answer.get(..to.length).unwrap_or_default());
                }
            }
            SERVER_PORT => {}
            PORT if is_of_network => {
                if let Some(datagram) = self.names.question(from, payload, now) {
                    self.network.send(&datagram, now);
                }
            }
            PORT => counters::QUESTIONS_REFUSED.add(1),
            port => {
                let network = &mut self.network;
                self.names.answer(from, port, payload, now, |datagram| network.send(datagram, now));
            }
        }
        true
    }

    fn count(&mut self) {
        let leases = self.leases.take_tally();
        counters::LEASES_GRANTED.add(leases.granted);
        counters::LEASES_REFUSED.add(leases.refused);
        counters::LEASES_EXHAUSTED.add(leases.exhausted);
        counters::LEASES_DECLINED.add(leases.declined);
        let names = self.names.take_tally();
        counters::QUESTIONS.add(names.questions);
        counters::CACHE_HITS.add(names.hits);
        counters::QUESTIONS_ASKED.add(names.asked);
        counters::QUESTIONS_REFUSED.add(names.refused);
        counters::QUESTIONS_DROPPED.add(names.dropped);
        counters::QUESTIONS_FAILED.add(names.failed);
        counters::ANSWERS_REFUSED.add(names.strays);
    }
}

/// The time since the machine was switched on.
fn now() -> Instant {
    // It overflows after 584,000 years.
    Instant(time::now().since_start().as_micros() as u64)
}
