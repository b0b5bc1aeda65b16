//! How runs end: by themselves, by Ctrl-C, by a kill; with what status, and with nothing left behind.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_system_tests::{Boot, Machine};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The folders in /proc of a process's children, to be asked for while it lives: an orphan has another parent.
fn children(process: u32) -> Vec<PathBuf> {
    let is_child = |folder: &PathBuf| {
        let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{process}"))
    };
    let all = std::fs::read_dir("/proc").expect("Linux has /proc").flatten().map(|entry| entry.path());
    let children: Vec<_> = all.filter(is_child).collect();
    assert!(!children.is_empty(), "the tool has an emulator");
    children
}

fn are_gone(processes: &[PathBuf]) {
    let until = Instant::now() + Duration::from_secs(20);
    while let Some(alive) = processes.iter().find(|folder| folder.exists()) {
        assert!(Instant::now() < until, "{} outlived the tool", alive.display());
        std::thread::sleep(Duration::from_millis(50));
    }
}

fn hello() -> Machine {
    let mut machine = Boot::system("hello").start(&[]);
    machine.expect("hello, world! (2)");
    machine
}

/// A system of one component that misbehaves.
fn misbehaving(rest: &str) -> (tempfile::TempDir, Machine) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join("end.toml");
    let text = format!(
        "name = \"end\"\ndescription = \"Ends\"\nboard = \"virt\"\n[device.uart0]\npriority = 200\n\
         [pd.victim]\ncomponent = \"misbehave\"\npriority = 100\n{rest}\n"
    );
    std::fs::write(&file, text).expect("the folder is writable");
    let machine = Boot::system(file.to_str().expect("temporary paths are text")).start(&[]);
    (folder, machine)
}

#[test]
fn ctrl_c_ends_well_and_leaves_nothing_behind() {
    let machine = hello();
    let emulator = children(machine.process());
    assert!(machine.interrupt().success());
    are_gone(&emulator);
}

#[test]
fn a_killed_tool_leaves_nothing_behind() {
    let machine = hello();
    let emulator = children(machine.process());
    let process = i32::try_from(machine.process()).expect("a process number fits");
    kill(Pid::from_raw(process), Signal::SIGKILL).expect("it is alive");
    assert!(!machine.wait().success());
    are_gone(&emulator);
}

#[test]
fn a_system_that_halts_itself_with_status_0_has_ended_well() {
    // With the right to halt, what this rule forbids is allowed.
    let (_folder, mut machine) = misbehaving("may_halt = true\nconfig = { rule = \"halt-without-right\" }");
    machine.expect("culm: halt, status 0");
    assert!(machine.wait().success());
}

#[test]
fn a_system_that_a_fault_halts_has_not_ended_well() {
    let (_folder, machine) = misbehaving("on_fault = \"halt\"");
    assert!(!machine.wait().success());
}

#[test]
fn a_backtrace_names_functions_and_lines() {
    let (_folder, mut machine) = misbehaving("on_fault = \"stop\"");
    machine.expect("backtrace victim: 0x");
    machine.expect(" at apps/misbehave/src/");
    assert!(machine.interrupt().success());
}
