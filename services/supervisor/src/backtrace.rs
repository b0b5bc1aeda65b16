//! Backtraces: the calls that led to a fault, from the chain of frames on a domain's stack.
//!
//! Every function of a component keeps a frame record (AAPCS64, 6.4.6): its frame pointer points to
//! the caller's frame pointer, the return address follows. The stack is the domain's own to write,
//! and a domain that faulted may have written anything: each link is checked to lie on the stack
//! and to lead upwards, so the walk ends, and reads nothing but the stack.

use core::fmt;
use core::ops::Range;
use culm::Region;
use culm::supervision::FaultReport;
use culm::supervision::address_space::{PROGRAM_BASE, STACK_BASE};

/// Calls of a backtrace at most.
pub const DEPTH: usize = 16;

/// Distance from the program counter below which the link register is taken to point into the same
/// function.
const NEAR: u64 = 0x200;

/// Addresses of code: from the base of programs up to the base of stacks.
const CODE: Range<u64> = PROGRAM_BASE..STACK_BASE;

/// Addresses of code, the innermost first.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Backtrace {
    addresses: [u64; DEPTH],
    count: usize,
}

impl Backtrace {
    /// Follows the frames of a domain. `stack` is its stack, which begins at `base` in the domain's
    /// address space.
    pub fn new(report: &FaultReport, stack: &Region, base: u64) -> Self {
        let mut backtrace = Self { addresses: [0; DEPTH], count: 0 };
        backtrace.add(report.pc);
        let first = record(stack, base, report.fp);
        // Before a function has stored its frame record (or if it never does), and after a jump to
        // an invalid address, only the link register names the caller. Otherwise the register
        // repeats the chain, or holds an address near the program counter from a call that has
        // returned: skip it then.
        let is_old = report.lr.abs_diff(report.pc) < NEAR;
        if !is_old && first.is_none_or(|(_, caller)| caller != report.lr) {
            backtrace.add(report.lr);
        }
        let (mut frame, mut link) = (report.fp, first);
        while let Some((next, caller)) = link {
            if !backtrace.add(caller) || next <= frame {
                break;
            }
            frame = next;
            link = record(stack, base, frame);
        }
        backtrace
    }

    /// Returns the addresses.
    pub fn addresses(&self) -> &[u64] {
        &self.addresses[..self.count]
    }

    /// Adds an address of code. Returns whether it was one and there was space.
    fn add(&mut self, address: u64) -> bool {
        match self.addresses.get_mut(self.count) {
            Some(slot) if CODE.contains(&address) => {
                *slot = address;
                self.count += 1;
                true
            }
            _ => false,
        }
    }
}

/// Reads the frame record at `frame` in the domain's address space: the caller's frame and the
/// return address.
fn record(stack: &Region, base: u64, frame: u64) -> Option<(u64, u64)> {
    let offset = usize::try_from(frame.checked_sub(base)?).ok()?;
    if !frame.is_multiple_of(8) {
        return None;
    }
    let [next, caller] = stack.load::<[u64; 2]>(offset).ok()?;
    Some((next, caller))
}

/// `0x201234 0x20089c`.
impl fmt::Display for Backtrace {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, address) in self.addresses().iter().enumerate() {
            let space = if index == 0 { "" } else { " " };
            write!(formatter, "{space}{address:#x}")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::sync::atomic::AtomicU64;

    const BASE: u64 = 0x1000_0000;

    /// A stack with these words.
    fn stack(words: &[u64]) -> Region {
        let words: Vec<AtomicU64> = words.iter().copied().map(AtomicU64::new).collect();
        Region::from_words(words.leak())
    }

    fn report(pc: u64, fp: u64, lr: u64) -> FaultReport {
        FaultReport { pc, fp, lr, ..FaultReport::default() }
    }

    #[test]
    fn frames_are_followed_to_the_first() {
        let stack = stack(&[0, 0, BASE + 32, 0x20_0100, BASE + 48, 0x20_0200, 0, 0x20_0300]);
        let backtrace = Backtrace::new(&report(0x20_0010, BASE + 16, 0x20_0100), &stack, BASE);
        assert_eq!(backtrace.to_string(), "0x200010 0x200100 0x200200 0x200300");
    }

    #[test]
    fn a_jump_to_nothing_is_traced_to_its_caller() {
        let stack = stack(&[0, 0x20_0200]);
        let backtrace = Backtrace::new(&report(0, BASE, 0x20_0100), &stack, BASE);
        assert_eq!(backtrace.addresses(), [0x20_0100, 0x20_0200]);
    }

    #[test]
    fn an_old_link_register_is_left_out() {
        let stack = stack(&[0, 0x20_1000]);
        let backtrace = Backtrace::new(&report(0x20_0010, BASE, 0x20_0008), &stack, BASE);
        assert_eq!(backtrace.addresses(), [0x20_0010, 0x20_1000]);
        let backtrace = Backtrace::new(&report(0x20_0010, BASE, 0x20_4000), &stack, BASE);
        assert_eq!(backtrace.addresses(), [0x20_0010, 0x20_4000, 0x20_1000]);
    }

    #[test]
    fn a_circle_and_a_stack_that_is_gone_end() {
        let circle = stack(&[BASE + 16, 0x20_0100, BASE, 0x20_0200]);
        let backtrace = Backtrace::new(&report(0x20_0010, BASE, 0), &circle, BASE);
        assert_eq!(backtrace.addresses(), [0x20_0010, 0x20_0100, 0x20_0200]);
        let backtrace = Backtrace::new(&report(0x20_0010, BASE, 0), &Region::EMPTY, BASE);
        assert_eq!(backtrace.addresses(), [0x20_0010]);
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn any_stack_has_an_end(
            words in proptest::collection::vec(prop_oneof![
                any::<u64>(), (0..64u64).prop_map(|word| BASE + word * 8), (0..64u64).prop_map(|word| 0x20_0000 + word * 4)
            ], 64),
            fp in prop_oneof![any::<u64>(), (0..70u64).prop_map(|word| BASE + word * 8)],
            pc in any::<u64>(),
            lr in any::<u64>(),
        ) {
            let backtrace = Backtrace::new(&report(pc, fp, lr), &stack(&words), BASE);
            prop_assert!(backtrace.addresses().iter().all(|address| CODE.contains(address)));
        }
    }
}
