//! Starting over: how the two sides of a pair of queues agree on who holds which buffer after one of them was restarted.
//!
//! What a component knew of lent buffers is lost with its previous life, and entries from before still lie in the
//! queues. So each side begins by sending [`Marker::Hello`] with a number of its own, and believes nothing that it reads
//! until [`Marker::Welcome`] comes back with that number. Queues keep the order; so when the welcome comes, the peer had read
//! the hello, had taken everything from before as void, and whatever it sent after the welcome is meant for this life.
//! In that moment, and whenever a peer says hello later, all buffers of the pair are with their owner again
//! ([`Event::Renewed`]).
//!
//! (A queue must be longer than the restarts of one side between two turns of the other.)
//!
//! A ring's own generation says *that* a peer was restarted; the markers, being in the queue, say *where* among the entries.

use culm_queue::{Consumer, Entry, Producer};

/// An entry that is not a packet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Marker {
    /// The sender starts: everything before is void. The number is its choice.
    Hello(u32),
    /// The answer to the hello with this number: everything before is void, what follows is meant for it.
    Welcome(u32),
}

/// Entries that can also be markers.
pub trait Marked: Entry {
    /// The entry that stands for a marker.
    fn from_marker(marker: Marker) -> Self;

    /// The marker that the entry stands for, if it does.
    fn as_marker(&self) -> Option<Marker>;
}

/// What a marker means to its reader.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a renewed session means that lent buffers are back"]
pub enum Event {
    /// Nothing changes.
    None,
    /// The pair starts over: all buffers are with their owner again, everything sent to the peer so far is void.
    Renewed,
}

/// One side's view of a pair of queues.
#[derive(Debug)]
pub struct Session {
    /// Welcomed, nothing waits, nothing is to be renewed: all that the fast path has to know.
    settled: bool,
    number: u32,
    welcomed: bool,
    /// A hello waits for space in the queue.
    hello: bool,
    /// A welcome waits for space in the queue.
    welcome: Option<u32>,
    /// The pair starts over as soon as nothing waits any more.
    renewed: bool,
}

impl Session {
    /// Starts a session: says hello to whoever reads `out`.
    pub fn begin<T: Marked>(out: &mut Producer<T>) -> Self {
        let number = out.generation();
        let mut session = Self { settled: false, number, welcomed: false, hello: true, welcome: None, renewed: false };
        session.send(out);
        session
    }

    /// Goes on with the session of this number, which a previous life had settled and of which it kept an account.
    pub fn resume(number: u32) -> Self {
        Self { settled: true, number, welcomed: true, hello: false, welcome: None, renewed: false }
    }

    /// The number that [`Self::resume`] takes.
    pub fn number(&self) -> u32 {
        self.number
    }

    /// Whether what the peer sends counts, and what is sent to it will be read. If not, [`Self::settle`] has something to do.
    #[inline(always)]
    pub fn is_live(&self) -> bool {
        self.settled
    }

    /// Whether what was read may be released. Not while a hello was read that could not be answered yet: if this life ends now,
    /// the next one must find it.
    #[inline(always)]
    pub fn may_release(&self) -> bool {
        self.settled || self.welcome.is_none()
    }

    /// Takes note of a marker that was read; [`Self::settle`] answers it. Until then the session is not live. So however often
    /// a peer says hello, it is answered once a turn.
    #[cold]
    pub fn receive(&mut self, marker: Marker) {
        match marker {
            Marker::Hello(number) => {
                self.welcome = Some(number);
                self.renewed = self.welcomed;
            }
            Marker::Welcome(number) if number == self.number && !self.welcomed => {
                self.welcomed = true;
                self.renewed = true;
            }
            Marker::Welcome(_) => return,
        }
        self.settled = false;
    }

    /// Sends the markers that wait, as far as there is space in `out`. Call it after a marker was read, before the next entry counts,
    /// and at the end of each turn that leaves the session unsettled.
    pub fn settle<T: Marked>(&mut self, out: &mut Producer<T>) -> Event {
        self.send(out);
        self.settled = self.welcomed && !self.hello && self.welcome.is_none();
        if self.settled && core::mem::take(&mut self.renewed) { Event::Renewed } else { Event::None }
    }

    fn send<T: Marked>(&mut self, out: &mut Producer<T>) {
        if self.hello && out.push(T::from_marker(Marker::Hello(self.number))).is_ok() {
            self.hello = false;
        }
        if !self.hello
            && let Some(number) = self.welcome
            && out.push(T::from_marker(Marker::Welcome(number))).is_ok()
        {
            self.welcome = None;
        }
    }

