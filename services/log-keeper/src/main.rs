//! Keeps the console's log in files: `log.txt`, and full ones as `log-1.txt`, the newest, up to
//! `log-COUNT.txt`.
//!
//! Lines wait in the queue of the serial virtualiser until the file that has them is durable, so
//! that neither a restart of this component nor one of the file service loses or doubles any
//! ([`keeper`], [`account`]). Nobody waits for this component: if the disk is slow or absent, the
//! queue fills, and what has no space is counted by the virtualiser.
//!
//! The lines of a fault become a crash report in a file of its own ([`report`],
//! [`crashes`]).

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod account;
mod crashes;
mod keeper;
mod report;
mod rotation;
#[cfg(test)]
mod tests;

use crashes::Crashes;
use culm::{Channels, Component, ROUNDS, queue, run_rounds, time};
use culm_clock::Clock;
use culm_file::Client;
use keeper::{Keeper, Limits};

culm::component!(LogKeeper);

struct LogKeeper {
    /// `None` if the system description gives it no log.
    keeper: Option<Keeper>,
}

impl Component for LogKeeper {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let lines = connections.console.rx;
        if lines.capacity == 0 {
            culm::error!("`console` gives no log: write `console = {{ device = \"uart0\", log = true }}`");
            return Self { keeper: None };
        }
        let limits = Limits { size: config.size, count: config.count, delay: config.delay };
        let (client, clock) = (Client::connect(&connections.files), connections.clock.map(Clock::new));
        let is_first = culm::restarts() == 0;
        let crashes = connections.crashes.map(|files| Crashes::new(Client::connect(&files), config.crashes));
        let keeper = Keeper::new(client, queue::consumer(lines), clock, limits, is_first);
        let mut keeper = Self { keeper: Some(keeper.with_crashes(crashes)) };
        keeper.work();
        keeper
    }

    fn notified(&mut self, _: Channels) {
        self.work();
    }
}

impl LogKeeper {
    fn work(&mut self) {
        let Some(keeper) = &mut self.keeper else { return };
        run_rounds(ROUNDS, || keeper.round(time::now()));
        if let Some(time) = keeper.wake() {
            culm::wake_at(time);
        }
        let done = keeper.done();
        counters::BYTES.set(done.bytes);
        counters::COMMITS.set(done.commits);
        counters::ROTATIONS.set(done.rotations);
        counters::FAILURES.set(done.failures);
        if let Some(crashes) = keeper.crashes() {
            counters::CRASHES.set(crashes.kept());
            counters::CRASHES_MISSING.set(crashes.missing());
        }
    }
}
