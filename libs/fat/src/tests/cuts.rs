//! Power cuts: at any write, with any of the writes done that were not flushed.

use super::documented::is_documented;
use super::model::{Act, Tree, contents, expected, perform};
use super::*;
use crate::Recovered;
use std::collections::BTreeSet;
use std::os::unix::fs::FileExt as _;

/// Random numbers for the choice of cuts.
struct Chance(u64);

impl Chance {
    fn next(&mut self, below: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % below
    }
}

/// A unit that the disk writes at once: its place, and its bytes.
type Block = (usize, Vec<u8>);

fn blocks(event: &Event, unit: usize) -> Vec<Block> {
    match event {
        Event::Flush => Vec::new(),
        Event::Write { block, bytes } => {
            let places = (*block as usize * BLOCK..).step_by(unit);
            places.zip(bytes.chunks(unit).map(<[u8]>::to_vec)).collect()
        }
    }
}

/// A place of the record, and the tree there: the events before it are those of the acts before it.
struct Moment {
    events: usize,
    tree: Tree,
}

/// Makes a run of acts that touches everything: folders that grow, files that grow, are replaced,
/// renamed within and across folders, and removed.
fn acts(chance: &mut Chance, count: usize) -> Vec<Act> {
    let folders = ["", "logs/", "a folder with quite a long name/", "logs/deeper/"];
    let names = ["x", "name.txt", "a rather long name of a file, so that it takes entries.text", "übrig", "y", "third"];
    let mut acts: Vec<Act> =
        folders[1..].iter().map(|folder| Act::MakeFolder(folder.trim_end_matches('/').into())).collect();
    for index in 0..count {
        let path = |chance: &mut Chance| {
            let folder = folders[chance.next(4) as usize];
            let name = names[chance.next(6) as usize];
            if chance.next(3) == 0 { format!("{folder}{name}") } else { format!("{folder}{name} {}", chance.next(5)) }
        };
        let content = pattern(index as u64, chance.next(3000) as usize);
        acts.push(match chance.next(12) {
            0..=3 => Act::Write(path(chance), content),
            4..=5 => Act::Append(path(chance), content),
            6 => Act::MakeFolder(path(chance)),
            7..=8 => Act::Remove(path(chance)),
            9..=10 => Act::Rename(path(chance), path(chance), true),
            _ => Act::Sync,
        });
    }
    acts
}

