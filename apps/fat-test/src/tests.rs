//! The test with files in memory.

use super::*;
use culm::testing;
use culm::time::Duration;
use culm_file::Volume;
use culm_file::testing::{RamFiles, connection};

const PAUSE: Duration = Duration::from_secs(1);

/// The component and its files.
fn pair(rounds: u32, size: u32) -> (FatTest, RamFiles) {
    let files = connection(16, 128 * 1024, 1);
    let ram = RamFiles::new(&files, Volume::new(1, false));
    (FatTest::init(Config { rounds, pause: PAUSE, size }, Connections { files }), ram)
}

/// Lets both take turns until nothing happens.
fn settle(test: &mut FatTest, files: &mut RamFiles) {
    for _ in 0..200 {
        let _ = files.round();
        test.notified(Channels::NONE);
    }
}

#[test]
fn each_round_has_a_folder_of_its_own_after_a_pause() {
    let (mut test, mut files) = pair(2, 100_001);
    settle(&mut test, &mut files);
    let log = testing::take_log();
    for part in [
        "round 1: made /round1, changed into /round1",
        "round 1: wrote 100001 bytes to pattern.bin",
        "round 1: pattern.bin is durable",
        "round 1: pattern.bin has 100001 bytes",
        "round 1: read 100001 bytes and compared them",
        "round 1: /round1 lists pattern.bin, 100001 bytes",
    ] {
        assert!(log.contains(part), "no {part} in {log}");
    }
    assert!(!log.contains("round 2"), "{log}");
    assert_eq!(files.get("/round1/pattern.bin").map(<[u8]>::len), Some(100_001));
    testing::set_time(time::now() + PAUSE);
    settle(&mut test, &mut files);
    let log = testing::take_log();
    assert!(log.contains("round 2: /round2 lists") && log.contains("all 2 rounds are well"), "{log}");
    assert_ne!(files.get("/round1/pattern.bin"), files.get("/round2/pattern.bin"));
    testing::set_time(time::now() + PAUSE);
    settle(&mut test, &mut files);
    assert_eq!(testing::take_log(), "");
}

#[test]
fn what_an_earlier_run_has_left_is_replaced() {
    let (mut test, mut files) = pair(1, 3000);
    files.put("/round1/pattern.bin", b"older");
    settle(&mut test, &mut files);
    assert!(testing::take_log().contains("all 1 rounds are well"));
    assert_eq!(files.get("/round1/pattern.bin").map(<[u8]>::len), Some(3000));
}

#[test]
fn a_wrong_byte_is_found() {
    let (mut test, mut files) = pair(1, 3000);
    while test.round.step() != Step::Open {
        let _ = files.round();
        test.notified(Channels::NONE);
    }
    // The same size, so that nothing else tells.
    let mut content = files.get("/round1/pattern.bin").expect("it is written").to_vec();
    content[2999] ^= 1;
    files.put("/round1/pattern.bin", &content);
    settle(&mut test, &mut files);
    let log = testing::take_log();
    assert!(log.contains("what was read is not what was written") && log.contains("round 1 failed"), "{log}");
}

#[test]
fn an_error_ends_the_test() {
    let (mut test, mut files) = pair(3, 3000);
    files.failing = Some(culm_file::Error::Full);
    settle(&mut test, &mut files);
    let log = testing::take_log();
    assert!(log.contains("round 1 failed") && !log.contains("round 2"), "{log}");
}

#[test]
fn a_provider_that_is_restarted_costs_no_more_than_a_round() {
    let (mut test, mut files) = pair(1, 200_000);
    while test.round.step() != Step::Write {
        let _ = files.round();
        test.notified(Channels::NONE);
    }
    let mut files = files.restarted();
    settle(&mut test, &mut files);
    let log = testing::take_log();
    assert!(log.contains("begins again") && log.contains("all 1 rounds are well"), "{log}");
}
