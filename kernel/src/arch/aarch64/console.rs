//! The kernel's last words: polled output on the board's PL011 (Arm DDI 0183), for halts and panics only.
//!
//! The serial driver owns the device while the system runs; what is printed here may stand amid its output.

use super::boot::system_header;
use core::fmt;

const DATA: usize = 0x00;
const FLAGS: usize = 0x18;
const TRANSMIT_FULL: u32 = 1 << 5;

/// Where `write!` goes.
pub struct Console;

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let base = system_header().console as *mut u8;
        if base.is_null() {
            return Ok(());
        }
        for byte in text.bytes() {
            // SAFETY: the build tool mapped the console's registers here as device memory; both are 32-bit registers.
            unsafe {
                while base.add(FLAGS).cast::<u32>().read_volatile() & TRANSMIT_FULL != 0 {}
                base.add(DATA).cast::<u32>().write_volatile(u32::from(byte));
            }
        }
        Ok(())
    }
}

/// Prints a line.
macro_rules! println {
    ($($argument:tt)*) => {{
        use core::fmt::Write;
        // The console takes everything: there is no error to report.
        let _ = core::write!($crate::arch::console::Console, "{}\r\n", core::format_args!($($argument)*));
    }};
}

pub(crate) use println;
