//! The system `fat-test` on a disk that the tool makes from the system file, and what the host's
//! programs find on it afterwards.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, PATIENCE, root};
use std::fs::File;
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Bytes before the partition.
const OFFSET: u64 = 1 << 20;

/// Bytes of the partition.
const PARTITION: u64 = 64 << 20;

/// Bytes of each file.
const SIZE: u64 = 100_000;

/// Runs a program of the test set-up, and returns both of its outputs if it fails. Some programs
/// are in root's folder only.
fn complaint(name: &str, arguments: &[&str]) -> Option<String> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(name).args(arguments).env("PATH", path).output();
    let output = output.unwrap_or_else(|error| panic!("{name}: {error}; `./culm setup --tests` installs it"));
    let Output { status, stdout, stderr } = output;
    let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    (!status.success()).then(|| format!("{name} {arguments:?}: {said}"))
}

/// Copies the file system alone, without the partition table before it: `fsck.fat` takes no offset.
fn copy_partition(image: &Path, part: &Path) {
    let mut disk = File::open(image).expect("the disk is there");
    disk.seek(SeekFrom::Start(OFFSET)).expect("a file seeks");
    let mut copy = File::create(part).expect("the folder is writable");
    let copied = std::io::copy(&mut disk.take(PARTITION), &mut copy).expect("there is space");
    assert_eq!(copied, PARTITION, "the disk ends within its partition");
}

/// Returns what the component writes in a round.
fn pattern(round: u64) -> Vec<u8> {
    let words = (0..SIZE.div_ceil(8)).map(|word| (word + round).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    words.flat_map(u64::to_le_bytes).take(SIZE as usize).collect()
}

#[test]
fn ten_rounds_are_well_and_on_the_disk() {
    let image = root().join("build/disks/fat-test-disk0.img");
    // An earlier run may have left one.
    let _ = std::fs::remove_file(&image);
    let mut machine = Boot::system("systems/fat-test.toml").start(&[]);
    for round in 1..=10 {
        machine.expect_anywhere(&format!("round {round}: made /round{round}, changed into /round{round}"));
        machine.expect_anywhere(&format!("round {round}: pattern.bin has {SIZE} bytes"));
        machine.expect_anywhere(&format!("round {round}: /round{round} lists pattern.bin, {SIZE} bytes"));
        machine.expect_anywhere(&format!("round {round}: read {SIZE} bytes and compared them"));
    }
    machine.expect_anywhere("all 10 rounds are well");
    let folder = tempfile::tempdir().expect("a folder");
    let (part, read) = (folder.path().join("part"), folder.path().join("read"));
    let volume = part.to_str().expect("the path is text");
    // The volume says of itself that it is whole when nothing has changed for a while.
    let until = Instant::now() + PATIENCE;
    loop {
        copy_partition(&image, &part);
        let Some(complaint) = complaint("fsck.fat", &["-n", volume]) else { break };
        assert!(Instant::now() < until, "the volume does not come to rest: {complaint}");
        std::thread::sleep(Duration::from_millis(100));
    }
    machine.interrupt();
    copy_partition(&image, &part);
    assert_eq!(complaint("fsck.fat", &["-n", volume]), None);
    for round in 1..=10 {
        let file = format!("::round{round}/pattern.bin");
        let arguments = ["-n", "-i", volume, &file, read.to_str().expect("the path is text")];
        assert_eq!(complaint("mcopy", &arguments), None);
        let content = std::fs::read(&read).expect("it was copied");
        assert!(content == pattern(round), "the file of round {round} has other content");
    }
}
