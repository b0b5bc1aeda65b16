//! SD cards: what components write to their parts of a card, by DMA and by the driver (PIO), is in
//! the image's file, and no byte outside has changed, on cards of each capacity class. A driver or
//! virtualiser that dies, a few dozen times in the usual run and a thousand times if `CULM_SOAK` is
//! set, changes nothing of that; and a client goes on with a card that is pulled eight times and
//! put back.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::deaths::{Deaths, wait_for_more};
use culm_tests_harness::qmp::Qmp;
use culm_tests_harness::{Boot, Machine, free_port};
use serde_json::json;
use std::fs::File;
use std::ops::Range;
use std::os::unix::fs::{FileExt as _, MetadataExt as _};
use std::path::Path;

const BLOCK: usize = 512;
/// Blocks of the card: 16 MiB. QEMU has cards whose sizes are powers of two.
const BLOCKS: usize = 32 * 1024;

/// Each byte of a card without a pattern.
const EMPTY: u8 = 0xa5;

/// A system in this folder whose card is the image `card.img`, with these keys of the device and
/// these clients: each a domain of the component `block-test`, its part of the card, and its
/// configuration. The driver of the bus has the lowest priority, so that the controller's waits.
fn system(folder: &Path, name: &str, keys: &str, clients: &[(&str, &str, &str)]) -> Boot {
    let mut text = format!(
        "name = \"{name}\"\ndescription = \"Clients of an SD card\"\nboard = \"virt\"\n\
         [device.uart0]\npriority = 220\n[device.pci0]\npriority = 50\n\
         [device.sd0]\npriority = 200\nbus = \"pci0\"\nimage = \"card.img\"\n{keys}\n"
    );
    for (client, part, config) in clients {
        text += &format!(
            "[pd.{client}]\ncomponent = \"block-test\"\npriority = 100\n\
             config = {{ {config} }}\ndisk = {{ device = \"sd0\"{part} }}\n"
        );
    }
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, text).expect("the folder is writable");
    std::fs::write(folder.join("card.img"), vec![EMPTY; BLOCKS * BLOCK]).expect("the folder is writable");
    Boot::system(file.to_str().expect("temporary paths are text"))
}

/// Returns the blocks that the component writes with this seed.
fn pattern(seed: u64, blocks: usize) -> Vec<u8> {
    (0..blocks as u64 * 64).flat_map(|word| (seed << 32 ^ word).to_le_bytes()).collect()
}

/// Waits until each of these clients is done.
fn wait_for(machine: &mut Machine, clients: &[&str]) {
    for client in clients {
        machine.expect_anywhere(&format!("{client}: block-test passed"));
    }
    assert!(!machine.saw("block-test failed"), "{}", machine.tail());
}

/// Compares the image with an empty one, where these blocks hold the pattern of a seed, and those
/// are erased.
fn check(folder: &Path, written: &[(Range<usize>, u64)], erased: Range<usize>) {
    let mut expected = vec![EMPTY; BLOCKS * BLOCK];
    for (blocks, seed) in written {
        expected[blocks.start * BLOCK..blocks.end * BLOCK].copy_from_slice(&pattern(*seed, blocks.len()));
    }
    // QEMU's card erases to ones.
    expected[erased.start * BLOCK..erased.end * BLOCK].fill(0xff);
    let found = std::fs::read(folder.join("card.img")).expect("the image is there");
    assert_eq!(found.len(), expected.len());
    let block = |bytes: &[u8], block: usize| bytes[block * BLOCK..(block + 1) * BLOCK].to_vec();
    let wrong: Vec<usize> = (0..BLOCKS).filter(|at| block(&found, *at) != block(&expected, *at)).collect();
    assert!(wrong.is_empty(), "{} blocks are wrong, the first is {:?}", wrong.len(), wrong.first());
}

/// Lets three clients share a card; two write.
fn share(name: &str, keys: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clients = [
        ("first", ", size = \"1MiB\", memory = \"512KiB\", queue = 128", "seed = 10, rounds = 2"),
        (
            "second",
            ", offset = \"4MiB\", size = \"512KiB\", memory = \"16KiB\", queue = 32",
            "seed = 20, discards = true",
        ),
        ("reader", ", offset = \"8MiB\", size = \"512KiB\", read_only = true", ""),
    ];
    let mut machine = system(folder.path(), name, keys, &clients).start(&[]);
    machine.expect_anywhere("sd0_driver: waits for the bus's driver");
    wait_for(&mut machine, &["first", "second", "reader"]);
    let word = u64::from_le_bytes([EMPTY; 8]);
    let sum = word.wrapping_mul(1024 * 64);
    machine.expect_anywhere(&format!("reader: block-test passed: 1024 blocks read, sum {sum:#018x}"));
    machine.interrupt();
    check(folder.path(), &[(0..2048, 11), (8192..8704, 20)], 8704..9216);
}

#[test]
fn clients_share_a_card_by_dma() {
    share("sd-dma", "");
}

#[test]
fn clients_share_a_card_whose_data_the_driver_moves() {
    share("sd-pio", "pio = true");
}

