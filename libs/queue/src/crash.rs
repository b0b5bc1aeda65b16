//! Sudden death at any step, for tests of what a restart finds (feature `crash`).
//!
//! A component writes to memory that outlives it store by store, and a fault can end its life
//! between any two. Each such store calls [`step`] first; after [`die_after`] the program panics
//! there, and the test catches that and starts the component again over the same memory.

use core::cell::Cell;

std::thread_local! {
    static LEFT: Cell<Option<u32>> = const { Cell::new(None) };
}

/// Makes this thread panic, once, before the step that comes after `steps` more.
pub fn die_after(steps: u32) {
    LEFT.set(Some(steps));
}

/// Cancels [`die_after`]. Returns how many steps were left, or `None` if no panic was due any more.
pub fn disarm() -> Option<u32> {
    LEFT.take()
}

/// The next thing done is seen by others, or by the next life.
///
/// # Panics
///
/// If [`die_after`] asked for it here.
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
