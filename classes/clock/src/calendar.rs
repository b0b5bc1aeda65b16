//! Time of day in words: UTC, by the Gregorian calendar.

use core::fmt;
use culm::time::Duration;

const SECONDS_PER_DAY: u64 = 86_400;

/// Days from 0000-03-01 to 1970-01-01.
const DAYS_TO_1970: u64 = 719_468;

/// Days of 400 years, after which the calendar repeats.
const DAYS_PER_ERA: u64 = 146_097;

const WEEKDAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];

const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];

/// A moment by the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct TimeOfDay(Duration);

/// A day by the calendar.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Date {
    /// The year.
    pub year: u64,
    /// The month, from 1.
    pub month: u64,
    /// The day of the month, from 1.
    pub day: u64,
}

impl TimeOfDay {
    /// Creates the moment that is so long after the beginning of 1970.
    pub const fn new(since_1970: Duration) -> Self {
        Self(since_1970)
    }

    /// Returns the time since the beginning of 1970, leap seconds not counted.
    pub const fn since_1970(self) -> Duration {
        self.0
    }

    /// Returns the day.
    pub const fn date(self) -> Date {
        // A year begins in March here, so that the leap day is its last and months before it have
        // lengths of a pattern: 153 days to each five.
        let days = self.0.as_secs() / SECONDS_PER_DAY + DAYS_TO_1970;
        let (era, day) = (days / DAYS_PER_ERA, days % DAYS_PER_ERA);
        let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
        let day = day - (365 * year + year / 4 - year / 100);
        let month = (5 * day + 2) / 153;
        let day = day - (153 * month + 2) / 5 + 1;
        let month = if month < 10 { month + 3 } else { month - 9 };
        Date { year: era * 400 + year + (month <= 2) as u64, month, day }
    }

    /// Returns hour, minute and second.
    const fn clock(self) -> [u64; 3] {
        let seconds = self.0.as_secs() % SECONDS_PER_DAY;
        [seconds / 3600, seconds / 60 % 60, seconds % 60]
    }

    /// Returns what shows the moment as HTTP wants it (RFC 9110 §5.6.7).
    pub const fn http(self) -> Http {
        Http(self)
    }
}

/// As RFC 3339 has it, to the millisecond.
impl fmt::Display for TimeOfDay {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = self.date();
        let [hour, minute, second] = self.clock();
        let milliseconds = self.0.subsec_millis();
        write!(formatter, "{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{milliseconds:03}Z")
    }
}

/// A moment as HTTP writes it: `Sun, 06 Nov 1994 08:49:37 GMT`.
#[derive(Clone, Copy, Debug)]
pub struct Http(TimeOfDay);

impl fmt::Display for Http {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Date { year, month, day } = self.0.date();
        let [hour, minute, second] = self.0.clock();
        let weekday = WEEKDAYS[(self.0.0.as_secs() / SECONDS_PER_DAY % 7) as usize];
        let month = MONTHS[(month - 1) as usize];
        write!(formatter, "{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    extern crate std;
    use std::format;

    fn at(seconds: u64) -> TimeOfDay {
        TimeOfDay::new(Duration::from_secs(seconds))
    }

    #[test]
    fn moments_are_written_as_the_standards_have_them() {
        assert_eq!(format!("{}", at(784_111_777).http()), "Sun, 06 Nov 1994 08:49:37 GMT");
        assert_eq!(format!("{}", at(0)), "1970-01-01T00:00:00.000Z");
        assert_eq!(format!("{}", at(951_782_400)), "2000-02-29T00:00:00.000Z");
        assert_eq!(format!("{}", at(4_107_542_400)), "2100-03-01T00:00:00.000Z");
    }

    /// Day by day through eight hundred years, as one turns the leaves of a calendar.
    #[test]
    fn each_day_follows_the_one_before() {
        let mut expected = Date { year: 1970, month: 1, day: 1 };
        for day in 0..292_200 {
            assert_eq!(at(day * SECONDS_PER_DAY + day % SECONDS_PER_DAY).date(), expected);
            let Date { year, month, .. } = expected;
            let leap = year % 4 == 0 && (year % 100 != 0 || year % 400 == 0);
            let length = match month {
                2 => 28 + u64::from(leap),
                4 | 6 | 9 | 11 => 30,
                _ => 31,
            };
            expected.day += 1;
            if expected.day > length {
                (expected.day, expected.month) = (1, month + 1);
            }
            if expected.month > 12 {
                (expected.month, expected.year) = (1, year + 1);
            }
        }
    }
}
