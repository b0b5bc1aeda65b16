//! The advice after a panic for lack of memory: the compiler's message names neither the component
//! nor the setting to change.
//!
//! It is apart from the heap so that a component which never allocates links no allocator for it.

use crate::arch::domain_static;
use crate::start;
use core::cell::Cell;
use core::fmt;

domain_static! {
    /// Bytes of the last allocation that the heap refused, 0 for none.
    REFUSED: Cell<usize> = Cell::new(0);
}

/// Records that the heap refused an allocation of this size, which the caller may be able to do
/// without.
pub(crate) fn record_refusal(size: usize) {
    REFUSED.with(|cell| cell.set(size));
}

/// Returns the advice after a panic in `file`, if it is the panic of an allocation that the program
/// could not do without.
pub(crate) fn advice(file: &str) -> Option<impl fmt::Display> {
    let size = REFUSED.with(Cell::get);
    // The standard library's `handle_alloc_error` panics there.
    let is_its = file.ends_with("alloc/src/alloc.rs");
    (size > 0 && is_its).then(|| Advice { size, heap: start::current().header().heap.size })
}

struct Advice {
    size: usize,
    heap: u64,
}

impl fmt::Display for Advice {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} bytes were not to be had: ", self.size)?;
        match self.heap {
            0 => formatter.write_str("it has no heap; set `heap` in its component.toml"),
            heap => write!(formatter, "it has {} KiB of heap; set a larger `heap` in its component.toml", heap / 1024),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn advice_is_given_where_memory_was_refused() {
        let text = |size, heap| Advice { size, heap }.to_string();
        assert_eq!(text(2048, 0), "2048 bytes were not to be had: it has no heap; set `heap` in its component.toml");
        assert_eq!(
            text(70_000, 0x1_0000),
            "70000 bytes were not to be had: it has 64 KiB of heap; set a larger `heap` in its component.toml"
        );
        assert!(advice("library/alloc/src/alloc.rs").is_none(), "none was refused");
        record_refusal(2048);
        assert!(advice("src/main.rs").is_none(), "whoever asked could do without it");
    }
}
