//! A disk's driver and its virtualiser die under verified load, at any instruction: no request is
//! lost, doubled in effect or answered wrongly, and no byte outside of the client's part changes.
//! So it is where the two are one domain. Each dies a few dozen times in the usual run, a thousand
//! times if `CULM_SOAK` is set.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::debugger::{Debugger, code};
use culm_tests_harness::frames::Random;
use culm_tests_harness::{Boot, Machine, PATIENCE, free_port};
use std::time::{Duration, Instant};

const BLOCK: usize = 512;
/// Blocks of the disk, and those that the client has.
const BLOCKS: usize = 8192;
const PART: std::ops::Range<usize> = 2048..4096;

/// Instructions that are taken away at a time.
const AT_ONCE: usize = 4;

/// The client's line of each pattern that it has written and read.
const ROUND: &str = "was read as it was written";

fn deaths() -> usize {
    if std::env::var_os("CULM_SOAK").is_some() { 1000 } else { 30 }
}

/// Waits until this text has come more than so many times.
fn wait_for_more(machine: &mut Machine, text: &str, before: usize) {
    let until = Instant::now() + PATIENCE;
    while machine.console().matches(text).count() <= before {
        assert!(Instant::now() < until, "{text:?} does not come again; the last lines:\n{}", machine.tail());
        std::thread::sleep(Duration::from_millis(10));
    }
}

/// Lets `domain` die again and again while a client writes, flushes, reads and compares. Driver and
/// virtualiser are one domain if the device `is_fused`.
fn die_at_any_instruction(name: &str, domain: &str, is_fused: bool) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let restart = "restart = { limit = 1000, window = \"1ms\", backoff = \"1ms\" }";
    let virtualiser = if is_fused { "fused = true".into() } else { format!("virtualiser = {{ {restart} }}") };
    let (offset, size) = (PART.start * BLOCK, PART.len() * BLOCK);
    let description = format!(
        "name = \"{name}\"\ndescription = \"A domain that dies\"\nboard = \"virt\"\n[device.uart0]\npriority = 220\n\
         [device.disk0]\npriority = 200\nimage = \"disk.img\"\n{restart}\n{virtualiser}\n\
         [pd.client]\ncomponent = \"block-test\"\npriority = 100\nconfig = {{ rounds = 1_000_000 }}\n\
         disk = {{ device = \"disk0\", offset = {offset}, size = {size} }}\n"
    );
    let (file, image) = (folder.path().join("deaths.toml"), folder.path().join("disk.img"));
    std::fs::write(&file, description).expect("the folder is writable");
    std::fs::write(&image, vec![0xa5; BLOCKS * BLOCK]).expect("the folder is writable");
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port}");
    let boot = Boot::system(file.to_str().expect("temporary paths are text"));
    let machine = &mut boot.option(&["--qemu", "-gdb", "--qemu", &listen]).start(&[]);
    wait_for_more(machine, ROUND, 0);
    let (address, size) = code(&format!("{name}-virt"), domain);
    let text = Debugger::connect(port).read(address, size);
    let faulted = format!("supervisor: {domain} faulted: ");
    // Some instructions let each life die until they are back: that counts as one death.
    let (mut random, mut tried, mut deadly) = (Random::new(1), 0, 0);
    while deadly < deaths() {
        let offsets: [usize; AT_ONCE] = std::array::from_fn(|_| random.below(size / 4) * 4);
        let console = machine.console();
        let (died, rounds) = (console.matches(&faulted).count(), console.matches(ROUND).count());
        // An undefined one (Arm ARM C6.2, UDF).
        let mut debugger = Debugger::connect(port);
        offsets.iter().for_each(|offset| debugger.write(address + *offset as u64, &[0; 4]));
        drop(debugger);
        // Whatever a round needs, two of them have needed.
        let is_done = |machine: &mut Machine| {
            let console = machine.console();
            console.matches(&faulted).count() > died || console.matches(ROUND).count() > rounds + 1
        };
        let until = Instant::now() + PATIENCE;
        while !is_done(machine) {
            assert!(Instant::now() < until, "the client waits for ever; the last lines:\n{}", machine.tail());
            std::thread::sleep(Duration::from_millis(10));
        }
        let mut debugger = Debugger::connect(port);
        offsets.iter().for_each(|offset| debugger.write(address + *offset as u64, &text[*offset..offset + 4]));
        drop(debugger);
        let console = machine.console();
        wait_for_more(machine, ROUND, console.matches(ROUND).count() + 1);
        deadly += usize::from(console.matches(&faulted).count() > died);
        tried += AT_ONCE;
    }
    let console = machine.console();
    let (rounds, faults) = (console.matches(ROUND).count(), console.matches(&faulted).count());
    eprintln!("{rounds} rounds, {faults} deaths, {deadly} of {} sets of instructions deadly", tried / AT_ONCE);
    assert_eq!(console.matches(" faulted: ").count(), console.matches(&faulted).count(), "{}", machine.tail());
    for wrong in ["too often", "is not what was written", " error client: "] {
        assert!(!console.contains(wrong), "{wrong}:\n{}", machine.tail());
    }
    let content = std::fs::read(&image).expect("the image is there");
    let outside = [&content[..PART.start * BLOCK], &content[PART.end * BLOCK..]].concat();
    assert!(outside.iter().all(|byte| *byte == 0xa5), "bytes outside of the client's part have changed");
}

#[test]
fn a_driver_that_dies_loses_and_doubles_no_request() {
    die_at_any_instruction("disk-driver-deaths", "disk0_driver", false);
}

#[test]
fn a_virtualiser_that_dies_loses_and_doubles_no_request() {
    die_at_any_instruction("disk-virt-deaths", "disk0_virt", false);
}

#[test]
fn a_driver_that_dies_together_with_its_virtualiser_loses_and_doubles_no_request() {
    die_at_any_instruction("disk-fused-deaths", "disk0_driver", true);
}
