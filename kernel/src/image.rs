//! The image's tables as slices: the one place where addresses from the system header become
//! references.

use crate::arch::Registers;
use culm_abi::memory::KERNEL_BASE;
use culm_abi::system::{KernelLayout, MAGIC, SystemHeader, Table};
use culm_kernel_core::timer::Slot;
use culm_kernel_core::{Domain, System};

/// The sizes that the build tool reads to lay out the kernel's own state.
#[used]
#[unsafe(link_section = ".culm.layout")]
static LAYOUT: KernelLayout = KernelLayout {
    version: culm_abi::VERSION,
    local_state: size_of::<Domain<'static, Registers>>() as u32,
    shared_state: size_of::<culm_kernel_core::system::Shared>() as u32,
    timer_slot: size_of::<Slot>() as u32,
};

/// Checks a table's place and shape.
fn check<T>(name: &str, table: &Table) {
    let sound = table.count == 0
        || (table.address >= KERNEL_BASE
            && table.address.is_multiple_of(align_of::<T>() as u64)
            && table.stride as usize == size_of::<T>());
    assert!(sound, "table `{name}` of the image is not what this kernel expects: rebuild the image");
}

/// Returns a table that is written only through atomics.
///
/// # Safety
/// The table's memory must be valid for `T` and never change but through atomics.
unsafe fn shared<T>(name: &str, table: &Table) -> &'static [T] {
    check::<T>(name, table);
    if table.count == 0 {
        return &[];
    }
    // SAFETY: [K1, K2] place and shape were checked; the rest is the caller's promise.
    unsafe { core::slice::from_raw_parts(table.address as *const T, table.count as usize) }
}

/// Returns elements `first..first + count` of a table, which one core alone uses.
///
/// # Safety
/// The memory must be valid for `T`, and this part of it be given out only once.
unsafe fn owned<T>(name: &str, table: &Table, first: u32, count: u32) -> &'static mut [T] {
    check::<T>(name, table);
    assert!(first <= table.count && count <= table.count - first, "table `{name}` of the image is too short");
    if count == 0 {
        return &mut [];
    }
    // SAFETY: [K1, K3] place, shape and bounds were checked; the rest is the caller's promise.
    unsafe { core::slice::from_raw_parts_mut((table.address as *mut T).add(first as usize), count as usize) }
}

/// Checks the header.
pub fn check_header(header: &SystemHeader) {
    assert!(header.magic == MAGIC, "the image has no system header: was it made by the build tool?");
    assert!(
        header.version == culm_abi::VERSION && header.size as usize == size_of::<SystemHeader>(),
        "the image was made for another version of the kernel: rebuild it"
    );
}

/// Returns the tables that all cores share.
pub fn system(header: &SystemHeader) -> System<'static> {
    // SAFETY: [K1, K2] the build tool wrote the descriptions and they are mapped read-only; words,
    // pending domains, shared state and accounts are zeroed memory, mapped for the kernel, made of
    // atomics only, for which zero is a value.
    unsafe {
        System {
            cores: shared("cores", &header.cores),
            domains: shared("domains", &header.domains),
            ends: shared("ends", &header.ends),
            routes: shared("interrupts", &header.interrupts),
            words: shared("words", &header.words),
            pending_domains: shared("pending_domains", &header.pending_domains),
            shared: shared("shared_state", &header.shared_state),
            core_accounts: shared("core_accounts", &header.core_accounts),
            domain_accounts: shared("domain_accounts", &header.domain_accounts),
        }
    }
}

/// Tables that one core alone uses.
pub struct PerCore {
    /// State of its domains.
    pub domains: &'static mut [Domain<'static, Registers>],
    /// Slots of its timer queue.
    pub slots: &'static mut [Slot],
}

/// Takes the tables that core `index` alone uses.
///
/// # Safety
/// To be called once for each core.
pub unsafe fn take_per_core(header: &SystemHeader, system: &System<'static>, index: u32, frequency: u64) -> PerCore {
    let core = &system.cores[index as usize];
    let (first, count) = (core.first_domain, core.domain_count);
    // SAFETY: [K1, K3] the ranges of different cores do not overlap (checked by `System::check`),
    // and the caller takes each only once. Zero is a value of slots; domains are taken as
    // uninitialised and written before use.
    unsafe {
        let places = owned::<core::mem::MaybeUninit<Domain<'static, Registers>>>(
            "local_state",
            &header.local_state,
            first,
            count,
        );
        for (place, domain) in places.iter_mut().zip(first..) {
            place.write(Domain::new(system, domain, frequency));
        }
        PerCore {
            domains: core::slice::from_raw_parts_mut(places.as_mut_ptr().cast(), places.len()),
            slots: owned("timer_slots", &header.timer_slots, first, count),
        }
    }
}
