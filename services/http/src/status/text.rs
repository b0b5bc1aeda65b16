//! Numbers and names as JSON and OpenMetrics both write them.

use super::snapshot::{Fraction, Rate, Ticks};
use core::fmt::{self, Display, Write};

/// Text on its way to where it is written. After an error nothing more is written.
pub struct Text<'w> {
    into: &'w mut dyn Write,
    result: fmt::Result,
}

impl<'w> Text<'w> {
    /// Creates text that goes there.
    pub fn new(into: &'w mut dyn Write) -> Self {
        Self { into, result: Ok(()) }
    }

    /// Returns whether all was written.
    ///
    /// # Errors
    ///
    /// The first error.
    pub fn end(self) -> fmt::Result {
        self.result
    }
}

impl Write for Text<'_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        if self.result.is_ok() {
            self.result = self.into.write_str(text);
        }
        self.result
    }
}

/// Appends formatted text: `put!(text, "…", …)`.
macro_rules! put {
    ($text:expr, $($format:tt)*) => {
        // The text keeps the error (`Text::end`).
        { let _ = core::fmt::Write::write_fmt($text, format_args!($($format)*)); }
    };
}
pub(crate) use put;

/// A text between quotes, with what must be escaped in both formats escaped.
pub struct Quoted<'t>(pub &'t str);

impl Display for Quoted<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_char('"')?;
        for letter in self.0.chars() {
            match letter {
                '"' => formatter.write_str("\\\"")?,
                '\\' => formatter.write_str("\\\\")?,
                '\n' => formatter.write_str("\\n")?,
                // Other control characters are escaped differently in the two, and have no place in
                // a name.
                letter if letter.is_control() => formatter.write_char('\u{fffd}')?,
                letter => formatter.write_char(letter)?,
            }
        }
        formatter.write_char('"')
    }
}

/// Seconds with six decimals.
pub struct Seconds(pub Ticks);

impl Display for Seconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (seconds, microseconds) = self.0.parts();
        write!(formatter, "{seconds}.{microseconds:06}")
    }
}

/// A share of one with six decimals.
pub struct Ratio(pub Fraction);

impl Display for Ratio {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:06}", self.0.0 / 1_000_000, self.0.0 % 1_000_000)
    }
}

/// A rate per second with three decimals.
pub struct PerSecond(pub Rate);

impl Display for PerSecond {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:03}", self.0.0 / 1000, self.0.0 % 1000)
    }
}

/// Nanoseconds as seconds with nine decimals.
pub struct Nanoseconds(pub u64);

impl Display for Nanoseconds {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}.{:09}", self.0 / 1_000_000_000, self.0 % 1_000_000_000)
    }
}
