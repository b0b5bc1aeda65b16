//! Disks: what a component writes to its partition or range is in the image's file, and no byte
//! outside of it has changed. The images are made by Debian's `sfdisk` and `sgdisk`.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, Machine, root};
use std::io::Write as _;
use std::ops::Range;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const BLOCK: usize = 512;
/// Blocks of the images.
const BLOCKS: usize = 16 * 1024;

/// A program of the host's, which may be in a folder that only root searches.
fn program(name: &str) -> PathBuf {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    found.unwrap_or_else(|| panic!("this test needs `{name}`: `./culm setup --tests` installs it"))
}

/// Runs a program with this input.
fn run(name: &str, arguments: &[&str], input: &str) {
    let mut command = Command::new(program(name));
    let mut child =
        command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().expect("the program starts");
    child.stdin.take().expect("a pipe").write_all(input.as_bytes()).expect("it reads its input");
    let output = child.wait_with_output().expect("the program ends");
    assert!(output.status.success(), "{name}: {}", String::from_utf8_lossy(&output.stdout));
}

/// An image in whose blocks everything differs from block to block.
fn image(folder: &Path) -> PathBuf {
    let words = (0..BLOCKS as u64 * 64).map(|word| word.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let file = folder.join("disk.img");
    std::fs::write(&file, words.flat_map(u64::to_le_bytes).collect::<Vec<_>>()).expect("the folder is writable");
    file
}

/// A system in this folder whose disk has `image` or `size`, with these clients: each a domain of
/// the component `block-test`, its part of the disk, and its seed. It begins with that and writes
/// three times.
fn system(folder: &Path, name: &str, disk: &str, clients: &[(&str, &str, u32)]) -> Boot {
    system_with("disk0", folder, name, disk, clients)
}

/// The same with this disk of the board.
fn system_with(device: &str, folder: &Path, name: &str, disk: &str, clients: &[(&str, &str, u32)]) -> Boot {
    let mut text = format!(
        "name = \"{name}\"\ndescription = \"Clients of a disk\"\nboard = \"virt\"\n\
         [device.uart0]\npriority = 60\n[device.{device}]\npriority = 200\n{disk}\n"
    );
    for (client, part, seed) in clients {
        text += &format!(
            "[pd.{client}]\ncomponent = \"block-test\"\npriority = 100\n\
             config = {{ seed = {seed}, rounds = 3 }}\ndisk = {{ device = \"{device}\"{part} }}\n"
        );
    }
    let file = folder.join(format!("{name}.toml"));
    std::fs::write(&file, text).expect("the folder is writable");
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

/// Compares the image with what it was, where these blocks hold the pattern of a seed now.
fn check(file: &Path, before: &[u8], written: &[(Range<usize>, u64)]) {
    let mut expected = before.to_vec();
    for (blocks, seed) in written {
        expected[blocks.start * BLOCK..blocks.end * BLOCK].copy_from_slice(&pattern(*seed, blocks.len()));
    }
    let found = std::fs::read(file).expect("the image is there");
    let differs = |block: &usize| {
        let bytes = block * BLOCK..(block + 1) * BLOCK;
        found[bytes.clone()] != expected[bytes]
    };
    assert_eq!(found.len(), expected.len());
    let wrong: Vec<usize> = (0..expected.len() / BLOCK).filter(differs).collect();
    assert!(wrong.is_empty(), "{} blocks are wrong, the first is {:?}", wrong.len(), wrong.first());
}

#[test]
fn each_client_has_its_partition_of_an_mbr() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = image(folder.path());
    let script = "label: dos\nlabel-id: 0x1234abcd\nstart=64,size=1000\nstart=2048,size=5001\nstart=9000,size=640\n";
    run("sfdisk", &["-q", "--wipe=never", "--no-tell-kernel", file.to_str().expect("text")], script);
    let before = std::fs::read(&file).expect("the image is there");
    let clients = [
        ("reader", ", partition = 1, read_only = true", 1),
        ("first", ", partition = 2, memory = \"512KiB\", queue = 128", 10),
        ("second", ", partition = \"1234abcd-03\", memory = \"16KiB\", queue = 32", 20),
    ];
    let mut machine = system(folder.path(), "mbr", "image = \"disk.img\"", &clients).start(&[]);
    wait_for(&mut machine, &["first", "second", "reader"]);
    let words = before[64 * BLOCK..1064 * BLOCK].chunks_exact(8);
    let sum = words.fold(0_u64, |sum, word| sum.wrapping_add(u64::from_le_bytes(word.try_into().expect("8 bytes"))));
    machine.expect_anywhere(&format!("reader: block-test passed: 1000 blocks read, sum {sum:#018x}"));
    machine.interrupt();
    check(&file, &before, &[(2048..7049, 12), (9000..9640, 22)]);
}

#[test]
fn each_client_has_its_partition_or_range_of_a_gpt() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = image(folder.path());
    let path = file.to_str().expect("text");
    run("sgdisk", &["-Z", path], "");
    let uuid = "0fc63daf-8483-4772-8e79-3d69d8477de4";
    let partitions = ["-a", "1", "-n", "1:40:2087", "-c", "1:data", "-n", "2:2088:6183", "-u", &format!("2:{uuid}")];
    run("sgdisk", &[&partitions[..], &[path]].concat(), "");
    let before = std::fs::read(&file).expect("the image is there");
    let clients = [
        ("named", ", partition = \"data\"", 30),
        ("front", &*format!(", partition = \"{uuid}\", size = \"1MiB\""), 40),
        ("back", ", partition = 2, offset = \"1MiB\"", 50),
    ];
    let mut machine = system(folder.path(), "gpt", "image = \"disk.img\"", &clients).start(&[]);
    wait_for(&mut machine, &["named", "front", "back"]);
    machine.interrupt();
    check(&file, &before, &[(40..2088, 32), (2088..4136, 42), (4136..6184, 52)]);
}

