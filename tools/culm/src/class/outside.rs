//! The surroundings of an emulated machine, as far as they are a class's: options of `culm run`,
//! and QEMU's arguments.

use super::block;
use super::net;
use super::serial;
use crate::failure::Failure;
use crate::plan::{Device, Plan};
use anyhow::Result;
use std::net::Ipv4Addr;

/// Options of `culm run` that belong to a class.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
pub struct Options {
    #[command(flatten)]
    network: net::Options,
    #[command(flatten)]
    consoles: serial::Options,
    #[command(flatten)]
    ports: serial::PortOptions,
}

impl Options {
    /// Refuses what could not be connected, before anything is built for it.
    pub fn check(&self, plan: &Plan, debugger: Option<u16>) -> Result<(), Failure> {
        self.ports.check(plan)?;
        self.network.check(plan, debugger)
    }

    /// Changes in a plan, before it is built, what these options say of it.
    pub fn apply(&self, plan: &mut Plan) -> Result<(), Failure> {
        self.consoles.apply(plan)
    }

    /// Returns what stands outside of this system, and makes what of it is to be there and is not.
    /// The debugger's port is taken.
    pub fn outside(&self, plan: &Plan, debugger: Option<u16>) -> Result<Outside> {
        Ok(Outside {
            network: self.network.network(plan, debugger),
            disks: block::Disks::of(plan)?,
            ports: self.ports.ports(),
            consoles: serial::consoles(plan),
            takes_keys: serial::takes_keys(plan),
        })
    }
}

/// The surroundings of a machine.
#[derive(Clone, Debug)]
pub struct Outside {
    network: net::Network,
    disks: block::Disks,
    ports: serial::Ports,
    /// The names of those that share the console.
    consoles: Vec<String>,
    /// Somebody is given what is typed on the board's console.
    takes_keys: bool,
}

impl Outside {
    /// Whether somebody in the machine is given what is typed on the board's console.
    pub fn takes_keys(&self) -> bool {
        self.takes_keys
    }

    /// QEMU's arguments for what one of these devices leads to.
    pub fn arguments(&self, devices: &[Device], index: usize) -> Vec<String> {
        let mut arguments = self.network.arguments(devices, index);
        arguments.extend(self.disks.arguments(&devices[index]));
        arguments.extend(self.ports.arguments(&devices[index]));
        arguments
    }

    /// Lines on what can be reached, for who runs the system.
    pub fn announcements(&self) -> Vec<String> {
        let mut lines = self.disks.announcements();
        lines.extend(self.network.announcements());
        lines.extend(self.ports.announcements());
        if !self.consoles.is_empty() {
            lines.push(format!(
                "consoles: {}; Ctrl-] and n gives the next one, Ctrl-] and ? all keys",
                self.consoles.join(", ")
            ));
        }
        lines
    }

    /// The port of this machine that leads to a TCP port of the guest, if that is clear; `address`
    /// is the guest's own, as far as it is known.
    pub fn leads_to(&self, port: u16, address: Option<Ipv4Addr>) -> Option<u16> {
        self.network.leads_to(port, address)
    }
}
