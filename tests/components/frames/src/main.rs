//! Frames from one client to another and back: a peer that answers each with itself, and one that
//! sends them and waits for each answer. They are of no protocol in particular (IEEE 802, local
//! experimental type).

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::time::{Duration, Instant};
use culm::{Channels, Component, Progress, time};
use culm_net::{Client, ETHERNET_HEADER, Mac, PacketHeader};

culm::component!(Frames);

/// The type of the frames.
const TYPE: [u8; 2] = [0x88, 0xb5];

/// After this time a frame without an answer is sent again: what serves it may not have been there.
const PATIENCE: Duration = Duration::from_millis(50);

/// Bytes of each frame.
const LENGTH: usize = 200;

/// Rounds in one turn before others of the same priority get theirs.
const ROUNDS: u32 = 8;

struct Frames {
    client: Client,
    /// Who is to answer; `None`: this one answers.
    to: Option<[u8; 6]>,
    /// How many frames there are to be.
    count: u32,
    /// How many have come back.
    done: u32,
    /// When the present one is sent again.
    again: Instant,
}

impl Component for Frames {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let client = Client::new(connections.net);
        let mut this = Self { client, to: config.to, count: config.count, done: 0, again: time::now() };
        this.turn();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

impl Frames {
    fn turn(&mut self) {
        for _ in 0..ROUNDS {
            if self.round().is_asleep() {
                if self.to.is_some() && self.done < self.count {
                    culm::wake_at(self.again);
                }
                return;
            }
        }
        culm::wake_at(time::now());
    }

    fn round(&mut self) -> Progress {
        self.client.begin();
        match self.to {
            Some(to) => self.ask(to),
            None => self.answer(),
        }
        self.client.end_round()
    }

    fn answer(&mut self) {
        let own = self.client.mac();
        while self.client.transmitter.is_ready() {
            let Some(packet) = self.client.receiver.receive() else { return };
            let frame = packet.frame();
            if !is_ours(frame) || frame.len() > self.client.transmitter.longest_frame() {
                continue;
            }
            self.client.transmitter.send(frame.len(), |answer| {
                answer.copy_from_slice(frame);
                answer[..6].copy_from_slice(&frame[6..12]);
                answer[6..12].copy_from_slice(&own.bytes());
                (PacketHeader::default(), ())
            });
        }
    }

    fn ask(&mut self, to: [u8; 6]) {
        let expected = content(self.done);
        while let Some(packet) = self.client.receiver.receive() {
            let frame = packet.frame();
            if frame.get(6..12) != Some(&to) || !is_ours(frame) {
                // Not meant for this one: a switch would have kept it back.
                if is_ours(frame) {
                    culm::warn!("a frame from another");
                }
                continue;
            }
            if frame.get(ETHERNET_HEADER..) == Some(&expected) && self.done < self.count {
                self.done += 1;
                self.again = time::now();
                if self.done == self.count {
                    culm::info!("{} frames came back", self.done);
                }
                break;
            }
        }
        if self.done < self.count && time::now() >= self.again {
            let (own, body) = (self.client.mac(), content(self.done));
            self.client.transmitter.send(LENGTH, |frame| {
                write_header(frame, to, own);
                frame[ETHERNET_HEADER..].copy_from_slice(&body);
                (PacketHeader::default(), ())
            });
            self.again = time::now() + PATIENCE;
        }
    }
}

/// The content of the frame of this number.
fn content(number: u32) -> [u8; LENGTH - ETHERNET_HEADER] {
    let bytes = number.to_le_bytes();
    core::array::from_fn(|at| bytes[at % 4] ^ at as u8)
}

fn write_header(frame: &mut [u8], to: [u8; 6], from: Mac) {
    frame[..6].copy_from_slice(&to);
    frame[6..12].copy_from_slice(&from.bytes());
    frame[12..ETHERNET_HEADER].copy_from_slice(&TYPE);
}

fn is_ours(frame: &[u8]) -> bool {
    frame.get(12..ETHERNET_HEADER) == Some(&TYPE)
}
