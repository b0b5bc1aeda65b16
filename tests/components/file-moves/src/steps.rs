//! The steps: which one comes when follows from its number alone. So who knows how many were done
//! knows what is there; the system test of power cuts reads this file too.

use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;

/// The most bytes of a step.
pub const MOST: usize = 6000;

/// After so many steps both files begin anew, so that they do not grow without end.
const RENEWAL: u64 = 48;

/// Steps that make folders, before all others.
const FOLDERS: u64 = 4;

/// After so many steps of a life it asks for nothing for a while: after its last folder, and after
/// its first file. So they are durable by their own flushes, if no later one follows at once.
pub const QUIET: [u64; 2] = [FOLDERS, FOLDERS + 1];

/// A step. It is durable before the next one begins.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Step {
    /// Makes a folder.
    Folder(String),
    /// Writes a file anew, which takes the place of the one that is there.
    Replace(String, Vec<u8>),
    /// Writes behind a file's end, or makes it.
    Append(String, Vec<u8>),
    /// Gives a file or folder another path.
    Move(String, String),
}

/// Returns a step of a life, which has a folder for itself.
pub fn step(life: u64, number: u64) -> Step {
    let folder = format!("/{life}");
    let Some(turn) = number.checked_sub(FOLDERS) else {
        return Step::Folder(match number {
            0 => folder,
            1 => format!("{folder}/left"),
            2 => format!("{folder}/right"),
            _ => folder + &tree(0),
        });
    };
    // Of six steps two move the file and one moves the folder.
    let (round, kind) = (turn / 6, turn % 6);
    let file = |moves: u64| format!("/{life}{}", file(2 * round + moves));
    let tree = |moves: u64| format!("/{life}{}", tree(round + moves));
    let within = || tree(0) + "/within";
    let bytes = || content(life, number);
    match (turn % RENEWAL, kind) {
        (0, _) => Step::Replace(file(0), bytes()),
        (2, _) => Step::Replace(within(), bytes()),
        (_, 0) => Step::Append(file(0), bytes()),
        (_, 1) => Step::Move(file(0), file(1)),
        (_, 2) => Step::Append(within(), bytes()),
        (_, 3) => Step::Move(tree(0), tree(1)),
        (_, 4) => Step::Append(file(1), bytes()),
        _ => Step::Move(file(1), file(2)),
    }
}

/// Returns where the file is after so many moves: each other one leads to the other folder.
fn file(moves: u64) -> String {
    let name = if moves.is_multiple_of(2) { "file" } else { "the-file-under-a-name-that-takes-many-entries.txt" };
    format!("/{}/{name}", side(moves.div_ceil(2)))
}

/// Returns where the folder is after so many moves, each of which leads to the other folder.
fn tree(moves: u64) -> String {
    let name = if moves % 4 < 2 { "tree" } else { "the-folder-under-a-name-that-takes-many-entries" };
    format!("/{}/{name}", side(moves))
}

fn side(moves: u64) -> &'static str {
    if moves.is_multiple_of(2) { "left" } else { "right" }
}

/// Returns the bytes of a step: a few, or many.
fn content(life: u64, number: u64) -> Vec<u8> {
    let seed = (life << 32 ^ number).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(23) | 1;
    let most = if seed & 4 == 0 { MOST as u64 } else { 700 };
    let length = 1 + seed.rotate_left(31) % most;
    (0..length).map(|at| ((at / 8 + 1).wrapping_mul(seed) >> (at % 8 * 8)) as u8).collect()
}
