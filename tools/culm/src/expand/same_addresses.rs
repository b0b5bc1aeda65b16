//! Addresses that two components have on one network. Each would answer when somebody asks who has
//! the address, and either could get what is for the other.

use super::addresses::{Given, given};
use super::draft::{Client, Draft, DraftDomain, DraftProvider};
use super::switch_ports;
use crate::class;
use crate::diagnostics::Diagnostic;

/// A network: the first provider of those that switches join, and the VLAN if it is one of several.
type Network = (DraftProvider, Option<u16>);

/// Refuses an address that another component on the same network has. That two cards lead to one
/// network cannot be seen here.
pub fn check(draft: &mut Draft<'_>) {
    let joined = switch_ports::joined(draft);
    let mut all: Vec<(Network, DraftDomain, Given<'_>)> = Vec::new();
    let mut found = Vec::new();
    for table in &draft.file.domains {
        let (Some(domain), Some(config)) = (draft.domain(&table.name.value), &table.config) else { continue };
        for own in given(draft, domain, config).into_iter().filter(|given| given.prefix.is_some()) {
            let Some(network) = client(draft, domain, &own).and_then(|client| network(draft, &joined, client)) else {
                continue;
            };
            let is_same = |(other_network, other_domain, other): &&(Network, DraftDomain, Given<'_>)| {
                *other_network == network && *other_domain != domain && other.address == own.address
            };
            if let Some((_, other_domain, other)) = all.iter().find(is_same) {
                found.push(diagnostic(draft, &own, *other_domain, other));
            }
            all.push((network, domain, own));
        }
    }
    found.into_iter().for_each(|diagnostic| draft.error(diagnostic));
}

fn diagnostic(draft: &Draft<'_>, own: &Given<'_>, other_domain: DraftDomain, other: &Given<'_>) -> Diagnostic {
    let other_name = &draft.domains[other_domain].name.value;
    draft
        .at(&own.span, format!("{} is the address of `{other_name}` too, on the same network", own.address))
        .related(draft.source, other.span.clone(), format!("the address of `{other_name}`"))
        .help("give each of them an address of its own: what is for one could go to the other")
}

/// Returns the connection that an address is for: the one that its field is about, or the only one
/// by which its component is on a network.
fn client<'d>(draft: &'d Draft<'_>, domain: DraftDomain, given: &Given<'_>) -> Option<&'d Client> {
    let has_stations = |client: &&Client| {
        let provider = &draft.providers[client.provider];
        class::of(provider.class).hardware_address(provider).is_some()
    };
    let mut own = draft.clients.iter().filter(|client| client.domain == domain).filter(has_stations);
    match &given.field.relations.of {
        Some(of) => own.find(|client| client.connection == of.value),
        None => own.next().filter(|_| own.next().is_none()),
    }
}

/// Returns the network of what a client sends without a tag. Behind a trunk of tagged frames alone
/// there is none.
fn network(draft: &Draft<'_>, joined: &[DraftProvider], client: &Client) -> Option<Network> {
    let switch = draft.providers[client.provider].domain;
    if !switch_ports::has_vlans(draft, switch) {
        return Some((joined[client.provider], None));
    }
    let options = switch_ports::options_of(draft, switch, &draft.domains[client.domain].name.value);
    let vlan = options.map(|options| options.value).unwrap_or_default().own_vlan()?;
    Some((client.provider, Some(vlan)))
}
