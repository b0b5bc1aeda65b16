//! The driver's client in its own domain: the rows, a request at a time.

use crate::counters;
use block_sdhci::Source;
use culm::Progress;
use culm_bench_guest::disk::{CARD, Operation, Row, SPAN};
use culm_bench_guest::rows::Rows;
use culm_block::{Disk, Error, Request, Segment, Taken};

/// The rows, as the driver sees them: it takes a request when the one before is answered, however
/// many are to be under way.
#[derive(Debug)]
pub struct Load {
    rows: Rows,
    /// The row whose request is made.
    made: Option<usize>,
    /// A request of that row, whose first block is set as it is taken.
    transfer: Taken,
    flush: Taken,
    /// Whether the request under way is the flush.
    is_flush: bool,
    /// Whether there is a card.
    is_there: bool,
    /// Where the data begins for the controller, in blocks.
    place: u64,
}

impl Load {
    /// Begins with the first row. The data of each request begins at this place.
    pub fn new(place: u64) -> Self {
        let flush = Taken { token: 0, request: Request::flush() };
        let transfer = flush.clone();
        Self { rows: Rows::new(&CARD), made: None, transfer, flush, is_flush: false, is_there: false, place }
    }

    /// Makes the request of a row.
    #[cold]
    fn make(&mut self, number: usize, row: &Row) {
        let segment = [Segment { place: self.place, blocks: row.blocks }];
        let request = match row.operation {
            Operation::Read => Request::read(0, &segment),
            Operation::Write | Operation::WriteFlush => Request::write(0, &segment),
        };
        self.transfer.request = request.expect("there is one segment");
        self.made = Some(number);
    }
}

impl Source for Load {
    #[inline(always)]
    fn begin(&mut self) {}

    #[inline(always)]
    fn take(&mut self) -> Option<&Taken> {
        let (number, row) = self.rows.row().filter(|_| self.is_there)?;
        if self.made != Some(number) {
            self.make(number, row);
        }
        let (index, tag) = self.rows.next_request(row)?;
        self.rows.sent(tag);
        self.is_flush = row.is_flush(index);
        if !self.is_flush {
            self.transfer.request.block = row.block(index);
        }
        Some(self.taken())
    }

    #[inline(always)]
    fn taken(&self) -> &Taken {
        if self.is_flush { &self.flush } else { &self.transfer }
    }

    #[inline(always)]
    fn answer(&mut self, token: u16, result: Result<(), Error>) {
        if let Err(error) = result {
            panic!("a request failed, so nothing is measured: {error}");
        }
        // One is under way at a time, so each has the first tag.
        if self.rows.complete(token.into()) {
            counters::ROWS.add(1);
        }
    }

    fn set_disk(&mut self, disk: Disk) {
        self.is_there = disk.blocks >= SPAN;
    }

    #[inline(always)]
    fn end_round(&mut self, _: bool) -> Progress {
        Progress::Asleep
    }
}

#[cfg(test)]
mod tests {
    use super::{CARD, Load};
    use block_sdhci::Source;
    use culm_bench_guest::disk::SPAN;
    use culm_block::{Disk, Operation};

    #[test]
    fn all_rows_are_asked_of_a_card_one_request_at_a_time() {
        let mut load = Load::new(64);
        assert!(load.take().is_none(), "there is no card");
        let disk = Disk::new(SPAN, 1);
        load.set_disk(disk);
        let (mut requests, mut flushes) = (0_u32, 0_u32);
        while let Some(taken) = load.take().cloned() {
            assert_eq!(disk.check(&taken.request, 64 + 2048), Ok(()));
            assert_eq!(&taken, load.taken());
            flushes += u32::from(taken.request.operation == Operation::Flush);
            requests += 1;
            load.answer(taken.token, Ok(()));
        }
        assert_eq!(requests, CARD.iter().map(|row| row.warm_up + row.requests + row.depth).sum());
        assert!(flushes > 100, "{flushes}");
    }
}
