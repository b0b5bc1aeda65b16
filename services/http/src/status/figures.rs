//! Numbers and names as people read them in HTML. Programs get theirs from [`text`](super::text).

use super::snapshot::{Fraction, Rate, Tally, Ticks};
use core::fmt::{self, Display, Formatter, Write};

/// A text in which nothing is markup, for content and for attributes in double quotes.
pub struct Escaped<'t>(pub &'t str);

impl Display for Escaped<'_> {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        for letter in self.0.chars() {
            match letter {
                '&' => formatter.write_str("&amp;")?,
                '<' => formatter.write_str("&lt;")?,
                '>' => formatter.write_str("&gt;")?,
                '"' => formatter.write_str("&quot;")?,
                letter => formatter.write_char(letter)?,
            }
        }
        Ok(())
    }
}

/// A share of a whole: `0 %`, `< 0.1 %`, `6.1 %`, `69 %`.
pub struct Percent(pub Fraction);

impl Display for Percent {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let millionths = self.0.0;
        match millionths {
            0 => formatter.write_str("0 %"),
            1..1000 => formatter.write_str("&lt; 0.1 %"),
            1000..99_500 => {
                let tenths = (millionths + 500) / 1000;
                write!(formatter, "{}.{} %", tenths / 10, tenths % 10)
            }
            _ => write!(formatter, "{} %", (millionths + 5000) / 10_000),
        }
    }
}

/// A count in three or four digits, rounded down: `9999`, `34.5 k`, `728 k`, `10.0 M`.
pub struct Count(pub u64);

impl Display for Count {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [(u32, &str); 6] = [(3, "k"), (6, "M"), (9, "G"), (12, "T"), (15, "P"), (18, "E")];
        if self.0 < 10_000 {
            return self.0.fmt(formatter);
        }
        for (power, unit) in UNITS {
            match self.0 / 10u64.pow(power - 1) {
                tenths @ 0..1000 => return write!(formatter, "{}.{} {unit}", tenths / 10, tenths % 10),
                tenths @ 1000..100_000 => return write!(formatter, "{} {unit}", tenths / 10),
                _ => {}
            }
        }
        Ok(())
    }
}

/// A count of bytes: `954 B`, `33.5 KiB`, `1.2 GiB`.
pub struct Bytes(pub u64);

impl Display for Bytes {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [&str; 7] = ["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"];
        let power = self.0.max(1).ilog2() / 10;
        let (size, unit) = (1u64 << (10 * power), UNITS[power as usize]);
        match self.0 / size {
            whole @ 0..100 if power > 0 => {
                let tenths = (u128::from(self.0) * 10 / u128::from(size)) % 10;
                write!(formatter, "{whole}.{tenths} {unit}")
            }
            whole => write!(formatter, "{whole} {unit}"),
        }
    }
}

/// How often a second: `0/s`, `0.4/s`, `34.5 k/s`.
pub struct PerSecond(pub Rate);

impl Display for PerSecond {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        match self.0.0 {
            0 => formatter.write_str("0/s"),
            1..100 => formatter.write_str("&lt; 0.1/s"),
            thousandths @ 100..9950 => {
                let tenths = (thousandths + 50) / 100;
                write!(formatter, "{}.{}/s", tenths / 10, tenths % 10)
            }
            thousandths => write!(formatter, "{}/s", Count(thousandths / 1000 + u64::from(thousandths % 1000 >= 500))),
        }
    }
}

/// A span of time by its two greatest units: `36 s`, `2 h 5 min`; below ten seconds with tenths.
pub struct Span(pub Ticks);

impl Display for Span {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 4] = [(86_400, "d"), (3600, "h"), (60, "min"), (1, "s")];
        let (seconds, microseconds) = self.0.parts();
        if seconds < 10 {
            return write!(formatter, "{seconds}.{} s", microseconds / 100_000);
        }
        let first = UNITS.iter().position(|(length, _)| seconds >= *length).unwrap_or(UNITS.len() - 1);
        let mut rest = seconds;
        for (index, (length, unit)) in UNITS.iter().enumerate().skip(first).take(2) {
            write!(formatter, "{}{} {unit}", if index == first { "" } else { " " }, rest / length)?;
            rest %= length;
        }
        Ok(())
    }
}

