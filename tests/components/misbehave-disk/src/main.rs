//! Breaks the rules of the block class as its client, for the system tests: whatever it does, other
//! clients of the same disk must not notice, and nothing outside of its part may change.
//!
//! It speaks to its queues directly, since the client library does nothing that is forbidden.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::connection::{BlockClient, Ring};
use culm::time::{self, Duration};
use culm::{Channels, Component, Link, Region};
use culm_abi::start::Memory;
use culm_block::{Answer, AnswerEntry, BLOCK, RequestEntry};

culm::component!(MisbehaveDisk);

/// How often it acts by itself.
const PERIOD: Duration = Duration::from_millis(2);

/// Acts in one turn.
const BATCH: u32 = 64;

/// It says so whenever it has acted so often.
const MANY: u32 = 10_000;

/// The largest number of a block in a queue.
const LAST: u64 = (1 << 40) - 1;

/// Operations, as `culm_block::entry` numbers them.
mod code {
    pub const READ: u64 = 1;
    pub const WRITE: u64 = 2;
    pub const FLUSH: u64 = 3;
    pub const DISCARD: u64 = 4;
    pub const WRITE_ZEROES: u64 = 5;
    pub const SEGMENT: u64 = 7;
}

struct MisbehaveDisk {
    rule: Rule,
    link: Link<RequestEntry, AnswerEntry>,
    rings: [Region; 2],
    /// Blocks of its memory.
    memory: u64,
    /// Blocks of its part of the disk, once it is told.
    blocks: u64,
    random: u64,
    acts: u32,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Forge,
    Outside,
    Pieces,
    Keep,
    Flood,
    Scribble,
}

impl Component for MisbehaveDisk {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let rule = match config.rule {
            "forge" => Rule::Forge,
            "outside" => Rule::Outside,
            "pieces" => Rule::Pieces,
            "keep" => Rule::Keep,
            "flood" => Rule::Flood,
            "scribble" => Rule::Scribble,
            unknown => panic!("there is no rule {unknown}"),
        };
        let mut client = Self::new(rule, &connections.disk);
        client.turn();
        client
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

impl MisbehaveDisk {
    fn new(rule: Rule, disk: &BlockClient) -> Self {
        let BlockClient { requests, answers, data, channel } = *disk;
        Self {
            rule,
            link: Link::new(requests, answers, channel),
            rings: [requests, answers].map(memory),
            memory: data.size / BLOCK as u64,
            blocks: 0,
            random: 0x9e37_79b9_7f4a_7c15,
            acts: 0,
        }
    }

    fn turn(&mut self) {
        if self.rule == Rule::Scribble {
            (0..BATCH).for_each(|_| self.scribble());
            self.link.channel().notify();
        } else {
            let _ = self.link.begin();
            self.take_answers();
            (0..BATCH).for_each(|_| self.send());
            self.link.publish();
            // An answer that comes before it sleeps waits for the next turn, which a deadline
            // brings soon.
            let _ = self.link.sleep();
        }
        culm::wake_at(time::now() + PERIOD);
    }

    /// Takes all answers; of who keeps them, those before it knows its disk.
    fn take_answers(&mut self) {
        while self.rule != Rule::Keep || self.blocks == 0 {
            let Some(entry) = self.link.input.pop() else { return };
            if let Some(Answer::Disk(disk)) = entry.read() {
                self.blocks = disk.blocks;
            }
        }
    }

    /// Sends what its rule is to send, if there is space.
    fn send(&mut self) {
        if self.blocks == 0 {
            return;
        }
        let (number, other) = (self.number(), self.number());
        let entry = match self.rule {
            Rule::Forge => RequestEntry([number, other]),
            Rule::Outside => self.outside(number, other),
            // Some are whole, most go on with further segments, which are none.
            Rule::Pieces => {
                let operation = if number.is_multiple_of(5) { code::READ } else { code::SEGMENT };
                let RequestEntry([word, memory]) = request(operation, 0, other, number >> 40);
                RequestEntry([word | u64::from(!number.is_multiple_of(3)) << 60, memory])
            }
            Rule::Keep => request(code::READ, 0, 0, 1),
            Rule::Flood => request(code::FLUSH, 0, 0, 0),
            Rule::Scribble => return,
        };
        if self.link.output.push(entry).is_ok() || self.rule == Rule::Keep {
            self.act();
        }
    }

    /// A request that names blocks outside of its part, or memory outside of its region.
    fn outside(&self, number: u64, other: u64) -> RequestEntry {
        let Self { memory, blocks, .. } = *self;
        let operation = [code::READ, code::WRITE, code::DISCARD, code::WRITE_ZEROES][number as usize % 4];
        let moves_data = operation <= code::WRITE;
        let far = if other.is_multiple_of(2) { other % 4096 } else { other % LAST };
        match number / 4 % 6 {
            0 => request(operation, blocks + far, 0, 1),
            1 => request(operation, blocks - 1, 0, 2),
            2 => request(operation, LAST, 0, 8),
            3 if moves_data => request(operation, 0, memory + far, 1),
            4 if moves_data => request(operation, 0, memory - 1, 2),
            _ => request(operation, 0, 0, (1 << 24) - 1),
        }
    }

    /// Writes anything anywhere into its queues.
    fn scribble(&mut self) {
        let (number, value) = (self.number() as usize, self.number());
        let ring = self.rings[number % self.rings.len()];
        // The head of the queue more often than what is in it.
        let words = if number & 0x100 == 0 { culm_queue::HEADER_SIZE / 8 } else { ring.len() / 8 };
        let _ = ring.store(8 * ((number >> 16) % words.max(1)), &value);
        self.act();
    }

    fn act(&mut self) {
        self.acts += 1;
        if self.acts == MANY {
            self.acts = 0;
            culm::info!("has acted {MANY} times");
        }
    }

    /// The next number of a generator (xorshift64*).
    fn number(&mut self) -> u64 {
        self.random ^= self.random >> 12;
        self.random ^= self.random << 25;
        self.random ^= self.random >> 27;
        self.random.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }
}

/// An entry of these numbers, whatever they are.
fn request(operation: u64, block: u64, place: u64, blocks: u64) -> RequestEntry {
    RequestEntry([block & LAST | operation << 56, place & LAST | blocks << 40])
}

/// The memory of a queue.
fn memory(ring: Ring) -> Region {
    let size = culm_queue::layout(ring.capacity, size_of::<RequestEntry>()).unwrap_or(0) as u64;
    Region::new(Memory { address: ring.address, size, dma: 0 })
}
