//! A client that sends anything, in any pieces, to a server whose buffers hold any amount.
//!
//! The first four bytes of the input say how the rest is cut, how much of it lies side by side in
//! the receive buffer and how much the send buffer takes. Whatever comes, nothing panics, the
//! connection ends when the client ends, and the answer is the same as if everything had come at
//! once into buffers without bounds.

#![no_main]

#[path = "../../libs/http/tests/common/mod.rs"]
mod common;

use common::exchange;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[seed, cut, piece, room], input)) = data.split_first_chunk::<4>() else { return };
    let whole = exchange(input, &[], usize::MAX, usize::MAX);
    assert!(whole.is_empty() || whole.starts_with(b"HTTP/1.1 "), "an answer that is no response");
    let cuts = cuts(seed, cut, input.len());
    let room = 2048 + usize::from(room) * 16;
    assert_eq!(exchange(input, &cuts, usize::from(piece), room), whole, "pieces change the answer");
});

/// Where the input is cut: into pieces of up to `cut` bytes, their lengths decided by `seed`. Not
/// more than a few hundred.
fn cuts(seed: u8, cut: u8, length: usize) -> Vec<usize> {
    let mut random = u32::from(seed);
    let mut at = 0;
    let mut cuts = Vec::new();
    while at < length && cuts.len() < 300 {
        random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        at += 1 + (random >> 8) as usize % (usize::from(cut) + 1);
        cuts.push(at);
    }
    cuts
}
