//! A disk's driver and its virtualiser die under verified load, at any instruction: no request is
//! lost, doubled in effect or answered wrongly, and no byte outside of the client's part changes.
//! So it is where the two are one domain. The part is a partition where a virtualiser dies: its
//! next life reads the table before it knows where the part is. Each dies a few dozen times in the
//! usual run, a thousand times if `CULM_SOAK` is set.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::deaths::Deaths;
use culm_tests_harness::{Boot, free_port};

const BLOCK: usize = 512;
/// Blocks of the disk, and those that the client has, as a partition or a range.
const BLOCKS: usize = 8192;
const PART: std::ops::Range<usize> = 2048..4096;

/// The client's line of each pattern that it has written and read.
const ROUND: &str = "was read as it was written";

/// How domains are started again, however often.
const RESTART: &str = "restart = { limit = 1000, window = \"1ms\", backoff = \"1ms\" }";

/// A disk without a pattern whose first partition is the client's part.
fn content() -> Vec<u8> {
    let mut content = vec![0xa5; BLOCKS * BLOCK];
    let entries = &mut content[446..510];
    entries.fill(0);
    entries[4] = 0x83;
    entries[8..12].copy_from_slice(&(PART.start as u32).to_le_bytes());
    entries[12..16].copy_from_slice(&(PART.len() as u32).to_le_bytes());
    content[510..512].copy_from_slice(&[0x55, 0xaa]);
    content
}

/// The client's part by the table.
const PARTITION: &str = "partition = 1";

/// Lets a domain of `device` die again and again, its name ending by `domain`, while a client
/// writes, flushes, reads and compares its `part`. The device has these `keys` besides.
fn die_at_any_instruction(name: &str, device: &str, domain: &str, part: &str, keys: &str) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let description = format!(
        "name = \"{name}\"\ndescription = \"A domain that dies\"\nboard = \"virt\"\n[device.uart0]\npriority = 220\n\
         [device.{device}]\npriority = 200\nimage = \"disk.img\"\n{RESTART}\n{keys}\n\
         [pd.client]\ncomponent = \"block-test\"\npriority = 100\nconfig = {{ rounds = 1_000_000 }}\n\
         disk = {{ device = \"{device}\", {part} }}\n"
    );
    let (file, image) = (folder.path().join("deaths.toml"), folder.path().join("disk.img"));
    std::fs::write(&file, description).expect("the folder is writable");
    let before = content();
    std::fs::write(&image, &before).expect("the folder is writable");
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port}");
    let boot = Boot::system(file.to_str().expect("temporary paths are text"));
    let machine = &mut boot.option(&["--qemu", "-gdb", "--qemu", &listen]).start(&[]);
    Deaths { port, system: &format!("{name}-virt"), domain: &format!("{device}_{domain}"), round: ROUND }.run(machine);
    let console = machine.console();
    for wrong in ["too often", "is not what was written", " error client: "] {
        assert!(!console.contains(wrong), "{wrong}:\n{}", machine.tail());
    }
    let content = std::fs::read(&image).expect("the image is there");
    let outside = |content: &[u8]| [&content[..PART.start * BLOCK], &content[PART.end * BLOCK..]].concat();
    assert!(outside(&content) == outside(&before), "bytes outside of the client's part have changed");
}

#[test]
fn a_driver_that_dies_loses_and_doubles_no_request() {
    let range = format!("offset = {}, size = {}", PART.start * BLOCK, PART.len() * BLOCK);
    die_at_any_instruction("disk-driver-deaths", "disk0", "driver", &range, "");
}

#[test]
fn a_driver_on_a_pci_bus_that_dies_loses_and_doubles_no_request() {
    let bus = "bus = \"pci0\"\n[device.pci0]\npriority = 50";
    die_at_any_instruction("disk-pci-deaths", "disk1", "driver", PARTITION, bus);
}

#[test]
fn a_virtualiser_that_dies_loses_and_doubles_no_request() {
    die_at_any_instruction("disk-virt-deaths", "disk0", "virt", PARTITION, &format!("virtualiser = {{ {RESTART} }}"));
}

#[test]
fn a_driver_that_dies_together_with_its_virtualiser_loses_and_doubles_no_request() {
    die_at_any_instruction("disk-fused-deaths", "disk0", "driver", PARTITION, "fused = true");
}
