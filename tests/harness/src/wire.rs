//! A machine on a wire of its own: a TAP device in a network namespace that is the test's alone.
//!
//! There clients reach the guest directly, with as many connections and with whatever packets they
//! like; QEMU's user networking would end and filter them. It takes root's rights; without them
//! such a test is skipped, and says so.

use crate::client::run;
use crate::dhcp::Server;
use crate::{Boot, Machine, PATIENCE};
use culm_wire::{HOST, Namespace, ip};
use std::io::Write as _;
use std::thread::sleep;
use std::time::{Duration, Instant};

pub use culm_wire::link_local;

/// The host's end of the wire.
pub const DEVICE: &str = "culm0";

/// Options with which the card computes no checksum, and divides and joins nothing: what is
/// captured is what went over the wire.
pub const PLAIN: [&str; 12] = [
    "--qemu=-global",
    "--qemu=virtio-net-device.csum=off",
    "--qemu=-global",
    "--qemu=virtio-net-device.guest_csum=off",
    "--qemu=-global",
    "--qemu=virtio-net-device.gso=off",
    "--qemu=-global",
    "--qemu=virtio-net-device.host_tso4=off",
    "--qemu=-global",
    "--qemu=virtio-net-device.host_tso6=off",
    "--qemu=-global",
    "--qemu=virtio-net-device.guest_tso4=off",
];

/// Runs `test` with a machine on a wire of its own. All that the test starts is at the other end of
/// the wire.
///
/// # Panics
/// Where the test does.
pub fn on_a_wire(boot: Boot, test: impl FnOnce(&mut Machine) + Send) {
    let namespace = match Namespace::new(set_up) {
        Ok((namespace, ())) => namespace,
        Err(error) => return skip(&format!("{error:#}")),
    };
    // Before the namespace is entered, from which nothing could be fetched.
    boot.build();
    let run = || {
        let server = Server::start();
        let mut machine = boot.start_on(DEVICE, server);
        test(&mut machine);
        Ok(())
    };
    namespace.within(run).expect("what failed is above");
}

/// Runs `test` with a machine whose cards are each on a wire of its own: pairs of the device that
/// is the host's end and its address, with the length of its network's prefix. Nobody gives
/// addresses there.
///
/// # Panics
/// Where the test does.
pub fn on_wires(boot: Boot, wires: &[(&str, &str)], test: impl FnOnce(&mut Machine) + Send) {
    let set_up = || wires.iter().try_for_each(|(device, address)| add_wire(device, address));
    let namespace = match Namespace::new(set_up) {
        Ok((namespace, ())) => namespace,
        Err(error) => return skip(&format!("{error:#}")),
    };
    // Before the namespace is entered, from which nothing could be fetched.
    boot.build();
    let devices: Vec<&str> = wires.iter().map(|(device, _)| *device).collect();
    let work = || {
        let mut machine = boot.start_on_all(&devices);
        devices.iter().for_each(|device| wait_for_card(&machine, device));
        test(&mut machine);
        Ok(())
    };
    namespace.within(work).expect("what failed is above");
}

/// Waits until the emulator has the other end of a wire. It finds the device by its name in the
/// namespace that it was started in: a device that the test takes elsewhere before that is missed.
fn wait_for_card(machine: &Machine, device: &str) {
    let until = Instant::now() + PATIENCE;
    // A TAP device has a carrier while a program holds it.
    while !run(10, "ip", &["-o", "link", "show", "dev", device]).contains("LOWER_UP") {
        assert!(Instant::now() < until, "nobody opens {device}\n{}", machine.tail());
        sleep(Duration::from_millis(20));
    }
}

/// Says that the running test is left out. It goes past the test harness, which would keep it to
/// itself; `./culm test` counts it.
pub fn skip(why: &str) {
    let thread = std::thread::current();
    let name = thread.name().unwrap_or("a test");
    // Without a standard error there is nobody to tell.
    _ = writeln!(std::io::stderr(), "skipped: {name}: {why}");
}

fn set_up() -> anyhow::Result<()> {
    add_wire(DEVICE, &format!("{HOST}/24"))?;
    ip(&format!("route add 255.255.255.255 dev {DEVICE}"))
}

/// Makes the host's end of a wire.
fn add_wire(device: &str, address: &str) -> anyhow::Result<()> {
    ip(&format!("tuntap add dev {device} mode tap"))?;
    // Nobody else is there who could have the same address, so there is no need to wait for
    // objections (RFC 4862 §5.4).
    let file = format!("/proc/sys/net/ipv6/conf/{device}/accept_dad");
    if let Err(error) = std::fs::write(&file, "0") {
        eprintln!("{file}: {error}");
    }
    ip(&format!("addr add {address} dev {device}"))?;
    ip(&format!("link set {device} up"))
}
