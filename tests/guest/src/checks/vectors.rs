//! Checks that the vector registers keep their content, while a domain on this core may use them
//! too.

use crate::program::{check, equals};
use core::arch::global_asm;
use culm_tests_guest::machine::{microsecond, now};

/// Microseconds that it looks for: many times as long as a domain sleeps in between.
const DURATION: u64 = 100_000;

global_asm!(
    r#"
    .arch_extension fp
    .macro each operation
    .irp    number, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
    \operation q\number, [x0, #(16 * \number)]
    .endr
    .irp    number, 16, 17, 18, 19, 20, 21, 22, 23, 24, 25, 26, 27, 28, 29, 30, 31
    \operation q\number, [x0, #(16 * \number)]
    .endr
    .endm

guest_keeps_vectors:                // x0: V0-V31, FPCR; x1: how far to count
    each    ldr
    ldr     x2, [x0, #512]
    msr     fpcr, x2
1:  sub     x1, x1, #1
    cbnz    x1, 1b
    each    str
    mrs     x2, fpcr
    str     x2, [x0, #512]
    ret
    .purgem each
    "#
);

#[derive(Clone, PartialEq, Eq)]
#[repr(C, align(16))]
struct Content {
    vectors: [u128; 32],
    control: u64,
}

unsafe extern "C" {
    /// Fills the registers, counts to 0, stores the registers.
    fn guest_keeps_vectors(content: *mut Content, count: u64);
}

/// Does all checks.
pub fn run() {
    let end = now() + DURATION * microsecond();
    let mut round = 0_u64;
    while now() < end {
        round += 1;
        let vectors = core::array::from_fn(|number| u128::from(round) << 64 | 0x6775_6573_7400 | number as u128);
        let before = Content { vectors, control: round << 22 & 0b11 << 22 };
        let mut after = before.clone();
        // SAFETY: the function reads and writes the content; this program is compiled without
        // vector registers, so that nothing of it is there.
        unsafe { guest_keeps_vectors(&mut after, 5_000) };
        for (number, (before, after)) in (0..).zip(before.vectors.iter().zip(&after.vectors)) {
            if before != after {
                equals(*after as u64, *before as u64, "a vector register keeps its content");
                equals(number, u64::MAX, "that is its number");
            }
        }
        if before.control != after.control {
            equals(after.control, before.control, "FPCR keeps its content");
        }
    }
    check(round > 10, "there was time to look often");
}
