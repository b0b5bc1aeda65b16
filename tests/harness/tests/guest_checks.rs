//! A guest that checks what it is given (`tests/guest`): interrupt controller, virtual timer,
//! firmware, vector registers, which it shares with a domain of its core, and a second CPU, on its
//! monitor's core and on others.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::{Boot, guest_image};

/// The guest has two CPUs. When it switches itself off, the system ends.
const DESCRIPTION: &str = r#"
name = "guest-checks"
description = "A guest that checks what it is given"
board = "virt"

[device.uart0]
priority = 60

[pd.monitor]
component = "vmm"
priority = 50
may_halt = true
config = { halts = true }
guest = "checks"
console = "uart0"

[pd.beside]
component = "vectors"
priority = 45
core = FIRST
config = { role = "high", every = "5ms", report = 20 }

[guest.checks]
kernel = "KERNEL"
memory = "8MiB"
cores = CORES
priority = 40
"#;

#[test]
fn a_guest_finds_its_controller_timer_and_firmware_as_the_architecture_has_them() {
    let folder = tempfile::tempdir().expect("a temporary folder can be made");
    let kernel = guest_image::build("checks");
    for (cores, first) in [("[0, 1]", "0"), ("[1, 2]", "1")] {
        let file = folder.path().join("guest-checks.toml");
        let description = DESCRIPTION.replace("KERNEL", &kernel.display().to_string());
        let description = description.replace("CORES", cores).replace("FIRST", first);
        std::fs::write(&file, description).expect("the folder is writable");
        let mut machine = Boot::system(file.to_str().expect("temporary paths are text")).start(&[]);
        for life in 0..2 {
            let line = machine.expect(&format!("failed in life {life}"));
            assert!(line.contains(" passed, 0 failed "), "{}", machine.tail());
        }
        machine.expect("the guest has switched itself off");
        assert!(machine.saw("beside: nothing lost in 20 looks") && !machine.saw("lost:"), "{}", machine.tail());
        assert_eq!(machine.wait().code(), Some(0));
    }
}
