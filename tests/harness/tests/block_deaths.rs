//! A disk's driver and its virtualiser die under verified load, at any instruction: no request is
//! lost, doubled in effect or answered wrongly, and no byte outside of the client's part changes.
//! So it is where the two are one domain. Each dies a few dozen times in the usual run, a thousand
//! times if `CULM_SOAK` is set.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::deaths::Deaths;
use culm_tests_harness::{Boot, free_port};

const BLOCK: usize = 512;
/// Blocks of the disk, and those that the client has.
const BLOCKS: usize = 8192;
const PART: std::ops::Range<usize> = 2048..4096;

/// The client's line of each pattern that it has written and read.
const ROUND: &str = "was read as it was written";

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
    Deaths { port, system: &format!("{name}-virt"), domain, round: ROUND }.run(machine);
    let console = machine.console();
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
