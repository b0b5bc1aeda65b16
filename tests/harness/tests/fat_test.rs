//! The system `fat-test` on a disk that the tool makes from the system file, and what the host's
//! programs find on it afterwards.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, root};
use std::process::Command;

/// Bytes before the partition.
const OFFSET: usize = 1 << 20;

/// Runs a program of the test set-up; some are in root's folder only.
fn succeeds(program: &str, arguments: &[&str]) -> Vec<u8> {
    let path = format!("{}:/usr/sbin:/sbin", std::env::var("PATH").unwrap_or_default());
    let output = Command::new(program).args(arguments).env("PATH", path).output();
    let output = output.unwrap_or_else(|error| panic!("{program}: {error}; `./culm setup --tests` installs it"));
    let said = String::from_utf8_lossy(&output.stdout).into_owned() + &String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{program} {arguments:?}: {said}");
    output.stdout
}

#[test]
fn ten_rounds_are_well_and_on_the_disk() {
    let image = root().join("build/disks/fat-test-disk0.img");
    // An earlier run may have left one.
    let _ = std::fs::remove_file(&image);
    let mut machine = Boot::system("systems/fat-test.toml").start(&[]);
    for round in 1..=10 {
        machine.expect_anywhere(&format!("round {round}: made /round{round}, changed into /round{round}"));
        machine.expect_anywhere(&format!("round {round}: read 100000 bytes and compared them"));
    }
    machine.expect_anywhere("all 10 rounds are well");
    machine.interrupt();
    // The file system alone, without the partition table before it.
    let disk = std::fs::read(&image).expect("the disk is there");
    let folder = tempfile::tempdir().expect("a folder");
    let part = folder.path().join("part");
    std::fs::write(&part, &disk[OFFSET..][..64 << 20]).expect("there is space");
    let part = part.to_str().expect("the path is text");
    // The machine was ended while the volume was in use, and its dirty bit says so: the
    // files are compared, and `fsck.fat` would complain.
    for round in 1..=10 {
        assert_eq!(succeeds("mtype", &["-i", part, &format!("::round{round}/pattern.bin")]).len(), 100_000);
    }
}
