//! Moving requests between the virtualiser's queues and the device's.
//!
//! A round does everything there is to do: it answers what the device has used, gives it what the
//! virtualiser sent, publishes each queue once, and rings the doorbell at most once. A request
//! whose chain finds no space stays in the virtualiser's queue.

use crate::counters;
use crate::device::Device;
use crate::requests::{Outcome, Parts, RECORD, Requests};
use culm::connection::BlockDriver;
use culm::time::{self, Duration, Instant};
use culm::{Progress, Region};
use culm_block::{Disk, MAX_DISK, Operation, Port};
use culm_mmio::Registers;
use culm_virtio::{ResetBackoff, Unusable, Virtqueue};

/// A device that has a request for the whole of a period has failed. Disks that have to spin up or
/// to move a bad block take some seconds.
pub const PERIOD: Duration = Duration::from_secs(30);

/// Descriptors of a request besides those of its segments: its header, its status, or its range.
const BESIDES: usize = 2;

/// The driver's state.
pub struct Block<R> {
    pub(crate) device: Device<R>,
    pub(crate) memory: Region,
    pub(crate) queue: Virtqueue,
    pub(crate) requests: Requests,
    /// The parts of the last request, kept so that each is written once.
    parts: Parts,
    pub(crate) port: Port,
    /// What the disk is, as the virtualiser was told.
    pub(crate) disk: Disk,
    /// Whether flushes are sent to the device.
    pub(crate) flushes: bool,
    /// True if the device has interrupted since the last round.
    interrupted: bool,
    /// The end of the period that runs if the device has requests.
    period_end: Instant,
    /// True if the device needs a reset.
    pub(crate) failed: bool,
    /// True if the device waits for its reset.
    pub(crate) out_of_service: bool,
    pub(crate) backoff: ResetBackoff,
}

impl<R: Registers> Block<R> {
    /// Sets the device up, whatever state a previous life left it in.
    pub fn new(registers: R, memory: Region, connection: &BlockDriver) -> Result<Self, Unusable> {
        let (mut device, mut queue) = Device::find(registers, &memory)?;
        let records = queue.layout().end.next_multiple_of(RECORD);
        let requests = Requests::new(&memory, records, queue.size() / 2).ok_or(Unusable::Queue)?;
        counters::RESETS.add(1);
        // Reset before anything else: the device may be at work for the previous life. See the
        // order of requests at the head of this crate.
        device.reset()?;
        queue.clear();
        queue.renew(device.has_event_index());
        device.set_to_work(&memory, &queue);
        let BlockDriver { requests: asked, answers, channel } = *connection;
        let port = Port::new(asked, answers, channel, MAX_DISK);
        let mut block = Self {
            device,
            memory,
            queue,
            requests,
            parts: Parts::new(),
            port,
            disk: Disk::ABSENT,
            flushes: false,
            interrupted: false,
            period_end: Instant::default(),
            failed: false,
            out_of_service: false,
            backoff: ResetBackoff::new(),
        };
        block.look();
        Ok(block)
    }

    /// Handles the device's interrupt.
    #[inline(always)]
    pub fn interrupted(&mut self) {
        self.device.acknowledge();
        counters::INTERRUPTS.add(1);
        self.interrupted = true;
    }

    /// Moves requests and answers, publishes them and announces sleep.
    #[inline]
    pub fn round(&mut self) -> Progress {
        let used = if self.out_of_service { 0 } else { self.answer_used() };
        if core::mem::take(&mut self.interrupted) && used == 0 {
            self.check();
        }
        if self.failed | self.queue.is_broken() {
            self.repair();
        }
        self.port.begin();
        if self.out_of_service {
            return self.refuse();
        }
        let has_space = self.give();
        if self.queue.publish() {
            self.device.ring_doorbell();
            counters::DOORBELLS.add(1);
        }
        let progress = self.port.end_round(has_space);
        if self.requests.is_empty() {
            return progress;
        }
        progress & self.watch() & self.queue.wait_for(1)
    }

    /// Answers the requests that the device has used; returns how many.
    #[inline]
    pub(crate) fn answer_used(&mut self) -> u64 {
        if self.queue.refresh() == 0 {
            return 0;
        }
        let mut count = 0;
        while let Some(used) = self.queue.take() {
            count += 1;
            let Some(Outcome { token, result, is_lie }) = self.requests.end(used) else {
                counters::DEVICE_ERRORS.add(1);
                self.failed = true;
                break;
            };
            if result.is_err() {
                counters::FAILED.add(1);
                counters::DEVICE_ERRORS.add(is_lie.into());
            }
            self.port.answer(token, result);
        }
        let errors = self.queue.errors();
        if errors > 0 {
            counters::DEVICE_ERRORS.add(errors.into());
        }
        count
    }

    /// Gives the device the requests for which there is space. Returns whether there is space for
    /// more.
    #[inline]
    fn give(&mut self) -> bool {
        let mut count = 0;
        let needed = usize::from(self.disk.segments) + BESIDES;
        let has_space = loop {
            if self.queue.space() < needed || !self.requests.has_space() {
                break false;
            }
            let Some(taken) = self.port.next_in_place() else { break true };
            count += 1;
            if taken.request.operation == Operation::Flush && !self.flushes {
                let token = taken.token;
                self.port.answer(token, Ok(()));
                continue;
            }
            // There is space for both, as just asked.
            if let Some(number) = self.requests.begin(taken, &mut self.parts) {
                let _ = self.queue.add_chain(self.parts.as_slice(), number.into());
            }
        };
        if count > 0 {
            counters::REQUESTS.add(count);
        }
        has_space
    }

    /// Looks whether the device has had a request for too long, and asks for a turn to look again.
    #[inline]
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

    /// Ends the round of a driver whose device waits for its reset. Requests wait too, unless the
    /// virtualiser was told that there is no disk.
    #[cold]
    fn refuse(&mut self) -> Progress {
        let is_absent = !self.disk.is_present();
        if is_absent {
            // All are refused there.
            let _ = self.port.next_request();
        }
        self.port.end_round(is_absent)
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
        } else if !self.out_of_service {
            self.look();
        }
    }

    /// Reads what the device is, and tells the virtualiser.
    #[cold]
    pub(crate) fn look(&mut self) {
        let disk = self.device.disk();
        self.flushes = self.device.flushes();
        self.requests.zeroes_may_discard = self.device.zeroes_may_discard();
        if disk != self.disk {
            let Disk { blocks, read_only, .. } = disk;
            culm::info!("{blocks} blocks of 512 bytes{}", if read_only { ", read-only" } else { "" });
        }
        self.disk = disk;
        self.port.set_disk(disk);
    }
}
