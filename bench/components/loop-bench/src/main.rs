//! Loops over instructions and memory, for the benchmarks: `./culm bench cpu` and
//! `./culm bench mem`.
//!
//! The loops are `bench/guest`'s, which Linux runs too. This one only provides memory of each kind.

#![cfg_attr(target_os = "none", no_std, no_main)]

use culm::time::{self, Duration, Instant};
use culm::{Channels, Component, Region};
use culm_bench_guest::loops;

culm::component!(LoopBench);

/// Long enough for every other component to have started.
const DELAY: Duration = Duration::from_millis(100);

struct LoopBench {
    rounds: u64,
    connections: Connections,
    /// The time at which the loops begin; `None` after they have ended.
    start: Option<Instant>,
}

impl Component for LoopBench {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let start = time::now() + DELAY;
        culm::wake_at(start);
        Self { rounds: config.rounds, connections, start: Some(start) }
    }

    fn notified(&mut self, _: Channels) {
        match self.start {
            Some(start) if time::now() < start => culm::wake_at(start),
            Some(_) => {
                self.start = None;
                self.run();
            }
            None => {}
        }
    }
}

impl LoopBench {
    fn run(&self) {
        loops::spin(self.rounds);
        for (kind, region) in (0..).zip([&self.connections.cached, &self.connections.uncached]) {
            let memory = region.as_ref().and_then(|region: &Region| region.part(0, loops::MEMORY_SIZE).ok());
            if let Some(memory) = memory {
                // SAFETY: the part is as long as the loops need, mapped for this component alone,
                // and not used otherwise.
                unsafe { loops::over_memory(memory.address(), kind) };
            }
        }
        culm::info!("all loops are done");
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_runs_once_and_without_memory_leaves_those_rows_out() {
        let mut bench = LoopBench::init(Config { rounds: 1 }, Connections { cached: None, uncached: None });
        bench.notified(Channels::NONE);
        assert!(bench.start.is_some(), "the others have not started yet");
        culm::testing::set_time(Instant::default() + DELAY * 2);
        bench.notified(Channels::NONE);
        assert!(bench.start.is_none());
        bench.notified(Channels::NONE);
    }
}
