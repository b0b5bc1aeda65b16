//! Rows that a program in the guest counts off by itself: it sets `hint #96` (the row's number in
//! x0, its rounds in x1) before a loop, `hint #97` after it, and perhaps `hint #98` within it, with
//! the rounds so far (`bench/guest`).

use crate::counters::Mark;
use crate::culm;
use crate::lab::{CORE, Subject};
use crate::machine::BootedMachine;
use crate::profile;
use crate::results::{Params, Sample};
use anyhow::{Result, bail};
use culm_tool::image::report::Report;
use serde_json::json;
use std::time::{Duration, Instant};

/// The number of the mark before a loop.
pub const BEGIN: u64 = 96;
/// The number of the mark after it.
pub const END: u64 = 97;
/// The number of a mark within it.
const LAP: u64 = 98;

/// For the next row to end; Linux has to boot before the first one.
const PATIENCE: Duration = Duration::from_secs(120);

/// Waits until so many rows have ended.
pub fn wait(machine: &mut BootedMachine, rows: usize) -> Result<Vec<Mark>> {
    let (mut ended, mut since) = (0, Instant::now());
    loop {
        crate::spawn::go_on()?;
        let marks = machine.control().marks()?;
        let count = marks.iter().filter(|mark| mark.number == END).count();
        if count >= rows {
            return Ok(marks);
        }
        if count > ended {
            (ended, since) = (count, Instant::now());
        }
        if since.elapsed() > PATIENCE {
            bail!(
                "{count} of {rows} rows ended, and no other in time. The guest's console's last lines:\n{}",
                machine.last_lines()
            );
        }
        std::thread::sleep(Duration::from_millis(50));
    }
}

/// Returns the cost of a row's loop for each of its rounds, which the row calls `what`; by
/// component if `image` is given, which is Culm's.
pub fn between(marks: &[Mark], row: u64, what: &str, image: Option<&Report>) -> Option<(Sample, Params)> {
    let begin = marks.iter().find(|mark| mark.number == BEGIN && mark.x0 == row)?;
    let end = marks.iter().find(|mark| mark.number == END && mark.x0 == row)?;
    let rounds = begin.x1.max(1) as f64;
    let mut sample = sample(what, |count| (count(end) - count(begin)) as f64 / rounds);
    let laps = marks.iter().filter(|mark| mark.number == LAP && mark.x0 == row);
    if let Some(time) = fastest(begin, laps) {
        sample.set(&format!("ns/{what}"), time);
    }
    if let Some(image) = image {
        sample.parts.truncate(1);
        sample.parts.extend(culm::parts(image, &end.spaces_since(begin), rounds));
    }
    Some((sample, [(format!("{what}s"), json!(begin.x1))].into()))
}

/// Returns what the second of two rows, which does the same for longer, costs beyond the first, for
/// each of its further rounds. Both are given by their numbers in marks and their rounds. Times are
/// those of the second alone: the difference of two would say more of the host than of the guest.
pub fn beyond(marks: &[Mark], [short, long]: [(u64, u32); 2], what: &str) -> Option<Sample> {
    let of = |number, (row, _)| marks.iter().find(|mark| mark.number == number && mark.x0 == row);
    let ends = [(of(BEGIN, short)?, of(END, short)?), (of(BEGIN, long)?, of(END, long)?)];
    let within = |(begin, end): (&Mark, &Mark), count: fn(&Mark) -> u64| count(end) as f64 - count(begin) as f64;
    let rounds = f64::from(long.1) - f64::from(short.1);
    let mut sample = sample(what, |count| (within(ends[1], count) - within(ends[0], count)) / rounds.max(1.0));
    let time = within(ends[1], |mark| mark.time);
    sample.set(&format!("ns/{what}"), time / f64::from(long.1.max(1)));
    sample.set(CORE, within(ends[1], |mark| mark.busy) / time);
    Some(sample)
}

