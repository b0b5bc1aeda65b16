//! The provider's side: takes a client's requests, checks them, and answers.
//!
//! A round begins by [`Port::begin`], takes requests by [`Port::next_request`], answers them by
//! [`Port::answer`], at once or in any later round, and ends by [`Port::end_round`]. What
//! [`Port::next_request`] returns is within the disk and the client's memory, whatever the client
//! wrote.

use crate::entry::Step;
use crate::{Answer, AnswerEntry, Disk, Error, MAX_DISK, Request, RequestEntry};
use culm::link::Event;
use culm::{Link, Progress};
use culm_abi::connection::{BlockDriver, Ring};

/// A request that a provider has taken and must answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Taken {
    /// The client's name for it.
    pub token: u16,
    /// The request itself.
    pub request: Request,
}

/// The provider's end of the queues to one client.
#[derive(Debug)]
pub struct Port {
    link: Link<AnswerEntry, RequestEntry>,
    /// Blocks of the client's memory.
    memory_blocks: u64,
    /// The disk; `None` until it is known.
    disk: Option<Disk>,
    /// The disk as the client was told of it since the pair started over. It is some only if `disk`
    /// is.
    shown: Option<Disk>,
    /// Whether `shown` is not `disk`: kept, so that a round compares no disks.
    is_untold: bool,
    /// Requests that were begun to be read and are not answered.
    under_way: u32,
    /// The request that was read last. It is filled in place: a request is long.
    taken: Taken,
    /// Whether `taken` lacks segments, which are to come, and has more than a request can have.
    partial: Option<bool>,
    /// The client's requests are for another medium: the pair must start over.
    is_outdated: bool,
    /// The client must be told that its medium is gone before it is told of another one, which may
    /// have the same number.
    is_replaced: bool,
    /// Whether the last request was not taken because its answer had no space.
    is_starved: bool,
    /// Whether the client knows that the next request is waited for: said once, not again in each
    /// round that only answers.
    is_awaited: bool,
    entries_refused: u64,
}

impl Port {
    /// Creates the provider's side of a pair of queues, over which no request is under way: what a
    /// previous life began must have ended. The client's requests may name the first
    /// `memory_blocks` blocks of whatever their places count in.
    ///
    /// # Panics
    ///
    /// If the memory cannot be a ring's, which no start block contains.
    pub fn new(requests: Ring, answers: Ring, channel: u32, memory_blocks: u64) -> Self {
        let mut link = Link::new(answers, requests, channel);
        // Tell the client of this life.
        link.publish();
        Self {
            link,
            memory_blocks,
            disk: None,
            shown: None,
            is_untold: false,
            under_way: 0,
            taken: Taken { token: 0, request: Request::flush() },
            partial: None,
            is_outdated: false,
            is_replaced: false,
            is_starved: false,
            is_awaited: false,
            entries_refused: 0,
        }
    }

    /// Creates the side of a driver, whose requests may name all that a device sees.
    ///
    /// # Panics
    ///
    /// As [`Self::new`].
    pub fn connect(connection: &BlockDriver) -> Self {
        let BlockDriver { requests, answers, channel } = *connection;
        Self::new(requests, answers, channel, MAX_DISK)
    }

    /// Creates the side of a driver that has no disk, and uses nothing but [`Self::refuse_all`].
    pub fn without_disk(connection: &BlockDriver) -> Self {
        let mut port = Self::connect(connection);
        port.set_disk(Disk::ABSENT);
        port
    }

    /// Does a round of [`Self::without_disk`], in which each request is refused.
    pub fn refuse_all(&mut self) -> Progress {
        self.begin();
        // None passes where there is no disk.
        let _ = self.next_in_place();
        self.end_round(true)
    }

    /// Returns the channel to the client.
    pub fn channel(&self) -> culm::Channel {
        self.link.channel()
    }

    /// Returns how many entries and requests of the client's were refused.
    pub fn entries_refused(&self) -> u64 {
        self.entries_refused
    }

