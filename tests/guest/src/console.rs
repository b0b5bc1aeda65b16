//! The guest's serial port, byte by byte.

use crate::machine::{load, store};
use core::fmt;
use culm_abi::guest::SERIAL;

const DATA: u64 = SERIAL.address;
const FLAGS: u64 = SERIAL.address + 0x18;
const FULL: u64 = 1 << 5;

/// The port.
#[derive(Clone, Copy, Debug, Default)]
pub struct Console;

impl Console {
    /// Sends a byte, after there is room for it.
    pub fn send(self, byte: u8) {
        while load(FLAGS, 4) & FULL != 0 {}
        store(DATA, 4, byte.into());
    }
}

impl fmt::Write for Console {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        text.bytes().for_each(|byte| self.send(byte));
        Ok(())
    }
}

/// Writes a line, which begins on a line of its own.
#[macro_export]
macro_rules! say {
    ($($text:tt)*) => {{
        use core::fmt::Write as _;
        // The port takes everything.
        _ = core::write!($crate::console::Console, "\r\n{}\r\n", format_args!($($text)*));
    }};
}
