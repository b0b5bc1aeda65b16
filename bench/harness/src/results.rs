//! The measurements, and one object a figure for programs; [`crate::table`] tells it to people.

use crate::targets::Targets;
use serde::{Deserialize, Serialize};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;

/// Parameters of a row: packet size, window and the like.
pub type Params = BTreeMap<String, Value>;

impl Side {
    /// The name in tables and plots.
    pub fn name(self) -> &'static str {
        match self {
            Side::Culm => "Culm",
            Side::Peer(name) => name,
        }
    }
}

/// Who was measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Side {
    /// Culm.
    Culm,
    /// A peer, by name.
    Peer(&'static str),
}

/// The measurement of one side in one row.
#[derive(Clone, Debug, Default)]
pub struct Sample {
    /// Figures by unit.
    pub figures: BTreeMap<String, f64>,
    /// Instructions per operation by part: kernel and components.
    pub parts: Vec<(String, f64)>,
    /// Points of the distribution of round trips (nanoseconds, share).
    pub distribution: Vec<(u64, f64)>,
    /// Notes that a reader needs to judge the row.
    pub notes: Vec<String>,
    /// Where the instructions went, by function.
    pub profile: Option<String>,
}

impl Sample {
    /// Adds a figure.
    pub fn set(&mut self, unit: &str, value: f64) {
        self.figures.insert(unit.to_owned(), value);
    }
}

/// One figure of both sides.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub struct Row {
    /// The benchmark.
    pub bench: String,
    /// The row within it.
    pub row: String,
    /// Its parameters.
    pub params: Params,
    /// The unit of the count.
    pub unit: String,
    /// Culm's figure.
    pub culm: Option<f64>,
    /// The peer's figure.
    pub peer: Option<f64>,
    /// Which peer.
    pub peer_name: Option<String>,
    /// The figure to reach.
    pub target: Option<f64>,
    /// Whether it is reached.
    pub ok: Option<bool>,
}

/// One row with what all sides did in it.
pub struct Entry {
    /// The benchmark.
    pub bench: &'static str,
    /// The row within it.
    pub row: String,
    /// Its parameters.
    pub params: Params,
    /// Who did what.
    pub samples: Vec<(Side, Sample)>,
}

/// All that was measured in this run.
#[derive(Default)]
pub struct Results {
    entries: Vec<Entry>,
}

impl Results {
    /// Keeps what `side` did.
    pub fn record(&mut self, side: Side, bench: &'static str, row: &str, params: &Params, sample: Sample) {
        let found = self.entries.iter_mut().find(|entry| entry.bench == bench && entry.row == row);
        let entry = match found {
            Some(entry) => entry,
            None => {
                let entry = Entry { bench, row: row.to_owned(), params: params.clone(), samples: Vec::new() };
                self.entries.push(entry);
                self.entries.last_mut().expect("an entry was just pushed")
            }
        };
        entry.samples.push((side, sample));
    }

    /// Adds a figure to what `side` did in a row.
    pub fn amend(&mut self, side: Side, bench: &str, row: &str, unit: &str, value: f64) {
        let entry = self.entries.iter_mut().find(|entry| entry.bench == bench && entry.row == row);
        let sample = entry.and_then(|entry| entry.samples.iter_mut().find(|(whose, _)| *whose == side));
        if let Some((_, sample)) = sample {
            sample.set(unit, value);
        }
    }

    /// Returns a figure of `side` in a row, if it has one.
    pub fn figure(&self, side: Side, bench: &str, row: &str, unit: &str) -> Option<f64> {
        self.sample(side, bench, row)?.figures.get(unit).copied()
    }