    /// Returns how many requests must still be answered.
    #[inline(always)]
    pub fn under_way(&self) -> u32 {
        self.under_way - self.partial.is_some() as u32
    }

    /// Says what the disk is. If its medium is another one than before, requests for that one are
    /// taken no more, and the pair starts over when those under way are answered. A medium that is
    /// put in again counts as another one, though it has the same number.
    pub fn set_disk(&mut self, disk: Disk) {
        self.is_awaited = false;
        self.disk = Some(disk);
        self.is_outdated |= self.shown.is_some_and(|shown| shown.medium != disk.medium);
        self.is_untold = self.shown != self.disk;
    }

    /// Records that the client is new, or starts over: it knows of no disk.
    fn forget_shown(&mut self) {
        self.shown = None;
        self.is_untold = self.disk.is_some();
    }

    /// Begins a round: looks at what the client sent, and whether it was restarted. Its earlier
    /// requests end before the pair starts over.
    #[inline]
    pub fn begin(&mut self) {
        self.is_awaited = false;
        if self.link.look() && !self.is_outdated {
            return;
        }
        self.start_over();
    }

    #[cold]
    fn start_over(&mut self) {
        if self.partial.take().is_some() {
            self.under_way -= 1;
        }
        if self.under_way > 0 {
            return;
        }
        if self.is_outdated {
            self.link.start_over();
            (self.is_outdated, self.is_replaced) = (false, true);
            self.forget_shown();
        }
        if self.link.reconnect() == Event::Renewed {
            self.forget_shown();
        }
    }

    /// Returns whether the client notifies as soon as there is something to look at by
    /// [`Self::begin`]: a request, or a new life. So a round before that need not look.
    #[inline(always)]
    pub fn is_awaited(&self) -> bool {
        self.is_awaited
    }

