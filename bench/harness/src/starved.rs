//! How long others kept QEMU from running.
//!
//! Instructions per operation are those of a machine that is never stopped. One that hardly runs
//! finds more work waiting each time that it does: it takes packets in larger batches than it would
//! by itself, or its clocks and timeouts run ahead of it.

use anyhow::{Result, bail};
use std::collections::BTreeMap;
use std::fs;

/// The largest share of a window for which QEMU may have waited for a processor of the host. Beyond
/// it a row says more of the host than of what is measured.
const MOST: f64 = 0.5;

/// Nanoseconds for which a thread has run, and for which it could have and did not (the host's
/// `Documentation/scheduler/sched-stats.rst`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Times {
    ran: u64,
    waited: u64,
}

/// The times of all threads of a process, by thread. None where the host's kernel does not tell.
#[derive(Clone, Debug, Default)]
pub struct ThreadTimes(BTreeMap<u32, Times>);

impl ThreadTimes {
    /// Returns those of a process so far.
    pub fn of(process: u32) -> ThreadTimes {
        let threads = fs::read_dir(format!("/proc/{process}/task")).into_iter().flatten().flatten();
        let times = threads.filter_map(|thread| {
            // A thread may end meanwhile.
            let times = parse(&fs::read_to_string(thread.path().join("schedstat")).ok()?)?;
            Some((thread.file_name().to_str()?.parse().ok()?, times))
        });
        ThreadTimes(times.collect())
    }

    /// Returns for how many seconds, at least, other processes have kept this one from running
    /// since then: what any of its threads has waited, without what its other threads have run in
    /// that time, for which it may have waited too.
    fn starved_since(&self, before: &ThreadTimes) -> f64 {
        let since = |(thread, now): (&u32, &Times)| {
            let then = before.0.get(thread).copied().unwrap_or_default();
            Times { ran: now.ran.saturating_sub(then.ran), waited: now.waited.saturating_sub(then.waited) }
        };
        let threads: Vec<Times> = self.0.iter().map(since).collect();
        let ran: u64 = threads.iter().map(|thread| thread.ran).sum();
        let outside = threads.iter().map(|thread| thread.waited.saturating_sub(ran - thread.ran));
        outside.max().unwrap_or(0) as f64 / 1e9
    }

    /// Refuses a window of so many seconds, which began at `before` and ends now, in which QEMU
    /// hardly ran.
    ///
    /// # Errors
    ///
    /// It says for how much of the window QEMU waited, and what can be done.
    pub fn check_since(&self, before: &ThreadTimes, seconds: f64) -> Result<()> {
        let share = self.starved_since(before) / seconds;
        if share > MOST {
            bail!(
                "for {:.0} % of the time other processes of the host kept QEMU from running: a row of such a machine \
                 would say nothing. Measure again when the host is quieter, or keep such rows by --busy",
                share * 100.0
            );
        }
        Ok(())
    }
}

/// Reads a thread's times: those that it ran and waited, and how often it ran.
fn parse(text: &str) -> Option<Times> {
    let mut words = text.split_whitespace().map(|word| word.parse().ok());
    Some(Times { ran: words.next()??, waited: words.next()?? })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: u64 = 1_000_000_000;

    fn times(threads: &[(u32, u64, u64)]) -> ThreadTimes {
        ThreadTimes(threads.iter().map(|&(thread, ran, waited)| (thread, Times { ran, waited })).collect())
    }

    #[test]
    fn a_thread_that_waits_for_the_process_itself_is_not_starved() {
        let before = times(&[(1, SECOND, SECOND), (2, 5 * SECOND, 0)]);
        let cases = [
            // It ran all the time.
            ([(1, SECOND, SECOND), (2, 7 * SECOND, 0)], 0.0),
            // Its other thread had the processor.
            ([(1, SECOND, 3 * SECOND), (2, 7 * SECOND, 0)], 0.0),
            // Others had it as well, for a while.
            ([(1, SECOND, 3 * SECOND), (2, 6 * SECOND, SECOND)], 1.0),
            // What a new thread has is of this time.
            ([(1, SECOND, SECOND), (3, 0, 2 * SECOND)], 2.0),
        ];
        for (after, expected) in cases {
            assert_eq!(times(&after).starved_since(&before), expected, "{after:?}");
        }
        assert_eq!(times(&[]).starved_since(&before), 0.0, "the host does not tell");
    }

    #[test]
    fn a_window_in_which_qemu_hardly_ran_is_refused() {
        let (before, after) = (times(&[(1, 0, 0)]), times(&[(1, 700_000_000, 1_300_000_000)]));
        let refusal = after.check_since(&before, 2.0).unwrap_err().to_string();
        assert!(refusal.starts_with("for 65 % of the time") && refusal.contains("--busy"), "{refusal}");
        assert!(after.check_since(&before, 3.0).is_ok());
    }

    #[test]
    fn the_host_tells_of_a_process() {
        assert_eq!(parse("0 5267091 1\n"), Some(Times { ran: 0, waited: 5_267_091 }));
        assert_eq!(parse("0\n"), None);
        let before = ThreadTimes::of(std::process::id());
        assert!(!before.0.is_empty(), "a kernel without CONFIG_SCHED_INFO");
        assert!(ThreadTimes::of(u32::MAX).0.is_empty());
    }
}
