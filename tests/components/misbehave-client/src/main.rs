//! Breaks the rules of the net class as its client, for the system tests: whatever it does, other
//! clients of the same card must not notice.
//!
//! It speaks to its queues directly, since the client library does nothing that is forbidden.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod half;

use culm::connection::{NetClient, Ring};

use culm::time::{self, Duration};
use culm::{Channels, Component, Exclusive, Region};
use culm_abi::start::Memory;
use culm_net::{Descriptor, HEADROOM};
use half::Half;

culm::component!(MisbehaveClient);

/// How often it acts by itself.
const PERIOD: Duration = Duration::from_millis(2);

/// Frames sent, or buffers returned, in one turn.
const BATCH: u32 = 64;

/// Bytes of the frames that it sends: Ethernet, IPv4 and UDP headers, and four bytes.
const FRAME: usize = 14 + 20 + 8 + 4;

struct MisbehaveClient {
    rule: Rule,
    receive: Half,
    transmit: Half,
    rings: [Region; 4],
    buffers: Exclusive,
    buffer_size: u32,
    /// How many receive buffers it provides.
    provided: u32,
    frame: [u8; HEADROOM + FRAME],
    random: u64,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Return,
    Keep,
    Send,
    Scribble,
}

impl Component for MisbehaveClient {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let net = connections.net;
        let (rule, source) = match config.rule {
            "return" => (Rule::Return, net.mac),
            "keep" | "starve" => (Rule::Keep, net.mac),
            "forge" => (Rule::Send, config.name),
            "flood" => (Rule::Send, net.mac),
            "scribble" => (Rule::Scribble, net.mac),
            unknown => panic!("there is no rule {unknown}"),
        };
        culm::info!("begins to {}", config.rule);
        let mut client = Self::new(rule, &net, config.rule != "starve", frame(source, config.port));
        client.turn();
        client
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

impl MisbehaveClient {
    fn new(rule: Rule, net: &NetClient, provides: bool, frame: [u8; HEADROOM + FRAME]) -> Self {
        let provided = if provides { (net.rx_data.size / u64::from(net.buffer_size.max(1))) as u32 } else { 0 };
        Self {
            rule,
            receive: Half::new(net.rx_free, net.rx_filled, net.rx_channel, (provided, net.buffer_size)),
            transmit: Half::new(net.tx_filled, net.tx_free, net.tx_channel, (0, 0)),
            rings: [net.rx_free, net.rx_filled, net.tx_filled, net.tx_free].map(memory),
            buffers: Exclusive::take(net.tx_data),
            buffer_size: net.buffer_size,
            provided,
            frame,
            random: 0x9e37_79b9_7f4a_7c15,
        }
    }

    fn turn(&mut self) {
        if self.rule != Rule::Scribble {
            self.receive.begin();
            self.transmit.begin();
        }
        match self.rule {
            Rule::Return => self.return_anything(),
            Rule::Keep => {
                while let Some(_kept) = self.receive.take() {
                    counters::ACTS.add(1);
                }
                self.receive.end();
                self.transmit.take();
                self.transmit.end();
            }
            Rule::Send => self.send(),
            Rule::Scribble => self.scribble(),
        }
        culm::wake_at(time::now() + PERIOD);
    }

    /// Returns receive buffers that it was never lent, or no longer holds; sends from buffers
    /// outside its region, with lengths that they do not have, and the same buffer twice.
    fn return_anything(&mut self) {
        while self.receive.take().is_some() {}
        for _ in 0..BATCH {
            let number = self.number() as u32;
            let offset = match number % 3 {
                0 => number,
                1 => number % self.provided.max(1) * self.buffer_size,
                _ => number % self.provided.max(1) * self.buffer_size + 1,
            };
            self.receive.put(Descriptor { offset, length: (number >> 8) as u16, flags: 0 });
        }
        self.receive.end();
        while let Some(lent) = self.transmit.take() {
            let number = self.number() as u32;
            self.transmit.put(Descriptor { offset: number, ..lent });
            self.transmit.put(Descriptor { length: u16::MAX, ..lent });
            // Nobody's frame, of the least length, and once more.
            if let Ok(bytes) = self.buffers.slice_mut(lent.offset as usize, HEADROOM + FRAME) {
                bytes.fill(0);
            }
            let sent = Descriptor { length: (HEADROOM + FRAME) as u16, ..lent };
            self.transmit.put(sent);
            self.transmit.put(sent);
            counters::ACTS.add(1);
        }
        self.transmit.end();
    }

    /// Sends its frame as often as there are buffers.
    fn send(&mut self) {
        while let Some(received) = self.receive.take() {
            self.receive.put(Descriptor::empty(received.offset));
        }
        self.receive.end();
        for _ in 0..BATCH {
            let Some(lent) = self.transmit.take() else { break };
            if let Ok(bytes) = self.buffers.slice_mut(lent.offset as usize, self.frame.len()) {
                bytes.copy_from_slice(&self.frame);
            }
            self.transmit.put(Descriptor { length: self.frame.len() as u16, ..lent });
            counters::ACTS.add(1);
        }
        self.transmit.end();
    }

    /// Writes anything anywhere into its queues, and notifies whoever reads them.
    fn scribble(&mut self) {
        for _ in 0..BATCH {
            let (number, value) = (self.number() as usize, self.number());
            let ring = self.rings[number % self.rings.len()];
            // The head of the queue more often than what is in it.
            let words = if number & 0x100 == 0 { culm_queue::HEADER_SIZE / 8 } else { ring.len() / 8 };
            let _ = ring.store(8 * ((number >> 16) % words.max(1)), &value);
            counters::ACTS.add(1);
        }
        self.receive.notify();
        self.transmit.notify();
    }

    /// The next number of a generator (xorshift64*).
    fn number(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// The memory of a queue.
fn memory(ring: Ring) -> Region {
    let size = culm_queue::layout(ring.capacity, size_of::<Descriptor>()).unwrap_or(0) as u64;
    Region::new(Memory { address: ring.address, size, dma: 0 })
}

/// A UDP broadcast of four bytes from this hardware address, behind an empty packet header.
fn frame(source: [u8; 6], port: u16) -> [u8; HEADROOM + FRAME] {
    let mut packet = [0; HEADROOM + FRAME];
    let frame = &mut packet[HEADROOM..];
    frame[..6].fill(0xff);
    frame[6..12].copy_from_slice(&source);
    frame[12..14].copy_from_slice(&[8, 0]);
    // 198.18.0.250, which nobody has in the tests' network, to everybody. RFC 791 §3.1.
    frame[14..34].copy_from_slice(&[0x45, 0, 0, 32, 0, 0, 0, 0, 1, 17, 0, 0, 198, 18, 0, 250, 255, 255, 255, 255]);
    let words = frame[14..34].as_chunks::<2>().0.iter();
    let sum: u32 = words.map(|word| u32::from(u16::from_be_bytes(*word))).sum();
    let sum = !((sum >> 16) + (sum & 0xffff)) as u16;
    frame[24..26].copy_from_slice(&sum.to_be_bytes());
    let [high, low] = port.to_be_bytes();
    // No checksum, which UDP allows over IPv4 (RFC 768).
    frame[34..42].copy_from_slice(&[0, 9, high, low, 0, 12, 0, 0]);
    frame[42..].copy_from_slice(b"culm");
    packet
}
