//! A client, as the receive virtualiser sees it.

use culm::connection::NetRxClient;
use culm::link::{Event, Link};
use culm::time::{self, Duration, Instant};
use culm_lending::{Allowance, LinkAccount};
use culm_net::descriptor::flags::REFUSED;
use culm_net::descriptor::ticks_since;
use culm_net::{Descriptor, Mac};

/// SYNs that are dropped here for one that the client dropped: most of them, where it drops many,
/// and so few that it still sees whether more come than it has room for.
const SYNS_EACH: u32 = 16;

/// SYNs that are dropped at most for marks that have come by then: half of what waits with a client
/// that drops some.
const MAX_SYNS: u32 = 128;

/// How long a client is believed that it drops SYNs: about as long as answers to those take that
/// wait with it.
const MEMORY: Duration = Duration::from_millis(20);

/// Steps of a client's allowance that its starting over costs.
const CHANGE: u32 = 2;

/// Buffers that a client returned with the mark of a SYN that it dropped.
#[derive(Default)]
pub(crate) struct Marks {
    pub(crate) number: u32,
    /// The [`moment`](culm_net::descriptor::moment) at which the last one was dropped.
    last: u16,
}

impl Marks {
    /// Returns whether an entry, which has flags, has that mark alone, and counts it then.
    #[cold]
    pub(crate) fn count(&mut self, entry: Descriptor) -> bool {
        let is_mark = entry.flags == REFUSED;
        if is_mark {
            self.number += 1;
            self.last = entry.length;
        }
        is_mark
    }
}

/// A client: a copier, or one that reads the device's buffers itself.
pub(crate) struct Client {
    /// The link: frames go to the client, and the buffers that it returns come back.
    pub(crate) link: Link<Descriptor>,
    /// The account of the link, for the next life.
    pub(crate) account: LinkAccount,
    pub(crate) mac: Mac,
    /// Frames for nobody's address go to it too.
    pub(crate) is_promiscuous: bool,
    /// Buffers that it holds.
    pub(crate) held: u32,
    /// How many SYNs for it may still be dropped unseen, by its last marks.
    unwanted_syns: u32,
    /// Until when they may.
    unwanted_until: Instant,
    /// Work without use that it may still cause.
    pub(crate) allowance: Allowance,
}

impl Client {
    /// Creates a client with this link, to which some of `buffers` are lent.
    pub(crate) fn new(connection: &NetRxClient, buffers: u32, link: Link<Descriptor>, account: LinkAccount) -> Self {
        let mac = Mac::new(connection.mac);
        let is_promiscuous = connection.promiscuous != 0;
        Self {
            link,
            account,
            mac,
            is_promiscuous,
            held: 0,
            unwanted_syns: 0,
            unwanted_until: Instant::default(),
            allowance: Allowance::new(buffers),
        }
    }

    /// Gives a frame to the client, for the driver's entry before index `through`. Returns false if
    /// its queue has no space.
    #[inline(always)]
    pub(crate) fn give(&mut self, frame: Descriptor, through: u32) -> bool {
        let given = self.link.output.push(frame).is_ok();
        if given {
            self.account.set_progress(self.link.output.position(), through);
        }
        given
    }

    /// Takes note of the marks of SYNs that the client dropped.
    #[cold]
    pub(crate) fn note_refused(&mut self, marks: Marks) {
        let (now, memory) = (time::now(), time::ticks(MEMORY));
        let age = ticks_since(marks.last, now);
        if age < memory {
            self.unwanted_syns = (self.unwanted_syns + marks.number * SYNS_EACH).min(MAX_SYNS);
            self.unwanted_until = Instant::from_ticks(now.ticks() + memory - age);
        }
    }

    /// Returns whether SYNs for the client are dropped, as long as what it said is not too old.
    #[inline(always)]
    pub(crate) fn may_drop_syns(&self) -> bool {
        self.unwanted_syns > 0
    }

    /// Returns whether a SYN for the client is to be dropped, and counts it then.
    #[cold]
    pub(crate) fn drop_syn(&mut self) -> bool {
        self.forget_refused();
        let is_dropped = self.unwanted_syns > 0;
        self.unwanted_syns -= u32::from(is_dropped);
        is_dropped
    }

    /// Forgets what the client said, if that is too old.
    #[cold]
    pub(crate) fn forget_refused(&mut self) {
        if time::now() >= self.unwanted_until {
            self.unwanted_syns = 0;
        }
    }

    /// Takes the next steps towards a live link. Returns true if it is live now: then take back all
    /// that the client holds, and call [`Self::keep`].
    #[cold]
    pub(crate) fn start_over(&mut self) -> bool {
        self.account.forget();
        match self.link.reconnect() {
            Event::None => false,
            Event::Changed => {
                self.allowance.spend(CHANGE);
                false
            }
            Event::Renewed => true,
        }
    }

    /// Records that the link is live and the client holds nothing.
    pub(crate) fn keep(&mut self, buffers: u32) {
        self.unwanted_syns = 0;
        self.allowance.spend(CHANGE + buffers / 8);
        self.account.keep(self.link.generations(), self.link.positions());
    }
}
