//! How runs end: by themselves, by Ctrl-C, by a kill; with what status, and with nothing left
//! behind.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::curl;
use culm_tests_harness::process::{are_gone, blocks, children};
use culm_tests_harness::terminal::Terminal;
use culm_tests_harness::{Boot, Machine};
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

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

fn send(machine: &Machine, signal: Signal) {
    let process = i32::try_from(machine.process()).expect("a process number fits");
    kill(Pid::from_raw(process), signal).expect("it is alive");
}

#[test]
fn ctrl_c_at_a_terminal_ends_well_and_leaves_it_as_it_was() {
    let boot = Boot::system("hello");
    boot.build();
    let mut terminal = Terminal::run(&boot.run_command());
    terminal.expect("hello, world! (2)");
    assert!(!terminal.is_in_order(), "the machine's console takes keys one by one");
    let emulator = children(terminal.process());
    // Else it could not be asked to end, and would be killed after a while.
    assert!(!emulator.iter().any(|process| blocks(process, Signal::SIGTERM)), "QEMU can be told to end");
    terminal.press("\x03");
    assert!(terminal.wait().success());
    assert!(terminal.is_in_order(), "the terminal is a shell's again");
    are_gone(&emulator);
}

#[test]
fn a_tool_told_to_end_ends_as_told_and_leaves_nothing_behind() {
    for signal in [Signal::SIGTERM, Signal::SIGHUP] {
        let machine = hello();
        let emulator = children(machine.process());
        send(&machine, signal);
        assert_eq!(machine.wait().code(), Some(128 + signal as i32));
        are_gone(&emulator);
    }
}

#[test]
fn a_killed_tool_leaves_nothing_behind() {
    let machine = hello();
    let emulator = children(machine.process());
    send(&machine, Signal::SIGKILL);
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
    machine.expect(" at tests/components/misbehave/src/");
    assert!(machine.interrupt().success());
}

#[test]
fn of_two_servers_each_is_where_the_tool_says() {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let mut text = String::from(
        "name = \"two\"\ndescription = \"Two servers\"\nboard = \"virt\"\n[device.uart0]\npriority = 60\n\
         [device.nic0]\npriority = 240\n",
    );
    for name in ["left", "right"] {
        std::fs::create_dir(folder.path().join(name)).expect("the folder is writable");
        std::fs::write(folder.path().join(name).join("name.txt"), name).expect("the folder is writable");
        text += &format!(
            "[pd.{name}]\ncomponent = \"http\"\npriority = 100\nnet = \"nic0\"\nconfig = {{ site = \"{name}\" }}\n"
        );
    }
    let file = folder.path().join("two.toml");
    std::fs::write(&file, text).expect("the folder is writable");
    let mut machine = Boot::system(file.to_str().expect("temporary paths are text")).start(&[]);
    for name in ["left", "right"] {
        machine.expect_anywhere(&format!("{name} is at http://localhost:"));
        let console = machine.console();
        let line = console.lines().find_map(|line| line.split_once(&format!("{name} is at "))).expect("it came").1;
        let url = format!("{}name.txt", line.trim().replace("localhost", "127.0.0.1"));
        assert_eq!(curl(&url, &[]).text(), name, "{url}");
    }
    assert!(machine.interrupt().success());
}
