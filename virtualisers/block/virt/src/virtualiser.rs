//! The virtualiser's state, its rounds, and the driver's answers. `placing` finds out what the
//! medium is and where each client's part is, `serving` sends requests to the driver.
//!
//! A round looks at those clients that notified, or that were given an answer. What a client causes
//! without use is charged to its [`culm_lending::Allowance`]; one that has used it up is left alone
//! for a while.

mod placing;
mod serving;

use crate::account::Account;
use crate::client::Sharer;
use crate::counters;
use crate::medium::Medium;
use crate::part::Placement;
use alloc::vec::Vec;
use culm::connection::{BlockVirtualiser, BlockVirtualiserClient};
use culm::time::Instant;
use culm::{Channel, Channels, Progress, Region};
use culm_block::driver::Driver;
use culm_block::{BLOCK, Client, Completion, Disk, Error, MAX_DISK, Operation};
use culm_lending::{ClientSet, Paused};
use culm_partition::MAX_READ;
use placing::Problems;

/// A reader of partition tables that counted in other blocks than the disk would find others' data,
/// and one of smaller logical blocks would be given less than it wants.
const _: () = assert!(culm_partition::BLOCK == BLOCK && MAX_READ == 1 << Disk::LARGEST_GRANULE);

/// The tag of a request that the driver has: its owner.
#[derive(Clone, Copy, Debug)]
pub struct Tag(Owner);

/// The owner of a request that the driver has.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// A client's.
    Client { number: u16, token: u16, cost: u32, operation: Operation, failed_flushes: u32 },
    /// The virtualiser's own read of the partition table, of the scan of this number.
    Table { scans: u32 },
}

/// The virtualiser of the driver `D`. One value of it is the component's state.
#[derive(Debug)]
pub struct Virtualiser<D = Client<Tag>> {
    driver: D,
    medium: Medium,
    /// How often the driver's medium had changed when `medium` was found out.
    changes: u32,
    /// How many scans of the partition table were begun, modulo 2³².
    scans: u32,
    /// Whether the driver has a request for a part of the table: there is memory for one.
    is_reading: bool,
    /// The time at which to read the table again; `None` if nothing is missing.
    rescan_at: Option<Instant>,
    /// The faults of the medium.
    problems: Problems,
    /// How often in a row it could not be read, up to a bound.
    failures: u32,
    /// Whether the clients know where their parts are: there is nothing to watch before the driver
    /// says again what the disk is.
    are_placed: bool,
    /// Where the clients' parts are as soon as nothing is under way to where they were; `None` for
    /// one of which that cannot be said yet.
    next_placements: Option<Vec<Option<Placement>>>,
    clients: Vec<Sharer>,
    /// Clients that are to be looked at in the next round.
    due: ClientSet,
    /// Clients that hold a request or have entries in their queue.
    ready: ClientSet,
    /// Clients whose flush waits for the one under way.
    flushing: ClientSet,
    /// Clients that were looked at or given an answer in this round.
    active: ClientSet,
    /// Clients that have used up their allowances.
    paused: Paused,
    /// The client whose turn it is.
    turn: usize,
    /// Blocks that are under way at the driver.
    under_way: u32,
    /// Clients that have something under way there.
    busy: usize,
    /// Whether a flush is under way there.
    is_flushing: bool,
    /// How many flushes have failed, modulo 2³².
    failed_flushes: u32,
    /// Whether the driver may have failed the flush under way before a restart that has lost the
    /// answer: then it counts as failed, whatever is answered now.
    is_flush_lost: bool,
    /// Failed flushes, for the next life.
    account: Account,
    /// How often the driver had said what the disk is when that was compared with the account.
    shown: u32,
    /// Memory for the partition table, and where it begins for the device, in blocks.
    table: (Region, u64),
}

impl Virtualiser {
    /// Takes up the queues to the driver and to all clients.
    ///
    /// # Panics
    ///
    /// As [`Self::with_driver`].
    pub fn new(connection: &BlockVirtualiser, clients: &[BlockVirtualiserClient]) -> Self {
        let BlockVirtualiser { requests, answers, channel, .. } = *connection;
        Self::with_driver(Client::new(requests, answers, channel, MAX_DISK), connection, clients)
    }
}

