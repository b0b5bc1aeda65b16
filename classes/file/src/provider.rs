//! The provider's side: takes a client's requests, checks them, and answers.
//!
//! A round begins by [`Port::begin`], takes requests by [`Port::next_request`], answers them by
//! [`Port::answer`], at once or in any later round, and ends by [`Port::end_round`]. What
//! [`Port::next_request`] returns keeps to the protocol and to the client's rights, and lies within
//! its memory, whatever the client wrote. Which of its files are open for what is the provider's to
//! know; all are to be closed when [`Port::lives`] changes.

use crate::{Answer, AnswerEntry, Done, Error, Operation, Request, RequestEntry, Volume, info, path};
use alloc::string::String;
use culm::link::Event;
use culm::{Link, Progress, Region};
use culm_abi::connection::Ring;

/// A request that a provider has taken and must answer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
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
    memory: Region,
    may_write: bool,
    /// The volume; `None` until it is known.
    volume: Option<Volume>,
    /// The volume as the client was told of it since the pair started over.
    shown: Option<Volume>,
    /// Requests that were taken and are not answered.
    under_way: u32,
    lives: u32,
    /// Whether the client's present life was seen to end.
    has_ended: bool,
    /// The client's requests are for another volume: the pair must start over.
    is_outdated: bool,
    /// The client must be told that its volume is gone before it is told of another one, which may
    /// have the same number.
    is_replaced: bool,
    /// Whether the last request was not taken because its answer had no space.
    is_starved: bool,
    entries_refused: u64,
}

impl Port {
    /// Creates the provider's side of a pair of queues to a client with this memory.
    ///
    /// # Panics
    ///
    /// If the rings' memory cannot be a ring's, which no start block contains.
    pub fn new(requests: Ring, answers: Ring, channel: u32, memory: Region, may_write: bool) -> Self {
        let mut link = Link::new(answers, requests, channel);
        // Tell the client of this life.
        link.publish();
        Self {
            link,
            memory,
            may_write,
            volume: None,
            shown: None,
            under_way: 0,
            lives: 0,
            has_ended: true,
            is_outdated: false,
            is_replaced: false,
            is_starved: false,
            entries_refused: 0,
        }
    }

    /// Returns the channel to the client.
    pub fn channel(&self) -> culm::Channel {
        self.link.channel()
    }

    /// Returns the client's memory.
    pub fn memory(&self) -> &Region {
        &self.memory
    }

    /// Returns how many entries and requests of the client's were refused for what they are.
    pub fn entries_refused(&self) -> u64 {
        self.entries_refused
    }

    /// Returns how many requests must still be answered.
    #[inline(always)]
    pub fn under_way(&self) -> u32 {
        self.under_way
    }

    /// Returns how many lives of the client, and volumes that it had, were seen to end. What a life
    /// had open is to be closed when it has ended.
    #[inline(always)]
    pub fn lives(&self) -> u32 {
        self.lives
    }

    /// Says which volume there is. If it is another one than before, requests for that one are
    /// taken no more, and the pair starts over when those under way are answered. A volume that
    /// comes again counts as another one, though it has the same number.
    pub fn set_volume(&mut self, volume: Volume) {
        let volume = Volume { read_only: volume.read_only || !self.may_write, ..volume };
        self.volume = Some(volume);
        self.is_outdated |= self.shown.is_some_and(|shown| shown.number != volume.number);
    }

    /// Begins a round: looks at what the client sent, and whether it was restarted. Its earlier
    /// requests end before the pair starts over.
    #[inline]
    pub fn begin(&mut self) {
        if self.link.look() && !self.is_outdated {
            return;
        }
        self.start_over();
    }

    #[cold]
    fn start_over(&mut self) {
        if !core::mem::replace(&mut self.has_ended, true) {
            self.lives = self.lives.wrapping_add(1);
        }
        if self.under_way > 0 {
            return;
        }
        if self.is_outdated {
            self.link.start_over();
            (self.is_outdated, self.is_replaced, self.shown) = (false, true, None);
        }
        if self.link.reconnect() == Event::Renewed {
            self.shown = None;
        }
        self.has_ended = !self.link.is_live();
    }

    /// Returns whether requests are taken: the client is there, and those of its earlier life, or
    /// for an earlier volume, have ended.
    #[inline(always)]
    pub fn is_open(&self) -> bool {
        self.link.is_live() && !self.is_outdated
    }

    /// Takes the next valid request, of those that were there at the beginning of the round. Others
    /// are answered here.
    #[inline]
    pub fn next_request(&mut self) -> Option<Taken> {
        // The client may not have been told yet which one it is now.
        let volume = self.volume.filter(|_| self.shown.is_some())?;
        if !self.is_open() {
            return None;
        }
        loop {
            self.is_starved = !self.has_room();
            if self.is_starved {
                return None;
            }
            let (token, request) = self.link.input.pop_known()?.read();
            self.under_way += 1;
            match self.check(volume, request) {
                Ok(request) => return Some(Taken { token, request }),
                Err(error) => {
                    self.entries_refused += 1;
                    self.send(token, Err(error));
                }
            }
        }
    }

