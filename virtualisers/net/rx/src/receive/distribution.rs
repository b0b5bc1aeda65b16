//! The clients, and what each of them is given: every received frame goes to those to whom it is
//! addressed, and the buffers come back.

use super::pieces::{Frame, Piece};
use super::stock::Stock;
use crate::client::{Client, Marks};
use crate::counters;
use alloc::boxed::Box;
use culm::{Channel, Progress};
use culm_lending::holders::Holders;
use culm_lending::{Account, ClientSet, LinkAccount, Paused};
use culm_net::descriptor::flags::{AFTER_RESET, DEVICE};
use culm_net::driver::Entries;
use culm_net::{Descriptor, DmaDescriptor, HEADROOM, Mac};

/// Events of a round, for the counters.
#[derive(Default)]
pub(super) struct Tally {
    pub(super) packets: u64,
    pub(super) bytes: u64,
    pub(super) unknown: u64,
    pub(super) share: u64,
    pub(super) full: u64,
    pub(super) invalid: u64,
    syns: u64,
    buffers_refused: u64,
}

/// The clients and the buffers.
pub(super) struct Distribution {
    /// The account for the next life.
    pub(super) account: Account,
    pub(super) stock: Stock,
    pub(super) clients: Box<[Client]>,
    /// The clients whose queues are to be looked at in this round whether or not a frame is for
    /// them.
    due: ClientSet,
    /// The clients that were given something or looked at in this round.
    pub(super) active: ClientSet,
    /// The clients whose links are not live.
    disconnected: ClientSet,
    /// The clients that have used up their allowances.
    paused: Paused,
    /// The client that the last frame was for: often the next one is too.
    last: usize,
    /// The client that frames for nobody's address go to.
    promiscuous: Option<usize>,
    /// A frame of which buffers are still to come.
    pub(super) frame: Frame,
    pub(super) tally: Tally,
}

impl Distribution {
    /// Creates the distribution of the buffers of `stock` to `clients`, all of which are looked at
    /// in the first round.
    pub(super) fn new(account: Account, stock: Stock, clients: Box<[Client]>) -> Self {
        let all = ClientSet::first(clients.len());
        let promiscuous = clients.iter().position(|client| client.is_promiscuous);
        Self {
            account,
            stock,
            clients,
            due: all,
            active: ClientSet::EMPTY,
            disconnected: all,
            paused: Paused::NONE,
            last: 0,
            promiscuous,
            frame: Frame::new(),
            tally: Tally::default(),
        }
    }

    /// Marks the client of a channel over which it notified, if that is a client's.
    #[inline(always)]
    pub(super) fn mark_due(&mut self, channel: Channel) {
        if let Some(index) = self.clients.iter().position(|client| client.link.channel() == channel) {
            self.due.insert(index);
            if let Some(client) = self.clients.get_mut(index) {
                client.allowance.spend(1);
            }
        }
    }

    /// Takes back what the clients of this round have returned.
    #[inline(always)]
    pub(super) fn look_at_clients(&mut self) {
        self.due |= self.disconnected;
        if self.stock.runs_low() {
            self.due = self.all();
        }
        if !self.paused.is_empty() {
            self.look_at_paused();
        }
        let due = self.due.take();
        self.active |= due;
        for index in due {
            self.take_returned(index);
        }
    }

    /// Leaves clients whose allowance is not back yet out of this round, and asks to be woken for
    /// them.
    #[cold]
    fn look_at_paused(&mut self) {
        let clients = &mut self.clients;
        let is_back = |index| clients.get_mut(index).is_none_or(|client: &mut Client| client.allowance.replenish());
        self.paused.look(&mut self.due, is_back);
    }

    /// Leaves the queues of a client alone until its allowance is back.
    #[cold]
    fn pause(&mut self, index: usize) {
        self.due.remove(index);
        if let Some(client) = self.clients.get_mut(index) {
            self.paused.pause(index, &mut client.allowance);
        }
    }

    /// Returns all clients.
    fn all(&self) -> ClientSet {
        ClientSet::first(self.clients.len())
    }

