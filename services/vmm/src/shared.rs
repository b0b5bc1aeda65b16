//! What the kernel does for all virtual CPUs of the guest without an exit, and shares with the
//! monitor in the page of the first: the causes of the devices' interrupts, their doorbells, and
//! whether the guest has waited.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use culm::Region;
use culm::guest::{VirtioSlot, VirtualCpu, device, wish};
use culm_guest::virtio::transport::Causes;

/// The words that kernel and monitor share.
pub struct Shared {
    page: Region,
    /// What the kernel was asked to do when the guest waits next, and had not done when it was
    /// last looked at: one of [`wish`], or zero.
    wish: u64,
    /// A CPU has asked the firmware to wait since this was last looked at.
    is_suspended: bool,
}

impl Shared {
    /// Takes the page of the guest's first virtual CPU.
    pub fn new(page: Region) -> Self {
        let made = Self { page, wish: 0, is_suspended: false };
        // An earlier life of this monitor may have asked.
        made.tell_wait().store(0, Ordering::Relaxed);
        made
    }

    fn device(&self, index: usize) -> &AtomicU64 {
        self.word(offset_of!(VirtualCpu, devices) + 8 * index)
    }

    fn tell_wait(&self) -> &AtomicU64 {
        self.word(offset_of!(VirtualCpu, tell_wait))
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.page.atomic_u64(offset).expect("the page of a virtual CPU has all of its words")
    }

    /// Shows the guest what has changed of a device's causes. The device is there from now on.
    pub fn show(&self, slot: VirtioSlot, causes: Causes) {
        let word = self.device(slot.index());
        if causes.are_cleared {
            word.fetch_and(!device::CAUSES, Ordering::Relaxed);
        }
        // Release: a guest that reads a cause sees what the device has done before.
        word.fetch_or(device::THERE | causes.raised & device::CAUSES, Ordering::Release);
    }

    /// Takes back that the guest has rung a device's doorbell. Call it before the device's queues
    /// are looked at: the guest's next ring then gives the monitor another turn.
    pub fn take_ring(&self, slot: VirtioSlot) -> bool {
        let word = self.device(slot.index());
        // Acquire: what the guest had put into a queue when it rang is seen.
        word.load(Ordering::Relaxed) & device::RUNG != 0
            && word.fetch_and(!device::RUNG, Ordering::AcqRel) & device::RUNG != 0
    }

    /// Has the guest's next wait noted, for [`Self::has_waited`].
    pub fn note_wait(&mut self) {
        if self.wish == 0 {
            self.want(wish::NOTE);
        }
    }

    /// Asks to be notified when the guest waits next. Returns whether it has waited, or may have,
    /// since it was last looked at: then what it sent before must be looked at once more.
    pub fn ask_wait(&mut self) -> bool {
        self.wish != wish::NOTIFY && self.want(wish::NOTIFY) == 0
    }

    /// Tells the kernel what to do when the guest waits. Returns what it had been told, if the
    /// guest has not waited since.
    fn want(&mut self, wish: u64) -> u64 {
        self.wish = wish;
        // An exchange, as the kernel's: if the guest waited before it, what it did until then is
        // seen; else the kernel finds the wish.
        self.tell_wait().swap(wish, Ordering::AcqRel)
    }

    /// Returns whether the guest waits, or has, once for each time that this was asked for.
    pub fn has_waited(&mut self) -> bool {
        let has_waited = self.wish != 0 && self.tell_wait().load(Ordering::Acquire) == 0;
        if has_waited {
            self.wish = 0;
        }
        let is_suspended = core::mem::take(&mut self.is_suspended);
        has_waited || is_suspended
    }

    /// Takes it that a CPU waits that has exited for that: of such a wait the kernel does not tell.
    pub fn suspend(&mut self) {
        self.is_suspended = true;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::guest::{VIRTIO_BLOCK, VIRTIO_NET};

    fn shared() -> Shared {
        Shared::new(Region::new(culm::testing::memory(4096, 0)))
    }

    #[test]
    fn causes_are_shown_beside_those_of_before_until_a_reset() {
        let shared = shared();
        let word = || shared.device(VIRTIO_BLOCK.index()).load(Ordering::Relaxed);
        let show = |are_cleared, raised| shared.show(VIRTIO_BLOCK, Causes { are_cleared, raised });
        show(true, 0);
        assert_eq!(word(), device::THERE);
        show(false, 1);
        show(false, 2);
        assert_eq!(word(), device::THERE | 3);
        shared.device(VIRTIO_BLOCK.index()).fetch_or(device::RUNG, Ordering::Relaxed);
        show(true, 0);
        assert_eq!(word(), device::THERE | device::RUNG, "a ring is for the queues of now");
        assert_eq!(shared.device(VIRTIO_NET.index()).load(Ordering::Relaxed), 0);
    }

    #[test]
    fn a_ring_is_taken_once() {
        let shared = shared();
        assert!(!shared.take_ring(VIRTIO_NET));
        shared.device(VIRTIO_NET.index()).store(device::THERE | device::RUNG, Ordering::Relaxed);
        assert!(!shared.take_ring(VIRTIO_BLOCK) && shared.take_ring(VIRTIO_NET) && !shared.take_ring(VIRTIO_NET));
    }

    /// The guest waits. Returns whether the kernel notifies the monitor.
    fn wait(shared: &Shared) -> bool {
        shared.tell_wait().swap(0, Ordering::Relaxed) == wish::NOTIFY
    }

    #[test]
    fn a_wait_is_told_once_for_each_time_that_it_was_asked_for() {
        let mut shared = shared();
        assert!(!shared.has_waited(), "nobody has asked");
        assert!(shared.ask_wait(), "it may have begun to wait just before");
        assert!(!shared.ask_wait() && !shared.has_waited());
        assert!(wait(&shared) && shared.has_waited() && !shared.has_waited());
        assert!(!wait(&shared), "it was told once");
        assert!(shared.ask_wait());
    }

    /// A CPU that calls the firmware to wait exits, and the monitor has it wait: the kernel tells
    /// of no such wait.
    #[test]
    fn a_wait_by_the_firmware_is_one_too() {
        for wish in [0, wish::NOTE, wish::NOTIFY] {
            let mut shared = shared();
            let _ = shared.want(wish);
            shared.suspend();
            assert!(shared.has_waited() && !shared.has_waited(), "{wish}");
            shared.note_wait();
            assert!(!wait(&shared) || wish == wish::NOTIFY, "the kernel goes on as it was told");
        }
    }

    #[test]
    fn a_wait_that_was_noted_is_seen_without_a_notification() {
        let mut shared = shared();
        shared.note_wait();
        assert!(!shared.has_waited());
        assert!(!wait(&shared));
        shared.note_wait();
        assert!(shared.has_waited() && !shared.has_waited());
        shared.note_wait();
        assert!(!shared.ask_wait(), "it has not waited since it is noted");
        shared.note_wait();
        assert!(wait(&shared), "the greater wish stays");
        assert!(shared.has_waited());
        shared.note_wait();
        wait(&shared);
        assert!(shared.ask_wait(), "it has waited since");
    }
}
