//! Sudden death at any step, for tests of what a restart finds (feature `crash`).
//!
//! Whatever a component does to memory that outlives it, it does store by store, and a fault can end its life between any two.
//! Each such store announces itself by [`step`]; a test that set [`die_after`] has the program panic there, catches
//! that, and starts the component again over the same memory.

use core::cell::Cell;

std::thread_local! {
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Has this thread panic before the step that comes after `steps` more. It happens once.
pub fn die_after(steps: u32) {
    LEFT.set(Some(steps));
}

/// Nobody is to die any more. Returns how many steps were left, or `None` where there is nothing left to come.
pub fn disarm() -> Option<u32> {
    LEFT.take()
}

/// The next thing done is seen by others, or by the next life.
///
/// # Panics
///
/// Where [`die_after`] said so.
pub fn step() {
    match LEFT.get() {
        None => {}
        Some(0) => {
            LEFT.set(None);
            // Without the message that a panic prints.
            std::panic::resume_unwind(std::boxed::Box::new("a death that a test asked for"));
        }
        Some(left) => LEFT.set(Some(left - 1)),
    }
}
