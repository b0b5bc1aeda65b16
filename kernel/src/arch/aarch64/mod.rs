//! AArch64, at EL2 if the processor has the Virtualization Host Extensions, else at EL1.
//!
//! With VHE the same register names serve at both levels (Arm ARM D8.1.3: accesses to `_EL1`
//! registers at EL2 with `HCR_EL2.E2H` set reach the EL2 registers), so all code after the boot
//! code is the same.

/// Assembly that begins with this can store and load registers by pairs, `from` to `to + 1`, each
/// at its number times `size` behind `base` and `offset`. It ends with `.noaltmacro` and `.purgem`
/// of both: other assembly may be in the same unit.
macro_rules! pair_macros {
    () => {
        r#"
    .altmacro
    .macro pair operation, kind, first, second, base, place
    \operation \kind\first, \kind\second, [\base, #(\place)]
    .endm
    .macro pairs operation, from, to, base, offset=0, kind=x, size=8
    pair    \operation, \kind, \from, %(\from+1), \base, \offset+\from*\size
    .if     \to - \from
    pairs   \operation, %(\from+2), \to, \base, \offset, \kind, \size
    .endif
    .endm
"#
    };
}

mod boot;
pub mod console;
mod entry;
mod firmware;
mod gic;
mod guest;
pub mod machine;
pub mod psci;
pub mod random;
pub mod registers;
#[macro_use]
mod system_register;
mod vectors;

pub use boot::system_header;
pub use entry::{resume, resume_notified};
pub use firmware::set_entry_level;
