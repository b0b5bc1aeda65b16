//! SD cards: what components write to their parts of a card, by DMA and by the driver (PIO), is in
//! the image's file, and no byte outside has changed.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, Machine};
use std::ops::Range;
use std::path::Path;

const BLOCK: usize = 512;
/// Blocks of the card: 16 MiB. QEMU has cards whose sizes are powers of two.
const BLOCKS: usize = 32 * 1024;

/// What a card without a pattern holds.
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

/// What the component writes with this seed.
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

/// Compares the image with an empty one, where these blocks hold the pattern of a seed.
fn check(folder: &Path, written: &[(Range<usize>, u64)]) {
    let mut expected = vec![EMPTY; BLOCKS * BLOCK];
    for (blocks, seed) in written {
        expected[blocks.start * BLOCK..blocks.end * BLOCK].copy_from_slice(&pattern(*seed, blocks.len()));
    }
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
        ("second", ", offset = \"4MiB\", size = \"512KiB\", memory = \"16KiB\", queue = 32", "seed = 20"),
        ("reader", ", offset = \"8MiB\", size = \"512KiB\", read_only = true", ""),
    ];
    let mut machine = system(folder.path(), name, keys, &clients).start(&[]);
    machine.expect_anywhere("sd0_driver: waits for the bus's driver");
    wait_for(&mut machine, &["first", "second", "reader"]);
    let word = u64::from_le_bytes([EMPTY; 8]);
    let sum = word.wrapping_mul(1024 * 64);
    machine.expect_anywhere(&format!("reader: block-test passed: 1024 blocks read, sum {sum:#018x}"));
    machine.interrupt();
    check(folder.path(), &[(0..2048, 11), (8192..9216, 20)]);
}

#[test]
fn clients_share_a_card_by_dma() {
    share("sd-dma", "");
}

#[test]
fn clients_share_a_card_whose_data_the_driver_moves() {
    share("sd-pio", "pio = true");
}
