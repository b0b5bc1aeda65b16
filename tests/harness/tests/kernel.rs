//! The kernel's words about its own defects. It has none to show, so the test makes them: by the
//! debugger, in its code.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::debugger::Debugger;
use culm_tests_harness::{Boot, Machine, free_port};

/// Where the image stands on the board `virt`: the kernel's code is its beginning.
const IMAGE: u64 = 0x4020_0000;
/// Bytes of code in which the exception vectors are looked for.
const CODE: usize = 0x1_0000;

/// How an exception from EL0 begins in the kernel: `stp x16, x17, [sp, #-16]`, `mrs x16, esr_el1`.
const ENTRY: [u32; 2] = [0xa93f_47f0, 0xd538_5210];

fn bytes(code: &[u32]) -> Vec<u8> {
    code.iter().flat_map(|instruction| instruction.to_le_bytes()).collect()
}

/// How the kernel calls the firmware, at EL2: `smc #0`.
const FIRMWARE: [u32; 1] = [0xd400_0003];

/// A machine, and the port of its debugger.
fn with_debugger(system: &str) -> (Machine, u16) {
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port}");
    (Boot::system(system).option(&["--qemu", "-gdb", "--qemu", &listen]).start(&[]), port)
}

/// Puts `new` where `old` is in the kernel's code; there must be one place at least.
fn replace(port: u16, old: &[u32], new: &[u32]) {
    let mut debugger = Debugger::connect(port);
    let kernel = debugger.read(IMAGE, CODE);
    let old = bytes(old);
    let found: Vec<_> = (0..CODE - old.len()).step_by(4).filter(|&at| kernel[at..].starts_with(&old)).collect();
    assert!(!found.is_empty(), "the kernel has this code");
    for at in found {
        debugger.write(IMAGE + at as u64, &bytes(new));
    }
}

/// A machine whose kernel meets `code` at its next entry by an exception.
fn with_defect(code: [u32; 2]) -> Machine {
    let (mut machine, port) = with_debugger("hello");
    machine.expect("hello, world");
    replace(port, &ENTRY, &code);
    machine
}

#[test]
fn a_stack_that_overflows_is_named() {
    // str x0, [sp, #-256]!; back to it
    let mut machine = with_defect([0xf810_0fe0, 0x17ff_ffff]);
    machine.expect("culm: panic: the kernel's stack of core 0 is too small");
    machine.wait();
}

#[test]
fn an_exception_in_the_kernel_is_described() {
    // udf #0
    let mut machine = with_defect([0, 0]);
    machine.expect("culm: panic: exception in the kernel at 0xffffff8000");
    machine.wait();
}

/// One domain faults, for which the system halts; one that greets, and the log's way out, are on
/// another core.
const HALTS: &str = r#"
name = "halts"
description = "A halt, and somebody on another core"
board = "virt"
[device.uart0]
priority = 240
core = 1
[pd.hello]
component = "hello"
priority = 100
core = 1
config = { whom = "world", every = "20ms" }
[pd.faulty]
component = "misbehave"
priority = 100
on_fault = "halt"
config = { rule = "panic", after = "3s" }
"#;

/// Core 0 meets a defect of the kernel, for which it panics; core 1 meets none.
#[test]
fn a_panic_stops_the_other_cores_too() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join("panics.toml");
    // This wakes core 0, which by then is somewhere else.
    std::fs::write(&file, HALTS.replace("\"3s\"", "\"20s\"")).expect("the folder is writable");
    let (mut machine, port) = with_debugger(file.to_str().expect("temporary paths are text"));
    machine.expect("hello, world");
    replace(port, &FIRMWARE, &[0xd503_201f]);
    // In the kernel's half, where nothing is. Core 0 sleeps in the kernel.
    Debugger::connect(port).jump(0, 0xffff_ffff_ffff_f000);
    machine.expect("culm: panic: ");
    is_silent_after(&mut machine, "culm: panic: ");
}

#[test]
fn a_halt_stops_the_other_cores_too() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join("halts.toml");
    std::fs::write(&file, HALTS).expect("the folder is writable");
    let (mut machine, port) = with_debugger(file.to_str().expect("temporary paths are text"));
    machine.expect("hello, world");
    // A machine that cannot be switched off: nop in place of the call.
    replace(port, &FIRMWARE, &[0xd503_201f]);
    machine.expect("culm: halt, status");
    is_silent_after(&mut machine, "culm: halt, status");
}

/// Core 1, which would say much, says nothing more.
fn is_silent_after(machine: &mut Machine, end: &str) {
    // The machine goes on: what its cores do would be seen by now, were they to do anything.
    std::thread::sleep(std::time::Duration::from_secs(2));
    let console = machine.console();
    let (_, after) = console.split_once(end).expect("just seen");
    let greetings = after.matches("hello, world").count();
    assert!(greetings <= 1, "a line that was under way, and no more:\n{after}");
}
