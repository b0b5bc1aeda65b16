//! A client that sends anything, in any pieces, to a server whose buffers hold any amount.
//!
//! The first four bytes of the input say how the rest is cut, how much of it lies side by side in
//! the receive buffer and how much the send buffer takes. Whatever comes, nothing panics, the
//! connection ends when the client ends, and the answer is the same as if everything had come at
//! once into buffers without bounds. A server of files that are not in memory is asked the same:
//! their contents, too, are in the end the same, and nothing is left under way.

#![no_main]

#[path = "../../libs/http/tests/common/mod.rs"]
mod common;

use common::exchange;
use common::shelf::Shelf;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|data: &[u8]| {
    let Some((&[seed, cut, piece, room], input)) = data.split_first_chunk::<4>() else { return };
    let whole = exchange(input, &[], usize::MAX, usize::MAX);
    assert!(whole.is_empty() || whole.starts_with(b"HTTP/1.1 "), "an answer that is no response");
    let cuts = cuts(seed, cut, input.len());
    let room = 2048 + usize::from(room) * 16;
    assert_eq!(exchange(input, &cuts, usize::from(piece), room), whole, "pieces change the answer");

    let delay = u32::from(cut) % 4;
    let (at_once, late) = (Shelf::default(), Shelf { delay, grasp: 1 + usize::from(cut), ..Shelf::default() });
    let whole = finals(at_once.exchange(input, &[], usize::MAX, usize::MAX));
    let pieces = finals(late.exchange(input, &cuts, usize::from(piece), room));
    assert_eq!(pieces, whole, "pieces change the answer of a server with files");
    assert_eq!(at_once.contents, late.contents, "pieces change what is stored");
    assert_eq!(at_once.under_way() + late.under_way(), 0, "something is left under way");
});

/// Removes each `100 Continue`, which is for clients that have not yet sent anything.
fn finals(output: Vec<u8>) -> Vec<u8> {
    const CONTINUE: &[u8] = b"HTTP/1.1 100 Continue\r\n\r\n";
    let mut rest = &output[..];
    let mut all = Vec::new();
    while let Some(byte) = rest.first() {
        match rest.strip_prefix(CONTINUE) {
            Some(after) => rest = after,
            None => {
                all.push(*byte);
                rest = &rest[1..];
            }
        }
    }
    all
}

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
