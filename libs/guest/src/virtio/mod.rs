//! Virtio devices of the guest's machine (VIRTIO 1.2): the device's side, over the guest's memory.
//!
//! * [`transport`]: the registers by which the guest sets a device up (§4.2).
//! * [`queue`], [`chain`]: the device's side of a split virtqueue (§2.7).
//! * [`net`], [`block`], [`entropy`], [`console`]: what the queues of each kind of device carry.
//!
//! A device does nothing by itself: its monitor takes what the guest has put into a queue, gives it
//! to whoever serves it, and puts the answer back. The guest may change its memory at any time, so
//! all that is read is read once and checked. A queue that breaks the rules is not looked at again:
//! the device asks to be reset (§2.1.1), which harms nobody but its guest.

pub mod block;
pub mod chain;
pub mod console;
pub mod entropy;
pub mod net;
pub mod queue;
#[cfg(not(target_os = "none"))]
pub mod testing;
#[cfg(test)]
pub(crate) mod tests;
pub mod transport;

use alloc::vec::Vec;
use culm_abi::guest::{VIRTIO_BLOCK, VIRTIO_CONSOLE, VIRTIO_ENTROPY, VIRTIO_NETS, VirtioSlot};
use transport::{Causes, Transport};

/// Feature: interrupts and doorbells at an index (§6, `VIRTIO_F_EVENT_IDX`).
pub const EVENT_INDEX: u64 = 1 << 29;
/// Feature: the modern interface (§6, `VIRTIO_F_VERSION_1`).
pub const VERSION_1: u64 = 1 << 32;

/// The memory of a guest, by guest-physical address. Its guest may change it at any time.
pub trait Memory {
    /// Returns whether all of so many bytes are memory. It has them as long as its guest runs.
    fn contains(&self, address: u64, length: u32) -> bool;
    /// Copies bytes out, if all of them are memory.
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()>;
    /// Copies bytes in, if all of them are memory.
    fn write(&self, address: u64, bytes: &[u8]) -> Option<()>;
    /// Reads the half word at an even address by one access.
    fn load(&self, address: u64) -> Option<u16>;
    /// Writes the half word at an even address by one access.
    fn store(&self, address: u64, value: u16) -> Option<()>;
    /// Reads the double word at an address that is a multiple of 8, by one access.
    fn load_double(&self, address: u64) -> Option<u64>;
    /// Writes the word at an address that is a multiple of 4, by one access.
    fn store_word(&self, address: u64, value: u32) -> Option<()>;
    /// Reads two double words, the first of them at an address that is a multiple of 8, by one
    /// access each.
    fn load_doubles(&self, address: u64) -> Option<[u64; 2]> {
        Some([self.load_double(address)?, self.load_double(address.wrapping_add(8))?])
    }
    /// Writes two words, the first of them to an address that is a multiple of 4, by one access
    /// each, or leaves both.
    fn store_words(&self, address: u64, [first, second]: [u32; 2]) -> Option<()> {
        if !self.contains(address, 8) {
            return None;
        }
        self.store_word(address, first)?;
        self.store_word(address.wrapping_add(4), second)
    }
}

/// The devices of a guest: those for which its monitor has a connection.
#[derive(Clone, Debug, Default)]
pub struct Devices {
    /// The network cards, each in its place of [`VIRTIO_NETS`].
    pub nets: Vec<net::Net>,
    /// The disk.
    pub block: Option<block::Block>,
    /// The source of random bytes.
    pub entropy: Option<entropy::Entropy>,
    /// The console besides the serial port.
    pub console: Option<console::Console>,
}

impl Devices {
    /// Returns the device whose registers are at `address`, and the offset within.
    pub fn at(&mut self, address: u64) -> Option<(&mut Transport, u64)> {
        self.slots().find_map(|(slot, transport)| Some((transport, slot.registers().offset(address)?)))
    }

    /// Resets each device, as its guest does when it begins with it.
    pub fn reset(&mut self) {
        self.slots().for_each(|(_, transport)| transport.reset());
    }

    /// Has `take` told of each device whose causes have changed since this was last called.
    pub fn take_causes(&mut self, mut take: impl FnMut(VirtioSlot, Causes)) {
        self.slots().for_each(|(slot, transport)| {
            if let Some(causes) = transport.take_causes() {
                take(slot, causes);
            }
        });
    }

    fn slots(&mut self) -> impl Iterator<Item = (VirtioSlot, &mut Transport)> {
        let nets = VIRTIO_NETS.into_iter().zip(self.nets.iter_mut().map(|device| &mut device.transport));
        let block = self.block.iter_mut().map(|device| (VIRTIO_BLOCK, &mut device.transport));
        let entropy = self.entropy.iter_mut().map(|device| (VIRTIO_ENTROPY, &mut device.transport));
        let console = self.console.iter_mut().map(|device| (VIRTIO_CONSOLE, &mut device.transport));
        nets.chain(block).chain(entropy).chain(console)
    }
}
