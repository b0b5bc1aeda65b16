//! Writes a pattern to every block of its disk, with many requests under way, makes it durable,
//! reads it back and compares; a disk that is read-only it reads. The system test that runs it
//! waits for the line `block-test passed`, and looks at the disk's image; `block-test failed` says
//! what did not hold.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod pattern;
#[cfg(test)]
mod tests;
mod work;

use culm::{Channels, Component, ROUNDS, run_rounds};
use work::{Extras, Work};

culm::component!(BlockTest);

struct BlockTest {
    work: Work,
}

impl Component for BlockTest {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let Config { discards, zeroes, is_removable, .. } = config;
        let extras = Extras { discards, zeroes, is_removable };
        let mut this = Self { work: Work::new(&connections.disk, config.seed, config.rounds, extras) };
        this.run();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl BlockTest {
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.work.round());
    }
}