/// The figures of a round of Linux's, by how much each count grows in it.
fn sample(what: &str, per_round: impl Fn(fn(&Mark) -> u64) -> f64) -> Sample {
    let mut sample = Sample::default();
    sample.set(&format!("instructions/{what}"), per_round(|mark| mark.counters.kernel + mark.counters.user));
    sample.set(&format!("entries/{what}"), per_round(|mark| mark.counters.vectors.iter().sum()));
    sample.set(&format!("system calls/{what}"), per_round(|mark| mark.counters.svc));
    sample.set(&format!("switches/{what}"), per_round(|mark| mark.switches));
    sample.set(&format!("ns/{what}"), per_round(|mark| mark.time));
    sample.set(CORE, per_round(|mark| mark.busy) / per_round(|mark| mark.time));
    sample.parts = [("kernel", per_round(|mark| mark.counters.kernel)), ("user", per_round(|mark| mark.counters.user))]
        .map(|(name, count)| (name.to_owned(), count))
        .into();
    sample
}

/// The time of a round in the fastest of a row's parts, if there are any.
fn fastest<'a>(begin: &Mark, laps: impl Iterator<Item = &'a Mark>) -> Option<f64> {
    let mut before = (begin.time, 0);
    let times = laps.map(|lap| {
        let (time, rounds) = std::mem::replace(&mut before, (lap.time, lap.x1));
        (lap.time - time) as f64 / lap.x1.saturating_sub(rounds).max(1) as f64
    });
    times.min_by(f64::total_cmp)
}

/// Where a row's instructions went, for each of its rounds, which the row calls `what`.
pub fn profile(subject: &Subject, marks: &[Mark], row: u64, what: &str) -> Option<String> {
    let position = |number| marks.iter().position(|mark| mark.number == number && mark.x0 == row);
    let (begin, end) = (position(BEGIN)?, position(END)?);
    let blocks = subject.machine.mark_profile(end)?.since(&subject.machine.mark_profile(begin)?);
    Some(profile::text(&blocks, subject.image.as_ref()?, marks[begin].x1.max(1) as f64, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_is_what_lies_between_its_marks() {
        let mark = |number, x0, kernel, time| -> Mark {
            let text = format!(
                r#"{{"number":{number},"x0":{x0},"x1":10,"time":{time},"busy":{time},"switches":0,"kernel":{kernel},"user":5,"wfi":0,
                "svc":0,"vectors":[0,0,0,0,0,0,0,0,0,0,0,0,0,0,0,0],"spaces":[]}}"#
            );
            serde_json::from_str(&text).unwrap()
        };
        let marks = [mark(BEGIN, 1, 0, 0), mark(BEGIN, 7, 100, 50), mark(END, 7, 140, 250)];
        let (sample, _) = between(&marks, 7, "round", None).unwrap();
        assert_eq!((sample.figures["instructions/round"], sample.figures["ns/round"]), (4.0, 20.0));
        assert!(between(&marks, 1, "round", None).is_none(), "it has not ended");
        assert!(beyond(&marks, [(1, 5), (7, 10)], "round").is_none(), "it has not ended");
        let lap = |x1, time| Mark { x1, ..mark(LAP, 7, 120, time) };
        let marks = [mark(BEGIN, 7, 100, 50), lap(5, 100), lap(10, 250), mark(END, 7, 140, 251)];
        let (sample, _) = between(&marks, 7, "round", None).unwrap();
        assert_eq!((sample.figures["instructions/round"], sample.figures["ns/round"]), (4.0, 10.0), "the fastest part");
        // To begin and to end takes 10 instructions, a round 4.
        let long = [mark(BEGIN, 8, 200, 300), mark(END, 8, 290, 700)];
        let marks = [mark(BEGIN, 7, 100, 50), mark(END, 7, 150, 250), long[0].clone(), long[1].clone()];
        let sample = beyond(&marks, [(7, 10), (8, 20)], "round").unwrap();
        assert_eq!((sample.figures["instructions/round"], sample.figures["ns/round"]), (4.0, 20.0));
    }
}
