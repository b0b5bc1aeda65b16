//! A virtual CPU of the guest: the page that it shares with the kernel, and the commands to the
//! kernel.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use culm::connection::GuestCpu;
use culm::guest::{self, LIST_REGISTERS, exit};
use culm::{Channel, Region, supervision};
use culm_guest::Registers;

/// Why the guest has left the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Left {
    /// It took an exception.
    Exception {
        /// `ESR_EL2`.
        syndrome: u64,
        /// `FAR_EL2`.
        address: u64,
        /// `HPFAR_EL2`.
        page: u64,
    },
    /// It has ended an interrupt, or it was stopped.
    Other,
}

/// A virtual CPU.
pub struct VirtualCpu {
    channel: Channel,
    page: Region,
    /// The exits that this life of the monitor knows of.
    seen: u64,
    /// It was told to stop since the last exit.
    is_stopping: bool,
}

impl VirtualCpu {
    /// Takes the connection. The guest is stopped, if it runs: it may be that of an earlier life of
    /// this monitor.
    pub fn new(cpu: &GuestCpu) -> Self {
        let page = Region::new(cpu.page);
        let mut made = Self { channel: Channel::new(cpu.channel), page, seen: 0, is_stopping: false };
        made.seen = made.load(offset_of!(guest::VirtualCpu, answered));
        made.stop();
        made
    }

    fn word(&self, offset: usize) -> &AtomicU64 {
        self.page.atomic_u64(offset).expect("the page of a virtual CPU has all of its words")
    }

    fn load(&self, offset: usize) -> u64 {
        self.word(offset).load(Ordering::Relaxed)
    }

    fn store(&self, offset: usize, value: u64) {
        self.word(offset).store(value, Ordering::Relaxed);
    }

    /// Returns why the guest has left the core, once for each time. From then on the page is this
    /// monitor's, until [`Self::resume`].
    pub fn left(&mut self) -> Option<Left> {
        let exits = self.word(offset_of!(guest::VirtualCpu, exits)).load(Ordering::Acquire);
        if exits == self.seen {
            return None;
        }
        self.seen = exits;
        self.is_stopping = false;
        Some(match self.load(offset_of!(guest::VirtualCpu, exit)) {
            exit::EXCEPTION => Left::Exception {
                syndrome: self.load(offset_of!(guest::VirtualCpu, syndrome)),
                address: self.load(offset_of!(guest::VirtualCpu, address)),
                page: self.load(offset_of!(guest::VirtualCpu, page)),
            },
            _ => Left::Other,
        })
    }

    /// Returns the list registers, as the guest left them.
    pub fn interrupts(&self) -> [u64; LIST_REGISTERS] {
        core::array::from_fn(|index| self.load(offset_of!(guest::VirtualCpu, interrupts) + 8 * index))
    }

    /// Returns the program counter.
    pub fn pc(&self) -> u64 {
        self.load(offset_of!(guest::VirtualCpu, pc))
    }

    /// Has the guest begin at `entry` with one argument when it is resumed.
    pub fn reset(&self, entry: u64, argument: u64) {
        (0..31).for_each(|general| self.write(general, 0));
        self.write(0, argument);
        self.store(offset_of!(guest::VirtualCpu, pc), entry);
        self.store(offset_of!(guest::VirtualCpu, entry), guest::entry::RESET);
    }

    /// Has the guest wait for an interrupt when it is resumed.
    pub fn wait(&self) {
        self.store(offset_of!(guest::VirtualCpu, entry), guest::entry::WAIT);
    }

    /// Lets the guest go on, with these list registers. Call it after [`Self::left`] has told of an
    /// exit.
    pub fn resume(&self, interrupts: &[u64; LIST_REGISTERS]) {
        for (index, interrupt) in interrupts.iter().enumerate() {
            self.store(offset_of!(guest::VirtualCpu, interrupts) + 8 * index, *interrupt);
        }
        // Release: a kernel that sees the answer sees all that was written before.
        self.word(offset_of!(guest::VirtualCpu, answered)).store(self.seen, Ordering::Release);
        supervision::resume(self.channel);
    }

    /// Makes the guest leave the core; it is told like any exit.
    pub fn stop(&mut self) {
        if !self.is_stopping {
            self.is_stopping = true;
            supervision::stop(self.channel);
        }
    }
}

impl Registers for VirtualCpu {
    fn read(&self, general: u8) -> u64 {
        self.load(offset_of!(guest::VirtualCpu, x) + 8 * usize::from(general))
    }

    fn write(&self, general: u8, value: u64) {
        self.store(offset_of!(guest::VirtualCpu, x) + 8 * usize::from(general), value);
    }

    fn pass(&self) {
        const INSTRUCTION: u64 = 4;
        self.store(offset_of!(guest::VirtualCpu, pc), self.pc().wrapping_add(INSTRUCTION));
    }
}
