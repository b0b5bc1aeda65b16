//! States of a disk that was cut off while a client moved and appended
//! (`tests/components/file-moves`): the one after all steps that it has told of, or after more.

#[path = "../../../components/file-moves/src/steps.rs"]
mod steps;

use std::collections::BTreeMap;
use steps::{QUIET, Step, step};

/// Files by their paths, each with its content; folders have none.
pub type Tree = BTreeMap<String, Option<Vec<u8>>>;

/// The most steps that were done and not told of yet: the console has the least priority.
const UNTOLD: usize = 1024;

/// Returns the life whose folder a path is in.
fn life_of(path: &str) -> u64 {
    let name = path.split('/').nth(1).expect("a path begins with a slash");
    name.parse().expect("the folder of a life is a number")
}

/// Does a step.
fn apply(tree: &mut Tree, step: Step) {
    match step {
        Step::Folder(path) => drop(tree.insert(path, None)),
        Step::Replace(path, bytes) => drop(tree.insert(path, Some(bytes))),
        Step::Append(path, bytes) => {
            let content = tree.entry(path).or_insert(Some(vec![]));
            content.as_mut().expect("a folder is not appended to").extend(bytes);
        }
        Step::Move(from, to) => {
            let is_moved =
                |path: &str| path.strip_prefix(&from).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'));
            let moved: Vec<String> = tree.keys().filter(|path| is_moved(path)).cloned().collect();
            for path in moved {
                let content = tree.remove(&path).expect("it is there");
                tree.insert(to.clone() + &path[from.len()..], content);
            }
        }
    }
}

/// Finds the state in which a life has left its folder, after `least` steps or more; returns it as
/// it is after recovery.
fn find(life: u64, found: &Tree, least: usize) -> Option<Tree> {
    let mut state = Tree::new();
    for number in 0..least + UNTOLD {
        let before = state.clone();
        if number >= least && before == *found {
            return Some(before);
        }
        let step = step(life, number as u64);
        let is_move = matches!(step, Step::Move(..));
        apply(&mut state, step);
        // A cut can leave both names, of which recovery removes the old one.
        let both = || before.iter().chain(&state).map(|(path, content)| (path.clone(), content.clone())).collect();
        if number >= least && is_move && *found == both() {
            return Some(state);
        }
    }
    None
}

/// What lives of such a client have left, and what the present one has told of.
#[derive(Clone, Debug, Default)]
pub struct Moves {
    /// The folders as the machine found them.
    before: Tree,
    /// The same as they are after recovery.
    recovered: Tree,
    /// Where the record ended when it was known that each step was done, in their order.
    done: Vec<u64>,
}

impl Moves {
    /// Returns how many steps the present life has told of.
    pub fn done(&self) -> usize {
        self.done.len()
    }

    /// Returns where the record ended in the pauses of the present life: nothing follows there what
    /// its last step has flushed.
    pub fn pauses(&self) -> impl Iterator<Item = u64> {
        QUIET.iter().filter_map(|steps| self.done.get(*steps as usize - 1)).copied()
    }

    /// Takes it that so many steps were told of when the record ended there.
    pub fn told(&mut self, count: usize, place: u64) {
        self.done.resize(count, place);
    }

    /// Checks a disk that was cut off where the record ended. Returns what the next machine finds.
    pub fn check(&self, found: &Tree, end: u64, about: impl Fn() -> String) -> Self {
        let life = self.before.keys().map(|path| life_of(path)).max().unwrap_or(0) + 1;
        let (new, old): (Tree, Tree) = found.clone().into_iter().partition(|(path, _)| life_of(path) == life);
        assert!(
            old == self.before || old == self.recovered,
            "{}: what was there before life {life} has changed",
            about()
        );
        let least = self.done.iter().filter(|place| **place <= end).count();
        let Some(state) = find(life, &new, least) else {
            let sizes: Vec<_> = new.iter().map(|(path, content)| (path, content.as_ref().map(Vec::len))).collect();
            panic!("{}: life {life} has told of {least} steps, and has left {sizes:?}", about())
        };
        let recovered = self.recovered.clone().into_iter().chain(state).collect();
        Self { before: found.clone(), recovered, done: vec![] }
    }

    /// Returns whether what was found later is what recovery is to leave, and no life has begun.
    pub fn are_recovered(&self, later: &Self) -> bool {
        later.before == self.recovered
    }
}
