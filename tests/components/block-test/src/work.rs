//! The work, request by request.

use crate::counters;
use crate::pattern::{WORDS, word};
use alloc::vec::Vec;
use culm::connection::BlockClient;
use culm::{Progress, Region};
use culm_block::{BLOCK, Client, Completion, Disk, Error, NotSent, Operation, Request, Segment};

/// Blocks of memory for one request.
const PIECE: u32 = 16;

/// The step that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    /// The disk is not known yet.
    Begin,
    Write,
    Flush,
    Read,
    Zero,
    Discard,
    Done,
}

/// A request that is under way.
#[derive(Clone, Copy, Debug)]
struct Piece {
    operation: Operation,
    /// The first block of its memory.
    place: u64,
    /// The first block on the disk.
    block: u64,
    blocks: u32,
}

/// The parts of the work that a configuration adds.
#[derive(Clone, Copy, Debug, Default)]
pub struct Extras {
    /// In the end, the second half of the disk is discarded.
    pub discards: bool,
    /// Before that, the first half of the disk is zeroed.
    pub zeroes: bool,
    /// The medium may be taken out: the round begins anew with the one that is there then.
    pub is_removable: bool,
}

/// The work. One value of it is the component's state.
#[derive(Debug)]
pub struct Work {
    client: Client<Piece>,
    memory: Region,
    /// Pieces of memory that no request has, by their first blocks.
    free: Vec<u64>,
    seed: u64,
    /// The seed behind the last one.
    end: u64,
    step: Step,
    /// The next block of the step.
    next: u64,
    /// Sum of all words of a disk that is read-only.
    sum: u64,
    wrong: u64,
    failed: u64,
    extras: Extras,
    /// The client's count of media when the round began.
    changes: u32,
    /// A request of the round ended since its medium was taken out.
    is_interrupted: bool,
}

impl Work {
    /// Begins with the first seed.
    pub fn new(connection: &BlockClient, seed: u64, rounds: u32, extras: Extras) -> Self {
        let memory = Region::new(connection.data);
        let pieces = (memory.len() / BLOCK) as u64 / u64::from(PIECE);
        Self {
            client: Client::connect(connection),
            memory,
            free: (0..pieces).map(|piece| piece * u64::from(PIECE)).collect(),
            seed,
            end: seed + u64::from(rounds),
            step: Step::Begin,
            next: 0,
            sum: 0,
            wrong: 0,
            failed: 0,
            extras,
            changes: 0,
            is_interrupted: false,
        }
    }

    /// Returns whether all held, if the work is done.
    #[cfg(test)]
    pub fn passed(&self) -> Option<bool> {
        (self.step == Step::Done).then_some(self.wrong == 0 && self.failed == 0)
    }

    /// Takes a round: looks at what is complete, and sends as much as can be under way.
    pub fn round(&mut self) -> Progress {
        self.client.begin();
        while let Some(completion) = self.client.next_completion() {
            self.complete(completion);
        }
        if let Some(disk) = self.client.disk().copied()
            && self.has_medium(&disk)
        {
            self.go_on(&disk);
        }
        self.client.end_round()
    }

    /// Returns whether the work can go on; if the medium was taken out, it begins anew with the
    /// next one.
    fn has_medium(&mut self, disk: &Disk) -> bool {
        if !self.extras.is_removable || self.step == Step::Done {
            return true;
        }
        let is_other = self.changes != self.client.changes() || self.is_interrupted;
        if is_other && self.step != Step::Begin {
            culm::info!("the medium was taken out");
            (self.step, self.next, self.sum) = (Step::Begin, 0, 0);
        }
        let is_there = disk.is_present() && self.client.under_way() == 0;
        if self.step == Step::Begin && is_there {
            (self.changes, self.is_interrupted) = (self.client.changes(), false);
        }
        is_there || self.step != Step::Begin
    }

    /// Sends what the step asks for, and takes the next one if all of it is complete.
    fn go_on(&mut self, disk: &Disk) {
        loop {
            match self.step {
                Step::Begin => {
                    self.begin(disk);
                    continue;
                }
                Step::Write | Step::Read => self.send_pieces(disk),
                Step::Flush if self.next == 0 => self.flush(),
                Step::Flush => {}
                Step::Zero | Step::Discard => self.clear(self.end_of_step(disk)),
                Step::Done => return,
            }
            let is_sent = self.next >= self.end_of_step(disk);
            if self.step != Step::Done && (!is_sent || self.client.under_way() > 0) {
                return;
            }
            self.finish_step(disk);
        }
    }

