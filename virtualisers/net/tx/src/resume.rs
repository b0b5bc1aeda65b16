//! Where the previous life of the virtualiser stopped, so that this one goes on from there.
//!
//! The account ([`culm_lending::account`]) says where each buffer is and which links were live. It
//! is checked before it is used: if it cannot be, everything starts over, and buffers are lent when
//! the driver has none of the previous life any more.
//!
//! The previous life may have ended between any two stores. A step that the account has is never
//! undone, since later entries may have been dealt with: what it pushed for that step and did not
//! publish is published by this life, or pushed again.
//!
//! | Pushed, not published | This life |
//! | --- | --- |
//! | a frame, to the driver | publishes it |
//! | a copy, to the driver | publishes it if the client's buffer was given back; else redoes it |
//! | a buffer, to its client | pushes it again |
//!
//! Whether an entry was published is seen from the ring's index. The driver's ring decides about
//! frames; a client cannot write it. A client can make this life err about the buffers that it was
//! given, about the entries that it sent, and about its own newest frame, but not about a buffer
//! that is being sent or about another client's.

use crate::bounce::{Bounce, Owner, Owners};
use crate::buffers::{BOUNCE, BufferState, Buffers, token};
use crate::client::Client;
use alloc::vec::Vec;
use culm::Link;
use culm::connection::{NetTxClient, NetTxVirtualiser, Ring};
use culm::link::Positions;
use culm::queue::{self, Entry};
use culm_lending::{Account, LinkAccount};
use culm_net::Descriptor;
use culm_net::driver::FoundDriver;

/// The state that the previous life left.
pub(crate) struct Previous<'a> {
    connection: &'a NetTxVirtualiser,
    clients: &'a [NetTxClient],
    account: Account,
    pub(crate) buffers: Vec<Buffers>,
    pub(crate) owners: Owners,
}

impl<'a> Previous<'a> {
    /// Looks at the account. If it is not valid, clears it. `most` is how many frames the driver
    /// can have.
    pub(crate) fn find(connection: &'a NetTxVirtualiser, clients: &'a [NetTxClient], most: u32) -> Self {
        let slots: Vec<_> = clients.iter().map(|client| Client::slots(client, connection.buffer_size)).collect();
        let copies = Bounce::slots(connection).count();
        let of_clients: u32 = slots.iter().map(|slots| slots.count()).sum();
        let account = Account::new(connection.account, 1 + clients.len() as u32, of_clients + copies);
        let mut first = 0;
        let mut next = |count| {
            first += count;
            account.buffers(first - count, count)
        };
        let buffers = slots.into_iter().map(|slots| Buffers::new(slots, next(slots.count()))).collect();
        let owners = Owners::new(next(copies));
        let previous = Self { connection, clients, account, buffers, owners };
        if !previous.is_possible(most) {
            account.clear();
        }
        previous
    }

    /// Returns whether the account can be one that a life has left.
    fn is_possible(&self, most: u32) -> bool {
        let packets = self.buffers.iter().flat_map(|buffers| {
            buffers.all().filter_map(|(number, state)| Some(buffers.slots.holds(number, state.being_sent()?)))
        });
        let slots = Bounce::slots(self.connection);
        let copies = self.owners.all().filter(|(_, owner)| !owner.is_nobody()).map(|(number, owner)| {
            slots.holds(number, owner.length())
                && self.clients.get(owner.client()).is_some_and(|client| client.anti_spoof != 0)
        });
        let mut in_flight = 0;
        self.account.is_valid()
            && packets.chain(copies).inspect(|_| in_flight += 1).all(|is_possible| is_possible)
            && in_flight <= most
    }

    /// Returns the account of the driver.
    pub(crate) fn driver_account(&self) -> LinkAccount {
        self.account.link(0)
    }

    /// Returns the account of the link to a client.
    pub(crate) fn client_account(&self, index: usize) -> LinkAccount {
        self.account.link(1 + index)
    }

