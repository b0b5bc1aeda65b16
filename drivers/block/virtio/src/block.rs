//! Moving requests between the virtualiser's queues and the device.
//!
//! A round does everything there is to do: it answers what the device has done, and gives it what
//! the virtualiser sent. A request for which the device has no space stays in the virtualiser's
//! queue.

use crate::engine::Engine;
use culm::connection::BlockDriver;
use culm::{Progress, Region};
use culm_block::{Completion, Port, Shift};
use culm_virtio::{Interface, Unusable};

/// The driver's state: the device, whose requests have the virtualiser's tokens for tags, and the
/// queues.
pub struct Block<I> {
    pub(crate) engine: Engine<I, u16>,
    port: Port,
    /// How often the device had said what disk it is, or what is wrong, when that was told.
    shown: u32,
    /// Whether the next round is for the device alone.
    is_quiet: bool,
}

impl<I: Interface> Block<I> {
    /// Sets the device up, whatever state a previous life left it in.
    ///
    /// # Errors
    ///
    /// The reason why the device cannot be used.
    pub fn new(interface: I, memory: Region, connection: &BlockDriver) -> Result<Self, Unusable> {
        let engine = Engine::new(interface, memory)?;
        let mut block = Self { engine, port: Port::connect(connection), shown: 0, is_quiet: false };
        block.tell();
        Ok(block)
    }

    /// Handles the device's interrupt, which `is_alone` if the virtualiser has not notified since
    /// the last turn: then its queue need not be looked at, if it is to notify.
    #[inline(always)]
    pub fn interrupted(&mut self, is_alone: bool) {
        self.engine.interrupted();
        self.is_quiet = is_alone;
    }

    /// Moves requests and answers, publishes them and announces sleep.
    #[inline(always)]
    pub fn round(&mut self) -> Progress {
        self.engine.begin();
        while let Some(Completion { tag, result }) = self.engine.next_completion() {
            self.port.answer(tag, result);
        }
        if self.engine.shown() != self.shown {
            self.tell();
        }
        let is_quiet = core::mem::take(&mut self.is_quiet) && self.port.is_awaited();
        let has_space = !is_quiet && self.take();
        self.port.end_round(has_space) & self.engine.end_round()
    }

    /// Tells the port what the disk is, and whoever looks at the system what is wrong with it.
    #[cold]
    fn tell(&mut self) {
        self.shown = self.engine.shown();
        self.port.set_disk(*self.engine.disk());
        match self.engine.trouble() {
            Some(trouble) => culm::trouble::show(format_args!("{trouble}")),
            None => culm::trouble::clear(),
        }
    }

    /// Looks at what the virtualiser has sent. Returns whether there is space for more.
    #[inline(always)]
    fn take(&mut self) -> bool {
        self.port.begin();
        if self.engine.is_out_of_service() { self.refuse() } else { self.give() }
    }

    /// Gives the device the requests for which there is space. Returns whether there is space for
    /// more.
    #[inline(always)]
    fn give(&mut self) -> bool {
        while self.engine.space() > 0 {
            let Some(taken) = self.port.next_in_place() else { return true };
            // There is space, as just asked.
            let _ = self.engine.give(&taken.request, Shift::NONE, taken.token);
        }
        false
    }

    /// Takes no request while the device waits for its reset, unless there is no disk: then all are
    /// refused. Returns whether that is so.
    #[cold]
    fn refuse(&mut self) -> bool {
        let is_absent = !self.engine.disk().is_present();
        if is_absent {
            let _ = self.port.next_in_place();
        }
        is_absent
    }
}
