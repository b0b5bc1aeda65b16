//! The cause of a fault, in words.
//!
//! Syndromes are those of `ESR_ELx` (Arm ARM DDI 0487, D24.2.40): exception class in bits 26–31,
//! its specifics in bits 0–24.

use core::fmt;
use core::ops::Range;
use culm::supervision::address_space::ADDRESS_BITS;
use culm::supervision::{BadCall, FaultKind, FaultReport, system_calls};

/// Addresses below this come from a null pointer with an offset; nothing is mapped there.
const NULL_AREA: u64 = 0x1_0000;

/// Bytes below the stack in which an access is taken for a stack overflow.
const OVERFLOW_AREA: u64 = 0x1_0000;

/// Names of the system calls.
const CALLS: [(u16, &str); system_calls::COUNT as usize] = [
    (system_calls::WAIT, "wait"),
    (system_calls::REPLY_WAIT, "reply_wait"),
    (system_calls::SIGNAL, "signal"),
    (system_calls::CALL, "call"),
    (system_calls::FAULT, "fault"),
    (system_calls::RESUME, "resume"),
    (system_calls::RESTART, "restart"),
    (system_calls::STOP, "stop"),
    (system_calls::HALT, "halt"),
];

/// The cause of a domain's fault, to be displayed.
#[derive(Clone, Debug)]
pub struct Cause<'a> {
    report: &'a FaultReport,
    /// Its stack.
    stack: Range<u64>,
}

impl<'a> Cause<'a> {
    /// Creates the cause of a fault in a domain whose stack has these addresses.
    pub fn new(report: &'a FaultReport, stack: Range<u64>) -> Self {
        Self { report, stack }
    }

    /// Writes the cause of a data abort.
    fn data_abort(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let specifics = self.report.syndrome & 0x1ff_ffff;
        // WnR, but not for cache maintenance (CM), which always says "write".
        let access = match (specifics >> 6 & 1, specifics >> 8 & 1) {
            (_, 1) => "cache maintenance",
            (1, _) => "write",
            _ => "read",
        };
        formatter.write_str(access)?;
        self.at_address(formatter, specifics)?;
        let status = specifics & 0x3f;
        match status {
            0b00_0100..=0b00_1111 if is_kernels(self.report.address) => formatter.write_str(", which is the kernel's"),
            0b00_0000..=0b00_0011 => formatter.write_str(", an address beyond all tables"),
            0b00_0100..=0b00_0111 => self.unmapped(formatter),
            0b00_1100..=0b00_1111 if access == "write" => formatter.write_str(", which is read-only"),
            0b00_1000..=0b00_1111 => formatter.write_str(", which it may not access"),
            0b01_0000 => formatter.write_str(", which the bus refused: no device answers there"),
            0b10_0001 => formatter.write_str(", which is not aligned as this memory needs it"),
            0b11_0101 => formatter.write_str(", exclusive or atomic where the memory allows none"),
            _ => write!(formatter, " failed (fault status {status:#x})"),
        }
    }

    /// Writes the cause of an instruction abort.
    fn instruction_abort(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let specifics = self.report.syndrome & 0x1ff_ffff;
        formatter.write_str("jump")?;
        match specifics & 0x3f {
            0b00_0100..=0b00_1111 if is_kernels(self.report.pc) => {
                write!(formatter, " to {:#x}, which is the kernel's", self.report.pc)
            }
            0b00_1100..=0b00_1111 => write!(formatter, " to {:#x}, which is no code", self.report.pc),
            0b00_0000..=0b00_0111 => {
                write!(formatter, " to {:#x}, where nothing is mapped", self.report.pc)?;
                formatter.write_str(if self.report.pc < NULL_AREA { ": a null pointer" } else { "" })
            }
            status => write!(formatter, " to {:#x} failed (fault status {status:#x})", self.report.pc),
        }
    }

    /// Writes the address, if the processor knows it (FnV clear).
    fn at_address(&self, formatter: &mut fmt::Formatter<'_>, specifics: u64) -> fmt::Result {
        if specifics >> 10 & 1 == 0 {
            write!(formatter, " at {:#x}", self.report.address)
        } else {
            formatter.write_str(" at an address that is not known")
        }
    }

