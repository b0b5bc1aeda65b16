//! Counts of tests, added up over everything that runs.

use std::fmt;
use std::ops::AddAssign;

/// Tests that passed, failed and were skipped.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Tests that passed.
    pub passed: u32,
    /// Tests that failed.
    pub failed: u32,
    /// Tests that were left out.
    pub skipped: u32,
}

impl Tally {
    /// Returns what a line of a program's output counts, if it is the last line of a test program
    /// of Rust's.
    pub fn of_line(line: &str) -> Option<Self> {
        let counts = line.trim().strip_prefix("test result: ")?.split_once(". ")?.1;
        let mut tally = Self::default();
        for part in counts.split("; ") {
            let (count, what) = part.split_once(' ')?;
            let Ok(count) = count.parse() else { continue };
            match what {
                "passed" => tally.passed = count,
                "failed" => tally.failed = count,
                "ignored" => tally.skipped = count,
                _ => {}
            }
        }
        Some(tally)
    }

    /// Whether a line says that a test could not be done on this machine. Rust's test programs
    /// count such a test as passed: it finds out when it runs.
    pub fn is_skip(line: &str) -> bool {
        line.starts_with("skipped: ")
    }

    /// Counts this many of the passed tests as skipped.
    pub fn leave_out(&mut self, count: u32) {
        let count = count.min(self.passed);
        self.passed -= count;
        self.skipped += count;
    }
}

impl AddAssign for Tally {
    fn add_assign(&mut self, other: Self) {
        self.passed += other.passed;
        self.failed += other.failed;
        self.skipped += other.skipped;
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{} passed, {} failed", self.passed, self.failed)?;
        if self.skipped > 0 {
            write!(formatter, ", {} skipped", self.skipped)?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_come_from_the_last_line_of_a_test_program() {
        let line = "test result: FAILED. 3 passed; 1 failed; 2 ignored; 0 measured; 5 filtered out; finished in 1.89s";
        assert_eq!(Tally::of_line(line), Some(Tally { passed: 3, failed: 1, skipped: 2 }));
        assert_eq!(Tally::of_line("test a_test_result: ok"), None);
        assert_eq!(Tally::of_line("running 3 tests"), None);
    }

    #[test]
    fn a_skipped_test_does_not_count_as_passed() {
        assert!(Tally::is_skip("skipped: it_answers_pings: no permission for a network namespace"));
        assert!(!Tally::is_skip("test skipped: ok"));
        let mut tally = Tally { passed: 3, failed: 1, skipped: 0 };
        tally.leave_out(2);
        assert_eq!(tally, Tally { passed: 1, failed: 1, skipped: 2 });
        tally.leave_out(2);
        assert_eq!(tally.to_string(), "0 passed, 1 failed, 3 skipped");
    }
}
