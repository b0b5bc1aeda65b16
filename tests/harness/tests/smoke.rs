//! One system of each kind comes up and does its work: what `./culm test --quick` runs.

use culm_tests_harness::Boot;
use culm_tests_harness::client::curl;
use culm_tests_harness::process::{are_gone, children};

#[test]
fn hello_greets_and_ctrl_c_leaves_nothing_behind() {
    let mut machine = Boot::system("hello").start(&[]);
    machine.expect("hello, world");
    machine.expect("hello, world");
    let emulator = children(machine.process());
    assert!(machine.interrupt().success());
    are_gone(&emulator);
}

#[test]
fn web_serves_its_site_and_its_status() {
    let mut machine = Boot::system("web").start(&[80]);
    machine.wait_for_web();
    // QEMU's user networking has a DHCP server.
    machine.expect_anywhere("http: address 10.0.2.15/24 by DHCP");
    let page = curl(&machine.url("/"), &[]);
    assert_eq!(page.status, 200);
    assert!(page.text().contains("Culm"));
    let status = machine.status();
    for name in ["nic0_driver", "nic0_rx", "nic0_tx", "http_copier", "http", "uart0_driver", "uart0_virt", "supervisor"]
    {
        assert_eq!(status.component(name)["state"], "alive", "{name}");
    }
}