    /// Writes what an unmapped address points to.
    fn unmapped(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let address = self.report.address;
        formatter.write_str(", where nothing is mapped")?;
        if address < NULL_AREA {
            formatter.write_str(": a null pointer")
        } else if (self.stack.start.saturating_sub(OVERFLOW_AREA)..self.stack.start).contains(&address) {
            let size = self.stack.end.saturating_sub(self.stack.start) / 1024;
            write!(formatter, ", just below the stack: {size} KiB are too few (`stack` in its component.toml)")
        } else {
            Ok(())
        }
    }

    fn exception(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let syndrome = self.report.syndrome;
        match syndrome >> 26 & 0x3f {
            0x00 => formatter.write_str("undefined instruction"),
            0x01 => formatter.write_str("wait-for-interrupt instruction, which only the kernel may use"),
            0x07 => formatter
                .write_str("floating-point or vector instruction: it needs `vectors = true` in its component.toml"),
            0x19 | 0x1d => formatter.write_str("instruction of SVE or SME, which no component has"),
            0x2c => formatter.write_str("floating-point exception, which its FPCR has trap"),
            0x0d => formatter.write_str("branch to where none may go (branch target identification)"),
            0x0e => formatter.write_str("illegal execution state"),
            0x11 | 0x15 => formatter.write_str("system call that the kernel does not take this way"),
            0x16 | 0x17 | 0x12 | 0x13 => formatter.write_str("call of the hypervisor or of the firmware"),
            0x18 => formatter.write_str("access to a system register or instruction that only the kernel may use"),
            0x1c => formatter.write_str("pointer authentication failed"),
            0x20 => self.instruction_abort(formatter),
            0x22 => write!(formatter, "jump to {:#x}, which is not aligned to 4", self.report.pc),
            0x24 => self.data_abort(formatter),
            0x26 => write!(formatter, "stack pointer {:#x} is not aligned to 16", self.report.sp),
            0x2f => formatter.write_str("system error: a device or the memory reported a failure"),
            0x30 | 0x32 | 0x34 => formatter.write_str("debug exception"),
            0x3c => write!(formatter, "breakpoint instruction, brk #{}", syndrome & 0xffff),
            class => write!(formatter, "exception of class {class:#x} (syndrome {syndrome:#x})"),
        }
    }

    fn system_call(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let number = self.report.syndrome;
        match CALLS.iter().find(|(known, _)| u64::from(*known) == number) {
            Some((_, name)) => write!(formatter, "bad system call {name}: ")?,
            None => write!(formatter, "bad system call {number}: ")?,
        }
        formatter.write_str(match self.report.address {
            reason if reason == BadCall::Number as u64 => "there is none of this number",
            reason if reason == BadCall::Channel as u64 => {
                "it has no channel of this number, or one that does not allow this"
            }
            reason if reason == BadCall::Reply as u64 => "there is no call to reply to",
            reason if reason == BadCall::Owed as u64 => "it has to reply to a call before it waits",
            reason if reason == BadCall::Options as u64 => "register x10 has more in it than a group",
            reason if reason == BadCall::Deadline as u64 => "a passive domain has no time of its own, so no deadline",
            reason if reason == BadCall::Right as u64 => "the system description does not give it this right",
            _ => "for a reason that this supervisor does not know",
        })
    }
}

impl fmt::Display for Cause<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.report.kind {
            kind if kind == FaultKind::Exception as u64 => self.exception(formatter),
            kind if kind == FaultKind::SystemCall as u64 => self.system_call(formatter),
            // The runtime's panic, and the compiler's abort.
            kind if kind == FaultKind::Panic as u64 && self.report.syndrome & 0xffff == 1 => {
                formatter.write_str("panic: its log says why, where it has one")
            }
            kind if kind == FaultKind::Panic as u64 => self.exception(formatter),
            kind => write!(formatter, "fault of kind {kind}"),
        }
    }
}