    /// Returns the driver at `place`. Call it before [`Self::client_link`].
    pub(crate) fn driver<P: FoundDriver>(&self, mut place: P) -> P::Driver {
        let account = self.driver_account();
        if let Some(generations) = account.generations().filter(|generations| place.has(*generations)) {
            let output = place.published().wrapping_add(self.pushed_frames(&place));
            let sent = |buffers: &Buffers| buffers.all().filter(|(_, state)| state.being_sent().is_some()).count();
            let copies = self.owners.all().filter(|(_, owner)| !owner.is_nobody()).count();
            let in_flight = self.buffers.iter().map(sent).sum::<usize>() + copies;
            let input = account.taken(output, in_flight as u32);
            let positions = Positions { output, input };
            match place.resume(generations, positions) {
                Ok(driver) => {
                    culm::info!("goes on: the driver has {in_flight} frames");
                    return driver;
                }
                Err(refused) => place = refused,
            }
            account.forget();
        }
        place.begin()
    }

    /// Returns how many frames were pushed to the driver and not published.
    ///
    /// Of these only the newest can be a copy whose client's buffer was not given back: such a copy
    /// is undone. Hazard: whether it was given back is read from a ring that the client can write.
    /// If that decided about an older entry, the client could have it counted out, and a later
    /// one, of another client's, would never be published.
    fn pushed_frames(&self, place: &impl FoundDriver) -> u32 {
        let published = place.published();
        let copies = self.owners.all().filter(|(_, owner)| !owner.is_nobody()).filter_map(|(number, owner)| {
            Some((place.unpublished(owner.index(published), BOUNCE << 16 | number)?, number, owner))
        });
        let copies: Vec<_> = copies.collect();
        let frames = self.buffers.iter().enumerate().flat_map(|(client, buffers)| {
            let sent = buffers.all().filter(|(_, state)| state.being_sent().is_some());
            sent.map(move |(number, state)| (state.index(), token(client, number)))
        });
        let frames: Vec<u32> = frames.filter_map(|(index, token)| place.unpublished(index, token)).collect();
        let newest = copies.iter().map(|(rank, ..)| *rank).chain(frames.iter().copied()).max();
        let undone = copies
            .iter()
            .find(|(rank, _, owner)| Some(*rank) == newest && !self.was_given(owner.client(), owner.number()));
        if let Some((_, number, _)) = undone {
            self.owners.set(*number, Owner::NOBODY);
        }
        (copies.len() + frames.len() - usize::from(undone.is_some())) as u32
    }

    /// Returns whether a buffer, which its client has sent, was given to it again, by an entry that
    /// is not published.
    fn was_given(&self, client: usize, number: u32) -> bool {
        let NetTxClient { filled, free, .. } = self.clients[client];
        let buffers = &self.buffers[client];
        let entries = Unpublished::<Descriptor>::new(free, Link::<Descriptor>::shown(free, filled).output);
        match buffers.state(number) {
            Some(state) if state.is_with_client() => {
                entries.contain(state.index(), |entry| entry.offset == buffers.slots.offset(number))
            }
            // The client's queue had no space for it.
            state => state == Some(BufferState::HERE),
        }
    }

    /// Returns the link to a client.
    pub(crate) fn client_link(&self, index: usize) -> Link<Descriptor> {
        let NetTxClient { filled, free, channel, .. } = self.clients[index];
        let (account, buffers) = (self.client_account(index), &self.buffers[index]);
        let with_client = || buffers.all().filter(|(_, state)| state.is_with_client());
        if let Some(generations) = account.generations() {
            let output = Link::<Descriptor>::shown(free, filled).output;
            let entries = Unpublished::<Descriptor>::new(free, output);
            for (number, state) in with_client() {
                if entries.contain(state.index(), |entry| entry.offset == buffers.slots.offset(number)) {
                    buffers.set(number, BufferState::HERE);
                }
            }
            let input = account.taken(output, with_client().count() as u32);
            if let Some(link) = Link::resume(free, filled, channel, generations, Positions { output, input }) {
                return link;
            }
            account.forget();
        }
        for (number, _) in with_client() {
            buffers.set(number, BufferState::HERE);
        }
        Link::new(free, filled, channel)
    }
}

/// The entries that were pushed to a ring and not published.
struct Unpublished<T: Entry> {
    ring: queue::Shared<T>,
    published: u32,
}

impl<T: Entry> Unpublished<T> {
    fn new(ring: Ring, published: u32) -> Self {
        Self { ring: queue::shared(ring), published }
    }

    /// Returns whether the entry of this index is among them, and is the one that `is_it` knows.
    /// After a wrap of the index its slot holds another entry.
    fn contain(&self, index: u32, is_it: impl FnOnce(T) -> bool) -> bool {
        index.wrapping_sub(self.published) < self.ring.capacity() && is_it(self.ring.load(index))
    }
}
