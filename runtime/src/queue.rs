//! Rings of a start block, as the queues of `culm-queue`.

use crate::region::shared_address;
use core::ptr::NonNull;
use culm_abi::connection::Ring;
use culm_abi::start::Memory;
pub use culm_queue::{Consumer, Entry, Peer, Producer, Shared};

/// Attaches as the producer of `ring`.
///
/// # Panics
///
/// If the memory of `ring` cannot be a ring's, which no start block contains.
pub fn producer<T: Entry>(ring: Ring) -> Producer<T> {
    Producer::attach(shared(ring))
}

/// Attaches as the consumer of `ring`.
///
/// # Panics
///
/// As [`producer`].
pub fn consumer<T: Entry>(ring: Ring) -> Consumer<T> {
    Consumer::attach(shared(ring))
}

/// Returns the ring itself, for observers that only look how full it is.
///
/// # Panics
///
/// As [`producer`].
pub fn shared<T: Entry>(ring: Ring) -> Shared<T> {
    let size = culm_queue::layout(ring.capacity, size_of::<T>()).unwrap_or(0);
    let address = shared_address(Memory { address: ring.address, size: size as u64, dma: 0 });
    let address = NonNull::new(address as *mut u8).expect("a ring has an address");
    // SAFETY: [A1, A2] shared memory, by `shared_address`, of which this program makes no
    // references but to atomics. Where it is not mapped the access faults, which harms nobody else.
    let Ok(ring) = (unsafe { Shared::from_raw(address, ring.capacity) }) else { panic!("no ring: rebuild the image") };
    ring
}
