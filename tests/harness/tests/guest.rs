//! A guest in its compartment: the smallest one that uses each part of its machine, and Linux.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::debugger::{Debugger, code};
use culm_tests_harness::terminal::Terminal;
use culm_tests_harness::{Boot, free_port, tiny_guest};
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
    describe("guest", DESCRIPTION)
}

/// A system of this name in a folder of its own.
fn describe(name: &str, description: &str) -> (TempDir, Boot) {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    std::fs::write(folder.path().join("tiny.image"), tiny_guest::image()).expect("the folder is writable");
    let file = folder.path().join(format!("{name}.toml"));
    std::fs::write(&file, description).expect("the folder is writable");
    let boot = Boot::system(file.to_str().expect("temporary paths are text"));
    boot.build();
    (folder, boot)
}

/// Runs the guest until it waits for input.
fn run(boot: &Boot) -> Terminal {
    let mut terminal = Terminal::run(&boot.run_command());
    begins(&mut terminal);
    terminal
}

/// The guest says all that it says until it waits for input.
fn begins(terminal: &mut Terminal) {
    for words in ["tiny: hello", "tiny: the timer went off", "tiny: an interrupt to itself"] {
        terminal.expect(words);
    }
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
fn a_guest_that_resets_itself_begins_anew() {
    let (_folder, boot) = boot();
    let mut terminal = run(&boot);
    for _ in 0..3 {
        terminal.press("r");
        terminal.expect("the guest has reset itself");
        begins(&mut terminal);
    }
    terminal.press("abc");
    terminal.expect("abc");
}

/// The guest is on another core than its monitor, which loses all of its code for a while.
#[test]
fn a_guest_whose_monitor_dies_begins_anew() {
    let restart = "restart = { limit = 1000, window = \"1ms\", backoff = \"1ms\" }\n";
    let apart = DESCRIPTION
        .replace("name = \"guest\"", "name = \"guest-apart\"")
        .replace("may_halt = true\n", &format!("may_halt = true\n{restart}"))
        .replace("memory = \"8MiB\"\n", "memory = \"8MiB\"\ncores = [1]\n");
    let (_folder, boot) = describe("guest-apart", &apart);
    let port = free_port();
    let mut terminal = run(&boot.option(&["--qemu", "-gdb", "--qemu", &format!("tcp:127.0.0.1:{port}")]));
    let (address, size) = code("guest-apart-virt", "monitor");
    let text = Debugger::connect(port).read(address, size);
    for _ in 0..3 {
        // Undefined ones (Arm ARM C6.2, UDF).
        Debugger::connect(port).write(address, &vec![0; size]);
        terminal.press("a");
        terminal.expect("supervisor: monitor faulted");
        Debugger::connect(port).write(address, &text);
        terminal.expect("the monitor was restarted: its guest begins anew");
        begins(&mut terminal);
    }
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
    terminal.press("reboot -f\r");
    terminal.expect("the guest has reset itself");
    terminal.expect("/ # ");
    terminal.press("echo $((6 * 8)) words\r");
    terminal.expect("48 words");
    terminal.press("poweroff -f\r");
    terminal.expect("the guest has switched itself off");
    assert_eq!(terminal.wait().code(), Some(0));
}
