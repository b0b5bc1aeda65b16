//! One client: its port, what it has had, and what of its writes is durable.

use crate::counters;
use crate::part::{Part, Placement};
use crate::turns::Share;
use crate::unflushed::Unflushed;
use culm::connection::BlockVirtualiserClient;
use culm::{Progress, start};
use culm_block::{BLOCK, Error, MAX_DISK, Operation, Port, Shift, Taken, depth};
use culm_lending::Allowance;
use culm_partition::Selector;

/// Steps of work that a look at a client costs whose pair starts over.
const START_OVER: u32 = 8;

/// One client of the virtualiser.
#[derive(Debug)]
pub struct Sharer {
    pub name: &'static str,
    pub port: Port,
    pub part: Part,
    /// Where its part is; `None` before that is known.
    placement: Option<Placement>,
    /// The number of the last medium that its part was, on which its unflushed writes are; `None`
    /// before it is known.
    medium: Option<u32>,
    /// Where the client's data region begins for the device, in blocks.
    memory: u64,
    /// Whether the request that the port has taken is to be sent to the driver.
    holds: bool,
    /// Its share of the driver.
    pub share: Share,
    /// Its writes that are not durable.
    pub unflushed: Unflushed,
    /// Work without use that it may cause.
    pub allowance: Allowance,
    /// Its refused entries that were charged.
    refused: u64,
    /// How many counters of the component stand before the virtualiser's.
    counters_before: usize,
}

impl Sharer {
    /// Takes up the queues to a client.
    ///
    /// # Panics
    ///
    /// If the connection contradicts itself: the build tool checks the partition's description, and
    /// data regions begin at pages.
    pub fn new(connection: &BlockVirtualiserClient, counters_before: usize) -> Self {
        let BlockVirtualiserClient { requests, answers, data, channel, .. } = *connection;
        let memory = data.dma / BLOCK as u64;
        assert!(data.dma.is_multiple_of(BLOCK as u64), "a data region at {:#x}: let it begin at a page", data.dma);
        let end = memory.saturating_add(data.size / BLOCK as u64);
        assert!(end <= MAX_DISK, "a data region at {:#x}: no device reaches its end", data.dma);
        let partition = match start::text(connection.partition) {
            "" => None,
            text => Some(Selector::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"))),
        };
        let part = Part {
            partition,
            first: connection.first,
            blocks: connection.blocks,
            read_only: connection.read_only != 0,
        };
        Self {
            name: start::text(connection.name),
            port: Port::new(requests, answers, channel, data.size / BLOCK as u64),
            part,
            placement: None,
            medium: None,
            memory,
            holds: false,
            share: Share::default(),
            unflushed: Unflushed::new(!part.read_only),
            allowance: Allowance::new(depth(requests.capacity, answers.capacity)),
            refused: 0,
            counters_before,
        }
    }

    /// Returns where its part is, as far as that is known.
    pub fn placement(&self) -> Option<&Placement> {
        self.placement.as_ref()
    }

    /// Says where the client's part is. A request that was taken before must fit what it is now.
    pub fn set_placement(&mut self, mut placement: Placement) {
        let medium = placement.disk.medium;
        if placement.disk.is_present() && self.medium.replace(medium).is_some_and(|before| before != medium) {
            self.unflushed = Unflushed::new(false);
        }
        // Who has yet to be told of a lost write sends a flush only if there is a cache.
        placement.disk.caches |= self.unflushed.is_lost();
        self.placement = Some(placement);
        self.port.set_disk(placement.disk);
        if self.holds
            && let Err(error) = placement.disk.check(&self.port.taken().request, MAX_DISK)
        {
            self.end_held(Err(error));
        }
    }

    /// Answers the request that is held.
    fn end_held(&mut self, result: Result<(), Error>) {
        self.holds = false;
        self.port.answer(self.port.taken().token, result);
    }

    /// Begins a round: looks at what the client sent, and whether it was restarted. A request of
    /// its previous life that the driver has not seen ends here. Returns whether requests are
    /// taken.
    #[inline(always)]
    pub fn begin(&mut self) -> bool {
        let was_open = self.port.is_open();
        self.port.begin();
        let is_open = self.port.is_open();
        if !was_open || !is_open {
            self.allowance.spend(START_OVER);
        }
        if !is_open && self.holds {
            self.end_held(Err(Error::Changed));
        }
        is_open
    }

    /// Ends a round. While a request is held, or the client is left alone, no other request is
    /// wanted.
    #[inline(always)]
    pub fn end_round(&mut self, wants: bool) -> Progress {
        self.port.end_round(wants && !self.holds)
    }

    /// Returns whether there may be a next request.
    #[inline(always)]
    pub fn has_more(&self) -> bool {
        self.holds || self.port.has_entries()
    }

    /// Returns the next request, if there is one: what it is, and the count of blocks that it
    /// counts for. What the port refuses on the way is charged to the client.
    #[inline(always)]
    pub fn next(&mut self) -> Option<(Operation, u32)> {
        if !self.holds {
            self.holds = self.port.next_in_place().is_some();
            let refused = self.port.entries_refused() - self.refused;
            if refused > 0 {
                self.charge(refused);
            }
        }
        let request = &self.port.taken().request;
        self.holds.then(|| (request.operation, crate::turns::cost(request)))
    }

    /// Charges the client for entries or requests that were refused.
    #[cold]
    fn charge(&mut self, refused: u64) {
        self.refused += refused;
        self.allowance.spend(u32::try_from(refused).unwrap_or(u32::MAX));
        counters::REQUESTS_REFUSED.behind(self.counters_before).add(refused);
    }

    /// Takes the request of [`Self::next`], which stays in place until the next call of that, and
    /// how far the driver is to see it from where the client does.
    #[inline]
    pub fn take(&mut self) -> Option<(&Taken, Shift)> {
        let blocks = self.placement?.first;
        core::mem::take(&mut self.holds).then(|| (self.port.taken(), Shift { blocks, places: self.memory }))
    }

    /// Answers a request of the client's, which pays for a step of work.
    #[inline]
    pub fn answer(&mut self, token: u16, result: Result<(), Error>) {
        self.port.answer(token, result);
        self.allowance.earn(1);
    }

    /// Answers the request of [`Self::next`] without the driver. It costs a step of work: no time
    /// of the device's bounds how many such requests a client can send.
    pub fn answer_held(&mut self, result: Result<(), Error>) {
        if self.holds {
            self.end_held(result);
            self.allowance.spend(1);
        }
    }

    /// Refuses a request that was taken.
    #[cold]
    pub fn refuse(&mut self, token: u16, error: Error) {
        self.port.answer(token, Err(error));
        self.allowance.spend(1);
        counters::REQUESTS_REFUSED.behind(self.counters_before).add(1);
    }
}
