//! A file to download again and again while something else happens.

/// A file that no other content looks like.
pub fn content() -> Vec<u8> {
    let mut state = 1_u32;
    (0..1 << 20)
        .map(|_| {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 24) as u8
        })
        .collect()
}