    /// Returns the block behind the last one of the step.
    fn end_of_step(&self, disk: &Disk) -> u64 {
        if self.step == Step::Zero { disk.blocks / 2 } else { disk.blocks }
    }

    /// Looks at what the disk is; one that cannot be used ends the work.
    fn begin(&mut self, disk: &Disk) {
        culm::info!("the disk has {} blocks{}", disk.blocks, if disk.read_only { ", read-only" } else { "" });
        (self.step, self.next) = (if disk.read_only { Step::Read } else { Step::Write }, 0);
        if !disk.is_present() {
            self.failed += 1;
            self.step = Step::Done;
            self.conclude(disk);
            return;
        }
        let memory = [Segment { place: 0, blocks: 1 << disk.granule }];
        if disk.read_only {
            self.expect_refusal(0, &memory, Error::ReadOnly);
        } else {
            self.expect_refusal(disk.blocks, &memory, Error::OutOfRange);
        }
    }

    /// Checks that a write is refused.
    fn expect_refusal(&mut self, block: u64, memory: &[Segment], error: Error) {
        let piece = Piece { operation: Operation::Write, place: 0, block, blocks: 0 };
        let refused = Request::write(block, memory).map(|request| self.client.send(&request, piece));
        if refused != Some(Err(NotSent::Refused(error))) {
            culm::error!("a write to block {block} is not refused: {error}");
            self.failed += 1;
        }
    }

    fn finish_step(&mut self, disk: &Disk) {
        let is_last = self.seed + 1 >= self.end || disk.read_only;
        let step = match self.step {
            Step::Begin | Step::Write => Step::Flush,
            Step::Flush => Step::Read,
            Step::Read if is_last && self.extras.zeroes => Step::Zero,
            Step::Read | Step::Zero if is_last && self.extras.discards => Step::Discard,
            Step::Read if is_last => Step::Done,
            Step::Zero | Step::Discard => Step::Done,
            Step::Read => {
                culm::info!("seed {} was read as it was written", self.seed);
                self.seed += 1;
                Step::Write
            }
            Step::Done => return,
        };
        (self.step, self.next) = (step, if step == Step::Discard { disk.blocks / 2 } else { 0 });
        if step == Step::Done {
            self.conclude(disk);
        }
    }

    /// Says how it went.
    fn conclude(&self, disk: &Disk) {
        if self.wrong > 0 || self.failed > 0 {
            culm::error!("block-test failed: {} wrong blocks, {} failed requests", self.wrong, self.failed);
        } else if disk.read_only {
            culm::info!("block-test passed: {} blocks read, sum {:#018x}", disk.blocks, self.sum);
        } else {
            culm::info!("block-test passed: {} blocks, last seed {}", disk.blocks, self.seed);
        }
    }

    /// Sends reads or writes of the blocks that follow, of various lengths.
    fn send_pieces(&mut self, disk: &Disk) {
        while self.next < disk.blocks && self.client.space() > 0 && !self.is_interrupted {
            let Some(place) = self.free.pop() else { return };
            let left = u32::try_from(disk.blocks - self.next).unwrap_or(u32::MAX);
            // Lengths from 1 to 16 in an order without a pattern that a device could share.
            let wanted = 1 + (self.next.wrapping_mul(0x9e37_79b9_7f4a_7c15) >> 60) as u32;
            let granule = 1 << disk.granule;
            let blocks = wanted.next_multiple_of(granule).min(PIECE).min(disk.most).min(left);
            let operation = if self.step == Step::Write { Operation::Write } else { Operation::Read };
            let piece = Piece { operation, place, block: self.next, blocks };
            self.fill(&piece);
            self.send(&piece);
            self.next += u64::from(blocks);
        }
    }

    /// Sends the read or write of a piece. Its second half lies before the first in memory.
    fn send(&mut self, piece: &Piece) {
        let first = piece.blocks / 2;
        let segments = [
            Segment { place: piece.place + u64::from(piece.blocks - first), blocks: first },
            Segment { place: piece.place, blocks: piece.blocks - first },
        ];
        let segments = if first == 0 { &segments[1..] } else { &segments };
        let request = match piece.operation {
            Operation::Write => Request::write(piece.block, segments),
            _ => Request::read(piece.block, segments),
        };
        let sent = request.map(|request| self.client.send(&request, *piece));
        if self.is_taken_out(sent) {
            self.free.push(piece.place);
        } else if sent != Some(Ok(())) {
            culm::error!("blocks from {} on cannot be sent for: {sent:?}", piece.block);
            self.failed += 1;
            self.free.push(piece.place);
        }
    }