    /// Adds to Culm's figures of a row what `of` makes of its figure called `unit` and the peer's.
    /// Returns whether both have one.
    pub fn compare(
        &mut self,
        peer: Side,
        bench: &str,
        row: &str,
        unit: &str,
        of: impl Fn(f64, f64) -> (&'static str, f64),
    ) -> bool {
        let both = self.figure(Side::Culm, bench, row, unit).zip(self.figure(peer, bench, row, unit));
        let Some((culm, theirs)) = both else { return false };
        let (unit, value) = of(culm, theirs);
        self.amend(Side::Culm, bench, row, unit, value);
        true
    }

    /// Writes the profiles of all rows that have one to `folder`. Returns how many that were.
    pub fn write_profiles(&self, folder: &Path) -> std::io::Result<usize> {
        let mut count = 0;
        for entry in &self.entries {
            for profile in entry.samples.iter().filter_map(|(_, sample)| sample.profile.as_ref()) {
                std::fs::create_dir_all(folder)?;
                std::fs::write(folder.join(format!("{}-{}.txt", entry.bench, entry.row)), profile)?;
                count += 1;
            }
        }
        Ok(count)
    }

    /// Returns the measurement of `side` in a row, if there is one.
    pub fn sample(&self, side: Side, bench: &str, row: &str) -> Option<&Sample> {
        let entry = self.entries.iter().find(|entry| entry.bench == bench && entry.row == row)?;
        entry.samples.iter().find(|(whose, _)| *whose == side).map(|(_, sample)| sample)
    }

    /// Every row with all samples.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// One object per figure and peer; a figure that no peer has stands alone.
    pub fn rows(&self, targets: &Targets) -> Vec<Row> {
        self.entries.iter().flat_map(|entry| entry_rows(entry, targets)).collect()
    }
}

fn entry_rows(entry: &Entry, targets: &Targets) -> Vec<Row> {
    let of = |side: Side| entry.samples.iter().find(|(whose, _)| *whose == side).map(|(_, sample)| sample);
    let culm = of(Side::Culm);
    let mut units: Vec<&String> = Vec::new();
    for (_, sample) in &entry.samples {
        units.extend(sample.figures.keys());
    }
    units.sort();
    units.dedup();
    let mut rows = Vec::new();
    for unit in units {
        let ours = culm.and_then(|sample| sample.figures.get(unit)).copied();
        let peers = entry.samples.iter().filter_map(|(side, sample)| match side {
            Side::Peer(name) => sample.figures.get(unit).map(|value| (*name, *value)),
            Side::Culm => None,
        });
        let mut peers: Vec<_> = peers.map(|(name, value)| (Some(name), Some(value))).collect();
        if peers.is_empty() {
            peers.push((None, None));
        }
        for (index, (peer_name, peer)) in peers.into_iter().enumerate() {
            // The first peer is the strict one; targets are judged once.
            let target = targets.find(entry.bench, &entry.row, unit).filter(|_| index == 0);
            rows.push(Row {
                bench: entry.bench.to_owned(),
                row: entry.row.clone(),
                params: entry.params.clone(),
                unit: unit.clone(),
                culm: ours,
                peer,
                peer_name: peer_name.map(str::to_owned),
                target: target.map(|target| target.limit()),
                ok: target.and_then(|target| ours.map(|value| target.holds(value))),
            });
        }
    }
    rows
}

/// A figure with three or more digits of meaning.
pub fn number(value: Option<f64>) -> String {
    let Some(value) = value else { return "-".to_owned() };
    match value.abs() {
        magnitude if magnitude >= 100.0 => group(value.round() as i64),
        magnitude if magnitude >= 10.0 => format!("{value:.1}"),
        _ => format!("{value:.3}"),
    }
}

fn group(value: i64) -> String {
    let digits = value.unsigned_abs().to_string();
    let mut text = String::from(if value < 0 { "-" } else { "" });
    for (index, digit) in digits.chars().enumerate() {
        if index > 0 && (digits.len() - index).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_readable() {
        assert_eq!(number(Some(13_224.4)), "13,224");
        assert_eq!(number(Some(-1_000_000.0)), "-1,000,000");
        assert_eq!(number(Some(0.1234)), "0.123");
        assert_eq!(number(Some(12.34)), "12.3");
        assert_eq!(number(None), "-");
    }

    #[test]
    fn a_figure_is_paired_with_each_peer_and_judged_once() {
        let targets: Targets =
            toml::from_str("[[target]]\nbench = \"net\"\nrow = \"a\"\nunit = \"instructions\"\nmost = 10").unwrap();
        let mut results = Results::default();
        let params = Params::new();
        for (side, value) in [(Side::Culm, 9.0), (Side::Peer("one"), 90.0), (Side::Peer("two"), 80.0)] {
            let mut sample = Sample::default();
            sample.set("instructions", value);
            results.record(side, "net", "a", &params, sample);
        }
        let rows = results.rows(&targets);
        assert_eq!(rows.len(), 2);
        assert_eq!((rows[0].peer, rows[0].target, rows[0].ok), (Some(90.0), Some(10.0), Some(true)));
        assert_eq!((rows[1].peer, rows[1].target, rows[1].ok), (Some(80.0), None, None));
        let object = serde_json::to_value(&rows[0]).unwrap();
        let keys: Vec<_> = object.as_object().unwrap().keys().cloned().collect();
        assert_eq!(keys, ["bench", "culm", "ok", "params", "peer", "peer_name", "row", "target", "unit"]);
        assert!(crate::table::table(&results, &targets).contains(" ok"));
    }
}
