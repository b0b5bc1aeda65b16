//! A driver, its fake controller, and the virtualiser, which is a client like any other.

use crate::testing::{Fake, FakeCard};
use crate::{Options, Sdhci, Starting};
use culm::connection::BlockDriver;
use culm::{Region, testing, time};
use culm_block::testing::ring;
use culm_block::{BLOCK, Client, Completion, Disk, Error, MAX_DISK, Port, Request, Segment};
use std::vec;
use std::vec::Vec;

/// Blocks of the client's memory.
pub const MEMORY: u64 = 512;

/// Where the controller sees the client's memory, and its table.
pub const DATA: u64 = 0x4000_0000;
pub const TABLE: u64 = 0x5000_0000;

/// Who moves data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    Dma,
    Pio,
}

pub fn place(block: u64) -> u64 {
    DATA / BLOCK as u64 + block
}

/// Blocks of the client's memory.
pub fn segment(block: u64, blocks: u32) -> Segment {
    Segment { place: place(block), blocks }
}

pub fn connection() -> BlockDriver {
    BlockDriver { requests: ring(64), answers: ring(64), channel: 1 }
}

pub struct World {
    pub fake: Fake,
    pub driver: Sdhci<Fake>,
    pub client: Client<u64>,
    /// Interrupts that the driver got.
    pub interrupts: u64,
    data: Region,
    table: Region,
    connection: BlockDriver,
    /// The driver has not had a turn yet.
    is_new: bool,
    done: Vec<(u64, Result<(), Error>)>,
    /// The moment at which the driver wants a turn without an event.
    pub deadline: Option<time::Instant>,
}

impl World {
    /// A world in which this card is ready.
    pub fn new(mode: Mode, card: FakeCard) -> Self {
        Self::with(mode, Options::default(), |fake| fake.insert(card))
    }

    /// The same with a table of so many bytes.
    pub fn with_table(bytes: usize, card: FakeCard) -> Self {
        Self::build(Mode::Dma, bytes, Options::default(), |fake| fake.insert(card))
    }

    /// A world that `prepare` has changed before the driver sees it.
    pub fn with(mode: Mode, options: Options, prepare: impl FnOnce(&Fake)) -> Self {
        Self::build(mode, 512, options, prepare)
    }

    fn build(mode: Mode, table: usize, options: Options, prepare: impl FnOnce(&Fake)) -> Self {
        testing::set_time(time::Instant::default() + time::Duration::from_secs(1));
        let data = Region::new(testing::memory(MEMORY as usize * BLOCK, DATA));
        let own = Region::new(testing::memory(table, TABLE));
        let fake = Fake::new(vec![data, own]);
        prepare(&fake);
        let memory = if mode == Mode::Pio { vec![data] } else { Vec::new() };
        let connection = connection();
        let options = Options { trusts_erasing: true, ..options };
        let starting = Starting::new(fake.clone(), &own, memory, options).expect("it is of use");
        let driver = starting.finish(|| Port::connect(&connection)).expect("a fake is reset at once");
        let client = Client::new(connection.requests, connection.answers, 2, MAX_DISK);
        let mut world = Self {
            fake,
            driver,
            client,
            interrupts: 0,
            data,
            table: own,
            connection,
            is_new: true,
            done: Vec::new(),
            deadline: None,
        };
        world.run_for_a_while();
        world.interrupts = 0;
        world
    }

    /// The driver's next life, which moves data by DMA.
    pub fn restart(&self) -> Starting<Fake> {
        Starting::new(self.fake.clone(), &self.table, Vec::new(), Options::default()).expect("it is of use")
    }

    /// Has the next life take over.
    #[expect(clippy::result_large_err, reason = "it is moved a few times in a test")]
    pub fn take_over(&mut self, starting: Starting<Fake>) -> Result<(), Starting<Fake>> {
        self.driver = starting.finish(|| Port::connect(&self.connection))?;
        self.is_new = true;
        Ok(())
    }

    pub fn disk(&self) -> Option<Disk> {
        self.client.disk().copied()
    }

    /// A turn of the driver's, if it has a reason: the interrupt, a notification, or its deadline.
    pub fn turn(&mut self) {
        let is_notified = testing::signalled().contains(&2);
        let is_due = self.deadline.is_none_or(|deadline| deadline <= time::now()) && self.deadline.is_some();
        let interrupts = self.fake.interrupts();
        if !(is_notified || is_due || interrupts || self.is_new) {
            return;
        }
        self.is_new = false;
        if interrupts {
            self.interrupts += 1;
            self.driver.interrupted();
        }
        culm::run_rounds(8, || self.driver.round());
        self.deadline = testing::deadline();
    }

    /// Client and driver take turns until both know everything. Time stands still.
    pub fn run(&mut self) {
        for _ in 0..6 {
            self.client.begin();
            let done = core::iter::from_fn(|| self.client.next_completion());
            self.done.extend(done.map(|Completion { tag, result }| (tag, result)));
            let _ = self.client.end_round();
            self.turn();
        }
    }

    /// The same, and then time passes to each of the driver's deadlines.
    pub fn run_for_a_while(&mut self) {
        for _ in 0..400 {
            self.run();
            let Some(deadline) = self.deadline else { return };
            testing::set_time(deadline.max(time::now()));
        }
    }

    /// Whether the driver wants a turn without an event.
    pub fn driver_asks_for_time(&self) -> bool {
        self.deadline.is_some()
    }

    pub fn send(&mut self, request: &Request, tag: u64) {
        self.client.send(request, tag).expect("the disk takes it");
    }

    /// Takes the completions that no earlier call has returned.
    pub fn completions(&mut self) -> Vec<(u64, Result<(), Error>)> {
        core::mem::take(&mut self.done)
    }

    /// The result of a request, which is the only one that ends meanwhile.
    pub fn ask(&mut self, request: &Request) -> Result<(), Error> {
        self.send(request, 77);
        self.run_for_a_while();
        match self.completions().as_slice() {
            [(77, result)] => *result,
            other => panic!("{other:?}"),
        }
    }

    /// Fills blocks of the client's memory with `byte`, one more in each.
    pub fn fill(&self, first: u64, blocks: u64, byte: u8) {
        for index in 0..blocks {
            let bytes = [byte.wrapping_add(index as u8); BLOCK];
            self.data.write((first + index) as usize * BLOCK, &bytes).expect("inside");
        }
    }

    /// A block of the client's memory.
    pub fn memory(&self, block: u64) -> [u8; BLOCK] {
        let mut bytes = [0; BLOCK];
        self.data.read(block as usize * BLOCK, &mut bytes).expect("inside");
        bytes
    }

    /// A block of the card.
    pub fn block_of_card(&self, block: usize) -> [u8; BLOCK] {
        let card = self.fake.0.card.borrow();
        let content = &card.as_ref().expect("there is a card").content;
        content[block * BLOCK..][..BLOCK].try_into().expect("a block")
    }
}
