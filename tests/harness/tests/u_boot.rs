//! The image boots as a board would boot it: by U-Boot's `booti`, which reads the Linux arm64
//! header, moves the image to where that says, and enters it; typed by hand, or found on a disk.
//!
//! Debian's U-Boot for this machine reads no SD card: it is built without drivers for them ("MMC
//! support not available!" is among its texts). So it finds a card's content on a virtio disk here.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::root;
use culm_tests_harness::screen::Screen;
use std::io::Write as _;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Debian's U-Boot for this machine, package u-boot-qemu.
const U_BOOT: &str = "/usr/lib/u-boot/qemu_arm64/u-boot.bin";

/// Where the image is before it is moved: not where it belongs, so that moving it is tested too.
const STAGING: &str = "0x48000000";

/// A machine with a prompt, which ends no line.
struct Prompt {
    emulator: Child,
    keyboard: ChildStdin,
    screen: Screen,
}

impl Prompt {
    /// Starts the machine with these devices.
    fn start(devices: &[&str]) -> Self {
        let mut emulator = Command::new("qemu-system-aarch64")
            .args(["-nodefaults", "-display", "none", "-serial", "stdio", "-m", "512M", "-cpu", "cortex-a76"])
            .args(["-machine", "virt,gic-version=3,virtualization=on", "-bios", U_BOOT])
            .args(["-global", "virtio-mmio.force-legacy=false"])
            .args(devices)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("QEMU starts");
        let keyboard = emulator.stdin.take().expect("the keyboard was asked for");
        let screen = Screen::new(emulator.stdout.take().expect("the screen was asked for"));
        Self { emulator, keyboard, screen }
    }

    /// Waits for a text and forgets everything up to it.
    fn expect(&mut self, text: &str) {
        self.screen.expect(text);
    }

    fn enter(&mut self, line: &str) {
        writeln!(self.keyboard, "{line}").and_then(|()| self.keyboard.flush()).expect("U-Boot reads");
    }
}

impl Drop for Prompt {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.emulator.kill();
        _ = self.emulator.wait();
    }
}

/// Runs the tool, which must succeed.
fn culm(arguments: &[&str]) {
    assert!(std::path::Path::new(U_BOOT).is_file(), "this test needs {U_BOOT}: `./culm setup --tests` installs it");
    let tool = std::env::var("CULM").map_or_else(|_| root().join("culm"), Into::into);
    let status = Command::new(tool).args(arguments).current_dir(root()).status().expect("`./culm` starts");
    assert!(status.success(), "{arguments:?}");
}

#[test]
fn booti_starts_the_image() {
    culm(&["build", "hello"]);
    let image = root().join("build/hello-virt/image");
    let loader = format!("loader,file={},addr={STAGING},force-raw=on", image.display());
    let mut machine = Prompt::start(&["-device", &loader]);
    machine.expect("Hit any key to stop autoboot");
    machine.enter("");
    machine.expect("=> ");
    machine.enter(&format!("booti {STAGING} - ${{fdtcontroladdr}}"));
    machine.expect("Moving Image");
    machine.expect("hello, world! (2)");
}

/// U-Boot finds the system by itself on a disk that the tool has made, on whatever partition.
#[test]
fn a_disk_boots() {
    for (table, fat, first) in
        [("gpt", 32, ""), ("mbr", 16, "[[partition]]\nname = \"data\"\nsize = \"8MiB\"\nfat = 16\n")]
    {
        let folder = tempfile::tempdir().expect("a folder");
        let description = folder.path().join("card.toml");
        let text = format!(
            "table = \"{table}\"\n{first}[[partition]]\nname = \"boot\"\nsize = \"40MiB\"\nfat = {fat}\nboot = \"hello\"\n"
        );
        std::fs::write(&description, text).expect("a file");
        let image = folder.path().join("card.img");
        let path = |path: &std::path::Path| path.to_str().expect("the path is text").to_string();
        culm(&["image", &path(&description), "-o", &path(&image)]);
        let drive = format!("if=none,id=card,format=raw,file={}", image.display());
        let mut machine = Prompt::start(&["-drive", &drive, "-device", "virtio-blk-device,drive=card"]);
        machine.expect("Hit any key to stop autoboot");
        machine.enter("");
        machine.expect("=> ");
        machine.enter("boot");
        machine.expect("extlinux.conf");
        machine.expect("Moving Image");
        machine.expect("hello, world! (2)");
    }
}

/// One card has the system, its files, and a partition for what the system keeps. U-Boot leaves the
/// PCI bus with addresses of its own; the system finds the card behind its controller all the same.
/// U-Boot reads a copy of the card, on a virtio disk.
#[test]
fn a_card_has_the_system_and_what_the_system_keeps() {
    const SIZE: u64 = 64 << 20;
    let folder = tempfile::tempdir().expect("a folder");
    let path = |name: &str| folder.path().join(name).to_str().expect("the path is text").to_string();
    let data = "{ name = \"data\", size = \"8MiB\" }";
    let system = format!(
        "name = \"card-boot\"\ndescription = \"A system that boots from a card\"\nboard = \"virt\"\n\
         [device.uart0]\npriority = 220\n[device.pci0]\npriority = 50\n\
         [device.sd0]\npriority = 200\nbus = \"pci0\"\nimage = {{ partition = [{data}] }}\n\
         [pd.keeper]\ncomponent = \"block-test\"\npriority = 100\nconfig = {{ seed = 30, rounds = 1 }}\n\
         disk = {{ device = \"sd0\", partition = \"data\", size = \"1MiB\" }}\n"
    );
    std::fs::write(path("card-boot.toml"), system).expect("a file");
    let boot = "{ name = \"boot\", size = \"40MiB\", fat = 32, boot = \"card-boot.toml\" }";
    let card = format!("size = {SIZE}\npartition = [{boot}, {data}]\n");
    std::fs::write(path("card.toml"), card).expect("a file");
    culm(&["image", &path("card.toml"), "-o", &path("card.img")]);
    std::fs::copy(path("card.img"), path("copy.img")).expect("there is space");
    let drive = |id: &str, file: &str| format!("if=none,id={id},format=raw,file={}", path(file));
    let mut machine = Prompt::start(&[
        "-drive",
        &drive("copy", "copy.img"),
        "-device",
        "virtio-blk-device,drive=copy",
        "-drive",
        &drive("card", "card.img"),
        "-device",
        "sdhci-pci,bus=pcie.0,addr=1",
        "-device",
        "sd-card,drive=card",
    ]);
    machine.expect("Hit any key to stop autoboot");
    machine.enter("");
    machine.expect("=> ");
    // Has U-Boot give the devices on the bus their addresses.
    machine.enter("pci enum");
    machine.expect("=> ");
    machine.enter("boot");
    machine.expect("Moving Image");
    machine.expect("keeper: block-test passed");
    drop(machine);
    // Behind the first MiB, which is the table's, and the 40 of the first partition.
    let content = std::fs::read(path("card.img")).expect("the card is there");
    let word = |index: u64| (30_u64 << 32 ^ index).to_le_bytes();
    let pattern: Vec<u8> = (0..(1_u64 << 20) / 8).flat_map(word).collect();
    assert!(content[41 << 20..42 << 20] == pattern, "the card has not what the system has written");
    assert!(
        content[42 << 20..49 << 20].iter().all(|byte| *byte == 0),
        "bytes outside of the client's part have changed"
    );
}