    #[inline]
    fn check(&self, volume: Volume, request: Option<Request>) -> Result<Request, Error> {
        let request = request.ok_or(Error::Invalid)?;
        request.check(self.memory.len())?;
        if let Some(fault) = volume.fault {
            return Err(fault);
        }
        if request.operation.changes_files() && volume.read_only {
            return Err(Error::ReadOnly);
        }
        Ok(request)
    }

    /// Returns whether there is space for the answer to one more request, besides those under way
    /// and the volume.
    #[inline(always)]
    fn has_room(&mut self) -> bool {
        let needed = self.under_way + 3;
        self.link.output.free() >= needed || self.link.output.refresh() >= needed
    }

    /// Reads the path of a request that [`Self::next_request`] returned; of one with two paths the
    /// first. The client can change it afterwards, which changes nothing here.
    ///
    /// # Errors
    ///
    /// [`Error::Name`] if it is none.
    pub fn path(&self, request: &Request) -> Result<String, Error> {
        let length = match request.operation {
            Operation::Rename => request.position as usize,
            _ => request.length as usize,
        };
        self.text(request, 0, length)
    }

    /// Reads the second path of a [`Operation::Rename`].
    ///
    /// # Errors
    ///
    /// As [`Self::path`].
    pub fn second_path(&self, request: &Request) -> Result<String, Error> {
        let first = request.position as usize;
        self.text(request, first, (request.length as usize).saturating_sub(first))
    }

    fn text(&self, request: &Request, from: usize, length: usize) -> Result<String, Error> {
        let mut bytes = [0; path::MAX_PATH];
        let bytes = bytes.get_mut(..length).ok_or(Error::Name)?;
        self.memory.read(request.offset() + from, bytes).map_err(|_| Error::Invalid)?;
        let text = core::str::from_utf8(bytes).map_err(|_| Error::Name)?;
        if path::is_valid(text) { Ok(text.into()) } else { Err(Error::Name) }
    }

    /// Answers a request that [`Self::next_request`] returned, once. If none is under way, nothing
    /// is sent.
    #[inline]
    pub fn answer(&mut self, taken: &Taken, result: Result<Done, Error>) {
        if let Ok(Done { info: Some(info), .. }) = &result
            && self.is_open()
        {
            // The request was checked: its memory is there.
            let _ = info.write(&self.memory, taken.request.offset() + path::SPACE);
        }
        self.send(taken.token, result);
    }

    #[inline]
    fn send(&mut self, token: u16, result: Result<Done, Error>) {
        if self.under_way == 0 {
            return;
        }
        self.under_way -= 1;
        if self.link.is_live() {
            // There is space: `has_room` has seen it. The client of an earlier life waits for
            // nothing.
            let _ = self.link.output.push(Answer::Of { token, result }.into());
        }
    }

    /// Ends a round: publishes the answers and, if it has changed, which volume there is. Announces
    /// that the provider sleeps until there are requests if it `wants` some.
    #[inline]
    pub fn end_round(&mut self, wants: bool) -> Progress {
        if self.shown != self.volume {
            self.show();
        }
        self.link.publish();
        if !self.is_open() {
            return self.sleep_apart();
        }
        let answers =
            if self.is_starved || self.shown != self.volume { self.sleep_for_space() } else { Progress::Asleep };
        let requests =
            if wants && !self.is_starved && self.shown.is_some() { self.link.sleep() } else { Progress::Asleep };
        answers & requests
    }

    /// Lets a provider sleep whose client's link is not live, or is to start over. Nothing changes
    /// before the requests under way are answered.
    #[cold]
    fn sleep_apart(&mut self) -> Progress {
        match (self.under_way, self.is_outdated) {
            (0, true) => Progress::More,
            (0, false) => self.link.sleep(),
            _ => Progress::Asleep,
        }
    }

    /// Waits for space for one more entry, which [`Self::has_room`] has missed. While requests are
    /// under way, their answers bring another turn.
    #[cold]
    fn sleep_for_space(&mut self) -> Progress {
        if self.under_way > 0 { Progress::Asleep } else { self.link.sleep_for_space(self.under_way + 3) }
    }

    /// Tells the client which volume there is.
    #[cold]
    fn show(&mut self) {
        let Some(volume) = self.volume else { return };
        if self.is_open() && self.has_room() {
            if core::mem::take(&mut self.is_replaced) && volume.is_present() {
                // There is space: the pair has just started over.
                let _ = self.link.output.push(Answer::Volume(Volume::ABSENT).into());
            }
            let _ = self.link.output.push(Answer::Volume(volume).into());
            self.shown = Some(volume);
        }
    }
}

// A request of the largest path fits its memory.
const _: () = assert!(path::SPACE + info::SIZE == crate::PATH_BLOCKS as usize * crate::BLOCK);
