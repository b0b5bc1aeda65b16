//! The device at work: requests go in, each with a tag, and come back complete.
//!
//! A round begins by [`Engine::begin`], takes what is complete by [`Engine::next_completion`] until
//! there is nothing, gives the device more by [`Engine::give`], and ends by [`Engine::end_round`],
//! which publishes everything at once and rings the doorbell at most once. A device that fails is
//! reset on the way (module `reset`), of which those who asked notice nothing but the time.

use crate::counters;
use crate::device::Device;
use crate::requests::{MOST_PARTS, Outcome, Requests};
use crate::reset::Trial;
use crate::trouble::Trouble;
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use culm::time::{self, Duration, Instant};
use culm::{Progress, Region};
use culm_block::{Completion, Disk, Error, NotSent, Request, Shift};
use culm_virtio::{Interface, Part, ResetBackoff, Unusable, Virtqueue};

/// A device that has a request for the whole of a period has failed. Disks that have to spin up or
/// to move a bad block take some seconds. A flush may take several periods.
pub const PERIOD: Duration = Duration::from_secs(30);

/// Descriptors of a request besides those of its segments: its header, its status, or its range.
const BESIDES: usize = 2;

/// The requests that a device gets.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Service {
    /// All that there is space for.
    Full,
    /// The suspects only, one at a time (module `reset`).
    Trial,
    /// None: it waits for its reset.
    Out,
}

/// A device and what it has to do. Each request has a tag of type `T`, with which it comes back.
pub struct Engine<I, T> {
    pub(crate) device: Device<I>,
    pub(crate) memory: Region,
    pub(crate) queue: Virtqueue,
    pub(crate) requests: Requests<T>,
    /// Memory for the parts of a request, if the device takes no tables.
    parts: Vec<Part>,
    /// Requests that ended without the device, and how.
    pub(crate) ended: VecDeque<(T, Result<(), Error>)>,
    disk: Disk,
    /// The trouble with the device, if there is any.
    pub(crate) trouble: Option<Trouble>,
    /// Requests that the device has failed.
    failed_requests: u32,
    /// How often `disk` or `trouble` was set, modulo 2³².
    shown: u32,
    /// How often the medium has changed, modulo 2³².
    changes: u32,
    /// Whether flushes are sent to the device.
    flushes: bool,
    /// The device has interrupted since the last round, and nothing came back since.
    interrupted: bool,
    /// The device may have used something: it has interrupted, or was found at it as a round ended.
    is_due: bool,
    /// Requests that were given in this round.
    given: u64,
    /// The end of the period that runs if the device has requests.
    pub(crate) period_end: Instant,
    /// The device needs a reset.
    pub(crate) failed: bool,
    pub(crate) service: Service,
    pub(crate) trial: Trial,
    pub(crate) backoff: ResetBackoff,
}

impl<I: Interface, T> Engine<I, T> {
    /// Sets the device up, whatever state a previous life left it in.
    ///
    /// # Errors
    ///
    /// The reason why the device cannot be used.
    pub fn new(interface: I, memory: Region) -> Result<Self, Unusable> {
        let mut device = Device::find(interface)?;
        counters::RESETS.add(1);
        let had_failed = device.needs_reset();
        // Reset before anything else: the device may be at work for the previous life. See the
        // order of requests at the head of this crate.
        device.reset()?;
        let mut queue = device.find_queue(&memory)?;
        let requests = Requests::new(&memory, queue.layout().end, queue.size() / 2).ok_or(Unusable::Queue)?;
        requests.look_back(had_failed);
        requests.prepare();
        queue.clear();
        queue.renew(device.has_event_index());
        device.set_to_work(&memory, &queue);
        let mut engine = Self {
            device,
            memory,
            queue,
            requests,
            parts: Vec::with_capacity(MOST_PARTS),
            ended: VecDeque::new(),
            disk: Disk::ABSENT,
            trouble: None,
            failed_requests: 0,
            shown: 0,
            changes: 0,
            flushes: false,
            interrupted: false,
            is_due: false,
            given: 0,
            period_end: Instant::default(),
            failed: false,
            service: Service::Full,
            trial: Trial::default(),
            backoff: ResetBackoff::new(),
        };
        engine.look();
        Ok(engine)
    }

    /// Returns what disk the device is, as it said last.
    #[inline(always)]
    pub fn disk(&self) -> &Disk {
        &self.disk
    }

    /// Returns what is wrong with the device, if anything is.
    pub fn trouble(&self) -> Option<&Trouble> {
        self.trouble.as_ref()
    }