/// Standard capacity at its largest, where the card counts in bytes; high capacity; extended. The
/// images have holes, so that a block in a wrong place is one that they hold besides.
#[test]
fn the_first_and_the_last_blocks_of_cards_of_each_class_are_written_and_read() {
    const PART: usize = 256;
    for (class, size) in [("sdsc", 2_u64 << 30), ("sdhc", 4 << 30), ("sdxc", 64 << 30)] {
        let folder = tempfile::tempdir().expect("a temporary folder");
        let last = size - (PART * BLOCK) as u64;
        let end = format!(", offset = {last}, size = \"128KiB\"");
        let clients = [("first", ", size = \"128KiB\"", "seed = 10"), ("last", end.as_str(), "seed = 20")];
        let boot = system(folder.path(), &format!("sd-{class}"), "", &clients);
        let image = folder.path().join("card.img");
        let file = File::create(&image).expect("the folder is writable");
        file.set_len(size).expect("the file system has files with holes");
        let mut machine = boot.start(&[]);
        machine.expect_anywhere(&format!(": {} blocks of 512 bytes", size / BLOCK as u64));
        wait_for(&mut machine, &["first", "last"]);
        machine.interrupt();
        let file = File::open(&image).expect("the image is there");
        for (offset, seed) in [(0, 10), (last, 20)] {
            let mut found = vec![0; PART * BLOCK];
            file.read_exact_at(&mut found, offset).expect("the image is as large");
            assert!(found == pattern(seed, PART), "{class}: the blocks from byte {offset} on");
        }
        let metadata = file.metadata().expect("it is open");
        assert!(metadata.len() == size && metadata.blocks() <= 4 * PART as u64, "{class}: {metadata:?}");
    }
}

/// The client's line of each pattern that it has written and read.
const ROUND: &str = "was read as it was written";

/// A card is pulled while it is written and read, and put back.
#[test]
fn a_card_can_be_pulled_and_put_back_at_any_time() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clients = [("client", ", size = \"256KiB\"", "rounds = 1_000_000, is_removable = true")];
    let port = free_port();
    let options = Qmp::options(port);
    let boot = system(folder.path(), "sd-pulled", "", &clients).option(&[&options[0], &options[1]]);
    let machine = &mut boot.start(&[]);
    wait_for_more(machine, ROUND, 0);
    let mut monitor = Qmp::connect(port);
    let image = folder.path().join("card.img");
    let card = json!({ "device": "sd0", "filename": image, "format": "raw" });
    for times in 0..8 {
        monitor.execute("eject", &json!({ "device": "sd0", "force": true }));
        wait_for_more(machine, "client: the medium was taken out", times);
        // Nothing of the client's goes on without a card.
        let rounds = machine.count(ROUND);
        monitor.execute("blockdev-change-medium", &card);
        wait_for_more(machine, ROUND, rounds);
    }
    let console = machine.console();
    for wrong in ["block-test failed", "is not what was written", " error client: ", "faulted"] {
        assert!(!console.contains(wrong), "{wrong}:\n{}", machine.tail());
    }
}

/// How domains are started again, however often.
const RESTART: &str = "restart = { limit = 1000, window = \"1ms\", backoff = \"1ms\" }";

/// Blocks of the card that the client of a domain that dies has, as a range or a partition.
const PART: Range<usize> = 2048..2304;

/// The part as a range.
const RANGE: &str = ", offset = \"1MiB\", size = \"128KiB\"";

/// A card without a pattern whose first partition is that part.
fn partitioned() -> Vec<u8> {
    let mut content = vec![EMPTY; BLOCKS * BLOCK];
    let entries = &mut content[446..510];
    entries.fill(0);
    entries[4] = 0x83;
    entries[8..12].copy_from_slice(&(PART.start as u32).to_le_bytes());
    entries[12..16].copy_from_slice(&(PART.len() as u32).to_le_bytes());
    content[510..512].copy_from_slice(&[0x55, 0xaa]);
    content
}

/// Lets a domain of the card's die again and again, its name ending by `domain`, at any
/// instruction, while a client writes, flushes, reads and compares its `part`. The card has these
/// `keys` besides. One that is being written goes through a reset with each death of its driver.
fn die(name: &str, domain: &str, part: &str, keys: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let clients = [("client", part, "rounds = 1_000_000")];
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port}");
    let boot = system(folder.path(), name, &format!("{RESTART}\n{keys}"), &clients);
    let before = partitioned();
    std::fs::write(folder.path().join("card.img"), &before).expect("the folder is writable");
    let machine = &mut boot.option(&["--qemu", "-gdb", "--qemu", &listen]).start(&[]);
    Deaths { port, system: &format!("{name}-virt"), domain: &format!("sd0_{domain}"), round: ROUND }.run(machine);
    let console = machine.console();
    for wrong in ["too often", "is not what was written", " error client: "] {
        assert!(!console.contains(wrong), "{wrong}:\n{}", machine.tail());
    }
    let content = std::fs::read(folder.path().join("card.img")).expect("the image is there");
    let outside = |content: &[u8]| [&content[..PART.start * BLOCK], &content[PART.end * BLOCK..]].concat();
    assert!(outside(&content) == outside(&before), "bytes outside of the client's part have changed");
}

#[test]
fn a_driver_that_dies_loses_and_doubles_no_request() {
    die("sd-deaths", "driver", RANGE, "");
}

#[test]
fn a_driver_that_dies_while_it_moves_data_loses_and_doubles_no_request() {
    die("sd-pio-deaths", "driver", RANGE, "pio = true");
}

#[test]
fn a_virtualiser_that_dies_loses_and_doubles_no_request() {
    die("sd-virt-deaths", "virt", ", partition = 1", &format!("virtualiser = {{ {RESTART} }}"));
}
