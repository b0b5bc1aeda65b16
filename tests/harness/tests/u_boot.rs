//! The image boots as a board would boot it: by U-Boot's `booti`, which reads the Linux arm64
//! header, moves the image to where that says, and enters it.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{PATIENCE, root};
use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::Instant;

/// Debian's U-Boot for this machine, package u-boot-qemu.
const U_BOOT: &str = "/usr/lib/u-boot/qemu_arm64/u-boot.bin";

/// Where the image is before it is moved: not where it belongs, so that moving it is tested too.
const STAGING: &str = "0x48000000";

/// A machine with a prompt, which ends no line.
struct Prompt {
    emulator: Child,
    keyboard: ChildStdin,
    output: Receiver<Vec<u8>>,
    seen: String,
}

impl Prompt {
    fn start(image: &str) -> Self {
        let loader = format!("loader,file={image},addr={STAGING},force-raw=on");
        let mut emulator = Command::new("qemu-system-aarch64")
            .args(["-nodefaults", "-display", "none", "-serial", "stdio", "-m", "512M", "-cpu", "cortex-a76"])
            .args(["-machine", "virt,gic-version=3,virtualization=on", "-bios", U_BOOT, "-device", &loader])
            .args(["-global", "virtio-mmio.force-legacy=false"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("QEMU starts");
        let keyboard = emulator.stdin.take().expect("the keyboard was asked for");
        let mut screen = emulator.stdout.take().expect("the screen was asked for");
        let (sender, output) = channel();
        std::thread::spawn(move || {
            let mut buffer = [0; 1024];
            while let Ok(count @ 1..) = screen.read(&mut buffer) {
                if sender.send(buffer[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Self { emulator, keyboard, output, seen: String::new() }
    }

    /// Waits for a text and forgets everything up to it.
    fn expect(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.seen.find(text) {
                self.seen.drain(..at + text.len());
                return;
            }
            match self.output.recv_timeout(until.saturating_duration_since(Instant::now())) {
                Ok(bytes) => self.seen.push_str(&String::from_utf8_lossy(&bytes)),
                Err(error) => panic!("no {text:?} ({error}); the console so far:\n{}", self.seen),
            }
        }
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

#[test]
fn booti_starts_the_image() {
    assert!(std::path::Path::new(U_BOOT).is_file(), "this test needs {U_BOOT}: `./culm setup --tests` installs it");
    let tool = std::env::var("CULM").map_or_else(|_| root().join("culm"), Into::into);
    let status = Command::new(tool).args(["build", "hello"]).current_dir(root()).status().expect("`./culm` starts");
    assert!(status.success());
    let image = root().join("build/hello-virt/image");
    let mut machine = Prompt::start(image.to_str().expect("the checkout's path is text"));
    machine.expect("Hit any key to stop autoboot");
    machine.enter("");
    machine.expect("=> ");
    machine.enter(&format!("booti {STAGING} - ${{fdtcontroladdr}}"));
    machine.expect("Moving Image");
    machine.expect("hello, world! (2)");
}
