//! Routers between two cards, which differ in their rules.

use super::{Ready, System};
use crate::linux::gateway::{Denied, denied};
use crate::machine::MAC_BESIDE;
use crate::network::{GUEST, GUEST_BESIDE, HOST_BESIDE, MAC};
use std::fmt::Write;

/// A router between two cards and nothing else.
#[derive(Clone, Copy, Debug)]
pub struct Router {
    /// The name of its system.
    pub name: &'static str,
    /// Rules that are asked about the first packet of a flow; 0: everything passes.
    pub rules: u16,
    /// Whether flows leave with the router's address.
    pub nat: bool,
    /// Flows that it knows at most.
    pub flows: u32,
}

impl Router {
    /// The system.
    pub fn system(&self) -> System {
        System { name: self.name.to_owned(), ready: Ready::Soon, text: Some(self.text()) }
    }

    fn rules_text(&self) -> String {
        if self.rules == 0 {
            return "default allow\n".to_owned();
        }
        let mut text = "default deny\n".to_owned();
        for Denied { network, port } in denied(self.rules) {
            let _ = writeln!(text, "deny udp from {network} port {port}");
        }
        text += "allow in inner out outer\n";
        if self.nat {
            text += "nat in inner out outer to own ports 1024-65535\n";
        }
        text
    }

    fn text(&self) -> String {
        let Router { name, flows, .. } = self;
        let rules = self.rules_text();
        // What the component's manifest says that so many flows need.
        let heap = 4 + u64::from(*flows) * 416 / (1 << 20);
        format!(
            "# Written by bench/harness/src/systems/router.rs.\nname = \"{name}\"\nboard = \"virt\"\n\n\
             [device.nic0]\npriority = 240\n\n[device.nic1]\npriority = 240\n\n[device.rng0]\npriority = 230\n\n\
             [device.uart0]\npriority = 60\n\n\
             [pd.router]\ncomponent = \"router\"\npriority = 150\nheap = \"{heap}MiB\"\n\
             outer = {{ device = \"nic1\", mac = \"{MAC_BESIDE}\", copier = false }}\n\
             inner = {{ device = \"nic0\", mac = \"{MAC}\", copier = false }}\nentropy = \"rng0\"\n\n\
             [pd.router.config]\nouter_address = \"{GUEST_BESIDE}/24\"\ngateway = \"{HOST_BESIDE}\"\n\
             inner_address = \"{GUEST}/24\"\nflows = {flows}\nflows_per_source = {flows}\n\
             rules = '''\n{rules}'''\n\n\
             [[region]]\nname = \"flows\"\nsize = \"{}KiB\"\nmap = {{ \"router.flows\" = \"rw\" }}\n",
            // 192 bytes each and 16 besides, in whole pages.
            (u64::from(*flows) * 192 + 16).div_ceil(4096) * 4
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rules_are_as_many_as_are_asked_for() {
        let router = Router { name: "r", rules: 1000, nat: true, flows: 16_384 };
        let table: toml::Table = toml::from_str(&router.text()).expect("it is TOML");
        let rules = table["pd"]["router"]["config"]["rules"].as_str().expect("it has rules").to_owned();
        assert_eq!(rules.lines().filter(|line| line.starts_with("deny ")).count(), 999);
        assert!(rules.starts_with("default deny\n") && rules.contains("nat "));
        let open = Router { rules: 0, nat: false, ..router };
        assert_eq!(open.rules_text(), "default allow\n");
    }
}
