//! Files on a FAT volume: what components write, the host's tools find, and the volume is whole.
//! The volumes are made by `mkfs.fat`, looked at by mtools and checked by `fsck.fat`.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::volume::{content, program, run, wait_for_rest};
use culm_tests_harness::{Boot, Machine, root};
use std::path::Path;

const SIZE: usize = 300_001;

/// Returns the bytes that the component writes with a seed.
fn pattern(seed: u64) -> Vec<u8> {
    let words = (0..SIZE as u64 / 8 + 1).map(|word| (word + seed).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let mut bytes: Vec<u8> = words.flat_map(u64::to_le_bytes).collect();
    bytes.truncate(SIZE);
    bytes
}

fn lines(seeds: std::ops::Range<u64>) -> String {
    seeds.flat_map(|seed| (0..20).map(move |line| format!("line {line} of seed {seed}\n"))).collect()
}

/// Waits until each of these clients is done.
fn wait_for(machine: &mut Machine, clients: &[&str]) {
    for client in clients {
        machine.expect_anywhere(&format!("{client}: file-test passed"));
    }
    assert!(!machine.saw("file-test failed"), "{}", machine.tail());
}

/// Checks a volume, and what the clients of `tests/systems/files.toml` have written to it.
fn check(image: &Path) {
    run(program("fsck.fat").arg("-n").arg(image));
    assert!(content(image, "/first/folder/renamed") == pattern(12), "the first client's file is another one");
    assert!(content(image, "/second/within/folder/renamed") == pattern(20), "the second client's file is another one");
    assert_eq!(String::from_utf8_lossy(&content(image, "/first/folder/the log")), lines(10..13));
    assert_eq!(String::from_utf8_lossy(&content(image, "/second/within/folder/the log")), lines(20..21));
}

#[test]
fn what_clients_write_the_host_finds() {
    let described = std::fs::read_to_string(root().join("tests/systems/files.toml")).expect("it is there");
    for kind in ["16", "32"] {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let image = folder.path().join("disk.img");
        // 64 MiB in clusters of 512 bytes are too many for a FAT16.
        let clusters = if kind == "16" { "4" } else { "1" };
        let file = std::fs::File::create(&image).expect("the folder is writable");
        file.set_len(64 << 20).expect("there is space");
        run(program("mkfs.fat").args(["-F", kind, "-s", clusters]).arg(&image));
        // In place of the disk that the tool makes, all of one that `mkfs.fat` made.
        let text: String = described.lines().fold(String::new(), |text, line| {
            let line = if line.starts_with("image = ") { "image = \"disk.img\"" } else { line };
            text + &line.replace("partition = \"data\", ", "") + "\n"
        });
        let system = folder.path().join("files.toml");
        std::fs::write(&system, text).expect("the folder is writable");
        let mut machine = Boot::system(system.to_str().expect("temporary paths are text")).start(&[]);
        wait_for(&mut machine, &["first", "second"]);
        wait_for_rest(&image);
        machine.interrupt();
        check(&image);
    }
}
