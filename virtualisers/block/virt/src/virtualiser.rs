//! Moving requests from clients to the driver, and answers back.

use crate::client::Client;
use crate::counters;
use crate::medium::Medium;
use crate::turns::WINDOW;
use alloc::vec::Vec;
use culm::connection::{BlockVirtualiser, BlockVirtualiserClient};
use culm::{Progress, Region};
use culm_block::{BLOCK, Completion, Disk, Error, MAX_DISK, NotSent};
use culm_partition::{MAX_READ, NoTable, Table};

/// A reader of partition tables that counted in other blocks than the disk would find others' data.
const _: () = assert!(culm_partition::BLOCK == BLOCK);

/// Whose a request at the driver is.
#[derive(Clone, Copy, Debug)]
enum Owner {
    /// A client's.
    Client { number: usize, token: u16, cost: u32 },
    /// The virtualiser's own read of the partition table, of the scan of this number.
    Table { scans: u32 },
}

/// The outcome of the attempt to send a client's next request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Attempt {
    /// The driver has it, or it was answered.
    Sent,
    /// There is none.
    Nothing,
    /// It has to wait for its client's turn to come, perhaps again.
    NoCredit,
    /// It has to wait for others to end.
    Blocked,
}

/// The virtualiser. One value of it is the component's state.
#[derive(Debug)]
pub struct Virtualiser {
    driver: culm_block::Client<Owner>,
    medium: Medium,
    /// How often the driver's medium had changed when `medium` was found out.
    changes: u32,
    /// How many scans of the partition table were begun, modulo 2³².
    scans: u32,
    /// Whether the driver has a request for a part of the table: there is memory for one.
    is_reading: bool,
    clients: Vec<Client>,
    /// The client whose turn it is.
    turn: usize,
    /// Blocks that are under way at the driver.
    under_way: u32,
    /// Memory for the partition table, and where it begins for the device, in blocks.
    table: (Region, u64),
}

impl Virtualiser {
    /// Takes up the queues to the driver and to all clients.
    ///
    /// # Panics
    ///
    /// If the connection contradicts itself, which those of a start block do not.
    pub fn new(connection: &BlockVirtualiser, clients: &[BlockVirtualiserClient]) -> Self {
        let BlockVirtualiser { requests, answers, channel, table, .. } = *connection;
        let least = u64::from(MAX_READ) * BLOCK as u64;
        assert!(table.size >= least && table.dma.is_multiple_of(BLOCK as u64), "{least} bytes for the partition table");
        Self {
            driver: culm_block::Client::new(requests, answers, channel, MAX_DISK),
            medium: Medium::Unknown,
            changes: 0,
            scans: 0,
            is_reading: false,
            clients: clients.iter().map(Client::new).collect(),
            turn: 0,
            under_way: 0,
            table: (Region::new(table), table.dma / BLOCK as u64),
        }
    }

    /// Takes a round: moves what there is.
    pub fn round(&mut self) -> Progress {
        self.driver.begin();
        while let Some(completion) = self.driver.next_completion() {
            self.complete(completion);
        }
        self.watch();
        for client in &mut self.clients {
            client.begin();
        }
        self.serve();
        let mut progress = self.driver.end_round();
        for client in &mut self.clients {
            progress &= client.end_round();
        }
        progress
    }

    /// Passes an answer of the driver's on.
    fn complete(&mut self, Completion { tag, result }: Completion<Owner>) {
        match tag {
            Owner::Client { number, token, cost } => {
                self.under_way -= cost;
                if let Some(client) = self.clients.get_mut(number) {
                    client.share.complete(cost);
                    client.port.answer(token, result);
                }
                if result.is_err() {
                    counters::FAILED.add(1);
                }
            }
            Owner::Table { scans } => {
                self.is_reading = false;
                if scans == self.scans {
                    self.medium.give(result.is_ok().then_some(&self.table.0));
                }
            }
        }
    }

