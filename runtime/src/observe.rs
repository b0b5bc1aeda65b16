//! Observation: the accounts and counters of others that a component with `observe = true` may
//! read, from the addresses in its [`Observation`](culm_abi::connection::Observation).
//!
//! Everything here is mapped read-only, and written by the kernel or by another component at any
//! time: hence atomics, and no copies that could be half old.

use crate::region::shared_address;
use crate::start;
pub use culm_abi::accounting::{CoreAccount, DomainAccount, DomainState};
use culm_abi::connection::Counters;
use culm_abi::start::Memory;

/// Returns the accounts of the cores
/// ([`Observation::core_accounts`](culm_abi::connection::Observation::core_accounts)).
pub fn core_accounts(memory: Memory) -> &'static [CoreAccount] {
    let count = count::<CoreAccount>(memory);
    // SAFETY: [A2, A3] the tool maps this memory, page aligned, for as long as the program runs; it
    // consists of atomics, and of reserved words that nobody writes.
    unsafe { core::slice::from_raw_parts(address(memory, count), count) }
}

/// Returns the accounts of the protection domains, in image order.
pub fn domain_accounts(memory: Memory) -> &'static [DomainAccount] {
    let count = count::<DomainAccount>(memory);
    // SAFETY: [A2, A3] as in `core_accounts`.
    unsafe { core::slice::from_raw_parts(address(memory, count), count) }
}

/// Returns the counters of one protection domain; `None` if it has none.
pub fn counters(memory: Memory) -> Option<&'static Counters> {
    let count = count::<Counters>(memory);
    // SAFETY: [A2, A3] as in `core_accounts`; there is one page of counters, or none.
    (count > 0).then(|| unsafe { &*address::<Counters>(memory, count) })
}

/// Returns the system's picture, an SVG file; empty if this component does not observe.
pub fn picture() -> &'static [u8] {
    start::observation().map_or(&[], |observation| start::content(observation.picture))
}

fn count<T>(memory: Memory) -> usize {
    if memory.address == 0 { 0 } else { memory.size as usize / size_of::<T>() }
}

/// Returns the address of the elements, after a check that it is in shared memory, so that no
/// reference to them can break an assumption of the compiler's.
fn address<T>(memory: Memory, count: usize) -> *const T {
    if count == 0 {
        return core::ptr::NonNull::dangling().as_ptr();
    }
    assert!(
        memory.address.is_multiple_of(align_of::<T>() as u64),
        "the build tool maps accounts on pages of their own"
    );
    shared_address(memory) as *const T
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::sync::atomic::Ordering::Relaxed;

    #[test]
    fn nothing_is_seen_where_nothing_is_mapped() {
        let nothing = Memory::default();
        assert!(core_accounts(nothing).is_empty() && domain_accounts(nothing).is_empty());
        assert!(counters(nothing).is_none());
    }

    #[test]
    fn what_another_writes_is_seen() {
        let accounts: &'static [CoreAccount; 2] = Box::leak(Box::default());
        let memory = Memory { address: accounts.as_ptr() as u64, size: size_of_val(accounts) as u64, dma: 0 };
        accounts[1].idle.store(7, Relaxed);
        let seen = core_accounts(memory);
        assert_eq!((seen.len(), seen[1].idle.load(Relaxed)), (2, 7));
    }
}
