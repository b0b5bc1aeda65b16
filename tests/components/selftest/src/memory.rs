//! The routines that copy, fill, compare and sum memory, most of which the compiler calls, against
//! loops over single bytes.

use core::hint::black_box;

/// More than two rounds of the loop that all routines have.
const SHORT: usize = 210;
/// More than two rounds of the longer loop that copies have, at any rest that it leaves.
const LONG: usize = 256 + 256 + 320;
const ALIGNMENTS: usize = 16;
/// Bytes around what a routine may touch, to see that it touches nothing else.
const GUARD: usize = 16;
/// Room for `length` bytes at any alignment, between guards.
const fn room(length: usize) -> usize {
    GUARD + ALIGNMENTS + length + GUARD
}

type Bytes<const SIZE: usize> = [u8; SIZE];
type ShortBytes = Bytes<{ room(SHORT) }>;

/// Checks every length up to [`SHORT`] at every alignment of source and destination, and copies and
/// sums of every length up to [`LONG`]; returns the count of lengths.
///
/// # Errors
///
/// Checks that all comes out as the loop over bytes has it; returns what did not.
pub fn check() -> Result<u64, &'static str> {
    let mut checks = 0;
    for length in 0..=SHORT {
        for from in 0..ALIGNMENTS {
            for to in 0..ALIGNMENTS {
                copy::<{ room(SHORT) }>(from, to, length)?;
            }
            fill(from, length)?;
            compare(from, length)?;
            sum::<{ room(SHORT) }>(from, length)?;
        }
        for distance in 0..=length.min(130) {
            slide(distance, length)?;
        }
        checks += 1;
    }
    for length in SHORT + 1..=LONG {
        for from in 0..ALIGNMENTS {
            copy::<{ room(LONG) }>(from, from * 7 % ALIGNMENTS, length)?;
            sum::<{ room(LONG) }>(from, length)?;
        }
        checks += 1;
    }
    Ok(checks)
}

/// Sums bytes that make carries, and the largest there are.
fn sum<const SIZE: usize>(at: usize, length: usize) -> Result<(), &'static str> {
    for bytes in [pattern::<SIZE>(length), [0xff; SIZE]] {
        let bytes = &bytes[at..at + length];
        let halves = |sum: u64| (sum >> 48) + (sum >> 32 & 0xffff) + (sum >> 16 & 0xffff) + (sum & 0xffff);
        // Byte by byte, the second of two in the upper half.
        let expected = bytes.iter().enumerate().map(|(index, byte)| u64::from(*byte) << (index % 2 * 8)).sum();
        let (found, expected) = (halves(halves(culm::sum(black_box(bytes)))), halves(halves(expected)));
        if halves(found) != halves(expected) {
            return Err("a one's-complement sum");
        }
    }
    Ok(())
}

/// Bytes that differ from their neighbours.
fn pattern<const SIZE: usize>(seed: usize) -> Bytes<SIZE> {
    core::array::from_fn(|index| (index * 151 + seed * 29) as u8)
}

fn same<const SIZE: usize>(left: &Bytes<SIZE>, right: &Bytes<SIZE>) -> bool {
    // Not by `==`, which is one of the routines under test.
    left.iter().zip(right).all(|(left, right)| black_box(*left) == black_box(*right))
}

fn copy<const SIZE: usize>(from: usize, to: usize, length: usize) -> Result<(), &'static str> {
    let source: Bytes<SIZE> = pattern(1);
    let (mut result, mut expected): (Bytes<SIZE>, _) = (pattern(2), pattern(2));
    let (from, to) = (GUARD + from, GUARD + to);
    for index in 0..length {
        expected[to + index] = black_box(source[from + index]);
    }
    result[to..to + black_box(length)].copy_from_slice(&source[from..from + black_box(length)]);
    if same(&result, &expected) { Ok(()) } else { Err("memcpy") }
}

fn fill(to: usize, length: usize) -> Result<(), &'static str> {
    let (mut result, mut expected): (ShortBytes, _) = (pattern(3), pattern(3));
    let to = GUARD + to;
    for index in 0..length {
        expected[to + index] = black_box(0xa5);
    }
    result[to..to + black_box(length)].fill(black_box(0xa5));
    if same(&result, &expected) { Ok(()) } else { Err("memset") }
}

/// Overlapping copies by `distance`, in both directions.
fn slide(distance: usize, length: usize) -> Result<(), &'static str> {
    let length = length.min(room(SHORT) - distance);
    let (mut up, mut expected): (ShortBytes, _) = (pattern(4), pattern(4));
    for index in 0..length {
        expected[index] = black_box(up[distance + index]);
    }
    up.copy_within(distance..distance + black_box(length), 0);
    if !same(&up, &expected) {
        return Err("memmove to a lower address");
    }
    let (mut down, mut expected): (ShortBytes, _) = (pattern(5), pattern(5));
    for index in 0..length {
        expected[distance + index] = black_box(down[index]);
    }
    down.copy_within(..black_box(length), distance);
    if same(&down, &expected) { Ok(()) } else { Err("memmove to a higher address") }
}

fn compare(at: usize, length: usize) -> Result<(), &'static str> {
    let left: ShortBytes = pattern(6);
    let mut right: ShortBytes = pattern(6);
    let range = GUARD + at..GUARD + at + black_box(length);
    if left[range.clone()] != right[range.clone()] {
        return Err("bcmp of equal bytes");
    }
    // Bytes that lie outside must not count.
    (right[range.start - 1], right[range.end]) = (!left[range.start - 1], !left[range.end]);
    if left[range.clone()].cmp(&right[range.clone()]).is_ne() {
        return Err("memcmp of equal bytes");
    }
    for index in range.clone() {
        let kept = right[index];
        for other in [0, 255] {
            right[index] = other;
            if left[range.clone()].cmp(&right[range.clone()]) != left[index].cmp(&other) {
                return Err("memcmp of bytes that differ");
            }
        }
        right[index] = kept;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_host_passes() {
        assert!(super::check().is_ok());
    }
}
