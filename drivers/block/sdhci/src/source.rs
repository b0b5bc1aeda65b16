//! Where requests come from, and their answers go.

use culm::Progress;
use culm_block::{Disk, Error, Port, Taken};

/// The driver's client. That is the virtualiser behind its queues, or a program in the driver's own
/// domain, which has the whole controller to itself.
///
/// A controller does one request at a time: each is answered before the next is taken.
pub trait Source {
    /// Begins a round: looks at what the client wants.
    fn begin(&mut self);

    /// Takes the next request, which is within the disk.
    fn take(&mut self) -> Option<&Taken>;

    /// Returns the request that was taken last; it stays until the next one is taken.
    fn taken(&self) -> &Taken;

    /// Answers the request that was taken last.
    fn answer(&mut self, token: u16, result: Result<(), Error>);

    /// Says what the disk is.
    fn set_disk(&mut self, disk: Disk);

    /// Ends a round. There is to be a turn when there are requests, if the driver `wants` some.
    fn end_round(&mut self, wants: bool) -> Progress;
}

impl Source for Port {
    #[inline(always)]
    fn begin(&mut self) {
        Port::begin(self);
    }

    #[inline(always)]
    fn take(&mut self) -> Option<&Taken> {
        self.next_in_place()
    }

    #[inline(always)]
    fn taken(&self) -> &Taken {
        Port::taken(self)
    }

    #[inline(always)]
    fn answer(&mut self, token: u16, result: Result<(), Error>) {
        Port::answer(self, token, result);
    }

    fn set_disk(&mut self, disk: Disk) {
        Port::set_disk(self, disk);
    }

    #[inline(always)]
    fn end_round(&mut self, wants: bool) -> Progress {
        Port::end_round(self, wants)
    }
}
