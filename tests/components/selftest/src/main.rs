//! Tests on the target what of the runtime cannot be tested on the host: memory routines, the entry
//! code at restarts, the heap, the start block as the build tool wrote it.
//!
//! The system test that runs it waits for the line `selftest passed`; `selftest failed` says what
//! did not hold.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod memory;

use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use core::hint::black_box;
use core::sync::atomic::{AtomicU64, Ordering::Relaxed};
use culm::time::{self, Duration, Instant};
use culm::{Channels, Component};

culm::component!(Selftest);

/// In `.data`: must have this value at every start.
static INITIALISED: AtomicU64 = AtomicU64::new(0x1234_5678_9abc_def0);
/// In `.bss`: must be zero at every start.
static ZEROED: [AtomicU64; 100] = [const { AtomicU64::new(0) }; 100];

struct Selftest {
    config: Config,
    begun: Instant,
}

impl Component for Selftest {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        if let Some(entropy) = &connections.entropy {
            let _ = culm_entropy::take_seed(entropy);
        }
        match culm::random::words() {
            Some([word]) => culm::info!("a random number: {word:#018x}"),
            None => culm::info!("no random numbers"),
        }
        // The checks run in the first turn, so that they see a turn too.
        culm::wake_at(time::now() + Duration::from_millis(1));
        Self { config, begun: time::now() }
    }

    fn notified(&mut self, channels: Channels) {
        match self.check(channels) {
            Ok(checks) => {
                counters::CHECKS.add(checks);
                if culm::restarts() < u64::from(self.config.restarts) {
                    panic!("on purpose, for restart {}", culm::restarts() + 1);
                }
                culm::info!("selftest passed after {} restarts, {} checks", culm::restarts(), counters::CHECKS.get());
            }
            Err(what) => culm::error!("selftest failed: {what}"),
        }
    }
}

impl Selftest {
    fn check(&self, channels: Channels) -> Result<u64, &'static str> {
        ensure(channels.is_empty(), "a turn by deadline has no channels")?;
        ensure(time::now() >= self.begun + Duration::from_millis(1), "a deadline passes when it is time")?;
        check_statics()?;
        check_heap()?;
        ensure(self.config.words.iter().eq(["one", "two", "three"]), "a list of texts arrives as configured")?;
        ensure(culm::log::name() == "selftest", "the instance's name arrives")?;
        memory::check()
    }
}

fn ensure(condition: bool, what: &'static str) -> Result<(), &'static str> {
    if condition { Ok(()) } else { Err(what) }
}

/// Checks what a start must have set, then what the next start must set again.
fn check_statics() -> Result<(), &'static str> {
    ensure(INITIALISED.load(Relaxed) == 0x1234_5678_9abc_def0, ".data is as linked after a start")?;
    ensure(ZEROED.iter().all(|word| word.load(Relaxed) == 0), ".bss is zero after a start")?;
    INITIALISED.store(1, Relaxed);
    ZEROED.iter().for_each(|word| word.store(1, Relaxed));
    Ok(())
}

fn check_heap() -> Result<(), &'static str> {
    let mut map = BTreeMap::new();
    for round in 0..1000_u64 {
        let bytes: Vec<u64> = (0..round % 61).map(|value| value ^ round).collect();
        map.insert(round % 37, bytes);
    }
    ensure(map.len() == 37, "the heap keeps what is put there")?;
    for (key, bytes) in &map {
        let round = 999 - (999 - key) % 37;
        ensure(bytes.iter().enumerate().all(|(index, value)| *value == index as u64 ^ round), "the heap keeps values")?;
    }
    drop(map);
    // All of it, once what was used is free again.
    let large: Vec<u8> = Vec::with_capacity(black_box(200 * 1024));
    ensure(large.capacity() >= 200 * 1024, "freed memory is allocated again")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_heap_check_holds_on_the_host() {
        assert_eq!(check_heap(), Ok(()));
    }
}
