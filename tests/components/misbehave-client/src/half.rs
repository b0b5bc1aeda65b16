//! One direction of a client's connection: a pair of queues, once the two sides have found each
//! other, without any of the checks that an honest client makes.

use culm::Link;
use culm::connection::Ring;
use culm::link::Event;
use culm_net::Descriptor;

/// A pair of queues.
pub(crate) struct Half {
    link: Link<Descriptor>,
    /// The buffers that it provides when the pair of queues starts over: how many buffers of which
    /// size.
    provides: (u32, u32),
}

impl Half {
    pub(crate) fn new(out: Ring, input: Ring, channel: u32, provides: (u32, u32)) -> Self {
        let mut half = Self { link: Link::new(out, input, channel), provides };
        half.end();
        half
    }

    /// At the beginning of a turn.
    pub(crate) fn begin(&mut self) {
        if self.link.begin() == Event::Renewed {
            let (count, size) = self.provides;
            for number in 0..count {
                self.put(Descriptor::empty(number * size));
            }
        }
    }

    /// The next entry.
    pub(crate) fn take(&mut self) -> Option<Descriptor> {
        self.link.input.pop()
    }

    /// Puts an entry in, where there is space.
    pub(crate) fn put(&mut self, entry: Descriptor) {
        let _ = self.link.output.push(entry);
    }

    /// At the end of a turn: shows what was put in, and asks to be notified.
    pub(crate) fn end(&mut self) {
        self.link.publish_output();
        self.link.release_input(1);
        // An entry that comes before it sleeps waits for the next turn, which a deadline brings
        // soon.
        let _ = self.link.sleep();
    }

    pub(crate) fn notify(&self) {
        self.link.channel().notify();
    }
}
