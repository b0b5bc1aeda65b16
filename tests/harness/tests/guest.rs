//! A guest in its compartment: the smallest one that uses each part of its machine, and Linux.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::terminal::Terminal;
use culm_tests_harness::{Boot, tiny_guest};
use tempfile::TempDir;

/// A guest that has the console, beside a component that greets all the time.
const DESCRIPTION: &str = r#"
name = "guest"
description = "The smallest guest, beside a component that greets"
board = "virt"

[device.uart0]
priority = 60

[pd.hello]
component = "hello"
priority = 100
config = { whom = "world", every = "100ms" }

[pd.monitor]
component = "vmm"
priority = 50
may_halt = true
config = { halts = true }
guest = "tiny"
console = { device = "uart0", input = true }

[guest.tiny]
kernel = "tiny.image"
memory = "8MiB"
priority = 40
"#;

/// The system in a folder of its own.
fn boot() -> (TempDir, Boot) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("tiny.image"), tiny_guest::image()).expect("the folder is writable");
    let file = folder.path().join("guest.toml");
    std::fs::write(&file, DESCRIPTION).expect("the folder is writable");
    let boot = Boot::system(file.to_str().expect("temporary paths are text"));
    boot.build();
    (folder, boot)
}

/// Runs the guest until it waits for input.
fn run(boot: &Boot) -> Terminal {
    let mut terminal = Terminal::run(&boot.run_command());
    for words in ["tiny: hello", "tiny: the timer went off", "tiny: an interrupt to itself"] {
        terminal.expect(words);
    }
    terminal
}

#[test]
fn a_guest_has_a_timer_interrupts_a_serial_port_and_power() {
    let (_folder, boot) = boot();
    let mut terminal = run(&boot);
    terminal.press("abc");
    terminal.expect("abc");
    terminal.press("q");
    assert_eq!(terminal.wait().code(), Some(0));
}

#[test]
fn a_guest_that_leaves_its_memory_is_stopped_and_harms_nobody() {
    let (_folder, boot) = boot();
    let mut terminal = run(&boot);
    terminal.press("x");
    terminal.expect("the guest did what its machine has not");
    terminal.expect("hello: hello, world");
}

#[test]
fn without_the_host_extensions_a_guest_is_refused() {
    let (_folder, boot) = boot();
    let mut machine = boot.processor("cortex-a72").start(&[]);
    machine.expect("guests need the kernel at EL2 on a processor with the Virtualization Host Extensions");
}

/// Debian's own kernel and busybox, as anybody gets them by `./culm run linux`.
#[test]
fn an_unmodified_linux_gives_its_shell_on_the_console() {
    let boot = Boot::system("systems/linux.toml");
    boot.build();
    let mut terminal = Terminal::run(&boot.run_command());
    // The shell's prompt: what is typed before may be lost, since the port is not open yet.
    terminal.expect("/ # ");
    terminal.press("echo $((6 * 7)) words\r");
    terminal.expect("42 words");
    terminal.press("uname -a\r");
    terminal.expect("Linux (none) 6.");
    terminal.expect("Debian");
    terminal.expect("aarch64 GNU/Linux");
    terminal.press("cat /proc/interrupts\r");
    for interrupt in ["arch_timer", "uart-pl011"] {
        terminal.expect(interrupt);
    }
    terminal.press("poweroff -f\r");
    terminal.expect("the guest has switched itself off");
    assert_eq!(terminal.wait().code(), Some(0));
}
