//! Reads and writes a disk, one row after the other, each between two marks that the counting
//! plugin records: `./culm bench blk`.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use culm::connection::BlockClient;
use culm::{Channels, Component, Progress, run_rounds};
use culm_bench_guest::mark;
use culm_block::{Client, Completion, Operation, Request, Segment};

culm::component!(BlockBench);

/// The blocks over which each row goes, again and again: 16 MiB.
const SPAN: u64 = 16 << 11;

/// A row's work. The harness knows the numbers (`bench/harness/src/rows/{blk,sd}.rs`).
struct Row {
    number: u64,
    /// If this is to flush, every other request is: the others write what it makes durable. A flush
    /// that follows no write is answered without the device.
    operation: Operation,
    /// Blocks of each request.
    blocks: u32,
    /// Requests that are under way at the same time.
    depth: u32,
    /// Requests before those that are measured, so that the emulator has translated everything.
    warm_up: u32,
    /// Requests that are measured.
    requests: u32,
}

/// A row of requests that move so many blocks.
const fn row(number: u64, operation: Operation, blocks: u32, depth: u32, requests: u32) -> Row {
    Row { number, operation, blocks, depth, warm_up: 400, requests }
}

/// The rows of a card, which QEMU moves block by block: long requests are few.
static CARD_ROWS: [Row; 4] = [
    row(1, Operation::Read, 1, 1, 2000),
    row(2, Operation::Write, 1, 1, 2000),
    Row { warm_up: 40, ..row(3, Operation::Read, 256, 1, 100) },
    Row { warm_up: 40, ..row(4, Operation::Write, 256, 1, 100) },
];

static ROWS: [Row; 7] = [
    row(1, Operation::Read, 8, 1, 4000),
    row(2, Operation::Write, 8, 1, 4000),
    row(3, Operation::Read, 8, 32, 16_000),
    row(4, Operation::Write, 8, 32, 16_000),
    row(5, Operation::Read, 256, 1, 1000),
    row(6, Operation::Write, 256, 1, 1000),
    row(7, Operation::Flush, 8, 1, 2000),
];

struct BlockBench {
    /// Each request's tag is its place in memory, in requests.
    client: Client<u32>,
    rows: &'static [Row],
    /// Index of the row, behind the last one if all are done.
    row: usize,
    sent: u32,
    done: u32,
    /// Places in memory that no request has, as bits.
    free: u32,
}

impl Component for BlockBench {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let mut bench = Self::new(&connections.disk, if config.is_card { &CARD_ROWS } else { &ROWS });
        bench.run();
        bench
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl BlockBench {
    fn new(connection: &BlockClient, rows: &'static [Row]) -> Self {
        Self { client: Client::connect(connection), rows, row: 0, sent: 0, done: 0, free: u32::MAX }
    }

    fn run(&mut self) {
        run_rounds(culm::ROUNDS, || self.round());
    }

    fn round(&mut self) -> Progress {
        self.client.begin();
        while let Some(Completion { tag, result }) = self.client.next_completion() {
            if let Err(error) = result {
                panic!("a request failed, so nothing is measured: {error}");
            }
            self.free |= 1 << tag;
            self.complete();
        }
        if self.client.disk().is_some_and(|disk| disk.blocks >= SPAN) {
            self.send();
        }
        self.client.end_round()
    }

    /// Counts a request; begins and ends what is measured.
    fn complete(&mut self) {
        let Some(row) = self.rows.get(self.row) else { return };
        self.done += 1;
        if self.done == row.warm_up {
            mark::begin(row.number, row.requests.into());
        }
        if self.done == row.warm_up + row.requests {
            mark::end(row.number, row.requests.into());
            counters::ROWS.add(1);
        }
        if self.done == row.warm_up + row.requests + row.depth {
            (self.row, self.sent, self.done) = (self.row + 1, 0, 0);
            if self.row == self.rows.len() {
                culm::info!("all rows are done");
            }
        }
    }

    /// Sends as many requests as are to be under way. What is measured ends while that is so.
    fn send(&mut self) {
        let Some(row) = self.rows.get(self.row) else { return };
        let all = row.warm_up + row.requests + row.depth;
        while self.sent < all && self.sent - self.done < row.depth {
            let tag = self.free.trailing_zeros();
            let block = u64::from(self.sent) * u64::from(row.blocks) % SPAN;
            let segment = Segment { place: u64::from(tag * row.blocks), blocks: row.blocks };
            let request = match row.operation {
                Operation::Read => Request::read(block, &[segment]),
                Operation::Flush if self.sent % 2 == 1 => Some(Request::flush()),
                _ => Request::write(block, &[segment]),
            };
            let Some(request) = request else { return };
            if self.client.send(&request, tag).is_err() {
                return;
            }
            self.free &= !(1 << tag);
            self.sent += 1;
        }
    }
}