    /// Returns how often the device has said what disk it is, or what is wrong with it has changed,
    /// modulo 2³².
    #[inline(always)]
    pub fn shown(&self) -> u32 {
        self.shown
    }

    /// Returns how often the medium has changed, modulo 2³².
    #[inline(always)]
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns whether the device waits for its reset. Requests wait too, unless there is no disk.
    #[inline(always)]
    pub fn is_out_of_service(&self) -> bool {
        self.service == Service::Out
    }

    /// Handles the device's interrupt.
    #[inline(always)]
    pub fn interrupted(&mut self) {
        self.device.acknowledge();
        counters::INTERRUPTS.add(1);
        (self.interrupted, self.is_due) = (true, true);
    }

    /// Begins a round: looks at what the device has used.
    #[inline(always)]
    pub fn begin(&mut self) {
        if core::mem::take(&mut self.is_due) && self.service != Service::Out {
            self.queue.refresh();
        }
    }

    /// Returns the next request that is complete, of those that were at the beginning of the round.
    /// When there is none, the device is looked after, so call it again until then.
    #[inline(always)]
    pub fn next_completion(&mut self) -> Option<Completion<T>> {
        if self.service != Service::Out
            && let Some(used) = self.queue.take()
        {
            if let Some(Outcome { tag, result, is_lie }) = self.requests.end(used) {
                self.interrupted = false;
                if result.is_err() {
                    self.count_failure(result, is_lie);
                }
                return Some(Completion { tag, result });
            }
            counters::DEVICE_ERRORS.add(1);
            self.failed = true;
        }
        let is_odd = core::mem::take(&mut self.interrupted) | self.device.was_told_of_change();
        if is_odd | self.failed | self.queue.is_broken() | !self.ended.is_empty() {
            return self.look_after(is_odd);
        }
        None
    }

    #[cold]
    fn count_failure(&mut self, result: Result<(), Error>, is_lie: bool) {
        counters::FAILED.add(1);
        counters::DEVICE_ERRORS.add(is_lie.into());
        if result == Err(Error::Failed) {
            self.failed_requests = self.failed_requests.saturating_add(1);
            if self.works() {
                self.set_trouble(Some(Trouble::Requests(self.failed_requests)));
            }
        }
        // It may have been a flush.
        if self.disk.failures != self.requests.failures() {
            self.set_disk(self.disk);
        }
    }

    /// Looks at the device if its interrupt `is_odd`: there was nothing to take, or it told of a
    /// change besides. Resets it if it failed. Returns the next request that has ended by that.
    #[cold]
    fn look_after(&mut self, is_odd: bool) -> Option<Completion<T>> {
        if is_odd {
            self.check();
        }
        if self.queue.is_broken() && !self.failed {
            culm::warn!("the device returned a request that it does not have");
        }
        if self.failed | self.queue.is_broken() {
            self.repair();
        }
        self.ended.pop_front().map(|(tag, result)| Completion { tag, result })
    }

    /// Returns how many more requests can be given now, each of which may have as many segments as
    /// the disk takes.
    #[inline(always)]
    pub fn space(&self) -> usize {
        if self.service != Service::Full {
            return 0;
        }
        let records = self.requests.space();
        if self.device.takes_tables() {
            // Each takes one descriptor, of which there are twice as many.
            return records;
        }
        let each = usize::from(self.disk.segments) + BESIDES;
        records.min(self.queue.space() / each)
    }

    /// Gives the device a request, with its numbers shifted.
    ///
    /// # Errors
    ///
    /// [`NotSent::Full`] if there is no space.
    #[inline(always)]
    pub fn give(&mut self, request: &Request, shift: Shift, tag: T) -> Result<(), NotSent> {
        // Where the device takes tables, a record is all that a request needs.
        if self.service != Service::Full || !self.device.takes_tables() && self.space() == 0 {
            return Err(NotSent::Full);
        }
        self.given += 1;
        if request.operation.is_flush() && !self.flushes {
            self.ended.push_back((tag, Ok(())));
            return Ok(());
        }
        let (number, parts) = self.requests.begin(request, shift, tag).ok_or(NotSent::Full)?;
        let is_added = if self.device.takes_tables() {
            self.queue.add_table(self.requests.table_address(number), parts, number.into())
        } else {
            self.requests.list_parts(number, &mut self.parts);
            self.queue.add_chain(&self.parts, number.into()).is_ok()
        };
        if !is_added {
            // It has more segments than the disk takes, as who asked should know.
            self.ended.extend(self.requests.forget(number).map(|tag| (tag, Err(Error::Invalid))));
        }
        Ok(())
    }

