//! A network of their own for a guest and its clients: what the benchmarks measure and the tests
//! break is on a wire that nobody else is connected to.
//!
//! The namespace has no name, so it vanishes, with all devices in it, when the last process within
//! has ended, however that ended. The addresses are those set aside for benchmarks of network
//! devices (RFC 2544, 198.18.0.0/15), and are not seen outside.

#![forbid(unsafe_code)]

mod narrow;
mod relay;

pub use relay::{Faults, Relay};

use anyhow::{Context, Result, anyhow, bail};
use nix::sched::{CloneFlags, setns, unshare};
use std::fs::File;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::os::fd::AsRawFd as _;
use std::process::{Command, Stdio};

/// The guest's address.
pub const GUEST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 2);
/// The address of the load generator or client.
pub const HOST: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 1);
/// The guest's hardware address.
pub const MAC: &str = "52:54:00:12:34:56";

/// Returns the link-local address that a station with this hardware address gives itself (RFC 4291,
/// appendix A).
pub fn link_local(mac: [u8; 6]) -> Ipv6Addr {
    let [a, b, c, d, e, f] = mac;
    Ipv6Addr::from([0xfe, 0x80, 0, 0, 0, 0, 0, 0, a ^ 2, b, c, 0xff, 0xfe, d, e, f])
}

/// A network namespace.
#[derive(Debug)]
pub struct Namespace {
    file: File,
}

impl Namespace {
    /// A new namespace, whose loopback device is up, and what `set_up` makes within.
    ///
    /// # Errors
    /// Without the permission, or where `set_up` fails.
    pub fn new<T: Send>(set_up: impl FnOnce() -> Result<T> + Send) -> Result<(Self, T)> {
        in_a_thread(|| {
            unshare(CloneFlags::CLONE_NEWNET).context("no permission for a network namespace (run as root)")?;
            let file = File::open("/proc/thread-self/ns/net").context("cannot open the namespace")?;
            ip("link set lo up")?;
            Ok((Self { file }, set_up()?))
        })
    }

    /// Returns a path by which `ip` finds it, for as long as this process has it: `link set DEVICE
    /// netns PATH` moves a device there.
    pub fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }

    /// Runs `work` within: threads and processes that it starts are there too.
    ///
    /// # Errors
    /// Those of `work`.
    pub fn within<T: Send>(&self, work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
        in_a_thread(|| {
            setns(&self.file, CloneFlags::CLONE_NEWNET).context("cannot enter the namespace")?;
            work()
        })
    }
}

/// In a thread of its own, since entering a namespace changes the thread for good.
fn in_a_thread<T: Send>(work: impl FnOnce() -> Result<T> + Send) -> Result<T> {
    let joined = std::thread::scope(|scope| scope.spawn(work).join());
    joined.map_err(|_| anyhow!("what was to run in the namespace panicked"))?
}

/// Runs `ip` with these words.
///
/// # Errors
/// Where it fails, with what it said.
pub fn ip(words: &str) -> Result<()> {
    let result = Command::new("ip").args(words.split_whitespace()).stdin(Stdio::null()).output();
    let output = result.context("cannot run ip: is it installed? (`./culm setup --tests` does that)")?;
    if !output.status.success() {
        bail!("`ip {words}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_ip_said() {
        let error = ip("link show dev culm-no-such").expect_err("there is no such device").to_string();
        assert!(error.contains("link show dev culm-no-such") && error.contains("does not exist"), "{error}");
    }

    #[test]
    fn what_is_made_within_is_not_seen_outside() {
        let Ok((namespace, ())) = Namespace::new(|| ip("link add culm-test type dummy")) else {
            // Not root: then there is nothing to test.
            return;
        };
        assert!(ip("link show dev culm-test").is_err());
        namespace.within(|| ip("link show dev culm-test")).expect("it is there");
        assert!(namespace.within(|| -> Result<()> { panic!("on purpose") }).is_err());
    }
}