impl<D: Driver<Tag>> Virtualiser<D> {
    /// Takes up the queues to all clients, with a driver that has ended all that a previous life
    /// sent it. The connection's queues to the driver are not used.
    ///
    /// # Panics
    ///
    /// If the connection contradicts itself, which those of a start block do not.
    pub fn with_driver(driver: D, connection: &BlockVirtualiser, clients: &[BlockVirtualiserClient]) -> Self {
        let table = connection.table;
        let account = Account::new(&Region::new(connection.account)).expect("a word for the next life");
        let least = u64::from(MAX_READ) * BLOCK as u64;
        assert!(table.size >= least && table.dma.is_multiple_of(BLOCK as u64), "{least} bytes for the partition table");
        let (count, bound) = (clients.len(), ClientSet::MAX);
        assert!(count <= bound, "{count} clients of one disk: at most {bound} can share one");
        let mut virtualiser = Self {
            // Its first medium is no change: clients mean that one by what they sent earlier lives.
            changes: driver.changes(),
            driver,
            medium: Medium::Unknown,
            scans: 0,
            is_reading: false,
            rescan_at: None,
            problems: Problems::default(),
            failures: 0,
            are_placed: false,
            next_placements: None,
            clients: clients.iter().map(|client| Sharer::new(client, D::COUNTERS_BEFORE)).collect(),
            due: ClientSet::first(count),
            ready: ClientSet::EMPTY,
            flushing: ClientSet::EMPTY,
            active: ClientSet::EMPTY,
            paused: Paused::NONE,
            turn: 0,
            under_way: 0,
            busy: 0,
            is_flushing: false,
            failed_flushes: 0,
            is_flush_lost: false,
            account,
            shown: 0,
            table: (Region::new(table), table.dma / BLOCK as u64),
        };
        if virtualiser.account.is_untold() {
            // Nobody knows any more who was told: so each that may have written is.
            virtualiser.clients.iter_mut().for_each(|client| client.unflushed.lose());
        }
        virtualiser
    }

    /// Returns the driver.
    #[inline(always)]
    pub fn driver(&mut self) -> &mut D {
        &mut self.driver
    }

    /// Marks the clients that notified over these channels.
    #[inline(always)]
    pub fn mark_due(&mut self, channels: Channels) {
        channels.for_each(|channel| self.mark(channel));
    }

    /// Marks the client that notified over this channel, if one did.
    #[inline(always)]
    pub fn mark(&mut self, channel: Channel) {
        if !self.driver.notifies_over(channel)
            && let Some(number) = self.clients.iter().position(|client| client.port.channel() == channel)
        {
            self.due.insert(number);
        }
    }

    /// Takes a round: moves what there is.
    #[inline(always)]
    pub fn round(&mut self) -> Progress {
        self.driver.begin();
        while let Some(completion) = self.driver.next_completion() {
            self.complete(completion);
        }
        if self.driver.shown() != self.shown {
            self.count_failures();
            self.show_problems();
            self.are_placed = false;
        }
        if !self.are_placed {
            self.watch();
        }
        self.look();
        self.serve();
        let mut progress = self.driver.end_round();
        for number in self.active.take() {
            let Some(client) = self.clients.get_mut(number) else { continue };
            let is_paused = self.paused.contains(number);
            if client.end_round(!is_paused && !self.ready.contains(number)).is_more() && !is_paused {
                self.due.insert(number);
                progress = Progress::More;
            }
        }
        if self.account.is_untold() {
            self.mark_told_if_all_are();
        }
        progress
    }

    /// Compares the driver's count of failed flushes with those that were answered so. If it is
    /// another one, a flush had failed whose answer was lost in a restart of either side.
    #[cold]
    fn count_failures(&mut self) {
        self.shown = self.driver.shown();
        let Some(failures) = self.driver.disk().map(|disk| disk.failures) else { return };
        if self.account.compare(failures) {
            return;
        }
        self.account.record(failures);
        // The one that is under way was sent again, and may go well without what is lost.
        self.is_flush_lost = self.is_flushing;
        self.failed_flushes = self.failed_flushes.wrapping_add(1);
        self.clients.iter_mut().for_each(|client| client.unflushed.lose());
    }

