//! What the kernel says of its own defects. It has none to show, so the test makes them: by the debugger, in its code.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_system_tests::debugger::Debugger;
use culm_system_tests::{Boot, Machine, free_port};

/// Where the image stands on the board `virt`: the kernel's code is its beginning.
const IMAGE: u64 = 0x4020_0000;
/// Bytes of code in which the exception vectors are looked for.
const CODE: usize = 0x1_0000;

/// How an exception from EL0 begins in the kernel: `stp x16, x17, [sp, #-16]`, `mrs x16, esr_el1`.
const ENTRY: [u32; 2] = [0xa93f_47f0, 0xd538_5210];

fn bytes(code: &[u32]) -> Vec<u8> {
    code.iter().flat_map(|instruction| instruction.to_le_bytes()).collect()
}

/// A machine whose kernel meets `code` at its next entry by an exception.
fn with_defect(code: [u32; 2]) -> Machine {
    let port = free_port();
    let listen = format!("tcp:127.0.0.1:{port}");
    let mut machine = Boot::system("hello").option(&["--qemu", "-gdb", "--qemu", &listen]).start(&[]);
    machine.expect("hello, world");
    let mut debugger = Debugger::connect(port);
    let kernel = debugger.read(IMAGE, CODE);
    let entry = bytes(&ENTRY);
    let mut found = (0..CODE - entry.len()).step_by(4).filter(|&at| kernel[at..].starts_with(&entry));
    let at = found.next().expect("the kernel has an entry");
    assert_eq!(found.next(), None, "it has one");
    debugger.write(IMAGE + at as u64, &bytes(&code));
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
