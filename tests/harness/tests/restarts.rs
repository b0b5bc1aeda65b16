//! Every compartment on a packet's way is made to fault under load; it is started again, and the
//! web server serves on.

#![allow(missing_docs, reason = "a test's name says what it tests")]

use culm_tests_harness::client::{Background, curl};
use culm_tests_harness::debugger::{Debugger, code};
use culm_tests_harness::{Boot, Machine, free_port, on_a_wire, root};
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// Those on the way, in its order, and back.
const DOMAINS: &[&str] = &["nic0_driver", "nic0_rx", "http_copier", "http", "nic0_tx"];

/// The same, if driver and virtualisers are one domain.
const FUSED: &[&str] = &["nic0_driver", "http_copier", "http"];

const RESTART: &str = "restart = { limit = 1000, window = \"1s\", backoff = \"3s\" }";

/// A web server whose compartments are started again only after a while, during which their code
/// can be put back. Where the host is too slow for that, they fault again, and wait twice as long:
/// as often as it takes.
fn description(name: &str, keys: &str) -> String {
    let restart = RESTART;
    let site = root().join("site");
    format!(
        "name = \"{name}\"\ndescription = \"Faults under load\"\nboard = \"virt\"\n\
         [device.nic0]\npriority = 240\n{keys}{restart}\n[device.uart0]\npriority = 60\n\
         [pd.http]\ncomponent = \"http\"\npriority = 100\nobserve = true\nconfig = {{ site = {site:?} }}\n\
         net = \"nic0\"\n{restart}\n"
    )
}

/// Takes a domain's code away until it has noticed.
fn break_down(machine: &mut Machine, port: u16, build: &str, domain: &str) {
    let (address, size) = code(build, domain);
    let mut debugger = Debugger::connect(port);
    let code = debugger.read(address, size);
    // All instructions are undefined now (Arm ARM C6.2, UDF).
    debugger.write(address, &vec![0; size]);
    drop(debugger);
    machine.expect(&format!("supervisor: {domain} faulted: undefined instruction"));
    Debugger::connect(port).write(address, &code);
}

#[test]
fn whatever_breaks_under_load_serves_again() {
    breaks_and_serves_again("restarts", &format!("virtualiser = {{ {RESTART} }}\n"), DOMAINS);
}

#[test]
fn what_is_fused_breaks_under_load_and_serves_again() {
    breaks_and_serves_again("restarts-fused", "fused = true\n", FUSED);
}

fn breaks_and_serves_again(name: &str, keys: &str, domains: &[&str]) {
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let file = folder.path().join(format!("{name}.toml"));
    std::fs::write(&file, description(name, keys)).expect("the folder is writable");
    let port = free_port();
    on_a_wire(boot(&file, port), |machine| {
        machine.wait_for_web();
        let page = curl(&machine.url("/"), &[]).body;
        let url = machine.url("/");
        let _load = Background::start("wrk", &["-t1", "-c32", "-d3600s", "--timeout", "5s", &url]);
        for &domain in domains {
            break_down(machine, port, &format!("{name}-virt"), domain);
            machine.expect(&format!("supervisor: {domain} restarted"));
            machine.wait_for_web();
            assert!(curl(&url, &[]).body == page, "not the page after a restart of {domain}");
            // The status page looks at the others once in a while.
            let is_told = |machine: &mut Machine| machine.status().component(domain)["restarts"].as_u64() >= Some(1);
            let told = (0..100).any(|_| {
                is_told(machine) || {
                    sleep(Duration::from_millis(200));
                    false
                }
            });
            assert!(told, "{domain} was not started again:\n{}", machine.tail());
        }
        // Nobody else noticed.
        let status = machine.status();
        assert_eq!(status.faulted(), sorted_as(&status, domains), "{}", machine.tail());
    });
}

fn boot(file: &Path, port: u16) -> Boot {
    let listen = format!("tcp:127.0.0.1:{port}");
    Boot::system(file.to_str().expect("temporary paths are text")).option(&["--qemu", "-gdb", "--qemu", &listen])
}

/// These names in the status's order.
fn sorted_as<'a>(status: &'a culm_tests_harness::client::Status, names: &[&str]) -> Vec<&'a str> {
    let all = status.components().iter().filter_map(|component| component["name"].as_str());
    all.filter(|name| names.contains(name)).collect()
}
