//! Bad media: cards are changed for worse ones while a web server serves from them. The status page
//! says what is wrong, the server goes on, a component with another disk is served all the time,
//! and a good card is served again. Disks that are none from the start take down nobody either.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{curl, run};
use culm_tests_harness::qmp::Qmp;
use culm_tests_harness::{Boot, Machine, PATIENCE, free_port, root};
use serde_json::json;
use std::path::Path;
use std::time::{Duration, Instant};

const BLOCK: usize = 512;
/// Where the partition begins.
const FIRST: usize = 1 << 20;
/// More than a cluster.
static CONTENT: [u8; 100_000] = [b'c'; 100_000];

const SYSTEM: &str = "name = \"media\"\ndescription = \"A web server over cards that change\"\nboard = \"virt\"\n\
    [device.nic0]\npriority = 240\n[device.uart0]\npriority = 60\n\
    [device.pci0]\npriority = 55\n[device.sd0]\npriority = 200\nbus = \"pci0\"\nimage = \"good.img\"\n\
    [device.disk0]\npriority = 190\nimage = \"other.img\"\n\
    [pd.bystander]\ncomponent = \"block-test\"\npriority = 90\nbudget = \"1ms\"\nperiod = \"20ms\"\n\
    config = { rounds = 1_000_000_000 }\ndisk = { device = \"disk0\" }\n\
    [pd.files]\ncomponent = \"file\"\npriority = 150\ndisk = { device = \"sd0\", partition = \"data\" }\n\
    [pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nnet = \"nic0\"\n\
    files = { device = \"files\", folder = \"/\" }\n";

/// A number of the volume's boot sector.
fn field(image: &[u8], offset: usize, length: usize) -> usize {
    let bytes = &image[FIRST + offset..FIRST + offset + length];
    bytes.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte))
}

/// Neither GPT has the checksum of its header (UEFI 5.3.2).
fn without_table(image: &mut [u8]) {
    let last = image.len() - BLOCK;
    image[BLOCK + 16] ^= 1;
    image[last + 16] ^= 1;
}

/// The partition has no file system, nor the copy of a boot sector.
fn without_volume(image: &mut [u8]) {
    image[FIRST..FIRST + 16 * BLOCK].fill(0);
}

/// In both tables, each cluster behind the root folder's leads to cluster 1, which there is not
/// (fatgen103, FAT Data Structure).
fn with_broken_chains(image: &mut [u8]) {
    let (reserved, count, blocks) = (field(image, 14, 2), field(image, 16, 1), field(image, 36, 4));
    for table in 0..count {
        let begin = FIRST + (reserved + table * blocks) * BLOCK;
        for cluster in 3..1000 {
            image[begin + 4 * cluster..][..4].copy_from_slice(&1u32.to_le_bytes());
        }
    }
}

/// Boot sector and copy say that the table has 2³² - 1 sectors (fatgen103, BPB_FATSz32).
fn with_absurd_table(image: &mut [u8]) {
    for sector in [0, 6] {
        image[FIRST + sector * BLOCK + 36..][..4].fill(0xff);
    }
}

/// In both tables, the root folder's cluster leads to itself.
fn with_circle(image: &mut [u8]) {
    let (reserved, count, blocks) = (field(image, 14, 2), field(image, 16, 1), field(image, 36, 4));
    let root = field(image, 44, 4);
    for table in 0..count {
        let begin = FIRST + (reserved + table * blocks) * BLOCK;
        image[begin + 4 * root..][..4].copy_from_slice(&(root as u32).to_le_bytes());
    }
}

/// Makes `good.img` with a file, and a worse one of each kind from it.
fn make_cards(folder: &Path) {
    let files = folder.join("files");
    std::fs::create_dir(&files).expect("the folder is writable");
    std::fs::write(files.join("file.txt"), CONTENT).expect("the folder is writable");
    let disk = "size = \"64MiB\"\npartition = [{ name = \"data\", size = \"40MiB\", fat = 32, folder = \"files\" }]\n";
    std::fs::write(folder.join("disk.toml"), disk).expect("the folder is writable");
    let path = |name: &str| folder.join(name).to_str().expect("temporary paths are text").to_string();
    run(300, root().join("culm").to_str().expect("text"), &["image", &path("disk.toml"), "-o", &path("good.img")]);
    let good = std::fs::read(folder.join("good.img")).expect("the image is there");
    type Spoil = fn(&mut [u8]);
    let kinds: [(&str, Spoil); 5] = [
        ("table", without_table),
        ("volume", without_volume),
        ("absurd", with_absurd_table),
        ("circle", with_circle),
        ("chains", with_broken_chains),
    ];
    for (name, spoil) in kinds {
        let mut image = good.clone();
        spoil(&mut image);
        std::fs::write(folder.join(format!("{name}.img")), image).expect("the folder is writable");
    }
    std::fs::write(folder.join("other.img"), vec![0; 1 << 20]).expect("the folder is writable");
}

