//! The ports of the switch: who is behind each, and which may reach which.
//!
//! A client is the only station behind its port, unless the port has the option `stations`: then it
//! may be a bridge itself. An uplink that is `promiscuous` leads to a network of many stations.
//! Another one receives what is for its own address, so that it serves the client with that address
//! alone.

use alloc::vec::Vec;
use core::time::Duration;
use culm::time;
use culm_bridge::bridge::PortSetup;
use culm_bridge::table::Table;
use culm_bridge::{Bridge, MAX_PORTS, PortOptions, PortSet};
use culm_net::Client;
use culm_net::provider::Port;

/// The names of the uplinks' connections, in the order of their ports.
pub(crate) const UPLINKS: [&str; 4] = ["uplink", "uplink2", "uplink3", "uplink4"];

/// Returns an empty table of so many addresses, for so many ports.
pub(crate) fn table(ports: usize, stations: u32, age: Duration) -> Table {
    // Without a source of randomness a station could guess which addresses share a bucket.
    let key = culm::random::words().unwrap_or_else(|| [time::now().ticks(), 0]);
    let age = u32::try_from(age.as_secs()).unwrap_or(u32::MAX);
    Table::new(stations as usize, ports, age, key)
}

/// Returns the bridge of these clients and uplinks, whose ports have the options that `options`
/// gives to their names.
pub(crate) fn bridge<'a>(
    clients: &[(Port, &str)],
    uplinks: &[(Client, &str)],
    table: Table,
    options: impl Iterator<Item = (&'a str, &'a str)> + Clone,
) -> Bridge {
    let options_of = |name: &str| {
        let mut of_name = options.clone().filter(|(other, _)| *other == name);
        // The build tool has read them too, and found no mistake.
        of_name.next().and_then(|(_, text)| PortOptions::parse(text).ok()).unwrap_or_default()
    };
    let count = clients.len() + uplinks.len();
    let ports = clients.iter().map(|(port, name)| {
        let options = options_of(name);
        let reaches = set((0..count).filter(|to| reaches(clients, uplinks, port, *to)));
        PortSetup { owner: Some(port.mac().bytes()), learns: options.stations, reaches: Some(reaches), options }
    });
    let outside = uplinks.iter().map(|(uplink, name)| {
        let is_own = |to: &usize| clients.get(*to).is_some_and(|(port, _)| port.mac() == uplink.mac());
        let is_open = |to: &usize| {
            to.checked_sub(clients.len()).and_then(|to| uplinks.get(to)).is_none_or(|(other, _)| other.is_promiscuous())
        };
        let reaches = match uplink.is_promiscuous() {
            true => set((0..count).filter(is_open)),
            false => set((0..count).filter(is_own)),
        };
        PortSetup { options: options_of(name), owner: None, learns: true, reaches: Some(reaches) }
    });
    let ports: Vec<PortSetup> = ports.chain(outside).take(MAX_PORTS).collect();
    Bridge::new(ports, table)
}

/// Returns whether a client's frames may go to the port `to`.
fn reaches(clients: &[(Port, &str)], uplinks: &[(Client, &str)], port: &Port, to: usize) -> bool {
    let uplink = to.checked_sub(clients.len()).and_then(|to| uplinks.get(to));
    uplink.is_none_or(|(uplink, _)| uplink.is_promiscuous() || uplink.mac() == port.mac())
}

fn set(ports: impl Iterator<Item = usize>) -> PortSet {
    let mut set = PortSet::default();
    ports.for_each(|port| set.add(port));
    set
}
