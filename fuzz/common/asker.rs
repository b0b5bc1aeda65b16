//! Shared by the targets of disks' drivers: whoever asks a driver for blocks, remembers for what,
//! and is answered once.

use super::peers::clear;
use culm::connection::BlockDriver;
use culm::testing;
use culm::time;
use culm_block::testing::ring;
use culm_block::{AnswerEntry, BLOCK, Client, Completion, Error, MAX_DISK, Request, RequestEntry, Segment};
use std::collections::BTreeMap;

/// Where a device sees the memory of requests.
pub const DATA: u64 = 0x4000_0000;

/// The driver's side of a pair of queues, the same for each input of this thread, and empty.
pub fn queues() -> &'static BlockDriver {
    thread_local! {
        static QUEUES: &'static BlockDriver =
            Box::leak(Box::new(BlockDriver { requests: ring(64), answers: ring(64), channel: 1 }));
    }
    let queues = QUEUES.with(|queues| *queues);
    clear::<RequestEntry>(queues.requests);
    clear::<AnswerEntry>(queues.answers);
    queues
}

/// The client of a driver.
pub struct Asker {
    client: Client<u64>,
    /// Requests without an answer, by their tags.
    pub under_way: BTreeMap<u64, Request>,
    next: u64,
    /// The most of them.
    most: usize,
}

impl Asker {
    /// Connects to a driver, to have so many requests under way at most.
    pub fn new(queues: &BlockDriver, most: usize) -> Self {
        let client = Client::new(queues.requests, queues.answers, 2, MAX_DISK);
        Self { client, under_way: BTreeMap::new(), next: 0, most }
    }

    /// Asks, if the disk takes the request and there is room for it.
    pub fn send(&mut self, request: &Request) {
        if self.under_way.len() < self.most && self.client.send(request, self.next).is_ok() {
            self.under_way.insert(self.next, request.clone());
            self.next += 1;
        }
    }

    /// Takes a turn, with each request that ends in it. None ends twice.
    pub fn turn(&mut self, mut ended: impl FnMut(u64, &Request, Result<(), Error>)) {
        self.client.begin();
        while let Some(Completion { tag, result }) = self.client.next_completion() {
            let request = self.under_way.remove(&tag).expect("a request ends once");
            ended(tag, &request, result);
        }
        let _ = self.client.end_round();
    }

    /// Checks that every request is answered and the disk is one of so many blocks, and asks for
    /// its first ones.
    pub fn ask_at_the_end(&mut self, blocks: u64) {
        self.is_answered();
        assert_eq!(self.client.disk().map(|disk| disk.blocks), Some(blocks), "the disk is of no use");
        self.send(&Request::read(0, &[Segment { place: DATA / BLOCK as u64, blocks: 8 }]).expect("a request"));
        assert_eq!(self.under_way.len(), 1, "the disk takes no request");
    }

    /// Checks that every request is answered.
    pub fn is_answered(&self) {
        assert!(self.under_way.is_empty(), "requests are not answered: {:?}", self.under_way);
    }
}

/// Takes turns until the driver wants none, or many; time passes to each of its deadlines.
pub fn run(many: usize, mut turn: impl FnMut()) {
    for _ in 0..many {
        // Let each take several turns: it sees what the other did only in its next one.
        (0..4).for_each(|_| turn());
        let Some(deadline) = testing::deadline() else { return };
        testing::set_time(deadline.max(time::now()));
    }
}
