//! Linux between two networks: what its kernel needs for that beside what every peer has.
//!
//! The modules, scripts and nftables stand in an archive of their own behind the peer's initial RAM
//! disk, which Linux unpacks over it.

use super::{Kernel, find_file, read};
use crate::network::{GUEST, GUEST_BESIDE, HOST_BESIDE, MAC, NOWHERE};
use anyhow::{Context, Result};
use culm_tool::debian::{self, RELEASE};
use culm_tool::guest::cpio::Archive;
use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

/// What Linux is between the networks of its two cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A bridge: both are one network.
    Bridge,
    /// A router without rules, which follows no connections.
    Route,
    /// A router that lets connections begin on the first card's side.
    Firewall {
        /// Rules that are asked about the first packet of a connection.
        rules: u16,
        /// Whether connections leave with the router's address.
        nat: bool,
        /// Connections that it follows at most.
        flows: u32,
    },
}

/// Modules of nftables, each after those whose functions it uses.
const NFTABLES: &[&str] = &[
    "libcrc32c",
    "nf_defrag_ipv4",
    "nf_defrag_ipv6",
    "nf_conntrack",
    "nf_nat",
    "nfnetlink",
    "nf_tables",
    "nft_ct",
    "nft_chain_nat",
    "nft_nat",
];

impl Way {
    /// The name of its script, which the word `culm.tools=NAME` of the kernel's command line has.
    pub fn name(self) -> &'static str {
        match self {
            Way::Bridge => "bridge",
            Way::Route => "route",
            Way::Firewall { .. } => "firewall",
        }
    }

    /// Whether both sides are networks of their own.
    pub fn is_routed(self) -> bool {
        self != Way::Bridge
    }

    /// The kernel's modules that it needs, in the order in which they depend on each other.
    fn modules(self) -> &'static [&'static str] {
        match self {
            Way::Bridge => &["llc", "stp", "bridge"],
            Way::Route => &[],
            Way::Firewall { .. } => NFTABLES,
        }
    }

    /// What is done once the modules are there.
    fn script(self) -> String {
        // Which of the two Linux finds first is its affair.
        let route = format!(
            "for device in eth0 eth1; do\n\
             $b ip addr flush dev $device\n\
             $b ip link set $device down\n\
             case $($b cat /sys/class/net/$device/address) in\n\
             {MAC}) $b ip link set $device name inner ;;\n\
             *) $b ip link set $device name outer ;;\n\
             esac\n\
             done\n\
             $b ip addr add {GUEST}/24 dev inner\n\
             $b ip addr add {GUEST_BESIDE}/24 dev outer\n\
             $b ip link set inner up\n\
             $b ip link set outer up\n\
             $b ip route add {NOWHERE}/16 via {HOST_BESIDE}\n\
             echo 1 >/proc/sys/net/ipv4/ip_forward\n"
        );
        match self {
            // Without spanning trees, as a bridge is made if nobody says otherwise, and without the
            // seconds for which it would only listen.
            Way::Bridge => "$b ip addr flush dev eth0\n\
                 $b brctl addbr bridge0\n\
                 echo 0 >/sys/class/net/bridge0/bridge/forward_delay\n\
                 $b brctl addif bridge0 eth0\n\
                 $b brctl addif bridge0 eth1\n\
                 $b ip link set eth1 up\n\
                 $b ip link set bridge0 up\n"
                .to_owned(),
            Way::Route => route,
            // As many connections as Culm's router has, in as many places, and datagrams without an
            // answer for as long.
            Way::Firewall { flows, .. } => format!(
                "echo {flows} >/sys/module/nf_conntrack/parameters/hashsize\n\
                 echo {flows} >/proc/sys/net/netfilter/nf_conntrack_max\n\
                 echo 120 >/proc/sys/net/netfilter/nf_conntrack_udp_timeout\n\
                 /bin/nft -f /etc/nftables.conf || echo 'nft failed'\n{route}"
            ),
        }
    }

    /// The rules of nftables.
    fn rules(self) -> Option<String> {
        let Way::Firewall { rules, nat, .. } = self else { return None };
        let mut text = "table inet filter {\n\tchain forward {\n\
            \t\ttype filter hook forward priority filter; policy drop;\n\
            \t\tct state established,related accept\n\t\tct state invalid drop\n"
            .to_owned();
        for Denied { network, port } in denied(rules) {
            let _ = writeln!(text, "\t\tip saddr {network} udp dport {port} drop");
        }
        text += "\t\tiifname \"inner\" oifname \"outer\" accept\n\t}\n}\n";
        if nat {
            let _ = write!(
                text,
                "table ip nat {{\n\tchain postrouting {{\n\
                 \t\ttype nat hook postrouting priority srcnat;\n\
                 \t\toifname \"outer\" snat to {GUEST_BESIDE}\n\t}}\n}}\n"
            );
        }
        Some(text)
    }
}

/// What a rule denies that is about no packet of the load.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Denied {
    /// The network of the senders.
    pub network: String,
    /// The port for which their datagrams are.
    pub port: u16,
}

/// Returns what all rules deny but the last one of so many, on either side.
pub fn denied(rules: u16) -> impl Iterator<Item = Denied> {
    (1..rules).map(|rule| Denied { network: format!("198.51.{}.{}/31", rule / 100, rule % 100 * 2), port: 9000 + rule })
}

/// Writes the archive of `initrd` and what `kernel` needs for a way.
pub fn prepare(cache: &Path, initrd: &Path, kernel: &Kernel, way: Way) -> Result<PathBuf> {
    let version = &kernel.version;
    let folder = cache.join(format!("{RELEASE}-arm64/lib/modules/{version}"));
    let mut archive = Archive::default();
    archive.directory("etc/tools");
    let mut script = format!("b=/bin/busybox\nmodules=/modules/{version}\n");
    for module in way.modules() {
        let name = format!("{module}.ko");
        let path = find_file(&folder, &name).with_context(|| format!("Linux {version} has no module {name}"))?;
        archive.file(&format!("modules/{version}/{name}"), 0o644, &read(&path)?);
        script += &format!("$b insmod $modules/{name}\n");
    }
    if let Some(rules) = way.rules() {
        let packages = cache.join(format!("{RELEASE}-arm64-packages"));
        let (program, libraries) = debian::linked(cache, &packages, "nftables", "usr/sbin/nft").context(super::ONCE)?;
        archive.file("bin/nft", 0o755, &read(&program)?);
        for (library, path) in libraries {
            archive.file(&format!("lib/{library}"), 0o755, &read(&path)?);
        }
        archive.file("etc/nftables.conf", 0o644, rules.as_bytes());
    }
    archive.file(&format!("etc/tools/{}", way.name()), 0o644, (script + &way.script()).as_bytes());
    let path = cache.join("gateway.cpio");
    let content = [read(initrd)?, archive.finish()].concat();
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn there_are_as_many_rules_as_are_asked_for() {
        let rules = |rules, nat| Way::Firewall { rules, nat, flows: 1 }.rules().expect("it has rules");
        assert_eq!(rules(1, false).matches("ip saddr").count(), 0);
        let many = rules(1000, true);
        let all: BTreeSet<&str> = many.lines().filter(|line| line.contains("ip saddr")).collect();
        assert_eq!((all.len(), many.matches("snat to").count()), (999, 1));
        assert_eq!(Way::Route.rules(), None);
    }
}