    /// Returns whether requests are taken: the client is there, and those of its earlier life, or
    /// for an earlier medium, have ended.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.link.is_live() && !self.is_outdated
    }

    /// Returns whether something here waits until requests under way are answered: a pair that is
    /// to start over, or a request without space for its answer. So a provider that has answered
    /// one looks at the client again.
    #[inline(always)]
    pub fn waits_for_answers(&self) -> bool {
        !self.is_awaited && (self.is_starved || !self.is_open())
    }

    /// Returns whether entries of the client's are left, of those that were there at the beginning
    /// of the round.
    #[inline(always)]
    pub fn has_entries(&self) -> bool {
        self.link.input.available() > 0
    }

    /// Takes the next valid request, of those that were there at the beginning of the round. Others
    /// are answered here.
    #[inline]
    pub fn next_request(&mut self) -> Option<Taken> {
        self.next_in_place().cloned()
    }

    /// Does what [`Self::next_request`] does, without a copy of the request.
    #[inline(always)]
    pub fn next_in_place(&mut self) -> Option<&Taken> {
        // The client may not have been told yet what the disk is now.
        if self.shown.is_none() || !self.is_open() {
            return None;
        }
        loop {
            self.is_starved = !self.has_room();
            if self.is_starved {
                return None;
            }
            let entry = self.link.input.pop_known()?;
            let Some(is_excessive) = self.assemble(entry) else { continue };
            let checked = match &self.disk {
                Some(disk) if !is_excessive => disk.check(&self.taken.request, self.memory_blocks),
                _ => Err(Error::Invalid),
            };
            match checked {
                Ok(()) => return Some(&self.taken),
                Err(error) => self.refuse(self.taken.token, error),
            }
        }
    }

    /// Returns the request that [`Self::next_in_place`] returned last, if it has returned one; it
    /// stays until the next call of that.
    #[inline(always)]
    pub fn taken(&self) -> &Taken {
        &self.taken
    }

    /// Returns whether there is space for the answer to one more request, besides those under way
    /// and what the disk is.
    #[inline(always)]
    fn has_room(&mut self) -> bool {
        let needed = self.under_way + 2;
        self.link.output.free() >= needed || self.link.output.refresh() >= needed
    }

    /// Adds an entry to the request that it belongs to. If that is whole then, returns whether it
    /// has too many segments. Each request is under way from its first entry on.
    #[inline(always)]
    fn assemble(&mut self, entry: RequestEntry) -> Option<bool> {
        match entry.step() {
            Step::Begin { token, operation, block, segment, continues } => {
                self.refuse_partial();
                self.under_way += 1;
                self.taken.token = token;
                self.taken.request.begin_again(operation, block, segment);
                self.partial = continues.then_some(false);
                (!continues).then_some(false)
            }
            Step::Continue { segment, continues } => {
                let Some(was_excessive) = self.partial else {
                    self.entries_refused += 1;
                    return None;
                };
                let is_refused = !self.taken.request.add(segment);
                // A request can go on without end.
                self.entries_refused += u64::from(is_refused);
                let is_excessive = is_refused | was_excessive;
                self.partial = continues.then_some(is_excessive);
                (!continues).then_some(is_excessive)
            }
            Step::Nonsense { token } => {
                self.refuse_partial();
                self.under_way += 1;
                self.refuse(token, Error::Invalid);
                None
            }
        }
    }

    /// Refuses the request of which segments are missing: another one begins.
    #[inline(always)]
    fn refuse_partial(&mut self) {
        if self.partial.take().is_some() {
            self.refuse(self.taken.token, Error::Invalid);
        }
    }

    #[cold]
    fn refuse(&mut self, token: u16, error: Error) {
        self.entries_refused += 1;
        self.answer(token, Err(error));
    }

    /// Answers a request that [`Self::next_request`] returned, once. If none is under way, nothing
    /// is sent.
    #[inline]
    pub fn answer(&mut self, token: u16, result: Result<(), Error>) {
        if self.under_way() == 0 {
            return;
        }
        self.under_way -= 1;
        if self.link.is_live() {
            // There is space: `has_room` has seen it. The client of an earlier life waits for
            // nothing.
            let _ = self.link.output.push(Answer::Of { token, result }.into());
        }
    }

    /// Ends a round: publishes the answers and, if it has changed, what the disk is. Announces that
    /// the provider sleeps until there are requests if it `wants` some.
    #[inline(always)]
    pub fn end_round(&mut self, wants: bool) -> Progress {
        if self.is_untold {
            self.show();
        }
        self.link.publish();
        if !self.is_open() {
            return self.sleep_apart();
        }
        let answers = if self.is_starved || self.is_untold { self.sleep_for_space() } else { Progress::Asleep };
        if wants && !self.is_awaited && !self.is_starved && self.shown.is_some() {
            let requests = self.link.sleep();
            self.is_awaited = requests.is_asleep();
            return answers & requests;
        }
        answers
    }

    /// Lets a provider sleep whose client's link is not live, or is to start over. Nothing changes
    /// before the requests under way are answered.
    #[cold]
    fn sleep_apart(&mut self) -> Progress {
        match (self.under_way(), self.is_outdated) {
            (0, true) => Progress::More,
            (0, false) => self.link.sleep(),
            _ => Progress::Asleep,
        }
    }

    /// Waits for space for one more entry, which [`Self::has_room`] has missed. While requests are
    /// under way, their answers bring another turn.
    #[cold]
    fn sleep_for_space(&mut self) -> Progress {
        if self.under_way() > 0 {
            return Progress::Asleep;
        }
        let progress = self.link.sleep_for_space(self.under_way + 2);
        // A provider may want no request now, and would find the same space again and again.
        self.is_starved &= progress.is_asleep();
        progress
    }

    /// Tells the client what the disk is.
    #[cold]
    fn show(&mut self) {
        let Some(disk) = self.disk else { return };
        if self.is_open() && self.has_room() {
            if core::mem::take(&mut self.is_replaced) && disk.is_present() {
                // There is space: the pair has just started over.
                let _ = self.link.output.push(Answer::Disk(Disk::ABSENT).into());
            }
            let _ = self.link.output.push(Answer::Disk(disk).into());
            (self.shown, self.is_untold) = (Some(disk), false);
        }
    }
}
