//! A virtio disk's driver that reads and writes for itself, one row after the other, each between
//! two marks: what the driver alone costs, without a virtualiser and a client. It has the same
//! engine as `block-virtio`, and the rows of `block-bench`: `./culm bench blk`.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::vec::Vec;
use block_virtio::{Engine, registers};
use culm::time::Instant;
use culm::{Channels, Component, Interrupt, Progress, run_rounds};
use culm_bench_guest::disk::{self, DISK, MAX_BLOCKS, MAX_DEPTH, Row, SPAN};
use culm_bench_guest::rows::Rows;
use culm_block::{BLOCK, Completion, Request, Segment, Shift};
use culm_mmio::Mapped;

culm::component!(BlockRaw);

struct BlockRaw {
    engine: Engine<Mapped<{ registers::SIZE }>, u32>,
    interrupt: Interrupt,
    rows: Rows,
    /// The row whose requests are made, and a request for each tag, of which the first block is yet
    /// to be set.
    made: Option<usize>,
    requests: Vec<Request>,
    /// Where the data begins for the device, in blocks.
    data: u64,
}

impl Component for BlockRaw {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, Connections { device, data, .. }: Connections) -> Self {
        let interrupt = device.interrupt(0).expect("the board's file gives the device its interrupt");
        let engine = match Engine::new(Mapped::new(device.registers()), device.dma()) {
            Ok(engine) => engine,
            Err(reason) => panic!("{reason}"),
        };
        assert!(data.len() >= (MAX_DEPTH * MAX_BLOCKS) as usize * BLOCK, "{} bytes are too few", data.len());
        let data = data.dma() / BLOCK as u64;
        culm::wake_at(Instant::default());
        Self { engine, interrupt, rows: Rows::new(&DISK), made: None, requests: Vec::new(), data }
    }

    #[inline(always)]
    fn notified(&mut self, channels: Channels) {
        let interrupted = channels.into_iter().any(|channel| channel == self.interrupt.channel());
        if interrupted {
            self.engine.interrupted();
        }
        run_rounds(
            culm::ROUNDS,
            #[inline(always)]
            || self.round(),
        );
        if interrupted {
            self.interrupt.enable();
        }
    }
}

impl BlockRaw {
    #[inline(always)]
    fn round(&mut self) -> Progress {
        self.engine.begin();
        while let Some(Completion { tag, result }) = self.engine.next_completion() {
            if let Err(error) = result {
                panic!("a request failed, so nothing is measured: {error}");
            }
            if self.rows.complete(tag) {
                counters::ROWS.add(1);
            }
        }
        if self.engine.disk().blocks >= SPAN {
            self.send();
        }
        self.engine.end_round()
    }

    /// Gives the device as many requests as are to be under way.
    #[inline(always)]
    fn send(&mut self) {
        let Some((number, row)) = self.rows.row() else { return };
        if self.made != Some(number) {
            self.made = Some(number);
            self.requests = (0..MAX_DEPTH).map(|tag| request(row, self.data, tag)).collect();
        }
        while let Some((index, tag)) = self.rows.next_request(row) {
            let given = if row.is_flush(index) {
                self.engine.give(&Request::flush(), Shift::NONE, tag)
            } else {
                let Some(request) = self.requests.get_mut(tag as usize) else { return };
                request.block = row.block(index);
                self.engine.give(request, Shift::NONE, tag)
            };
            if given.is_err() {
                return;
            }
            self.rows.sent(tag);
        }
    }
}

/// Makes a request of a row, which has the memory of its tag.
#[cold]
fn request(row: &Row, data: u64, tag: u32) -> Request {
    let segment = [Segment { place: data + u64::from(tag * row.blocks), blocks: row.blocks }];
    let request = match row.operation {
        disk::Operation::Read => Request::read(0, &segment),
        disk::Operation::Write | disk::Operation::WriteFlush => Request::write(0, &segment),
    };
    request.expect("there is one segment")
}

// The manifest lists the driver's, then the rows.
const _: () = assert!(counters::COUNTERS == block_virtio::counters::COUNTERS + 1);
