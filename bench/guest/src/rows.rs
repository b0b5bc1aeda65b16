//! The way of a driver that reads and writes for itself through the rows: which request is next,
//! and where what is measured begins and ends.
//!
//! `block-bench` has the same steps in its own loop: what a call apart from it costs, its rows
//! would count too.

use crate::disk::Row;
use crate::mark;

/// The rows, and how far they are done.
#[derive(Debug)]
pub struct Rows {
    rows: &'static [Row],
    /// Index of the row, behind the last one if all are done.
    row: usize,
    sent: u32,
    done: u32,
    /// Tags that no request has, as bits.
    free: u32,
}

impl Rows {
    /// Begins with the first row.
    pub const fn new(rows: &'static [Row]) -> Self {
        Self { rows, row: 0, sent: 0, done: 0, free: u32::MAX }
    }

    /// Returns the row that is under way, and its number; none if all are done.
    #[inline(always)]
    pub fn row(&self) -> Option<(usize, &'static Row)> {
        self.rows.get(self.row).map(|row| (self.row, row))
    }

    /// Counts a request that is complete; marks where what is measured begins and ends. Returns
    /// whether it ends here.
    #[inline(always)]
    pub fn complete(&mut self, tag: u32) -> bool {
        self.free |= 1 << tag;
        let Some(row) = self.rows.get(self.row) else { return false };
        self.done += 1;
        if self.done == row.warm_up {
            mark::begin(self.row as u64, row.requests.into());
        }
        let measured = self.done.saturating_sub(row.warm_up);
        if (1..=row.requests).contains(&measured) && row.is_lap(measured) {
            mark::lap(self.row as u64, measured.into());
        }
        let is_measured = self.done == row.warm_up + row.requests;
        if is_measured {
            mark::end(self.row as u64, row.requests.into());
        }
        if self.done == row.warm_up + row.requests + row.depth {
            (self.row, self.sent, self.done) = (self.row + 1, 0, 0);
        }
        is_measured
    }

    /// Returns the index of the request of the row under way that is to be sent next, and a tag for
    /// it, less than [`MAX_DEPTH`](crate::disk::MAX_DEPTH); none if as many are under
    /// way as are to be. A row ends while that is so.
    #[inline(always)]
    pub fn next_request(&self, row: &Row) -> Option<(u32, u32)> {
        let all = row.warm_up + row.requests + row.depth;
        (self.sent < all && self.sent - self.done < row.depth).then(|| (self.sent, self.free.trailing_zeros()))
    }

    /// Records that the next request was sent with its tag.
    #[inline(always)]
    pub fn sent(&mut self, tag: u32) {
        self.free &= !(1 << tag);
        self.sent += 1;
    }
}

#[cfg(test)]
mod tests {
    extern crate std;

    use super::Rows;
    use crate::disk::{DISK, MAX_DEPTH};
    use std::vec;
    use std::vec::Vec;

    #[test]
    fn each_row_has_as_many_requests_under_way_as_it_says() {
        let (mut rows, mut under_way) = (Rows::new(&DISK), Vec::new());
        let (mut most, mut measured) = (vec![0; DISK.len()], 0);
        while let Some((number, row)) = rows.row() {
            while let Some((index, tag)) = rows.next_request(row) {
                assert!(tag < MAX_DEPTH && !under_way.contains(&tag) && index < u32::MAX);
                rows.sent(tag);
                under_way.push(tag);
            }
            most[number] = under_way.len().max(most[number]);
            let tag = under_way.remove(0);
            measured += usize::from(rows.complete(tag));
        }
        assert_eq!(most, DISK.iter().map(|row| row.depth as usize).collect::<Vec<_>>());
        assert_eq!((measured, under_way.len()), (DISK.len(), 0));
    }
}