/// Returns whether an address is in the kernel's half. There EL0 meets a permission fault or, where
/// the processor has FEAT_E0PD, a translation fault (Arm ARM, `TCR_EL1.E0PD1`).
fn is_kernels(address: u64) -> bool {
    address >> ADDRESS_BITS == u64::MAX >> ADDRESS_BITS
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::supervision::FaultReport;

    const STACK: u64 = 0x1000_0000;

    fn exception(class: u64, specifics: u64, address: u64, pc: u64) -> String {
        let kind = FaultKind::Exception as u64;
        let report =
            FaultReport { kind, syndrome: class << 26 | 1 << 25 | specifics, address, pc, ..FaultReport::default() };
        Cause::new(&report, STACK..STACK + 0x4000).to_string()
    }

    #[test]
    fn accesses_to_memory_are_explained() {
        let cases = [
            (1 << 6 | 0b0111, 0, "write at 0x0, where nothing is mapped: a null pointer"),
            (0b0110, 0x5000_0000, "read at 0x50000000, where nothing is mapped"),
            (
                1 << 6 | 0b0111,
                STACK - 8,
                "write at 0xffffff8, where nothing is mapped, just below the stack: 16 KiB are too few (`stack` in its \
                 component.toml)",
            ),
            (1 << 6 | 0b1111, 0x20_0000, "write at 0x200000, which is read-only"),
            (0b1111, 0xffff_ff80_0000_0000, "read at 0xffffff8000000000, which is the kernel's"),
            // The words of a processor with FEAT_E0PD of the same access.
            (0b0100, 0xffff_ff80_0000_0000, "read at 0xffffff8000000000, which is the kernel's"),
            (0b0000, 0x80_0000_0000, "read at 0x8000000000, an address beyond all tables"),
            (0b10_0001, 0x4000_0001, "read at 0x40000001, which is not aligned as this memory needs it"),
            (
                1 << 10 | 0b01_0000,
                0,
                "read at an address that is not known, which the bus refused: no device answers there",
            ),
        ];
        for (specifics, address, text) in cases {
            assert_eq!(exception(0x24, specifics, address, 0x20_1234), text);
        }
    }

    #[test]
    fn jumps_and_instructions_are_explained() {
        assert_eq!(exception(0x20, 0b0110, 0, 0), "jump to 0x0, where nothing is mapped: a null pointer");
        assert_eq!(exception(0x20, 0b1111, 0, 0x0fff_0000), "jump to 0xfff0000, which is no code");
        let kernel = 0xffff_ff80_0000_0000;
        for status in [0b0100, 0b1111] {
            assert_eq!(exception(0x20, status, 0, kernel), "jump to 0xffffff8000000000, which is the kernel's");
        }
        assert_eq!(exception(0x00, 0, 0, 0x20_1234), "undefined instruction");
        assert_eq!(
            exception(0x07, 0, 0, 0x20_1234),
            "floating-point or vector instruction: it needs `vectors = true` in its component.toml"
        );
        assert_eq!(exception(0x22, 0, 0, 0x20_1235), "jump to 0x201235, which is not aligned to 4");
        assert_eq!(exception(0x3c, 7, 0, 0x20_1234), "breakpoint instruction, brk #7");
        assert_eq!(exception(0x3f, 0, 0, 0), "exception of class 0x3f (syndrome 0xfe000000)");
    }

    #[test]
    fn a_panic_is_told_from_other_breakpoints() {
        let report = |number: u64| FaultReport {
            kind: FaultKind::Panic as u64,
            syndrome: 0x3c << 26 | 1 << 25 | number,
            ..FaultReport::default()
        };
        assert_eq!(
            Cause::new(&report(1), STACK..STACK + 0x4000).to_string(),
            "panic: its log says why, where it has one"
        );
        assert_eq!(Cause::new(&report(9), STACK..STACK + 0x4000).to_string(), "breakpoint instruction, brk #9");
    }

    #[test]
    fn system_calls_are_named() {
        let report = |number, reason: BadCall| FaultReport {
            kind: FaultKind::SystemCall as u64,
            syndrome: number,
            address: reason as u64,
            ..FaultReport::default()
        };
        let text = |report: &FaultReport| Cause::new(report, STACK..STACK + 0x4000).to_string();
        assert_eq!(text(&report(99, BadCall::Number)), "bad system call 99: there is none of this number");
        assert_eq!(
            text(&report(8, BadCall::Right)),
            "bad system call halt: the system description does not give it this right"
        );
    }

    #[test]
    fn nothing_that_a_report_can_say_is_beyond_words() {
        for class in 0..64 {
            for specifics in [0, 0x3f, 0x1ff_ffff] {
                assert!(!exception(class, specifics, u64::MAX, u64::MAX).is_empty());
            }
        }
    }
}
