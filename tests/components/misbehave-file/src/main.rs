//! Breaks the rules of the file class as its client, for the system tests: whatever it does, other
//! clients of the same volume must not notice, and no file may change.
//!
//! It speaks to its queues directly, since the client library does nothing that is forbidden.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::connection::{FileClient, Ring};
use culm::time::{self, Duration};
use culm::{Channels, Component, Link, Region};
use culm_abi::start::Memory;
use culm_file::{
    Answer, AnswerEntry, BLOCK, MAX_FILES, MAX_LENGTH, Mode, Operation, PATH_BLOCKS, Request, RequestEntry,
};

culm::component!(MisbehaveFile);

/// How often it acts by itself.
const PERIOD: Duration = Duration::from_millis(2);

/// Acts in one turn.
const BATCH: u32 = 64;

/// It says so whenever it has acted so often.
const MANY: u32 = 10_000;

/// The file that it has.
const OWN: &[u8] = b"/own";

/// The token under which it opens that, as its file 0.
const OPENING: u16 = u16::MAX;

/// Ways out of its folder, each of which is no path, or none of its own.
const PATHS: [&[u8]; 8] = [
    b"/../bystander/own",
    b"/..",
    b"/own/../../bystander/own",
    b"/..\\bystander\\own",
    b"bystander/own",
    b"//bystander/own",
    b"/\0/bystander/own",
    b"/\xff\xfe/own",
];

/// Operations on paths.
const PATH_OPERATIONS: [Operation; 7] = [
    Operation::Open(Mode::Read),
    Operation::Open(Mode::New),
    Operation::Open(Mode::Append),
    Operation::Stat,
    Operation::MakeFolder,
    Operation::Remove,
    Operation::Rename,
];

/// Those that change something.
const CHANGES: [Operation; 5] = [
    Operation::Open(Mode::New),
    Operation::Open(Mode::Append),
    Operation::MakeFolder,
    Operation::Remove,
    Operation::Rename,
];

struct MisbehaveFile {
    rule: Rule,
    link: Link<RequestEntry, AnswerEntry>,
    rings: [Region; 2],
    memory: Region,
    /// Whether it was told of a volume.
    has_volume: bool,
    own: Own,
    random: u64,
    acts: u32,
}

/// Its kind of misbehaviour.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Rule {
    Forge,
    Outside,
    Paths,
    Change,
    Keep,
    Flood,
    Scribble,
}

/// Its own file.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Own {
    Closed,
    Opening,
    Open,
}

impl Component for MisbehaveFile {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let rule = match config.rule {
            "forge" => Rule::Forge,
            "outside" => Rule::Outside,
            "paths" => Rule::Paths,
            "change" => Rule::Change,
            "keep" => Rule::Keep,
            "flood" => Rule::Flood,
            "scribble" => Rule::Scribble,
            unknown => panic!("there is no rule {unknown}"),
        };
        let mut client = Self::new(rule, &connections.files);
        client.turn();
        client
    }

    fn notified(&mut self, _: Channels) {
        self.turn();
    }
}