    /// At the end of a turn, where the session is not live: asks to be woken by what it waits for. False: it is there
    /// already, take another turn.
    #[cold]
    #[must_use = "what it waits for may be there already"]
    pub fn sleep<T: Marked, U: Entry>(&self, out: &mut Producer<T>, input: &mut Consumer<U>) -> bool {
        (!(self.hello | self.welcome.is_some()) || out.sleep()) && input.sleep()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Descriptor;
    use culm_queue::Storage;
    use proptest::prelude::*;
    use std::boxed::Box;
    use std::collections::BTreeSet;
    use std::vec::Vec;

    type Ring = culm_queue::Shared<Descriptor>;

    fn ring() -> Ring {
        Box::leak(Box::new(Storage::<Descriptor, 512>::new())).shared()
    }

    /// An owner lends four buffers to a borrower, which returns them; either may be restarted at any time.
    struct Owner {
        out: Producer<Descriptor>,
        input: Consumer<Descriptor>,
        session: Session,
        lent: BTreeSet<u32>,
    }

    struct Borrower {
        out: Producer<Descriptor>,
        input: Consumer<Descriptor>,
        session: Session,
        held: Vec<u32>,
    }

    impl Owner {
        fn start(out: Ring, input: Ring) -> Self {
            let mut out = Producer::attach(out);
            let session = Session::begin(&mut out);
            let _ = out.publish();
            Self { out, input: Consumer::attach(input), session, lent: BTreeSet::new() }
        }

        fn settle(&mut self) {
            if self.session.settle(&mut self.out) == Event::Renewed {
                self.lent.clear();
            }
        }

        fn turn(&mut self) {
            while let Some(entry) = self.input.pop() {
                if let Some(marker) = entry.as_marker() {
                    self.session.receive(marker);
                    if matches!(marker, Marker::Welcome(_)) {
                        self.settle();
                    }
                } else if self.session.is_live() {
                    assert!(self.lent.remove(&entry.offset), "{} came back twice", entry.offset);
                }
            }
            self.settle();
            for buffer in 0..4 {
                if self.session.is_live()
                    && !self.lent.contains(&buffer)
                    && self.out.push(Descriptor::empty(buffer)).is_ok()
                {
                    self.lent.insert(buffer);
                }
            }
            let _ = self.out.publish();
            if self.session.may_release() {
                let _ = self.input.release();
            }
        }
    }

    impl Borrower {
        fn start(out: Ring, input: Ring) -> Self {
            let mut out = Producer::attach(out);
            let session = Session::begin(&mut out);
            let _ = out.publish();
            Self { out, input: Consumer::attach(input), session, held: Vec::new() }
        }

        fn settle(&mut self) {
            if self.session.settle(&mut self.out) == Event::Renewed {
                self.held.clear();
            }
        }

        fn turn(&mut self, give_back: usize) {
            while let Some(entry) = self.input.pop() {
                if let Some(marker) = entry.as_marker() {
                    self.session.receive(marker);
                    if matches!(marker, Marker::Welcome(_)) {
                        self.settle();
                    }
                } else if self.session.is_live() {
                    assert!(!self.held.contains(&entry.offset), "{} was lent twice", entry.offset);
                    self.held.push(entry.offset);
                }
            }
            self.settle();
            for _ in 0..give_back {
                if self.session.is_live()
                    && let Some(buffer) = self.held.last().copied()
                    && self.out.push(Descriptor::empty(buffer)).is_ok()
                {
                    self.held.pop();
                }
            }
            let _ = self.out.publish();
            if self.session.may_release() {
                let _ = self.input.release();
            }
        }
    }

    proptest! {
        /// Whoever is restarted whenever: no buffer is with both, and in the end all are in use again.
        #[test]
        fn buffers_survive_restarts(acts in proptest::collection::vec((0..8_u8, 0..5_usize), 0..400)) {
            let (there, back) = (ring(), ring());
            let mut owner = Owner::start(there, back);
            let mut borrower = Borrower::start(back, there);
            for (act, count) in acts {
                match act {
                    0 => owner = Owner::start(there, back),
                    1 => borrower = Borrower::start(back, there),
                    2..5 => owner.turn(),
                    _ => borrower.turn(count),
                }
                if owner.session.is_live() && borrower.session.is_live() {
                    prop_assert!(borrower.held.len() <= 4);
                }
            }
            for _ in 0..6 {
                owner.turn();
                borrower.turn(0);
            }
            prop_assert!(owner.session.is_live() && borrower.session.is_live());
            borrower.held.sort_unstable();
            prop_assert_eq!(&borrower.held, &[0, 1, 2, 3]);
        }
    }
}