/// Nanoseconds in the unit that suits them: `4 ms`, `1.5 s`, `250 µs`.
pub struct Short(pub u64);

impl Display for Short {
    fn fmt(&self, formatter: &mut Formatter<'_>) -> fmt::Result {
        let (thousandths, unit) = match self.0 {
            1_000_000_000.. => (self.0 / 1_000_000, "s"),
            1_000_000.. => (self.0 / 1000, "ms"),
            nanoseconds => (nanoseconds, "µs"),
        };
        write!(formatter, "{}", thousandths / 1000)?;
        match thousandths % 1000 {
            0 => {}
            rest if rest % 100 == 0 => write!(formatter, ".{}", rest / 100)?,
            rest if rest % 10 == 0 => write!(formatter, ".{:02}", rest / 10)?,
            rest => write!(formatter, ".{rest:03}")?,
        }
        write!(formatter, " {unit}")
    }
}

/// The name of the class for a count of what should not happen: it draws attention while it grows.
pub fn class(tally: Tally) -> &'static str {
    match tally {
        Tally { total: 0, .. } => "zero",
        Tally { rate: Rate(0), .. } => "some",
        _ => "warn",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::string::ToString;

    #[test]
    fn counts_have_three_or_four_digits() {
        for (count, expected) in [
            (0, "0"),
            (9999, "9999"),
            (10_000, "10.0 k"),
            (34_549, "34.5 k"),
            (34_599, "34.5 k"),
            (728_999, "728 k"),
            (9_999_999, "9999 k"),
            (10_000_000, "10.0 M"),
            (u64::MAX, "18.4 E"),
        ] {
            assert_eq!(Count(count).to_string(), expected, "{count}");
        }
    }

    #[test]
    fn bytes_have_binary_units() {
        for (count, expected) in [
            (0, "0 B"),
            (1023, "1023 B"),
            (1024, "1.0 KiB"),
            (102_399, "99.9 KiB"),
            (102_400, "100 KiB"),
            (u64::MAX, "15.9 EiB"),
        ] {
            assert_eq!(Bytes(count).to_string(), expected, "{count}");
        }
    }

    #[test]
    fn rates_and_shares_say_when_they_are_small() {
        for (thousandths, expected) in
            [(0, "0/s"), (1, "&lt; 0.1/s"), (449, "0.4/s"), (9949, "9.9/s"), (9950, "10/s"), (34_500_000, "34.5 k/s")]
        {
            assert_eq!(PerSecond(Rate(thousandths)).to_string(), expected, "{thousandths}");
        }
        for (millionths, expected) in [
            (0, "0 %"),
            (999, "&lt; 0.1 %"),
            (61_499, "6.1 %"),
            (99_499, "9.9 %"),
            (99_500, "10 %"),
            (1_000_000, "100 %"),
        ] {
            assert_eq!(Percent(Fraction(millionths)).to_string(), expected, "{millionths}");
        }
    }

    #[test]
    fn spans_have_two_units() {
        let span = |milliseconds| Span(Ticks { ticks: milliseconds, frequency: 1000 }).to_string();
        assert_eq!(
            [span(1499), span(36_900), span(125_000), span(7_500_000), span(180_000_000)],
            ["1.4 s", "36 s", "2 min 5 s", "2 h 5 min", "2 d 2 h"]
        );
        let short = |nanoseconds| Short(nanoseconds).to_string();
        assert_eq!(
            [short(4_000_000), short(1_500_000_000), short(250_000), short(1)],
            ["4 ms", "1.5 s", "250 µs", "0.001 µs"]
        );
    }

    #[test]
    fn nothing_is_markup() {
        assert_eq!(Escaped("a<b>&\"").to_string(), "a&lt;b&gt;&amp;&quot;");
    }
}
