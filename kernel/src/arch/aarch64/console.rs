//! The kernel's own words: polled output on the board's PL011 (Arm DDI 0183), for what nobody else
//! could say. That is why it halts or panics; that the driver of this device stays stopped; and at
//! boot, that there are no random numbers.
//!
//! The serial driver owns the device while the system runs; what is printed here may stand amid its
//! output. The driver may also have left the device so that it never has room again: then the rest
//! of the line is dropped.

use super::boot::system_header;
use crate::poll_limit::PollLimit;
use core::fmt;

const DATA: usize = 0x00;
const FLAGS: usize = 0x18;
const TRANSMIT_FULL: u32 = 1 << 5;

/// The console, as a target of `write!`, for one line.
pub struct Console {
    polls: PollLimit,
}

impl Console {
    /// Creates the console for one line.
    pub const fn new() -> Self {
        Self { polls: PollLimit::new() }
    }
}

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let base = system_header().console as *mut u8;
        if base.is_null() {
            return Ok(());
        }
        for byte in text.bytes() {
            // SAFETY: [K6] the build tool mapped the console's registers here as device memory;
            // this is a 32-bit register.
            let is_full = || unsafe { base.add(FLAGS).cast::<u32>().read_volatile() } & TRANSMIT_FULL != 0;
            if !self.polls.wait(is_full) {
                return Err(fmt::Error);
            }
            // SAFETY: [K6] as above.
            unsafe { base.add(DATA).cast::<u32>().write_volatile(u32::from(byte)) };
        }
        Ok(())
    }
}

/// Prints a line. Begin it with `\r\n` if the system has run: somebody's line may not have ended.
macro_rules! println {
    ($($argument:tt)*) => {{
        use core::fmt::Write;
        // If the console does not take the line, there is nobody to report that to.
        let _ = core::write!($crate::arch::console::Console::new(), "{}\r\n", core::format_args!($($argument)*));
    }};
}

pub(crate) use println;
