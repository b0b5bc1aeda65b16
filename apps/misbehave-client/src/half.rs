//! One direction of a client's connection: a pair of queues and the greeting that makes them good, without any of the checks
//! that an honest client makes.

use culm::Channel;
use culm::connection::Ring;
use culm::queue::{self, Consumer, Producer};
use culm_net::session::{Event, Marked as _};
use culm_net::{Descriptor, Session};

/// A pair of queues.
pub(crate) struct Half {
    out: Producer<Descriptor>,
    input: Consumer<Descriptor>,
    session: Session,
    channel: Channel,
    /// What it provides when the pair of queues starts over: how many buffers of which size.
    provides: (u32, u32),
}

impl Half {
    pub(crate) fn new(out: Ring, input: Ring, channel: u32, provides: (u32, u32)) -> Self {
        let mut out = queue::producer(out);
        let session = Session::begin(&mut out);
        let mut half = Self { out, input: queue::consumer(input), session, channel: Channel::new(channel), provides };
        half.end();
        half
    }

    /// The next entry that is no greeting.
    pub(crate) fn take(&mut self) -> Option<Descriptor> {
        loop {
            let entry = self.input.pop()?;
            match entry.as_marker() {
                Some(marker) => {
                    self.session.receive(marker);
                    self.settle();
                }
                None if self.session.is_live() => return Some(entry),
                None => {}
            }
        }
    }

    /// Puts an entry in, where there is space.
    pub(crate) fn put(&mut self, entry: Descriptor) {
        let _ = self.out.push(entry);
    }

    /// At the end of a turn: shows what was put in, and asks to be notified.
    pub(crate) fn end(&mut self) {
        self.settle();
        let (given, taken) = (self.out.publish(), self.input.release());
        if given | taken {
            self.channel.notify();
        }
        // What comes before it sleeps waits for the next turn, which a deadline brings soon.
        let _ = self.input.sleep();
    }

    fn settle(&mut self) {
        if self.session.settle(&mut self.out) == Event::Renewed {
            let (count, size) = self.provides;
            for number in 0..count {
                self.put(Descriptor::empty(number * size));
            }
        }
    }

    pub(crate) fn notify(&self) {
        self.channel.notify();
    }
}
