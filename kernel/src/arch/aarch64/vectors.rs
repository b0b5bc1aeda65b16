//! The vector registers: `V0`-`V31`, `FPSR` and `FPCR`, from the processor to the place of whom
//! they are and back. When that is, [`culm_kernel_core`] decides; how they open to a domain, and
//! close, stands in the entry code.

use super::machine::synchronise;
use culm_abi::system::{DomainDescription, VectorRegisters};

/// `CPACR_EL1` (of EL2: `CPTR_EL2`, which has the same field there): nothing traps that uses vector
/// registers (FPEN). Those of SVE and SME do.
pub const OPEN: u64 = 0b11 << 20;

core::arch::global_asm!(
    pair_macros!(),
    r#"
    .arch_extension fp
    .globl  culm_keep_vectors
culm_keep_vectors:                  // x0: the place
    pairs   stp, 0, 30, x0, 0, q, 16
    mrs     x1, fpsr
    mrs     x2, fpcr
    add     x0, x0, #512
    stp     x1, x2, [x0]
    ret
    .globl  culm_load_vectors
culm_load_vectors:
    pairs   ldp, 0, 30, x0, 0, q, 16
    add     x0, x0, #512
    ldp     x1, x2, [x0]
    msr     fpsr, x1
    msr     fpcr, x2
    ret
    .noaltmacro
    .purgem pair
    .purgem pairs
    "#
);

const _: () = assert!(core::mem::offset_of!(VectorRegisters, status) == 512 && size_of::<VectorRegisters>() == 528);

unsafe extern "C" {
    fn culm_keep_vectors(place: *mut VectorRegisters);
    fn culm_load_vectors(place: *const VectorRegisters);
}

/// Returns the place of a domain or virtual CPU that may use vector registers.
fn place(description: &DomainDescription) -> *mut VectorRegisters {
    description.vectors as *mut VectorRegisters
}

/// Has `action` move the registers. They are open meanwhile, and closed after it: who runs next may
/// be one to whom they stay closed, as where a guest is stopped on its way in.
fn while_open(action: impl FnOnce()) {
    write_register!("cpacr_el1", OPEN);
    synchronise();
    action();
    write_register!("cpacr_el1", 0_u64);
}

/// Stores the registers.
pub fn keep(description: &DomainDescription) {
    // SAFETY: [K1, K3, K5] the place is this domain's or virtual CPU's, which is of this core.
    while_open(|| unsafe { culm_keep_vectors(place(description)) });
}

/// Loads the registers.
pub fn load(description: &DomainDescription) {
    // SAFETY: [K1, K3, K5] as in `keep`.
    while_open(|| unsafe { culm_load_vectors(place(description)) });
}

/// Sets the place to zero.
pub fn clear(description: &DomainDescription) {
    // SAFETY: [K1, K3] as in `keep`; no reference to a place exists.
    unsafe { place(description).write(VectorRegisters::default()) }
}
