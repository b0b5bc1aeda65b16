//! The data of one request, on its way between a client's memory and the disk.

use crate::open::OpenId;
use alloc::vec::Vec;
use culm_file::{Error, Taken};

/// The data of one request.
#[derive(Debug)]
pub struct Transfer {
    /// The client.
    pub client: usize,
    /// Its request.
    pub taken: Taken,
    /// The file.
    pub open: OpenId,
    /// Whether it is written.
    pub is_write: bool,
    /// The position of the next byte that is to be sent for.
    pub next: u64,
    /// The position behind the last one.
    pub end: u64,
    /// Requests that are at the disk.
    pub outstanding: u32,
    /// Why it has failed.
    pub error: Option<Error>,
    /// Whether the volume was asked where the next byte lies, which is not known since.
    pub was_asked: bool,
    /// Whether that waits for the volume, or is under way there. Until it has come back, the
    /// transfer keeps its number.
    pub is_asking: bool,
}

impl Transfer {
    /// Returns where the byte at a position lies in its client's memory.
    #[inline]
    pub fn offset(&self, position: u64) -> usize {
        self.taken.request.offset() + (position - self.taken.request.position) as usize
    }
}

/// All transfers, by their numbers.
#[derive(Debug, Default)]
pub struct Transfers {
    all: Vec<Option<Transfer>>,
    free: Vec<usize>,
}

impl Transfers {
    /// Adds one; returns its number.
    #[inline]
    pub fn add(&mut self, transfer: Transfer) -> usize {
        let number = self.free.pop().unwrap_or_else(|| {
            self.all.push(None);
            self.all.len() - 1
        });
        if let Some(place) = self.all.get_mut(number) {
            *place = Some(transfer);
        }
        number
    }

    /// The one of this number.
    #[inline]
    pub fn get_mut(&mut self, number: usize) -> Option<&mut Transfer> {
        self.all.get_mut(number)?.as_mut()
    }

    /// Takes it that one does not wait to be told where its next byte lies any more.
    pub fn place_was_told(&mut self, number: usize) {
        if let Some(transfer) = self.get_mut(number) {
            transfer.is_asking = false;
        }
    }

    /// Takes one out that has ended: all is sent, or it has failed, and nothing is at the disk or
    /// the volume.
    #[inline]
    pub fn take_ended(&mut self, number: usize) -> Option<Transfer> {
        let place = self.all.get_mut(number)?;
        let has_ended = |transfer: &Transfer| {
            transfer.outstanding == 0
                && !transfer.is_asking
                && (transfer.next == transfer.end || transfer.error.is_some())
        };
        if !place.as_ref().is_some_and(has_ended) {
            return None;
        }
        self.free.push(number);
        place.take()
    }

    /// Has those of a client, or of all, fail; returns their numbers.
    pub fn fail(&mut self, client: Option<usize>, error: Error) -> Vec<usize> {
        let mut failed = Vec::new();
        for (number, place) in self.all.iter_mut().enumerate() {
            let Some(transfer) = place.as_mut() else { continue };
            if client.is_none_or(|client| client == transfer.client) {
                transfer.error = transfer.error.or(Some(error));
                if client.is_none() {
                    // Numbers of what is open are given anew.
                    transfer.open = OpenId::MAX;
                }
                failed.push(number);
            }
        }
        failed
    }
}
