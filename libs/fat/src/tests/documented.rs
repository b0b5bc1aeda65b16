//! The words of `fsck.fat -n` about a volume after a power cut, before it is recovered: what the
//! book says that a cut leaves (`docs/src/reference/fat.md`). Besides there are lines that begin
//! with the path of a file or folder.
//!
//! The system test of power cuts (`tests/harness/tests/power_cuts`) has this file too.

/// Beginnings of lines.
const DOCUMENTED: &[&str] = &[
    "fsck.fat 4",
    "Leaving filesystem unchanged.",
    // The mark.
    "Dirty bit is set. Fs was not properly unmounted and some data may be corrupt.",
    " Automatically removing dirty bit.",
    "There are differences between boot sector and its backup.",
    "This is mostly harmless. Differences: (offset:original/backup)",
    "  65:01/00",
    "  Not automatically fixing this.",
    // The count of free clusters.
    "Free cluster summary ",
    "  Auto-correcting.",
    // Clusters that nothing names.
    "Reclaimed ",
    "Reclaiming unconnected clusters.",
    // A chain that goes on behind a file's end.
    "  File size is ",
    "  Truncating file to ",
    // Two names of a file that is being moved.
    "  share clusters.",
    "  Truncating second to ",
    // A moved folder that still names where it was.
    "  Invalid '..' entry in the second slot. Fixing.",
    // The table's copies.
    "FATs differ but appear to be intact.",
    "  Using first FAT.",
    // Names.
    "Orphaned long file name part ",
    "  Auto-deleting.",
];

/// Returns whether the book says that a cut can have the program say so.
pub fn is_documented(line: &str) -> bool {
    DOCUMENTED.iter().any(|known| line.starts_with(known))
}
