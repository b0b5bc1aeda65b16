//! One system of each kind comes up and does its work: what `./culm test --quick` runs.

use culm_system_tests::Boot;
use culm_system_tests::client::curl;
use std::time::Duration;

#[test]
fn hello_greets_and_ctrl_c_leaves_nothing_behind() {
    let mut machine = Boot::system("hello").start(&[]);
    machine.expect("hello, world");
    machine.expect("hello, world");
    // Asked for while the tool lives: an orphan would have another parent.
    let process = machine.process();
    let is_child = |folder: &std::path::PathBuf| {
        let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{process}"))
    };
    let all = std::fs::read_dir("/proc").expect("Linux has /proc").flatten().map(|entry| entry.path());
    let children: Vec<_> = all.filter(is_child).collect();
    assert!(!children.is_empty(), "the tool has an emulator");
    machine.interrupt();
    std::thread::sleep(Duration::from_millis(500));
    assert!(!children.iter().any(|folder| folder.exists()), "QEMU outlived the tool");
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
