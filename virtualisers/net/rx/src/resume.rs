//! Where the previous life of the virtualiser stopped, so that this one goes on from there.
//!
//! The account ([`culm_lending::account`]) says who holds each buffer and which links were live. It
//! is checked before it is used: if it cannot be, everything starts over.
//!
//! The previous life may have ended between any two stores. A frame is given to its clients in
//! these steps: the entries are written to their queues; the account says for each of them how many
//! entries were written, and for which frame; the frame's buffer has these clients as holders. The
//! last of them decides: if it was made, this life publishes the entries, unless that life did; if
//! not, it deals with the frame again. A frame in several buffers takes several stores of the last
//! kind, so the account says that one is under way, and all of its buffers go back to the driver's
//! queue if its handing over was not finished.
//!
//! | Written, not published | This life |
//! | --- | --- |
//! | a frame, to its clients | publishes it if the account has its holders; else redoes it |
//! | an empty buffer, to the driver | gives it again |
//!
//! Buffers that clients return need no such care: a returned buffer's bit is cleared by one store.

use crate::receive::Stock;
use culm::Link;
use culm::connection::{NetRxClient, NetRxVirtualiser};
use culm::link::Positions;
use culm_lending::holders::{Holders, Record};
use culm_lending::{Account, LinkAccount};
use culm_net::Descriptor;
use culm_net::driver::FoundDriver;

/// The state that the previous life left.
pub(crate) struct Previous<'a> {
    clients: &'a [NetRxClient],
    pub(crate) account: Account,
    pub(crate) holders: Record,
    /// The index of the driver's next entry, if the account tells.
    through: Option<u32>,
}

impl<'a> Previous<'a> {
    /// Looks at the account of so many buffers. If it is not valid, it is cleared.
    pub(crate) fn find(connection: &NetRxVirtualiser, clients: &'a [NetRxClient], buffers: u32) -> Self {
        let account = Account::new(connection.account, 1 + clients.len() as u32, buffers);
        let holders = Record::new(account.buffers(0, buffers));
        if !(account.is_valid() && holders.all().all(|(_, holders)| holders.are_possible(clients.len()))) {
            account.clear();
        }
        Self { clients, account, holders, through: None }
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
    pub(crate) fn driver<P: FoundDriver>(&mut self, mut place: P) -> P::Driver {
        let account = self.driver_account();
        // The last life may have ended in a reset of the device: then buffers that clients hold may
        // stand where frames of the account's generation stood.
        if let Some(generations) = account.generations().filter(|generations| place.has(*generations)) {
            let output = place.published();
            self.take_unpublished_back(&place);
            let taken = || account.taken(output, self.with_driver());
            if let Some(first) = self.account.run_under_way() {
                self.put_frame_back(&place, first, taken());
            }
            let positions = Positions { output, input: taken() };
            // The clients' links need this too if the driver cannot go on.
            self.through = Some(positions.input);
            match place.resume(generations, positions) {
                Ok(driver) => {
                    culm::info!("goes on: the driver has {} buffers", self.with_driver());
                    return driver;
                }
                Err(refused) => place = refused,
            }
            // The account stands until the first round forgets it. If this life ends before it has
            // found its place in all clients' links, the next one needs it as well.
        }
        self.account.end_run();
        place.begin()
    }

    /// Returns how many buffers the driver has.
    fn with_driver(&self) -> u32 {
        self.holders.all().filter(|(_, holders)| holders.is_driver()).count() as u32
    }

    /// Takes back the buffers that were pushed to the driver and not published.
    fn take_unpublished_back(&self, place: &impl FoundDriver) {
        for (number, holders) in self.holders.all().filter(|(_, holders)| holders.is_driver()) {
            if place.unpublished(holders.index(), number).is_some() {
                self.holders.set(number, Holders::NOBODY);
            }
        }
    }

    /// Puts the buffers of a frame that begins with the entry of index `first`, and of which all
    /// before `taken` were taken, back to the driver.
    fn put_frame_back(&self, place: &impl FoundDriver, first: u32, taken: u32) {
        let last_published = place.published().wrapping_sub(1);
        // From the last to the first, so that the rest is still a beginning if this life ends here.
        let count = between(first, taken).min(place.capacity());
        for index in (0..count).rev().map(|ahead| first.wrapping_add(ahead)) {
            self.holders.set(place.popped(index), Holders::driver(last_published));
        }
    }

    /// Returns the link to a client.
    pub(crate) fn client_link(&self, index: usize) -> Link<Descriptor> {
        let NetRxClient { filled, free, channel, .. } = self.clients[index];
        let account = self.client_account(index);
        if let Some(generations) = account.generations() {
            let published = Link::<Descriptor>::shown(filled, free).output;
            let output = self.written(account, published);
            let held = self.holders.all().filter(|(_, holders)| holders.has_client(index)).count();
            let input = account.taken(output, held as u32);
            if let Some(link) = Link::resume(filled, free, channel, generations, Positions { output, input }) {
                account.set_progress(output, self.through.unwrap_or_default());
                return link;
            }
            account.forget();
        }
        Link::new(filled, free, channel)
    }

    /// Returns the index behind the last entry of a client's that is to be published, if all before
    /// `published` are.
    fn written(&self, account: LinkAccount, published: u32) -> u32 {
        let (written, through) = account.progress();
        // The entries of the last frame, if that will be dealt with again.
        let ahead = self.through.map_or(0, |taken| between(taken, through));
        if written != published && (1..=Stock::MAX_PIECES).contains(&ahead) {
            return written.wrapping_sub(ahead);
        }
        written
    }
}

/// Returns how far the index `end` of an entry is behind `start`, less than 2¹⁶: see
/// [`culm_net::driver`].
fn between(start: u32, end: u32) -> u32 {
    end.wrapping_sub(start) & 0xffff
}
