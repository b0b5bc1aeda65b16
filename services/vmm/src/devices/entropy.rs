//! Random bytes for the guest: the monitor's own, made of the kernel's seed and of one from its
//! connection. What was given tells nothing of what comes.

use culm::random;
use culm_guest::virtio::entropy::PORTION;

/// Returns the next random bytes; none if there never was a seed.
pub fn portion() -> Option<[u8; PORTION]> {
    let words = random::words::<{ PORTION / 8 }>()?;
    let mut bytes = [0; PORTION];
    for (bytes, word) in bytes.as_chunks_mut::<8>().0.iter_mut().zip(words) {
        *bytes = word.to_le_bytes();
    }
    Some(bytes)
}
