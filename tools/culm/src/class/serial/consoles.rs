//! Consoles: the clients of a shared serial port that are given what is typed, one at a time.

use crate::expand::draft::Client;
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::failure::Failure;
use crate::plan::{ConnectionData, Device, DomainId, Plan, Planned};
use culm_abi::connection::SerialVirtualiserClient;
use culm_manifest::problem::suggest;

/// Options of `culm run`.
#[derive(clap::Args, Clone, Debug, Default)]
#[group(skip)]
pub struct Options {
    /// Begin with this console in focus, where several share a serial port: the name of a guest, or
    /// of a domain with `input = true`. Without it, it is the first
    #[arg(long, value_name = "NAME")]
    console: Option<String>,
}

impl Options {
    /// Has the console begin in focus.
    pub fn apply(&self, plan: &mut Plan) -> Result<(), Failure> {
        let Some(wanted) = &self.console else { return Ok(()) };
        let names: Vec<String> = consoles(plan).into_iter().flatten().map(|console| console.name.clone()).collect();
        if !names.contains(wanted) {
            let message = format!("the system `{}` has no console `{wanted}`", plan.name);
            let help = suggest(wanted, names.iter().map(String::as_str));
            let without = "leave out --console: no domain shares a serial port with `input = true`";
            return Err(Failure::new(message).help(help.unwrap_or_else(|| without.to_string())));
        }
        // Those of another port keep their focus.
        for port in consoles(plan).into_iter().filter(|port| port.iter().any(|console| console.name == *wanted)) {
            for console in port {
                console.focus = console.name == *wanted;
            }
        }
        Ok(())
    }
}

/// The consoles of each serial port that is shared.
fn consoles(plan: &mut Plan) -> Vec<Vec<&mut SerialVirtualiserClient<Planned>>> {
    let connections = plan.domains.iter_mut().flat_map(|domain| &mut domain.connections);
    let ports = connections.filter_map(|connection| match &mut connection.data {
        ConnectionData::SerialVirtualiser(port) => Some(port),
        _ => None,
    });
    ports.map(|port| port.clients.iter_mut().filter(|client| client.rx.is_some() && !client.log).collect()).collect()
}

/// The consoles of a plan by their names, port by port: those of ports that several share.
pub fn names(plan: &Plan) -> Vec<String> {
    let connections = plan.domains.iter().flat_map(|domain| &domain.connections);
    let ports = connections.filter_map(|connection| match &connection.data {
        ConnectionData::SerialVirtualiser(port) => Some(port),
        _ => None,
    });
    let consoles = ports.map(|port| port.clients.iter().filter(|client| client.rx.is_some() && !client.log));
    consoles.filter(|port| port.clone().count() > 1).flatten().map(|console| console.name.clone()).collect()
}

/// Whether somebody is given what is typed on the board's console: one of several that share it, or
/// the one that has it to itself.
pub fn takes_keys(plan: &Plan) -> bool {
    let is_console = |device: &&Device| plan.board.console.as_ref() == Some(&device.board.name);
    let Some(device) = plan.devices.iter().find(is_console) else { return false };
    let driver = &plan.domains[device.driver].name;
    let connections = || plan.domains.iter().flat_map(|domain| &domain.connections);
    let shared = connections().find_map(|connection| match &connection.data {
        ConnectionData::SerialVirtualiser(port) if connection.peer == *driver => Some(port),
        _ => None,
    });
    match shared {
        Some(port) => port.clients.iter().any(|client| client.rx.is_some() && !client.log),
        None => connections().any(|connection| match &connection.data {
            ConnectionData::SerialClient(client) => connection.peer == device.board.name && client.rx.is_some(),
            _ => false,
        }),
    }
}

/// The name of each client, which stands before what it prints. A console has that of the guest
/// which its domain runs, or of the domain; where consoles of a port would share one, each has that
/// of its domain with that of its connection behind it.
pub fn client_names(
    wiring: &Wiring,
    provider: &ProviderClients<'_, '_>,
    is_console: impl Fn(&Client) -> bool,
) -> Vec<String> {
    let short = |domain: DomainId| wiring.guests.get(&domain).cloned().unwrap_or_else(|| wiring.name(domain));
    let consoles = provider.clients.iter().filter(|(client, _)| is_console(client));
    let short_names: Vec<String> = consoles.map(|(_, domain)| short(*domain)).collect();
    let name = |(client, domain): &(&Client, DomainId)| {
        if !is_console(client) {
            return wiring.name(*domain);
        }
        let name = short(*domain);
        match short_names.iter().filter(|other| **other == name).count() {
            1 => name,
            _ => format!("{}.{}", wiring.name(*domain), client.connection),
        }
    };
    provider.clients.iter().map(name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::layout::tests::fixture::{self, Shape};
    use crate::plan::{DomainConnection, Rights};
    use culm_abi::connection::SerialVirtualiser;

    /// A plan with a port that these share; a name with a `-` is none of a console.
    fn plan(names: &[&str]) -> Plan {
        let client = |name: &&str| SerialVirtualiserClient::<Planned> {
            tx: 0,
            rx: (!name.contains('-')).then_some(0),
            commands: None,
            channel: 0,
            rights: Rights::NOTIFY,
            name: name.to_string(),
            log: false,
            focus: false,
        };
        let clients = names.iter().map(client).collect();
        let port = SerialVirtualiser { driver_tx: None, driver_rx: None, driver_channel: None, clients };
        let mut plan = fixture::parts(&Shape::default()).plan;
        plan.domains[0].connections.push(DomainConnection::implicit("serial", port.into()));
        plan
    }

    fn in_focus(plan: &mut Plan) -> Vec<String> {
        let all = consoles(plan).into_iter().flatten();
        all.filter(|console| console.focus).map(|console| console.name.clone()).collect()
    }

    #[test]
    fn a_console_can_be_chosen() {
        let mut plan = plan(&["log-a", "left", "right"]);
        assert_eq!(names(&plan), ["left", "right"]);
        Options::default().apply(&mut plan).expect("nothing is asked for");
        assert_eq!(in_focus(&mut plan), Vec::<String>::new());
        let choose = |name: &str| Options { console: Some(name.to_string()) };
        choose("right").apply(&mut plan).expect("it is there");
        assert_eq!(in_focus(&mut plan), ["right"]);
        let failure = choose("rihgt").apply(&mut plan).expect_err("there is none");
        assert_eq!(failure.advice(), Some("did you mean `right`?"));
        let failure = choose("right").apply(&mut self::plan(&["log-a"])).expect_err("there is none");
        assert!(failure.advice().is_some_and(|advice| advice.contains("leave out --console")), "{failure}");
    }
}