impl MisbehaveFile {
    fn new(rule: Rule, files: &FileClient) -> Self {
        let FileClient { requests, answers, memory, channel } = *files;
        let client = Self {
            rule,
            link: Link::new(requests, answers, channel),
            rings: [requests, answers].map(queue_memory),
            memory: Region::new(memory),
            has_volume: false,
            own: Own::Closed,
            random: 0x9e37_79b9_7f4a_7c15,
            acts: 0,
        };
        for (place, path) in PATHS.into_iter().enumerate() {
            let path = if rule == Rule::Paths { path } else { OWN };
            let offset = place * PATH_BLOCKS as usize * BLOCK;
            client.memory.write(offset, path).expect("a client has memory for so many paths");
        }
        client
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

    /// Takes all answers; of who keeps them, those before it has its file.
    fn take_answers(&mut self) {
        while self.rule != Rule::Keep || self.own != Own::Open {
            let Some(entry) = self.link.input.pop() else { return };
            match entry.read() {
                Some(Answer::Volume(volume)) => self.has_volume = volume.fault.is_none(),
                Some(Answer::Of { token: OPENING, result }) => {
                    self.own = if result.is_ok() { Own::Open } else { Own::Closed };
                }
                _ => {}
            }
        }
    }

    /// Sends what its rule is to send, if there is space; what goes beyond its own file only when
    /// that is open.
    fn send(&mut self) {
        let needs_own = matches!(self.rule, Rule::Outside | Rule::Keep);
        if !self.has_volume || needs_own && self.own == Own::Opening {
            return;
        }
        if needs_own && self.own == Own::Closed {
            if self.link.output.push(RequestEntry::new(&path(Operation::Open(Mode::Read), 0, OWN), OPENING)).is_ok() {
                self.own = Own::Opening;
            }
            return;
        }
        let (number, other) = (self.number(), self.number());
        let token = other as u16 & !(1 << 15);
        let entry = match self.rule {
            // Half of them with an operation that there is.
            Rule::Forge if number & 1 == 0 => RequestEntry([number & !(0xff << 16) | (number % 13) << 16, other]),
            Rule::Forge => RequestEntry([number, other]),
            Rule::Outside => RequestEntry::new(&self.outside(number, other), token),
            Rule::Paths => {
                let operation = PATH_OPERATIONS[other as usize % PATH_OPERATIONS.len()];
                let place = number as usize % PATHS.len();
                RequestEntry::new(&path(operation, place as u32 * PATH_BLOCKS, PATHS[place]), token)
            }
            Rule::Change => RequestEntry::new(&path(CHANGES[number as usize % CHANGES.len()], 0, OWN), token),
            Rule::Keep => RequestEntry::new(&read(0, 0, 16, 1), token),
            Rule::Flood if number & 1 == 0 => RequestEntry::new(&path(Operation::Open(Mode::Read), 0, OWN), token),
            Rule::Flood => RequestEntry::new(&Request { operation: Operation::Close, ..read(0, 0, 0, 0) }, token),
            Rule::Scribble => return,
        };
        if self.link.output.push(entry).is_ok() || self.rule == Rule::Keep {
            self.act();
        }
    }

    /// A request that names memory outside of its region, a file that it has not open, or more than
    /// there can be; or one to write to what it reads.
    fn outside(&self, number: u64, other: u64) -> Request {
        let blocks = (self.memory.len() / BLOCK) as u32;
        let far = other as u32 % 4096;
        match number % 10 {
            0 => read(0, 0, blocks + far, BLOCK as u32),
            1 => read(0, 0, blocks - 1, 2 * BLOCK as u32),
            2 => read(0, 0, 0, MAX_LENGTH + 1 + far),
            3 => read(0, Request::MAX_POSITION, Request::MAX_PLACE, 1),
            4 => read(MAX_FILES as u8 + far as u8 % 128, 0, 16, 1),
            5 => read(1, 0, 16, 1),
            6 => Request { operation: Operation::Write, ..read(0, 0, 16, 1) },
            7 => Request { operation: Operation::List, ..read(0, 0, blocks + far, 64) },
            8 => path(Operation::Stat, blocks - 1, OWN),
            _ => path(Operation::Remove, blocks + far, OWN),
        }
    }

    /// Writes anything anywhere into its queues and its memory.
    fn scribble(&mut self) {
        let (number, value) = (self.number() as usize, self.number());
        let places = [self.rings[0], self.rings[1], self.memory];
        let place = places[number % places.len()];
        // The head of a queue more often than what is in it.
        let words = if number & 0x100 == 0 { culm_queue::HEADER_SIZE / 8 } else { place.len() / 8 };
        let _ = place.store(8 * ((number >> 16) % words.max(1)), &value);
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

/// A request about a path, which lies in this block of memory. A new name splits it.
fn path(operation: Operation, place: u32, path: &[u8]) -> Request {
    let position = if operation == Operation::Rename { 1 } else { 0 };
    Request { operation, file: 0, position, place, length: path.len() as u32 }
}

/// A request to read bytes of an open file.
fn read(file: u8, position: u64, place: u32, length: u32) -> Request {
    Request { operation: Operation::Read, file, position, place, length }
}

/// The memory of a queue.
fn queue_memory(ring: Ring) -> Region {
    let size = culm_queue::layout(ring.capacity, size_of::<RequestEntry>()).unwrap_or(0) as u64;
    Region::new(Memory { address: ring.address, size, dma: 0 })
}