    /// Gives every received frame to its destination. `driver_account` is the account of the link
    /// by which the entries come.
    #[inline(always)]
    pub(super) fn distribute(&mut self, mut entries: impl Entries, driver_account: LinkAccount) {
        let (mut packets, mut bytes) = (0, 0);
        while let Some(DmaDescriptor { token: number, length, flags, .. }) = entries.next() {
            let Some(entry) = self.stock.with_driver(number) else {
                self.refuse();
                driver_account.skip();
                continue;
            };
            if self.frame.is_partial() {
                if flags & AFTER_RESET == 0 {
                    self.add_piece(Piece { number, length }, entries.position());
                    continue;
                }
                self.forget_frame();
            }
            let offset = self.stock.offset(number);
            let Some((destination, buffers)) = self.stock.destination(offset, length) else {
                self.tally.invalid += 1;
                self.stock.drop_entry(number);
                continue;
            };
            if buffers > 1 {
                let piece = Piece { number, length };
                self.begin_frame(piece, flags, destination, buffers.into(), entries.position());
                continue;
            }
            let frame = Descriptor { offset, length, flags: flags & DEVICE };
            let holders = if destination.is_group() {
                self.deliver_to_all(frame, entries.position())
            } else if let Some(index) = self.find(destination) {
                self.deliver(index, frame, entries.position())
            } else {
                self.tally.unknown += 1;
                Holders::NOBODY
            };
            if holders == Holders::NOBODY {
                self.stock.drop_entry(number);
            } else {
                entry.set(holders);
                packets += 1;
                bytes += u64::from(length) - HEADROOM as u64;
            }
        }
        self.tally.packets += packets;
        self.tally.bytes += bytes;
    }

    /// Counts an entry of a buffer that the driver does not have.
    #[cold]
    fn refuse(&mut self) {
        self.tally.buffers_refused += 1;
        if self.frame.is_partial() {
            // The account can describe a frame only if its entries follow each other.
            self.forget_frame();
        }
    }

    /// Returns the client with this address, or else the one that frames for nobody's go to.
    #[inline(always)]
    pub(super) fn find(&mut self, mac: Mac) -> Option<usize> {
        if self.clients.get(self.last).is_some_and(|client| client.mac == mac) {
            return Some(self.last);
        }
        let Some(index) = self.clients.iter().position(|client| client.mac == mac) else { return self.promiscuous };
        self.last = index;
        Some(index)
    }

    fn deliver_to_all(&mut self, frame: Descriptor, through: u32) -> Holders {
        let mut holders = Holders::NOBODY;
        for index in 0..self.clients.len() {
            holders = holders.and(self.deliver(index, frame, through));
        }
        holders
    }

    /// Gives a frame, whose entry is before index `through`, to a client, if it has room for the
    /// frame. Returns the client then, and nobody if not.
    #[inline(always)]
    fn deliver(&mut self, index: usize, frame: Descriptor, through: u32) -> Holders {
        if !self.active.contains(index) {
            self.activate(index);
        }
        let Some(client) = self.clients.get_mut(index) else { return Holders::NOBODY };
        if client.may_drop_syns() && self.stock.is_syn(frame) && client.drop_syn() {
            self.tally.syns += 1;
            return Holders::NOBODY;
        }
        if !client.link.is_live() || !self.stock.shares.take(&mut client.held) {
            return self.deliver_after_returns(index, frame, through);
        }
        if !client.give(frame, through) {
            return self.undo_share(index);
        }
        self.stock.lent += 1;
        Holders::client(index)
    }

    /// Marks a client that is given something in this round. Takes back what it has returned, if it
    /// holds many buffers.
    #[inline(never)]
    fn activate(&mut self, index: usize) {
        self.active.insert(index);
        if self.clients.get(index).is_some_and(|client| client.held >= self.stock.batch) {
            self.take_returned(index);
        }
    }

    /// Does what [`Self::deliver`] does, for a client whose link is not live, or that has used up
    /// its share unless it has returned buffers since it was last looked at.
    #[cold]
    fn deliver_after_returns(&mut self, index: usize, frame: Descriptor, through: u32) -> Holders {
        if !self.clients.get(index).is_some_and(|client| client.link.is_live()) {
            self.tally.full += 1;
            return Holders::NOBODY;
        }
        self.take_returned(index);
        let Some(client) = self.clients.get_mut(index) else { return Holders::NOBODY };
        if !self.stock.shares.take(&mut client.held) {
            self.tally.share += 1;
            return Holders::NOBODY;
        }
        if !client.give(frame, through) {
            return self.undo_share(index);
        }
        self.stock.lent += 1;
        Holders::client(index)
    }

    /// Takes back the share for a frame for which the client's queue has no space. Returns nobody.
    #[cold]
    fn undo_share(&mut self, index: usize) -> Holders {
        if let Some(client) = self.clients.get_mut(index) {
            self.stock.shares.repay(&mut client.held);
        }
        self.tally.full += 1;
        Holders::NOBODY
    }

