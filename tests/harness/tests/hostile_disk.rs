//! Clients of one disk that do what they must not, beside an honest one that compares all that it
//! reads: it goes on, and no byte outside of its part changes. One machine has them all, with
//! driver and virtualiser apart or in one domain.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, PATIENCE};
use std::fmt::Write as _;
use std::time::Instant;

const BLOCK: usize = 512;
/// Blocks of the disk.
const BLOCKS: usize = 8192;
/// Blocks of the honest client's part, which begins at block 0.
const HONEST: usize = 1024;
/// Blocks of each hostile client's part, and where the first of them is. Between two of them, and
/// behind the honest client's, are blocks that are nobody's.
const HOSTILE: usize = 128;
const FIRST: usize = 2048;

/// The behaviour of each hostile client. None of them asks for a write that it may have done: among
/// the entries of who writes anything, one that writes a block of its part is one in billions.
const RULES: [&str; 6] = ["forge", "outside", "pieces", "keep", "flood", "scribble"];

/// The line that the honest client prints for each pattern that it wrote and read back.
const ROUND: &str = "was read as it was written";

/// The bytes of a block before anybody writes: its number, and more that is the same everywhere.
fn pattern(block: usize) -> [u8; BLOCK] {
    let mut bytes = [0xa5; BLOCK];
    bytes[..8].copy_from_slice(&block.to_le_bytes());
    bytes
}

/// The hostile clients run above the honest one, on a budget.
fn description(keys: &str) -> String {
    let size = HONEST * BLOCK;
    let mut text = format!(
        "name = \"hostile-disk\"\ndescription = \"Hostile clients of a disk\"\nboard = \"virt\"\n\
         [device.uart0]\npriority = 220\n[device.disk0]\npriority = 200\nimage = \"disk.img\"\n{keys}\n\
         [pd.honest]\ncomponent = \"block-test\"\npriority = 100\nconfig = {{ rounds = 1_000_000 }}\n\
         disk = {{ device = \"disk0\", size = {size} }}\n"
    );
    for (index, rule) in RULES.iter().enumerate() {
        let (offset, size) = ((FIRST + 2 * HOSTILE * index) * BLOCK, HOSTILE * BLOCK);
        let _ = writeln!(
            text,
            "[pd.{rule}]\ncomponent = \"misbehave-disk\"\npriority = 150\nbudget = \"500us\"\nperiod = \"10ms\"\n\
             config = {{ rule = \"{rule}\" }}\n\
             disk = {{ device = \"disk0\", offset = {offset}, size = {size}, memory = \"16KiB\" }}"
        );
    }
    text
}

fn beside_hostile_clients(keys: &str) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let (file, image) = (folder.path().join("hostile-disk.toml"), folder.path().join("disk.img"));
    std::fs::write(&file, description(keys)).expect("the folder is writable");
    std::fs::write(&image, (0..BLOCKS).flat_map(pattern).collect::<Vec<_>>()).expect("the folder is writable");
    let mut machine = Boot::system(file.to_str().expect("temporary paths are text")).start(&[]);
    // Whoever scribbles may be left alone for good, and the others act as fast as they are let.
    for rule in RULES {
        machine.expect_anywhere(&format!("{rule}: has acted 10000 times"));
    }
    let rounds = |console: &str| console.matches(ROUND).count();
    let (before, until) = (rounds(&machine.console()), Instant::now() + PATIENCE);
    while rounds(&machine.console()) < before + 3 {
        assert!(Instant::now() < until, "the honest client waits for ever; the last lines:\n{}", machine.tail());
        std::thread::sleep(std::time::Duration::from_millis(10));
    }
    let console = machine.console();
    for wrong in [" error honest: ", "is not what was written", " faulted: "] {
        assert!(!console.contains(wrong), "{wrong}:\n{}", machine.tail());
    }
    machine.interrupt();
    let content = std::fs::read(&image).expect("the image is there");
    let has_changed = |block: &usize| content[block * BLOCK..(block + 1) * BLOCK] != pattern(*block);
    let wrong: Vec<usize> = (HONEST..BLOCKS).filter(has_changed).collect();
    assert!(
        wrong.is_empty(),
        "{} blocks have changed that nobody may write, or whose owner writes nothing, the first is {:?}",
        wrong.len(),
        wrong.first()
    );
}

#[test]
fn an_honest_client_is_served_beside_hostile_ones() {
    beside_hostile_clients("");
}

#[test]
fn so_it_is_where_driver_and_virtualiser_are_one_domain() {
    beside_hostile_clients("fused = true");
}