    fn flush(&mut self) {
        let piece = Piece { operation: Operation::Flush, place: 0, block: 0, blocks: 0 };
        let sent = self.client.send(&Request::flush(), piece);
        self.failed += u64::from(!self.is_taken_out(Some(sent)) && sent.is_err());
        self.next = u64::MAX;
    }

    /// Zeroes or discards the blocks that follow, up to the block `end`.
    fn clear(&mut self, end: u64) {
        while self.next < end && self.client.space() > 0 && !self.is_interrupted {
            let blocks = (end - self.next).min(64) as u32;
            let request = match self.step {
                Step::Zero => Request::write_zeroes(self.next, blocks, false),
                _ => Request::discard(self.next, blocks),
            };
            let piece = Piece { operation: request.operation, place: 0, block: self.next, blocks };
            let sent = self.client.send(&request, piece);
            self.failed += u64::from(!self.is_taken_out(Some(sent)) && sent.is_err());
            self.next += u64::from(blocks);
        }
    }

    /// Returns whether a request was not sent since the medium is gone, which may be so.
    fn is_taken_out(&mut self, sent: Option<Result<(), NotSent>>) -> bool {
        let is_gone = matches!(sent, Some(Err(NotSent::Refused(Error::Absent)))) && self.extras.is_removable;
        self.is_interrupted |= is_gone;
        is_gone
    }

    fn complete(&mut self, completion: Completion<Piece>) {
        let Completion { tag: piece, result } = completion;
        if let (Err(Error::Absent | Error::Changed), true) = (result, self.extras.is_removable) {
            self.is_interrupted = true;
        } else if let Err(error) = result {
            culm::error!("{:?} of {} blocks from {} on: {error}", piece.operation, piece.blocks, piece.block);
            counters::FAILED_REQUESTS.add(1);
            self.failed += 1;
        }
        match piece.operation {
            Operation::Flush => return counters::FLUSHES.add(1),
            Operation::Discard | Operation::WriteZeroes | Operation::DiscardToZeroes => return,
            Operation::Read => {
                counters::BLOCKS_READ.add(piece.blocks.into());
                if result.is_ok() {
                    self.compare(&piece);
                }
            }
            Operation::Write => counters::BLOCKS_WRITTEN.add(piece.blocks.into()),
        }
        self.free.push(piece.place);
    }

    /// Returns where the word of a piece lies in memory, which [`Self::send`] decides.
    fn offset(piece: &Piece, block: u32, index: u64) -> usize {
        let first = piece.blocks / 2;
        let within = if block < first { piece.blocks - first + block } else { block - first };
        (piece.place as usize + within as usize) * BLOCK + index as usize * 8
    }

    /// Fills the memory of a write with its pattern, that of a read with anything else.
    fn fill(&self, piece: &Piece) {
        for block in 0..piece.blocks {
            for index in 0..WORDS {
                let value = match piece.operation {
                    Operation::Write => word(self.seed, piece.block + u64::from(block), index),
                    _ => u64::MAX,
                };
                let _ = self.memory.store(Self::offset(piece, block, index), &value);
            }
        }
    }

    /// Compares what was read with the pattern, or adds it to the sum if the disk is read-only.
    fn compare(&mut self, piece: &Piece) {
        let is_read_only = self.client.disk().is_some_and(|disk| disk.read_only);
        for block in 0..piece.blocks {
            let on_disk = piece.block + u64::from(block);
            let mut is_wrong = false;
            for index in 0..WORDS {
                let value: u64 = self.memory.load(Self::offset(piece, block, index)).unwrap_or(u64::MAX);
                self.sum = self.sum.wrapping_add(value);
                is_wrong |= value != word(self.seed, on_disk, index);
            }
            if is_wrong && !is_read_only {
                culm::error!("block {on_disk} is not what was written");
                counters::WRONG_BLOCKS.add(1);
                self.wrong += 1;
            }
        }
    }
}
