//! Crash reports in the log: the lines around the supervisor's first one of a fault.
//!
//! The supervisor says who has faulted and why (`NAME faulted: CAUSE`), then what it knows besides
//! (`registers NAME`, `backtrace NAME`), and last what it does. Nobody else can say that in its
//! name: the serial virtualiser puts a client's own name before what is signed by another.

use alloc::collections::VecDeque;
use alloc::vec::Vec;

/// The most bytes of a report that were said before the fault.
const BEFORE: usize = 2048;

/// The most bytes that were said after it. Others may say something between the supervisor's lines,
/// and what a domain said before it died may be printed behind them.
const AFTER: usize = 1536;

/// The most bytes of its first line, which a serial virtualiser that keeps to its class does not
/// exceed.
const LINE: usize = 448;

/// The most bytes of a report.
pub const SIZE: usize = 4096;
const _: () = assert!(LINE + HEAD.len() + BEFORE + AFTER <= SIZE);

/// Reports that wait to be taken; of further faults there are none.
const WAITING: usize = 8;

/// The text between a report's first line and the lines around it.
const HEAD: &[u8] = b"\nThe log before and after:\n\n";

/// How the supervisor's lines begin that are not its last of a fault.
const DETAILS: [&[u8]; 2] = [b"registers ", b"backtrace "];

/// A report.
#[derive(Debug, Default)]
struct Report {
    text: Vec<u8>,
    /// Bytes that may be added.
    room: usize,
    /// The supervisor has said what it does.
    is_decided: bool,
    is_complete: bool,
}

impl Report {
    /// A report that begins with the fault's line, and with what was said before.
    fn new(line: &[u8], before: &[u8]) -> Self {
        let text = [&line[..line.len().min(LINE)], HEAD, before].concat();
        Self { text, room: AFTER, is_decided: false, is_complete: false }
    }

    fn add(&mut self, line: &[u8]) {
        match self.room.checked_sub(line.len()) {
            Some(room) => {
                self.text.extend_from_slice(line);
                self.room = room;
            }
            None => self.is_complete = true,
        }
    }
}

/// The reports that were found in the log and not taken, and what the next one may begin with.
#[derive(Debug, Default)]
pub struct Reports {
    earlier: Vec<u8>,
    found: VecDeque<Report>,
    /// Faults of which there is no report, because too many waited.
    missing: u64,
}

impl Reports {
    /// Reads the log's next lines.
    pub fn read(&mut self, lines: &[u8]) {
        let mut log = core::mem::take(&mut self.earlier);
        for line in lines.split_inclusive(|byte| *byte == b'\n') {
            let said = said_by_supervisor(line);
            let is_fault = said.is_some_and(is_fault);
            let is_last = said.is_some_and(|said| !DETAILS.iter().any(|detail| said.starts_with(detail)));
            for report in self.found.iter_mut().filter(|report| !report.is_complete) {
                report.add(line);
                report.is_decided |= is_last;
            }
            log.extend_from_slice(line);
            if is_fault && self.found.len() < WAITING {
                self.found.push_back(Report::new(line, last_lines(&log, BEFORE)));
            } else if is_fault {
                self.missing += 1;
            }
        }
        for report in self.found.iter_mut().filter(|report| report.is_decided) {
            report.is_complete = true;
        }
        let kept = last_lines(&log, BEFORE).len();
        log.drain(..log.len() - kept);
        self.earlier = log;
    }

    /// Returns the first report that is complete.
    pub fn first(&self) -> Option<&[u8]> {
        self.found.front().filter(|report| report.is_complete).map(|report| report.text.as_slice())
    }

    /// Forgets the first report.
    pub fn remove_first(&mut self) {
        self.found.pop_front();
    }

    /// Returns how many faults there were of which there is no report.
    pub fn missing(&self) -> u64 {
        self.missing
    }
}

/// Returns the last whole lines of a text that have so many bytes at most.
fn last_lines(text: &[u8], most: usize) -> &[u8] {
    let Some(begin) = text.len().checked_sub(most).filter(|begin| *begin > 0) else { return text };
    // The line's end before may be the last byte that is left out.
    let next = text[begin - 1..].iter().position(|byte| *byte == b'\n');
    next.map_or(&[], |end| &text[begin + end..])
}

/// Returns the words of a line that the supervisor has signed: `[time] level supervisor: words`,
/// with the time of day in front if that is known.
fn said_by_supervisor(line: &[u8]) -> Option<&[u8]> {
    let signed = match line.split_at_checked(TIME_OF_DAY) {
        Some((time, rest)) if is_time_of_day(time) => rest,
        _ => line,
    };
    let end = signed.strip_prefix(b"[").and_then(|rest| rest.iter().position(|byte| *byte == b']'))?;
    // Behind both brackets: a space, a level of six bytes with its spaces, and the name.
    signed.get(end + 2..)?.strip_prefix(b" ")?.get(6..)?.strip_prefix(b"supervisor: ")
}