    /// Takes back the buffers that a client returned; if the pair starts over, all that it held. A
    /// returned buffer pays for the notification of it.
    #[inline]
    pub(super) fn take_returned(&mut self, index: usize) {
        if self.paused.contains(index) {
            return;
        }
        let Some(client) = self.clients.get_mut(index) else { return };
        if !client.link.look() && client.start_over() {
            self.take_all_back(index);
        }
        let Some(client) = self.clients.get_mut(index) else { return };
        let (stock, before) = (&mut self.stock, client.held);
        // The compiler keeps these in registers, which it cannot do with what is in memory that the
        // records' stores might change.
        let (slots, record, mut held) = (stock.slots, stock.holders, before);
        let mut idle = core::mem::take(&mut stock.idle);
        let known = client.link.input.available();
        let mut marks = Marks::default();
        for entry in client.link.input.drain(known) {
            // All buffers are small ones.
            let number = slots.candidate(entry.offset);
            if (entry.flags == 0 || marks.count(entry))
                && let Some(record) = record.entry(number)
                && record.get().has_client(index)
            {
                stock.shares.repay(&mut held);
                let others = record.get().without(index);
                record.set(others);
                if others == Holders::NOBODY {
                    idle.push(number);
                }
                continue;
            }
            self.tally.buffers_refused += 1;
            client.account.skip();
            client.allowance.spend(1);
            if client.allowance.is_spent() {
                break;
            }
        }
        stock.idle = idle;
        client.held = held;
        let returned = before - held;
        stock.lent -= returned;
        if marks.number > 0 {
            client.note_refused(marks);
        } else if client.may_drop_syns() {
            client.forget_refused();
        }
        client.allowance.earn(2 * returned);
        self.disconnected.set(index, !client.link.is_live());
        if client.allowance.is_spent() {
            self.pause(index);
        }
    }

    /// Takes back all buffers that a client held: the pair starts over, and is live.
    #[cold]
    fn take_all_back(&mut self, index: usize) {
        let Some(client) = self.clients.get_mut(index) else { return };
        for (number, holders) in self.stock.holders.all() {
            if holders.has_client(index)
                && let Some(record) = self.stock.holders.entry(number)
            {
                self.stock.shares.repay(&mut client.held);
                self.stock.take_back(number, record, holders.without(index));
                self.stock.lent -= 1;
            }
        }
        client.keep(self.stock.slots.count());
    }

    /// Publishes to the clients of this round.
    #[inline(always)]
    pub(super) fn publish(&mut self) {
        for index in self.active.take() {
            if let Some(client) = self.clients.get_mut(index) {
                client.link.publish();
            }
        }
    }

    /// Counts what has happened since the last call of this, in counters behind `first` others.
    #[inline(always)]
    pub(super) fn count(&mut self, first: usize) {
        let tally = &mut self.tally;
        if tally.packets > 0 {
            counters::PACKETS.behind(first).add(core::mem::take(&mut tally.packets));
            counters::BYTES.behind(first).add(core::mem::take(&mut tally.bytes));
        }
        if tally.unknown | tally.share | tally.full | tally.invalid | tally.syns | tally.buffers_refused != 0 {
            count(tally, first);
        }
    }

    /// Asks those clients to notify on whom this side waits. There is more to do if some are due.
    #[inline(always)]
    pub(super) fn sleep(&mut self) -> Progress {
        let mut progress = Progress::more_if(!self.due.is_empty());
        if !self.disconnected.is_empty() || self.stock.runs_low() {
            progress &= self.wait_for_clients();
        }
        progress
    }

    /// Asks clients to notify for the buffers that they return.
    #[cold]
    fn wait_for_clients(&mut self) -> Progress {
        let low = self.stock.runs_low();
        let mut progress = Progress::Asleep;
        for (index, client) in self.clients.iter_mut().enumerate() {
            // A paused client is looked at when its allowance is back.
            let waits = !client.link.is_live() || low && client.held > 0;
            if waits && !self.paused.contains(index) {
                progress &= client.link.sleep();
            }
        }
        progress
    }
}

/// Counts events that should not happen often.
#[cold]
fn count(tally: &mut Tally, first: usize) {
    let tally = core::mem::take(tally);
    counters::IGNORED.behind(first).add(tally.unknown);
    counters::DROPS_SHARE.behind(first).add(tally.share);
    counters::DROPS_FULL.behind(first).add(tally.full);
    counters::DROPS_INVALID.behind(first).add(tally.invalid);
    counters::DROPS_SYNS.behind(first).add(tally.syns);
    counters::BUFFERS_REFUSED.behind(first).add(tally.buffers_refused);
}