/// Waits until the bystander has read and written more of its disk, of which nothing may have
/// failed.
fn wait_for_bystander(machine: &Machine) {
    let work = || {
        let status = machine.status();
        let counter = |name: &str| status.counter("bystander", name);
        assert_eq!((counter("wrong_blocks"), counter("failed_requests")), (0, 0));
        (counter("blocks_written"), counter("blocks_read"))
    };
    let (until, before) = (Instant::now() + PATIENCE, work());
    loop {
        let now = work();
        if now.0 > before.0 && now.1 > before.1 {
            return;
        }
        assert!(Instant::now() < until, "the bystander is not served any more:\n{}", machine.tail());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Waits until the status page says this of a component; nothing, if there is no text.
fn wait_for_trouble(machine: &Machine, component: &str, text: Option<&str>) {
    let until = Instant::now() + PATIENCE;
    loop {
        let status = machine.status();
        let trouble = status.component(component)["trouble"].as_str();
        match (trouble, text) {
            (None, None) => return,
            (Some(trouble), Some(text)) if trouble.contains(text) => return,
            _ => {}
        }
        assert!(Instant::now() < until, "{component} says {trouble:?} and not {text:?}:\n{}", machine.tail());
        std::thread::sleep(Duration::from_millis(100));
    }
}

#[test]
fn the_status_page_says_what_is_wrong_with_a_medium() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    make_cards(folder.path());
    let file = folder.path().join("media.toml");
    std::fs::write(&file, SYSTEM).expect("the folder is writable");
    let port = free_port();
    let options = Qmp::options(port);
    let boot = Boot::system(file.to_str().expect("temporary paths are text"));
    let mut machine = boot.option(&[&options[0], &options[1]]).start(&[80]);
    machine.wait_for_web();
    let get = |machine: &Machine| curl(&machine.url("/file.txt"), &[]);
    assert_eq!(get(&machine).body, CONTENT);
    let mut monitor = Qmp::connect(port);
    let mut change = |name: &str| {
        monitor.execute("eject", &json!({ "device": "sd0", "force": true }));
        if !name.is_empty() {
            let image = folder.path().join(name);
            let card = json!({ "device": "sd0", "filename": image, "format": "raw" });
            monitor.execute("blockdev-change-medium", &card);
        }
    };
    change("");
    wait_for_trouble(&machine, "sd0_virt", Some("there is no medium"));
    wait_for_trouble(&machine, "files", Some("its disk is not there"));
    wait_for_bystander(&machine);
    change("table.img");
    wait_for_trouble(&machine, "sd0_virt", Some("the disk's partitions cannot be found: neither GPT can be used"));
    let page = curl(&machine.url("/_status"), &[]).text();
    assert!(page.contains("<small class=\"trouble\">the disk"), "{page}");
    wait_for_bystander(&machine);
    change("volume.img");
    wait_for_trouble(&machine, "sd0_virt", None);
    wait_for_trouble(
        &machine,
        "files",
        Some("the disk has no volume that can be used: there is no boot sector of FAT"),
    );
    wait_for_bystander(&machine);
    change("absurd.img");
    let absurd = "the disk has no volume that can be used: its boot sector has fields that FAT does not allow";
    wait_for_trouble(&machine, "files", Some(absurd));
    wait_for_bystander(&machine);
    for name in ["circle.img", "chains.img"] {
        change(name);
        wait_for_trouble(&machine, "files", None);
        let _ = curl(&machine.url("/file.txt"), &["--max-time", "30"]);
        wait_for_trouble(&machine, "files", Some("the volume is damaged"));
        wait_for_bystander(&machine);
    }
    change("good.img");
    wait_for_trouble(&machine, "files", None);
    assert_eq!(get(&machine).body, CONTENT);
    for said in [
        "error sd0_virt: the disk's partitions cannot be found: neither GPT can be used",
        "error files: the disk has no volume that can be used: there is no boot sector of FAT",
        &format!("error files: {absurd}"),
    ] {
        machine.expect_anywhere(said);
    }
    assert_eq!(machine.count("error files: the volume is damaged"), 2, "a circle, and chains that lead nowhere");
    machine.is_unharmed();
}

/// Boots a web server beside a virtio disk with these keys, which QEMU gives these properties; a
/// component is to say this.
fn beside_a_disk(keys: &str, properties: &[(&str, &str)], component: &str, text: &str) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join("disk-trouble.toml");
    let description = format!(
        "name = \"disk-trouble\"\ndescription = \"A web server beside a disk of no use\"\nboard = \"virt\"\n\
         [device.nic0]\npriority = 240\n[device.uart0]\npriority = 60\n\
         [device.disk0]\npriority = 200\nimage = \"disk.img\"\n{keys}\n\
         [pd.client]\ncomponent = \"block-test\"\npriority = 90\ndisk = {{ device = \"disk0\" }}\n\
         [pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nnet = \"nic0\"\n"
    );
    std::fs::write(&file, description).expect("the folder is writable");
    std::fs::write(folder.path().join("disk.img"), vec![0; 1 << 20]).expect("the folder is writable");
    let mut boot = Boot::system(file.to_str().expect("temporary paths are text"));
    for (name, value) in properties {
        boot = boot.option(&["--qemu=-global", &format!("--qemu=virtio-blk-device.{name}={value}")]);
    }
    let mut machine = boot.start(&[80]);
    machine.wait_for_web();
    wait_for_trouble(&machine, component, Some(text));
    machine.expect_anywhere(text);
    let status = machine.status();
    assert!(status.faulted().is_empty(), "{:?}", status.faulted());
}

/// Larger blocks than the class knows: there is a device, and no disk.
const LARGE_BLOCKS: [(&str, &str); 2] = [("physical_block_size", "131072"), ("logical_block_size", "131072")];

#[test]
fn the_status_page_says_why_a_virtio_disk_is_none() {
    beside_a_disk("", &LARGE_BLOCKS, "disk0_driver", "there is no disk: the device has blocks of 131072 bytes");
}

#[test]
fn so_it_does_where_driver_and_virtualiser_are_one_domain() {
    beside_a_disk("fused = true", &LARGE_BLOCKS, "disk0_driver", "the device has blocks of 131072 bytes");
}