    /// Records that everybody is told of failed flushes, once that is so.
    #[cold]
    fn mark_told_if_all_are(&mut self) {
        if !self.clients.iter().any(|client| client.unflushed.is_lost()) {
            self.account.mark_told();
        }
    }

    /// Passes an answer of the driver's on.
    #[inline(always)]
    fn complete(&mut self, Completion { tag: Tag(tag), result }: Completion<Tag>) {
        let (number, token, cost, operation, failed_flushes) = match tag {
            Owner::Client { number, token, cost, operation, failed_flushes } => {
                (usize::from(number), token, cost, operation, failed_flushes)
            }
            Owner::Table { scans } => {
                self.is_reading = false;
                if scans == self.scans {
                    self.medium.give(result.is_ok().then_some(&self.table.0));
                }
                return;
            }
        };
        if result.is_err() {
            counters::FAILED.behind(D::COUNTERS_BEFORE).add(1);
        }
        self.under_way -= cost;
        let result = if operation.is_flush() { self.complete_flush(number, result) } else { result };
        let has_rivals = self.busy > 1 || !self.ready.is_empty();
        let Some(client) = self.clients.get_mut(number) else { return };
        client.share.complete(cost);
        self.busy -= usize::from(client.share.is_idle());
        if operation.changes_blocks() {
            client.unflushed.change();
            if failed_flushes != self.failed_flushes {
                client.unflushed.lose();
            }
        }
        client.answer(token, result);
        self.active.insert(number);
        // Among rivals it would lose its turn for want of a request that has come meanwhile.
        if has_rivals || client.port.waits_for_answers() {
            self.due.insert(number);
        }
    }

    /// Takes note of the driver's answer to a flush, which a client asked for and which concerns
    /// all. Returns the answer for that client.
    fn complete_flush(&mut self, number: usize, mut result: Result<(), Error>) -> Result<(), Error> {
        if core::mem::take(&mut self.is_flush_lost) {
            result = Err(Error::Failed);
        } else if result == Err(Error::Failed) {
            self.account.record_next();
        }
        self.is_flushing = false;
        self.failed_flushes = self.failed_flushes.wrapping_add((result == Err(Error::Failed)).into());
        self.clients.iter_mut().for_each(|client| client.unflushed.flush_ended(result));
        self.ready |= self.flushing.take();
        // One that went well says nothing of what was lost before it was sent.
        if let Some(client) = self.clients.get_mut(number)
            && result == Err(Error::Failed)
            && client.port.is_open()
        {
            client.unflushed.tell();
        }
        result
    }

    /// Looks at the clients that are due.
    #[inline(always)]
    fn look(&mut self) {
        if !self.paused.is_empty() {
            let clients = &mut self.clients;
            let is_back =
                |number| clients.get_mut(number).is_none_or(|client: &mut Sharer| client.allowance.replenish());
            self.paused.look(&mut self.due, is_back);
        }
        for number in self.due.take() {
            self.active.insert(number);
            let Some(client) = self.clients.get_mut(number) else { continue };
            if client.begin() {
                let has_more = client.has_more();
                self.ready.set(number, has_more);
                if !has_more {
                    // It has notified of nothing, which costs a step of work.
                    client.allowance.spend(1);
                }
            } else {
                // Requests that the driver has not seen would use the next life's memory.
                self.ready.remove(number);
                self.driver.cancel(
                    |Tag(owner)| matches!(owner, Owner::Client { number: other, .. } if usize::from(*other) == number),
                );
            }
            if client.allowance.is_spent() && self.paused.pause(number, &mut client.allowance) {
                self.ready.remove(number);
            }
        }
    }

    /// Returns whether a client is left alone.
    #[cfg(test)]
    pub(crate) fn is_paused(&self, number: usize) -> bool {
        self.paused.contains(number)
    }
}