/// Bytes of `2026-11-22T15:04:05.123Z `.
const TIME_OF_DAY: usize = 25;

fn is_time_of_day(text: &[u8]) -> bool {
    let is_part = |byte: &u8| byte.is_ascii_digit() || matches!(byte, b'-' | b':' | b'.' | b'T');
    text.strip_suffix(b"Z ").is_some_and(|digits| digits.iter().all(is_part))
}

/// Whether these words are `NAME faulted: CAUSE`.
fn is_fault(words: &[u8]) -> bool {
    let name = words.iter().take_while(|byte| **byte != b' ').count();
    words[name..].starts_with(b" faulted: ")
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    const FAULT: &str =
        "2026-11-22T15:04:05.123Z [    1.706749] error supervisor: http faulted: read at 0x8 (pc 0x2)\n";
    const DETAIL: &str = "[    1.706750] error supervisor: registers http: lr 0x1\n";
    const DECISION: &str = "[    1.706751] warn  supervisor: http restarts in 10 ms (restart 1 of 8)\n";
    const OTHER: &str = "[    1.706752] info  chatter: supervisor: http faulted: it says\n";

    fn first(reports: &Reports) -> String {
        reports.first().map(|text| String::from_utf8_lossy(text).into_owned()).unwrap_or_default()
    }

    #[test]
    fn a_fault_is_reported_with_the_lines_before_and_after() {
        let mut reports = Reports::default();
        reports.read(OTHER.as_bytes());
        reports.read([OTHER, FAULT, DETAIL].concat().as_bytes());
        assert_eq!(reports.first(), None, "the supervisor has not said what it does");
        reports.read([DECISION, OTHER].concat().as_bytes());
        let log = [OTHER, OTHER, FAULT, DETAIL, DECISION, OTHER].concat();
        assert_eq!(first(&reports), format!("{FAULT}\nThe log before and after:\n\n{log}"));
        reports.remove_first();
        reports.read(OTHER.as_bytes());
        assert_eq!(reports.first(), None);
    }

    #[test]
    fn each_of_two_faults_has_its_report() {
        let mut reports = Reports::default();
        let second = FAULT.replace("http", "echo");
        reports.read([FAULT, DECISION, &second, DECISION].concat().as_bytes());
        assert!(first(&reports).starts_with(FAULT));
        reports.remove_first();
        assert!(first(&reports).starts_with(&second));
    }

    #[test]
    fn only_the_supervisor_reports_faults() {
        let mut reports = Reports::default();
        for line in [
            "chatter: [    1.706749] error supervisor: http faulted: x\n",
            "chatter: 2026-11-22T15:04:05.123Z [ 1.0] error supervisor: http faulted: x\n",
            "[    1.706749] error supervisors: http faulted: x\n",
            "[    1.706749] error supervisor: the system halts because http faulted\n",
            OTHER,
        ] {
            reports.read(line.as_bytes());
            reports.read(DECISION.as_bytes());
            assert_eq!(reports.first(), None, "{line}");
        }
    }

    #[test]
    fn faults_beyond_those_that_wait_are_counted() {
        let mut reports = Reports::default();
        reports.read([FAULT, DECISION].concat().repeat(WAITING + 3).as_bytes());
        assert_eq!(reports.missing(), 3);
    }

    #[test]
    fn what_is_kept_of_earlier_lines_is_bounded_and_whole() {
        let mut reports = Reports::default();
        for _ in 0..1000 {
            reports.read(OTHER.as_bytes());
        }
        reports.read(&[FAULT.as_bytes(), &OTHER.as_bytes().repeat(100)].concat());
        let report = first(&reports);
        assert!(report.len() <= SIZE && report.len() > SIZE / 2);
        assert!(report.lines().skip(3).all(|line| OTHER.starts_with(line) || FAULT.starts_with(line)), "{report}");
        assert_eq!(last_lines(b"ab\ncd\n", 3), b"cd\n");
        assert_eq!(last_lines(b"ab\ncd\n", 4), b"cd\n");
        assert_eq!(last_lines(b"abcd", 2), b"");
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_log_is_too_odd(pieces in proptest::collection::vec(prop_oneof![
            proptest::collection::vec(any::<u8>(), 0..3000),
            Just(FAULT.as_bytes().to_vec()),
            Just(FAULT.as_bytes()[25..].to_vec()),
            Just(DECISION.as_bytes().to_vec()),
        ], 0..40)) {
            let mut reports = Reports::default();
            for piece in pieces {
                reports.read(&piece);
                prop_assert!(reports.earlier.len() <= BEFORE && reports.found.len() <= WAITING);
                prop_assert!(reports.found.iter().all(|report| report.text.len() <= SIZE));
            }
        }
    }
}