/// Partitions of a virtio disk on a PCI bus, whose driver waits for the bus's.
#[test]
fn each_client_has_its_partition_of_a_disk_on_a_pci_bus() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = image(folder.path());
    let script = "label: dos\nlabel-id: 0x1234abcd\nstart=64,size=1000\nstart=2048,size=5001\nstart=9000,size=640\n";
    run("sfdisk", &["-q", "--wipe=never", "--no-tell-kernel", file.to_str().expect("text")], script);
    let before = std::fs::read(&file).expect("the image is there");
    let clients = [
        ("reader", ", partition = 1, read_only = true", 1),
        ("first", ", partition = 2, memory = \"512KiB\", queue = 128", 10),
        ("second", ", partition = \"1234abcd-03\", memory = \"16KiB\", queue = 32", 20),
    ];
    let keys = "image = \"disk.img\"\nbus = \"pci0\"\n[device.pci0]\npriority = 50";
    let mut machine = system_with("disk1", folder.path(), "disk-pci", keys, &clients).start(&[]);
    machine.expect_anywhere("disk1_driver: waits for the bus's driver");
    machine.expect_anywhere("pci0_driver: slot 2: ready, 0x4000 bytes at 0x10004000; its MSI-X is not used");
    wait_for(&mut machine, &["first", "second", "reader"]);
    machine.interrupt();
    check(&file, &before, &[(2048..7049, 12), (9000..9640, 22)]);
}

/// Two clients of a disk whose driver and virtualiser share a domain.
#[test]
fn a_fused_driver_gives_each_client_its_range() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = image(folder.path());
    let before = std::fs::read(&file).expect("the image is there");
    let clients = [
        ("front", ", offset = \"512KiB\", size = \"1MiB\"", 60),
        ("back", ", offset = \"2MiB\", size = \"512KiB\", memory = \"16KiB\", queue = 32", 70),
    ];
    let mut machine = system(folder.path(), "disk-fused", "image = \"disk.img\"\nfused = true", &clients).start(&[]);
    wait_for(&mut machine, &["front", "back"]);
    machine.interrupt();
    check(&file, &before, &[(1024..3072, 62), (4096..5120, 72)]);
}

