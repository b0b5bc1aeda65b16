//! Reads or writes a disk without end, with a mark after every few requests, so that the counting
//! plugin records how far each of several clients is: `./culm bench growth` and `./culm bench blk`.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(test)]
mod tests;

use culm::connection::BlockClient;
use culm::{Channels, Component, Progress, run_rounds};
use culm_bench_guest::mark;
use culm_block::{Client, Completion, Operation, Segment};

culm::component!(BlockLoad);

struct BlockLoad {
    /// Each request's tag is its place in memory, in requests.
    client: Client<u32>,
    config: Config,
    sent: u64,
    done: u64,
    /// Places in memory that no request has, as bits.
    free: u32,
}

impl Component for BlockLoad {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let mut load = Self::new(&connections.disk, config);
        load.run();
        load
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl BlockLoad {
    fn new(connection: &BlockClient, config: Config) -> Self {
        Self { client: Client::connect(connection), config, sent: 0, done: 0, free: u32::MAX }
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
            self.done += 1;
            if self.done.is_multiple_of(self.config.beat.into()) {
                mark::beat(self.config.number.into(), self.done);
            }
        }
        self.send();
        self.client.end_round()
    }

    /// Sends as many requests as are to be under way, if the disk is known.
    fn send(&mut self) {
        let Some(disk) = self.client.disk().copied() else { return };
        let blocks = self.config.blocks;
        let requests = disk.blocks / u64::from(blocks);
        assert!(requests > 0, "the disk has {} blocks, fewer than a request: nothing is measured", disk.blocks);
        while self.sent - self.done < u64::from(self.config.depth) {
            let tag = self.free.trailing_zeros();
            let block = self.sent % requests * u64::from(blocks);
            let segment = [Segment { place: u64::from(tag * blocks), blocks }];
            let operation = if self.config.writes { Operation::Write } else { Operation::Read };
            if self.client.transfer(operation, block, &segment, tag).is_err() {
                return;
            }
            self.free &= !(1 << tag);
            self.sent += 1;
        }
    }
}
