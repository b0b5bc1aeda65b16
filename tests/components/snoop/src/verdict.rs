//! The content that registers may have after a system call.

#![cfg_attr(not(target_os = "none"), allow(dead_code, reason = "it looks on the target only"))]

use crate::counters;
use culm_abi::syscall::{CallStatus, Event};

/// `x0`–`x30`, the flags (`NZCV`) and the thread register (`TPIDR_EL0`).
pub type Registers = [u64; 33];

/// Positions in [`Registers`] of what is no general register.
pub const FLAGS: usize = 31;
/// See [`FLAGS`].
pub const THREAD: usize = 32;

/// The one that calls and the one that is called.
pub const LOW: u64 = 1;
/// See [`LOW`].
pub const HIGH: u64 = 2;

/// A value that no other register of no other role holds.
pub const fn mark(role: u64, register: usize) -> u64 {
    0x5eed_0000_0000_0000 | role << 32 | register as u64
}

/// All registers marked.
pub fn marked(role: u64) -> Registers {
    let mut registers = core::array::from_fn(|register| mark(role, register));
    registers[FLAGS] = if role == LOW { 0x9000_0000 } else { 0x6000_0000 };
    registers
}

/// The registers in which a system call returns something.
pub enum Result {
    /// After a wait: an event in `x8`; a set in `x9`, or for a call its message in `x0`–`x7`.
    Event,
    /// After a call: a status in `x8`, and the reply in `x0`–`x7`.
    Reply,
}

/// Compares registers after a system call with those before it. Logs and counts what should not be
/// there.
pub fn check(result: &Result, before: &Registers, after: &Registers) -> bool {
    let sender = match result {
        Result::Event => Event(after[8]).is_call().then_some(LOW),
        Result::Reply => (after[8] == CallStatus::Replied as u64).then_some(HIGH),
    };
    let has_set = matches!(result, Result::Event) && !Event(after[8]).is_call();
    let mut clean = true;
    for (register, value) in after.iter().copied().enumerate() {
        let right = match register {
            0..=7 => value == sender.map_or(0, |sender| mark(sender, register)),
            8 => true,
            9 => has_set || value == 0,
            // The kernel keeps these, as a function does.
            19..=29 => value == before[register],
            // Either kept or cleared, but nobody else's.
            FLAGS | THREAD => value == 0 || value == before[register],
            _ => value == 0,
        };
        if !right {
            clean = false;
            counters::FINDINGS.add(1);
            culm::error!("leak: register {register} holds {value:#x}, held {:#x}", before[register]);
        }
    }
    counters::LOOKS.add(1);
    clean
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::testing;

    fn clean_wait() -> (Registers, Registers) {
        let before = marked(1);
        let mut after = [0; 33];
        after[19..30].copy_from_slice(&before[19..30]);
        (before, after)
    }

    #[test]
    fn a_clean_wait_is_clean() {
        let (before, mut after) = clean_wait();
        (after[8], after[9]) = (Event::notified(0).0, 5);
        assert!(check(&Result::Event, &before, &after));
        (after[8], after[9]) = (Event::called(3).0, 0);
        after[..8].copy_from_slice(&marked(LOW)[..8]);
        assert!(check(&Result::Event, &before, &after));
    }

    #[test]
    fn every_leak_is_found() {
        for register in (0..8).chain([9]).chain(10..33) {
            let (before, mut after) = clean_wait();
            after[8] = Event::called(3).0;
            after[..8].copy_from_slice(&marked(LOW)[..8]);
            after[register] = mark(HIGH, register);
            assert!(!check(&Result::Event, &before, &after), "{register}");
            assert!(testing::take_log().contains(&format!("leak: register {register} holds")));
        }
    }
}
