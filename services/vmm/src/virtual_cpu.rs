//! The guest's virtual CPU: the page that it shares with the kernel, and the commands to the
//! kernel.

use core::mem::offset_of;
use core::sync::atomic::{AtomicU64, Ordering};
use culm::connection::Guest;
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

/// The virtual CPU.
pub struct VirtualCpu {
    channel: Channel,
    page: Region,
}

impl VirtualCpu {
    /// Takes the connection.
    pub fn new(guest: &Guest) -> Self {
        Self { channel: Channel::new(guest.channel), page: Region::new(guest.virtual_cpu) }
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

    /// Returns why the guest has left the core, once for each time.
    pub fn left(&self) -> Option<Left> {
        // In one step: a monitor whose budget is used up can be suspended at any instruction, and
        // the guest exit meanwhile.
        match self.word(offset_of!(guest::VirtualCpu, exit)).swap(exit::NONE, Ordering::Relaxed) {
            exit::NONE => None,
            exit::EXCEPTION => Some(Left::Exception {
                syndrome: self.load(offset_of!(guest::VirtualCpu, syndrome)),
                address: self.load(offset_of!(guest::VirtualCpu, address)),
                page: self.load(offset_of!(guest::VirtualCpu, page)),
            }),
            _ => Some(Left::Other),
        }
    }

    /// Returns the list registers, as the guest left them.
    pub fn interrupts(&self) -> [u64; LIST_REGISTERS] {
        core::array::from_fn(|index| self.load(offset_of!(guest::VirtualCpu, interrupts) + 8 * index))
    }

    /// Returns whether the timer's interrupt waits for the guest.
    pub fn timer_has_gone_off(&self) -> bool {
        self.load(offset_of!(guest::VirtualCpu, timer)) != 0
    }

    /// Returns the program counter.
    pub fn pc(&self) -> u64 {
        self.load(offset_of!(guest::VirtualCpu, pc))
    }

    /// Lets the guest go on, with these list registers.
    pub fn resume(&self, interrupts: &[u64; LIST_REGISTERS]) {
        for (index, interrupt) in interrupts.iter().enumerate() {
            self.store(offset_of!(guest::VirtualCpu, interrupts) + 8 * index, *interrupt);
        }
        supervision::resume(self.channel);
    }

    /// Makes the guest leave the core; it is told like any exit.
    pub fn stop(&self) {
        supervision::stop(self.channel);
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