    /// Looks whether the driver has another medium, and goes on reading its table.
    fn watch(&mut self) {
        let Some(disk) = self.driver.disk().copied() else { return };
        let changes = self.driver.changes();
        if changes != self.changes || self.medium.disk() != Some(&disk) {
            if changes != self.changes {
                // Whatever is there now, it is not what clients mean by their requests.
                self.clients.iter_mut().for_each(|client| client.set_disk((0, Disk::ABSENT)));
                self.changes = changes;
            }
            if disk.is_present() && self.clients.iter().any(|client| client.part.partition.is_some()) {
                self.medium = Medium::scanning(disk);
                self.scans = self.scans.wrapping_add(1);
            } else {
                self.medium = Medium::Known { disk };
                self.place(&disk, None);
            }
        }
        while !self.is_reading {
            if let Some(found) = self.medium.finished() {
                self.place(&disk, Some(found));
            }
            let Some(request) = self.medium.request(self.table.1) else { return };
            match self.driver.send(&request, Owner::Table { scans: self.scans }) {
                Ok(()) => self.is_reading = true,
                // A round in which an answer comes has space.
                Err(NotSent::Full | NotSent::Unknown) => return,
                Err(NotSent::Refused(_)) => self.medium.give(None),
            }
        }
    }

    /// Tells each client what its part of the disk is.
    fn place(&mut self, disk: &Disk, table: Option<Result<Table, NoTable>>) {
        match &table {
            Some(Err(reason)) => culm::error!("the disk's partitions cannot be found: {reason}"),
            Some(Ok(Table { flaw: Some(flaw), .. })) => culm::warn!("the disk's partition table: {flaw}"),
            _ => {}
        }
        let table = table.as_ref().and_then(|table| table.as_ref().ok());
        for client in &mut self.clients {
            let part = match client.part.place(disk, table) {
                Ok(part) => part,
                Err(_) if !disk.is_present() => (0, Disk::ABSENT),
                Err(reason) => {
                    culm::error!("{} has no disk: {reason}", client.name);
                    (0, Disk::ABSENT)
                }
            };
            client.set_disk(part);
        }
    }

    /// Sends requests to the driver, as many as may be under way.
    fn serve(&mut self) {
        for number in 0..self.clients.len() {
            self.send(number, true);
        }
        // Clients in a row that want nothing. One that lacks credit wants something, and has the
        // credit after a few turns, since a request's cost and a client's debt are bounded.
        let mut idle = 0;
        while idle < self.clients.len() {
            match self.send(self.turn, false) {
                Attempt::Blocked => return,
                Attempt::Sent => idle = 0,
                Attempt::NoCredit => {
                    idle = 0;
                    self.pass_on();
                }
                Attempt::Nothing => {
                    idle += 1;
                    if let Some(client) = self.clients.get_mut(self.turn) {
                        client.share.give_up();
                    }
                    self.pass_on();
                }
            }
        }
    }

    /// Lets the next client have its turn.
    fn pass_on(&mut self) {
        self.turn = (self.turn + 1) % self.clients.len().max(1);
        if let Some(client) = self.clients.get_mut(self.turn) {
            client.share.refill();
        }
    }

    /// Sends the next request of a client, in its turn or past the others.
    fn send(&mut self, number: usize, passes: bool) -> Attempt {
        let Some(client) = self.clients.get_mut(number) else { return Attempt::Nothing };
        let Some(cost) = client.next_cost() else { return Attempt::Nothing };
        let has_right = if passes { client.share.may_pass(cost) } else { client.share.affords(cost) };
        if !has_right {
            return Attempt::NoCredit;
        }
        if !passes && self.under_way + cost > WINDOW || self.driver.space() == 0 {
            return Attempt::Blocked;
        }
        let Some((token, request)) = client.take() else { return Attempt::Nothing };
        let sent = match &request {
            Some(request) => self.driver.send(request, Owner::Client { number, token, cost }),
            None => Err(NotSent::Refused(Error::OutOfRange)),
        };
        match sent {
            Ok(()) => {
                client.share.send(cost);
                self.under_way += cost;
                counters::REQUESTS.add(1);
                counters::BLOCKS.add(request.map_or(0, |request| request.blocks.into()));
            }
            Err(reason) => {
                let error = if let NotSent::Refused(error) = reason { error } else { Error::Failed };
                client.port.answer(token, Err(error));
                counters::REQUESTS_REFUSED.add(1);
            }
        }
        Attempt::Sent
    }
}
