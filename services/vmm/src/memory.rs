//! The guest's memory, as its monitor sees it.

use core::sync::atomic::Ordering;
use culm::Region;
use culm_guest::virtio::Memory;

/// The memory, by guest-physical address. The guest may be changing it.
#[derive(Debug)]
pub struct GuestMemory(Region);

impl GuestMemory {
    /// Takes the region, whose first byte is at [`culm::guest::MEMORY`] for the guest.
    pub fn new(memory: Region) -> Self {
        Self(memory)
    }

    /// Returns the region.
    pub fn region(&self) -> &Region {
        &self.0
    }

    /// Returns where in the region an address is; it may be outside.
    #[inline]
    pub fn offset(address: u64) -> Option<usize> {
        usize::try_from(address.checked_sub(culm::guest::MEMORY)?).ok()
    }
}

impl Memory for GuestMemory {
    #[inline]
    fn contains(&self, address: u64, length: u32) -> bool {
        Self::offset(address).is_some_and(|offset| self.0.contains(offset, length as usize))
    }

    #[inline]
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        self.0.read(Self::offset(address)?, bytes).ok()
    }

    #[inline]
    fn write(&self, address: u64, bytes: &[u8]) -> Option<()> {
        self.0.write(Self::offset(address)?, bytes).ok()
    }

    #[inline]
    fn load(&self, address: u64) -> Option<u16> {
        Some(self.0.atomic_u16(Self::offset(address)?).ok()?.load(Ordering::Relaxed))
    }

    #[inline]
    fn store(&self, address: u64, value: u16) -> Option<()> {
        self.0.atomic_u16(Self::offset(address)?).ok()?.store(value, Ordering::Relaxed);
        Some(())
    }

    #[inline]
    fn load_double(&self, address: u64) -> Option<u64> {
        Some(self.0.atomic_u64(Self::offset(address)?).ok()?.load(Ordering::Relaxed))
    }

    #[inline]
    fn store_word(&self, address: u64, value: u32) -> Option<()> {
        self.0.atomic_u32(Self::offset(address)?).ok()?.store(value, Ordering::Relaxed);
        Some(())
    }

    #[inline]
    fn load_doubles(&self, address: u64) -> Option<[u64; 2]> {
        let [first, second] = self.0.atomics_u64(Self::offset(address)?, 2).ok()? else { return None };
        Some([first, second].map(|word| word.load(Ordering::Relaxed)))
    }

    #[inline]
    fn store_words(&self, address: u64, values: [u32; 2]) -> Option<()> {
        let words = self.0.atomics_u32(Self::offset(address)?, values.len()).ok()?;
        words.iter().zip(values).for_each(|(word, value)| word.store(value, Ordering::Relaxed));
        Some(())
    }
}
