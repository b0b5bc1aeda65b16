//! One client: its port, and which part of the disk it has.

use crate::turns::Share;
use core::fmt;
use culm::connection::BlockVirtualiserClient;
use culm::{Progress, start};
use culm_block::{BLOCK, Disk, Error, MAX_DISK, Port, Request, Taken};
use culm_partition::{NotFound, Selector, Table};

/// A client's part of the disk, as the system file describes it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The partition; the whole disk if there is none.
    pub partition: Option<Selector<'static>>,
    /// The first block, within that.
    pub first: u64,
    /// The count of blocks; all that follow if it is 0.
    pub blocks: u64,
    /// Whether nothing can be written.
    pub read_only: bool,
}

/// The reason why a part is not there.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Missing {
    /// There is no such partition, or it cannot be used.
    Partition(NotFound),
    /// The range lies outside.
    Range,
}

impl fmt::Display for Missing {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Partition(reason) => reason.fmt(formatter),
            Self::Range => {
                formatter.write_str("its range lies outside, or begins or ends within a block of the device")
            }
        }
    }
}

impl Part {
    /// Returns the first block of the part on `disk`, and the part as a disk of its own.
    pub fn place(&self, disk: &Disk, table: Option<&Table>) -> Result<(u64, Disk), Missing> {
        let (start, length) = match self.partition {
            None => (0, disk.blocks),
            Some(selector) => {
                let found = table.ok_or(NotFound::None).and_then(|table| table.find(&selector));
                let partition = found.map_err(Missing::Partition)?;
                (partition.first, partition.blocks)
            }
        };
        let behind = length.checked_sub(self.first).ok_or(Missing::Range)?;
        let blocks = if self.blocks == 0 { behind } else { self.blocks };
        let first = start.checked_add(self.first).ok_or(Missing::Range)?;
        let part = disk.part(first, blocks).filter(|part| part.blocks > 0 && blocks <= behind).ok_or(Missing::Range)?;
        Ok((first, Disk { read_only: part.read_only || self.read_only, ..part }))
    }
}

/// One client of the virtualiser.
#[derive(Debug)]
pub struct Client {
    pub name: &'static str,
    pub port: Port,
    pub part: Part,
    /// The part's first block on the disk.
    first: u64,
    /// Where the client's data region begins for the device, in blocks.
    memory: u64,
    /// A request that was taken and not sent to the driver yet.
    held: Option<Taken>,
    /// Its share of the driver.
    pub share: Share,
}

impl Client {
    /// Takes up the queues to a client.
    ///
    /// # Panics
    ///
    /// If the connection contradicts itself: the build tool checks the partition's description, and
    /// data regions begin at pages.
    pub fn new(connection: &BlockVirtualiserClient) -> Self {
        let BlockVirtualiserClient { requests, answers, data, channel, .. } = *connection;
        let memory = data.dma / BLOCK as u64;
        assert!(data.dma.is_multiple_of(BLOCK as u64), "a data region at {:#x}: let it begin at a page", data.dma);
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
            first: 0,
            memory,
            held: None,
            share: Share::default(),
        }
    }

    /// Says what the client's part is: its first block, and as a disk of its own. A request that
    /// was taken before must fit what it is now.
    pub fn set_disk(&mut self, (first, disk): (u64, Disk)) {
        self.first = first;
        self.port.set_disk(disk);
        if let Some(held) = self.held.take() {
            match disk.check(&held.request, MAX_DISK) {
                Ok(()) => self.held = Some(held),
                Err(error) => self.port.answer(held.token, Err(error)),
            }
        }
    }

    /// Begins a round: looks whether the client was restarted. A request of its previous life that
    /// the driver has not seen ends here.
    pub fn begin(&mut self) {
        self.port.begin();
        if !self.port.is_open()
            && let Some(held) = self.held.take()
        {
            self.port.answer(held.token, Err(Error::Changed));
        }
    }

    /// Ends a round. While a request is held, no other one is wanted.
    pub fn end_round(&mut self) -> Progress {
        self.port.end_round(self.held.is_none())
    }

    /// Returns the count of blocks that the next request counts for, if there is one.
    pub fn next_cost(&mut self) -> Option<u32> {
        if self.held.is_none() {
            self.held = self.port.next_request();
        }
        self.held.as_ref().map(|held| crate::turns::cost(&held.request))
    }

    /// Takes the request of [`Self::next_cost`], as the driver is to see it. `None` stands for one
    /// that cannot be translated.
    pub fn take(&mut self) -> Option<(u16, Option<Request>)> {
        let held = self.held.take()?;
        Some((held.token, held.request.translated(self.first, self.memory)))
    }
}
