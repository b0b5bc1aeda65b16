//! The routines that the compiler calls to copy, fill and compare memory, against loops over single bytes.

use core::hint::black_box;

/// More than two rounds of the longest loop, at every alignment.
const LONGEST: usize = 210;
const ALIGNMENTS: usize = 16;
/// Bytes around what a routine may touch, to see that it touches nothing else.
const GUARD: usize = 16;
const SIZE: usize = GUARD + ALIGNMENTS + LONGEST + GUARD;

/// Checks every length up to [`LONGEST`] at every alignment of source and destination; returns the count of checks.
///
/// # Errors
///
/// What did not come out as the loop over bytes has it.
pub fn check() -> Result<u64, &'static str> {
    let mut checks = 0;
    for length in 0..=LONGEST {
        for from in 0..ALIGNMENTS {
            for to in 0..ALIGNMENTS {
                copy(from, to, length)?;
            }
            fill(from, length)?;
            compare(from, length)?;
        }
        for distance in 0..=length.min(130) {
            slide(distance, length)?;
        }
        checks += 1;
    }
    Ok(checks)
}

/// Bytes that differ from their neighbours.
fn pattern(seed: usize) -> [u8; SIZE] {
    core::array::from_fn(|index| (index * 151 + seed * 29) as u8)
}

fn same(left: &[u8; SIZE], right: &[u8; SIZE]) -> bool {
    // Not by `==`, which is one of the routines under test.
    left.iter().zip(right).all(|(left, right)| black_box(*left) == black_box(*right))
}

fn copy(from: usize, to: usize, length: usize) -> Result<(), &'static str> {
    let source = pattern(1);
    let (mut result, mut expected) = (pattern(2), pattern(2));
    let (from, to) = (GUARD + from, GUARD + to);
    for index in 0..length {
        expected[to + index] = black_box(source[from + index]);
    }
    result[to..to + black_box(length)].copy_from_slice(&source[from..from + black_box(length)]);
    if same(&result, &expected) { Ok(()) } else { Err("memcpy") }
}

fn fill(to: usize, length: usize) -> Result<(), &'static str> {
    let (mut result, mut expected) = (pattern(3), pattern(3));
    let to = GUARD + to;
    for index in 0..length {
        expected[to + index] = black_box(0xa5);
    }
    result[to..to + black_box(length)].fill(black_box(0xa5));
    if same(&result, &expected) { Ok(()) } else { Err("memset") }
}

/// Overlapping copies by `distance`, in both directions.
fn slide(distance: usize, length: usize) -> Result<(), &'static str> {
    let length = length.min(SIZE - distance);
    let (mut up, mut expected) = (pattern(4), pattern(4));
    for index in 0..length {
        expected[index] = black_box(up[distance + index]);
    }
    up.copy_within(distance..distance + black_box(length), 0);
    if !same(&up, &expected) {
        return Err("memmove to a lower address");
    }
    let (mut down, mut expected) = (pattern(5), pattern(5));
    for index in 0..length {
        expected[distance + index] = black_box(down[index]);
    }
    down.copy_within(..black_box(length), distance);
    if same(&down, &expected) { Ok(()) } else { Err("memmove to a higher address") }
}

fn compare(at: usize, length: usize) -> Result<(), &'static str> {
    let left = pattern(6);
    let mut right = pattern(6);
    let range = GUARD + at..GUARD + at + black_box(length);
    if left[range.clone()] != right[range.clone()] {
        return Err("bcmp of equal bytes");
    }
    // What lies outside must not count.
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
