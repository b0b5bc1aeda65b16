//! gdb, as it is, looks into Linux in a guest by the monitor's own connection.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::run;
use culm_tests_harness::terminal::Terminal;
use culm_tests_harness::{Boot, free_port, root};

/// Has gdb ask by guest-physical addresses.
const PHYSICAL: &str = "maintenance packet Qqemu.PhyMemMode:1";

/// Reads the mark in the header of the kernel's image, by its guest-physical address.
const HEADER: &str = "x/s 0x40000038";

/// The system `linux` with two CPUs, and a serial port for a debugger.
fn describe(folder: &std::path::Path) -> Boot {
    let system = std::fs::read_to_string(root().join("systems/linux.toml")).expect("the system is there");
    let system = system
        .replace("name = \"linux\"", "name = \"guest-debugger\"")
        .replace("[device.uart0]", "[device.uart1]\npriority = 60\n\n[device.uart0]")
        .replace("entropy = \"rng0\"", "entropy = \"rng0\"\ndebug = { device = \"uart1\", input = true }")
        .replace("memory = \"128MiB\"", "memory = \"128MiB\"\ncores = [0, 1]")
        .replace("\"linux/", &format!("\"{}/", root().join("systems/linux").display()));
    let file = folder.join("guest-debugger.toml");
    std::fs::write(&file, system).expect("the folder is writable");
    let boot = Boot::system(file.to_str().expect("temporary paths are text"));
    boot.build();
    boot
}

/// What gdb says to these commands, once it is connected.
fn gdb(port: u16, commands: &[&str]) -> String {
    let target = format!("target remote 127.0.0.1:{port}");
    let mut arguments =
        vec!["-nx", "-batch", "-ex", "set pagination off", "-ex", "set remotetimeout 60", "-ex", &target];
    arguments.extend(commands.iter().flat_map(|command| ["-ex", command]));
    run(120, "gdb-multiarch", &arguments)
}

#[test]
fn gdb_sees_the_cpus_and_the_memory_of_a_linux_that_goes_on_then() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let port = free_port();
    let boot = describe(folder.path()).option(&["--serial", &format!("uart1:{port}")]);
    let mut terminal = Terminal::run(&boot.run_command());
    terminal.expect("/ # ");
    for _ in 0..2 {
        let said = gdb(
            port,
            &[
                "info threads",
                "thread 2",
                "info registers",
                "thread 1",
                // Where it stands is a virtual address of its kernel's, or of a program's.
                "x/4i $pc",
                PHYSICAL,
                HEADER,
                "detach",
            ],
        );
        for part in ["(CPU 0)", "(CPU 1)", "x30 ", "cpsr ", "=> 0x", "\"ARMd"] {
            assert!(said.contains(part), "{part}:\n{said}");
        }
        assert!(!said.contains("Cannot access memory"), "{said}");
        // It goes on.
        terminal.press("echo $((6 * 7)) words\r");
        terminal.expect("42 words");
    }
    // What gdb changes is so.
    let change = |letter| format!("set var *(char *) 0x40000038 = '{letter}'");
    let said = gdb(port, &[PHYSICAL, &change('a'), HEADER, &change('A'), HEADER, "detach"]);
    assert!(said.contains("\"aRMd") && said.contains("\"ARMd"), "{said}");
    terminal.press("poweroff -f\r");
    terminal.expect("culm: halt, status 0");
    assert_eq!(terminal.wait().code(), Some(0));
}