fn check_cuts(mut disk: Disk, seed: u64, count: usize, cuts: usize) {
    let mut chance = Chance(seed);
    let base = disk.bytes.clone();
    let (mut volume, mut tree) = (mounted(&mut disk), Tree::new());
    let mut moments = vec![Moment { events: 0, tree: tree.clone() }];
    for act in acts(&mut chance, count) {
        let mut after = tree.clone();
        let wanted = expected(&mut after, &act);
        assert_eq!(perform(&mut volume, &mut disk, &act), wanted, "{act:?}");
        if wanted.is_ok() {
            tree = after;
        }
        moments.push(Moment { events: disk.record.len(), tree: tree.clone() });
    }
    let record = core::mem::take(&mut disk.record);
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("volume");
    std::fs::write(&path, &base).expect("a file");
    let file = std::fs::File::options().write(true).open(&path).expect("a file");
    let unit = disk.unit;
    let put = |at: usize, bytes: &[u8]| file.write_all_at(bytes, at as u64).expect("written");
    // `durable` has what was written before the last flush; `pending` what came after it.
    let (mut durable, mut pending, mut flushed) = (base, Vec::<Block>::new(), 0);
    let mut checked = 0;
    for (index, event) in record.iter().enumerate() {
        if matches!(event, Event::Flush) {
            for (at, bytes) in pending.drain(..) {
                put(at, &bytes);
                durable[at..at + unit].copy_from_slice(&bytes);
            }
            flushed = index;
            continue;
        }
        pending.extend(blocks(event, unit));
        if chance.next(record.len() as u64) >= cuts as u64 {
            continue;
        }
        checked += 1;
        let is_all = chance.next(4) == 0;
        let chosen: Vec<&Block> = pending.iter().filter(|_| is_all || chance.next(2) == 0).collect();
        let mut after = Disk { unit, ..Disk::new(durable.clone()) };
        for (at, bytes) in &chosen {
            put(*at, bytes);
            after.bytes[*at..at + unit].copy_from_slice(bytes);
        }
        let said = program("fsck.fat", &["-n", path.to_str().expect("text")]);
        let said = String::from_utf8_lossy(&said.stdout).to_string();
        check_words(&said, index);
        // Each path has what it had at some moment since the last that is flushed.
        let floor = moments.iter().rposition(|moment| moment.events <= flushed).expect("the first moment");
        let ceiling = moments.iter().position(|moment| moment.events > index).expect("the last moment");
        let mut volume = mounted(&mut after);
        check_contents(&contents(&mut volume, &mut after), &moments[floor..=ceiling], index, false);
        let recovered = run(&mut volume, &mut after, Operation::Recover);
        assert!(
            matches!(recovered, Ok(Answer::Recovered(Recovered { is_whole: true, .. }))),
            "cut at event {index}: {recovered:?}\n{said}"
        );
        check_contents(&contents(&mut volume, &mut after), &moments[floor..=ceiling], index, true);
        run(&mut volume, &mut after, Operation::Rest).expect("rest");
        assert_eq!(after.complaint(), None, "cut at event {index}, recovered: {recovered:?}\nbefore: {said}");
        let places: BTreeSet<usize> = chosen.iter().map(|(at, _)| *at).collect();
        for at in places {
            put(at, &durable[at..at + unit]);
        }
    }
    assert!(checked > cuts / 2, "{checked} cuts of {} events", record.len());
}

/// Checks that `fsck.fat` finds nothing but what is documented.
fn check_words(said: &str, index: usize) {
    for line in said.lines().filter(|line| !line.is_empty()) {
        assert!(is_documented(line) || line.starts_with('/'), "cut at event {index}: {line:?} in\n{said}");
    }
}

/// Checks that each path has what it had at some of these moments.
fn check_contents(found: &Tree, moments: &[Moment], index: usize, is_recovered: bool) {
    let paths: BTreeSet<&String> = found.keys().chain(moments.iter().flat_map(|moment| moment.tree.keys())).collect();
    for path in paths {
        let mut past = moments.iter().map(|moment| moment.tree.get(path));
        let now = found.get(path);
        assert!(
            past.any(|then| then == now),
            "cut at event {index}, recovered: {is_recovered}: {path:?} has {:?}, which it had at none of {} moments: {:?}",
            now.map(|content| content.as_ref().map(Vec::len)),
            moments.len(),
            moments
                .iter()
                .map(|moment| moment.tree.get(path).map(|content| content.as_ref().map(Vec::len)))
                .collect::<Vec<_>>(),
        );
    }
}

/// How many runs of acts are cut: more if `CULM_FAT_ROUNDS` says so.
fn rounds() -> u64 {
    std::env::var("CULM_FAT_ROUNDS").ok().and_then(|rounds| rounds.parse().ok()).unwrap_or(2)
}

#[test]
fn a_cut_leaves_a_fat16_whole() {
    for seed in 0..rounds() {
        check_cuts(Disk::small(), seed, 120, 250);
    }
}

#[test]
fn a_cut_leaves_a_fat32_whole() {
    for seed in 100..100 + rounds() / 2 {
        check_cuts(Disk::large(), seed, 120, 150);
    }
}

#[test]
fn a_cut_leaves_a_volume_whole_on_a_disk_with_large_blocks() {
    for seed in 200..200 + rounds() / 2 {
        check_cuts(Disk::coarse(), seed, 100, 80);
        check_cuts(Disk::uneven(), seed, 100, 80);
    }
}
