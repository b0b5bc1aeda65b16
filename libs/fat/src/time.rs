//! Times of entries: seconds since 1970 on one side, FAT's fields on the other.

use lamfat::{Date, DateTime, Time, TimeProvider};

/// Days from 1970 to 1980, where FAT's time begins.
const FIRST_DAY: u64 = 3652;
/// Days from 1970 to 2108, where it ends.
const LAST_DAY: u64 = 50_403;
const DAY: u64 = 86_400;

/// A moment as a directory entry holds it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Stamp {
    pub(crate) date: u16,
    pub(crate) time: u16,
}

/// Returns year, month and day of a day since 1970.
fn civil(day: u64) -> (u64, u64, u64) {
    // Counted in eras of 400 years that begin in March, so that a leap day is the last of its year.
    let shifted = day + 719_468;
    let (era, of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let month_from_march = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month_from_march + 2) / 5 + 1;
    let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
    (era * 400 + year_of_era + u64::from(month <= 2), month, day)
}

/// Returns the day since 1970 of a date from 1980 on.
fn day_of(year: u64, month: u64, day: u64) -> u64 {
    let year = if month <= 2 { year - 1 } else { year };
    let (era, year_of_era) = (year / 400, year % 400);
    let month_from_march = if month > 2 { month - 3 } else { month + 9 };
    let of_year = (153 * month_from_march + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + of_year - 719_468
}

impl Stamp {
    /// Makes a stamp of seconds since 1970; those outside of FAT's time become its first or last.
    pub(crate) fn from_unix(seconds: u64) -> Self {
        let seconds = seconds.clamp(FIRST_DAY * DAY, LAST_DAY * DAY - 1);
        let (year, month, day) = civil(seconds / DAY);
        let second = seconds % DAY;
        let date = (year - 1980) << 9 | month << 5 | day;
        let time = (second / 3600) << 11 | (second / 60 % 60) << 5 | (second % 60 / 2);
        Self { date: date as u16, time: time as u16 }
    }

    /// Returns the seconds since 1970; of a date that is none, those of 1980.
    pub(crate) fn unix(self) -> u64 {
        let (date, time) = (u64::from(self.date), u64::from(self.time));
        let (year, month, day) = (1980 + (date >> 9), date >> 5 & 15, date & 31);
        if !(1..=12).contains(&month) || day == 0 {
            return FIRST_DAY * DAY;
        }
        day_of(year, month, day) * DAY + (time >> 11) * 3600 + (time >> 5 & 63) * 60 + (time & 31) * 2
    }
}

/// The time that `lamfat` writes into entries.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Now(pub(crate) Stamp);

impl TimeProvider for Now {
    fn get_current_date(&self) -> Date {
        let date = self.0.date;
        Date::new(1980 + (date >> 9), (date >> 5 & 15).clamp(1, 12), (date & 31).clamp(1, 31))
    }

    fn get_current_date_time(&self) -> DateTime {
        let time = self.0.time;
        let (hour, minute, second) = ((time >> 11).min(23), (time >> 5 & 63).min(59), ((time & 31) * 2).min(59));
        DateTime::new(self.get_current_date(), Time::new(hour, minute, second, 0))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_survives_but_for_its_odd_second() {
        for (seconds, date, time) in [
            (0, 1 << 5 | 1, 0),
            (951_827_696, 20 << 9 | 2 << 5 | 29, 12 << 11 | 34 << 5 | 28),
            (u64::MAX, 127 << 9 | 12 << 5 | 31, 23 << 11 | 59 << 5 | 29),
        ] {
            assert_eq!(Stamp::from_unix(seconds), Stamp { date, time }, "{seconds}");
        }
        for seconds in (FIRST_DAY * DAY..LAST_DAY * DAY).step_by(999_983) {
            assert_eq!(Stamp::from_unix(seconds).unix(), seconds & !1);
        }
    }
}