/// Has QEMU's disk zero the first half of a client's blocks and discard the second, and the blocks
/// around them stay.
fn clear(name: &str, keys: &str) {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = image(folder.path());
    let before = std::fs::read(&file).expect("the image is there");
    let description = format!(
        "name = \"{name}\"\ndescription = \"A client that clears blocks\"\nboard = \"virt\"\n\
         [device.uart0]\npriority = 60\n[device.disk0]\npriority = 200\nimage = \"disk.img\"\n{keys}\n\
         [pd.client]\ncomponent = \"block-test\"\npriority = 100\nconfig = {{ zeroes = true, discards = true }}\n\
         disk = {{ device = \"disk0\", offset = \"512KiB\", size = \"1MiB\" }}\n"
    );
    let system = folder.path().join(format!("{name}.toml"));
    std::fs::write(&system, description).expect("the folder is writable");
    let mut machine = Boot::system(system.to_str().expect("temporary paths are text")).start(&[]);
    wait_for(&mut machine, &["client"]);
    machine.interrupt();
    let found = std::fs::read(&file).expect("the image is there");
    let (start, half, end) = (1024 * BLOCK, 2048 * BLOCK, 3072 * BLOCK);
    assert!(found[start..half].iter().all(|byte| *byte == 0), "zeroed");
    // What was discarded is anything (VIRTIO 1.2 §5.2.6.1): QEMU gives it back to the host's file
    // system, which reads it as zeroes if it can.
    let written = pattern(1, 2048);
    for (block, bytes) in found[half..end].chunks(BLOCK).enumerate() {
        let was = &written[(1024 + block) * BLOCK..][..BLOCK];
        assert!(bytes == was || bytes.iter().all(|byte| *byte == 0), "block {block} of the discarded half");
    }
    assert!(found[..start] == before[..start] && found[end..] == before[end..], "blocks of others have changed");
}

#[test]
fn blocks_are_cleared_and_no_others() {
    clear("disk-clear", "");
}

#[test]
fn blocks_are_cleared_and_no_others_by_a_fused_driver() {
    clear("disk-fused-clear", "fused = true");
}

/// As many as a virtualiser can tell apart, with the longest queue to the driver: its heap holds.
#[test]
fn sixty_three_clients_share_a_disk() {
    let folder = tempfile::tempdir().expect("a temporary folder");
    let file = image(folder.path());
    let before = std::fs::read(&file).expect("the image is there");
    let names: Vec<String> = (0..63).map(|number| format!("client{number}")).collect();
    let parts = (0..63).map(|number| format!(", offset = \"{}KiB\", size = \"128KiB\"", 128 * number));
    let parts: Vec<String> = parts.collect();
    let clients = names.iter().zip(&parts).zip(1..).map(|((name, part), seed)| (&**name, &**part, 100 * seed));
    let disk = "image = \"disk.img\"\nqueue = 1024";
    let mut machine = system(folder.path(), "many-disks", disk, &clients.collect::<Vec<_>>()).start(&[]);
    wait_for(&mut machine, &names.iter().map(|name| &**name).collect::<Vec<_>>());
    machine.interrupt();
    let written: Vec<_> =
        (0..63).map(|number| (number * 256..(number + 1) * 256, 100 * (number as u64 + 1) + 2)).collect();
    check(&file, &before, &written);
}

#[test]
fn an_image_that_the_tool_makes_is_found_again() {
    let file = root().join("build/disks/disk-disk0.img");
    _ = std::fs::remove_file(&file);
    let (first, second) = ((0..8192, 12), (8192..10_240, 20));
    for marks in 0..2_u64 {
        let mut machine = Boot::system("tests/systems/disk.toml").start(&[]);
        wait_for(&mut machine, &["first", "second"]);
        machine.expect_anywhere(&format!("reader: block-test passed: 16384 blocks read, sum {marks:#018x}"));
        machine.interrupt();
        let mut expected = vec![0; 32 * 1024 * BLOCK];
        expected[16384 * BLOCK] = u8::try_from(marks).expect("a few marks");
        check(&file, &expected, &[first.clone(), second.clone()]);
        // Changes a block for the next run's reader to find.
        expected = std::fs::read(&file).expect("the image is there");
        expected[16384 * BLOCK] += 1;
        std::fs::write(&file, expected).expect("the image can be written");
    }
}
