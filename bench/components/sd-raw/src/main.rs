//! An SD card's driver that reads and writes for itself, one row after the other, each between two
//! marks: what the driver alone costs, without a virtualiser and a client. All of it is
//! `block-sdhci`'s but its client, and the rows are those of `block-bench`: `./culm bench sd`.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod load;

use alloc::vec;
use alloc::vec::Vec;
use block_sdhci::{Driver, Options};
use culm::{Channels, Component};
use culm_bench_guest::disk::MAX_BLOCKS;
use culm_block::BLOCK;
use load::Load;

culm::component!(SdRaw);

struct SdRaw(Driver<Load>);

impl Component for SdRaw {
    type Config = Config;
    type Connections = Connections;

    fn init(Config { moves_data }: Config, Connections { device, bus, data, .. }: Connections) -> Self {
        assert!(data.len() >= MAX_BLOCKS as usize * BLOCK, "{} bytes are too few", data.len());
        let place = data.dma() / BLOCK as u64;
        let mapped = if moves_data { vec![data] } else { Vec::new() };
        Self(Driver::new(device, bus, mapped, move || Load::new(place), Options::default()))
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        self.0.notified(channels);
    }
}

// The manifest lists the driver's, then the rows.
const _: () = assert!(counters::COUNTERS == block_sdhci::counters::COUNTERS + 1);
