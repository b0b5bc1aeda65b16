//! Faults as soon as it has started, for the benchmarks: `./culm bench ipc` counts what it takes
//! until it has started again.
//!
//! How often it was started stands in a region, which outlives it.

#![cfg_attr(target_os = "none", no_std, no_main)]

use culm::{Channels, Component};
use culm_bench_guest::mark;

culm::component!(FaultBench);

/// Faults that are measured.
const ROUNDS: u64 = 500;
/// Faults before those, so that the emulator has translated everything.
const WARM_UP: u64 = 50;

struct FaultBench;

impl Component for FaultBench {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        // A region too small for a number is no region to count in: then nothing is measured.
        let starts = connections.state.load::<u64>(0).unwrap_or(u64::MAX);
        let _ = connections.state.store(0, &starts.saturating_add(1));
        if starts == WARM_UP {
            mark::begin(config.row, ROUNDS);
        }
        if starts == WARM_UP + ROUNDS {
            mark::end(config.row, ROUNDS);
        }
        if starts < WARM_UP + ROUNDS {
            fault();
        }
        Self
    }

    fn notified(&mut self, _: Channels) {}
}

/// A breakpoint, which is a fault. Not a panic, whose message would be measured too.
fn fault() {
    #[cfg(target_os = "none")]
    // SAFETY: the kernel stops this domain here, for good: it starts again from the beginning.
    unsafe {
        core::arch::asm!("brk #2", options(nomem, nostack));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::Region;
    use std::boxed::Box;
    use std::sync::atomic::AtomicU64;

    #[test]
    fn it_counts_its_starts() {
        let words: &'static [AtomicU64] = Box::leak(Box::new([const { AtomicU64::new(0) }; 1]));
        for start in 1..4 {
            FaultBench::init(Config { row: 1 }, Connections { state: Region::from_words(words) });
            assert_eq!(Region::from_words(words).load::<u64>(0), Ok(start));
        }
    }
}
