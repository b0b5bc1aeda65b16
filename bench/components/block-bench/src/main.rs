//! Reads and writes a disk, one row after the other, each between two marks that the counting
//! plugin records: `./culm bench blk` and `./culm bench sd`.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use culm::connection::BlockClient;
use culm::time::Instant;
use culm::{Channels, Component, Progress, run_rounds};
use culm_bench_guest::disk::{self, Row, SPAN};
use culm_bench_guest::mark;
use culm_block::{Client, Completion, Operation, Request, Segment};

culm::component!(BlockBench);

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
        culm::wake_at(Instant::default());
        Self::new(&connections.disk, if config.is_card { &disk::CARD } else { &disk::DISK })
    }

    #[inline(always)]
    fn notified(&mut self, _: Channels) {
        run_rounds(culm::ROUNDS, || self.round());
    }
}

impl BlockBench {
    fn new(connection: &BlockClient, rows: &'static [Row]) -> Self {
        Self { client: Client::connect(connection), rows, row: 0, sent: 0, done: 0, free: u32::MAX }
    }

    #[inline(always)]
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
            mark::begin(self.row as u64, row.requests.into());
        }
        let measured = self.done.saturating_sub(row.warm_up);
        if (1..=row.requests).contains(&measured) && row.is_lap(measured) {
            mark::lap(self.row as u64, measured.into());
        }
        if self.done == row.warm_up + row.requests {
            mark::end(self.row as u64, row.requests.into());
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
            let block = row.block(self.sent);
            let segment = [Segment { place: u64::from(tag * row.blocks), blocks: row.blocks }];
            let sent = if row.is_flush(self.sent) {
                self.client.send(&Request::flush(), tag)
            } else {
                let operation = if row.operation == disk::Operation::Read { Operation::Read } else { Operation::Write };
                self.client.transfer(operation, block, &segment, tag)
            };
            if sent.is_err() {
                return;
            }
            self.free &= !(1 << tag);
            self.sent += 1;
        }
    }
}