    /// Gives the device a request that it had before its reset. Returns false if there is no space.
    #[cold]
    pub(crate) fn give_again(&mut self, number: u16) -> bool {
        self.requests.list_parts(number, &mut self.parts);
        if self.device.takes_tables() {
            let table = self.requests.table_address(number);
            return self.queue.add_table(table, self.parts.len() as u16, number.into());
        }
        self.queue.add_chain(&self.parts, number.into()).is_ok()
    }

    /// Ends a round: has the device look at what it was given, and asks for a turn when it has used
    /// something.
    #[inline(always)]
    pub fn end_round(&mut self) -> Progress {
        let trial = match self.service {
            Service::Full => Progress::Asleep,
            Service::Trial => self.go_on_with_trial(),
            Service::Out => return Progress::more_if(!self.ended.is_empty()),
        };
        if self.queue.publish() {
            self.device.ring_doorbell();
            counters::DOORBELLS.add(1);
        }
        if self.given > 0 {
            counters::REQUESTS.add(core::mem::take(&mut self.given));
        }
        let errors = self.queue.errors();
        if errors > 0 {
            counters::DEVICE_ERRORS.add(errors.into());
        }
        let more = trial & Progress::more_if(!self.ended.is_empty());
        if self.requests.is_empty() {
            return more;
        }
        // Take used requests before a reset for a missing answer: the answer may be among them.
        if self.queue.wait_for(1).is_more() {
            self.is_due = true;
            return Progress::More;
        }
        more & self.watch()
    }

    /// Looks whether the device has had a request for too long, and asks for a turn to look again.
    #[inline(always)]
    fn watch(&mut self) -> Progress {
        let now = time::now();
        if now >= self.period_end {
            self.period_end = now + PERIOD;
            if self.requests.end_period() {
                culm::warn!("the device does not answer");
                self.failed = true;
                return Progress::More;
            }
        }
        culm::wake_at(self.period_end);
        Progress::Asleep
    }

    /// Looks at the device after an interrupt that may be about something other than requests.
    #[cold]
    fn check(&mut self) {
        if !self.device.has_changed() {
            return;
        }
        if self.device.needs_reset() {
            culm::warn!("the device has met an error");
            self.failed = true;
        } else if self.service != Service::Out {
            self.look();
        }
    }

    /// Reads what the device is.
    #[cold]
    pub(crate) fn look(&mut self) {
        let (disk, trouble) = match self.device.disk() {
            Ok(disk) => {
                let failed = self.failed_requests;
                (disk, (failed > 0).then_some(Trouble::Requests(failed)))
            }
            Err(trouble) => (Disk::ABSENT, Some(trouble)),
        };
        self.flushes = self.device.flushes();
        self.requests.zeroes_may_discard = self.device.zeroes_may_discard();
        if disk != (Disk { failures: 0, ..self.disk }) {
            let Disk { blocks, read_only, .. } = disk;
            culm::info!("{blocks} blocks of 512 bytes{}", if read_only { ", read-only" } else { "" });
        }
        self.set_trouble(trouble);
        self.set_disk(disk);
    }

    /// Returns whether the device can be used, as far as is known.
    pub(crate) fn works(&self) -> bool {
        matches!(self.trouble, None | Some(Trouble::Requests(_)))
    }

    /// Records what is wrong with the device, and logs it if that is news. Of one that rests each
    /// failure was logged, and of many requests that fail the log tells ever more seldom.
    pub(crate) fn set_trouble(&mut self, trouble: Option<Trouble>) {
        if self.trouble == trouble {
            return;
        }
        match (self.trouble, trouble) {
            (_, Some(Trouble::Resting)) | (Some(Trouble::Resting), None | Some(Trouble::Requests(_))) => {}
            (_, Some(Trouble::Requests(failed))) if !failed.is_power_of_two() => {}
            (_, Some(trouble)) => culm::error!("{trouble}"),
            (_, None) => culm::info!("the device can be used again"),
        }
        self.trouble = trouble;
        self.shown = self.shown.wrapping_add(1);
    }

    /// Records what the disk is.
    pub(crate) fn set_disk(&mut self, disk: Disk) {
        self.changes = self.changes.wrapping_add((disk.medium != self.disk.medium).into());
        self.shown = self.shown.wrapping_add(1);
        let failures = if disk.is_present() { self.requests.failures() } else { 0 };
        self.disk = Disk { failures, ..disk.after(&self.disk) };
    }
}
