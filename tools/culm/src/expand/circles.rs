//! Circles of providers: components in devices' places that are clients of each other, and loops of
//! switches, which need no circle.

use super::channels::path;
use super::draft::{Draft, DraftDomain, Service};
use super::switch_ports::is_switch;
use culm_manifest::DeviceClass;
use std::collections::BTreeSet;
use std::ops::Range;

/// Refuses components that provide a class and are clients of each other in a circle: each would
/// hand on to the next what it has from the one before, without end. A switch does so with frames
/// for all.
pub fn check(draft: &mut Draft<'_>) {
    let mut classes: Vec<DeviceClass> = draft.providers.iter().map(|provider| provider.class).collect();
    classes.sort_unstable();
    classes.dedup();
    for class in classes {
        check_class(draft, class);
    }
    check_switches(draft);
}

/// Refuses a second way from one switch to another: a frame for all would go round without end.
fn check_switches(draft: &mut Draft<'_>) {
    let clients = draft.clients.iter().enumerate();
    let ways: Vec<(DraftDomain, DraftDomain, usize)> = clients
        .filter(|(_, client)| client.named_at.is_some() && is_switch(draft, client.domain))
        .map(|(index, client)| (client.domain, draft.providers[client.provider].domain, index))
        .filter(|(_, to, _)| is_switch(draft, *to))
        .collect();
    // Those that are circles besides have been reported.
    if !is_circle_free(&ways) {
        return;
    }
    for (count, &(from, to, client)) in ways.iter().enumerate() {
        let earlier = ways.iter().take(count);
        let both: Vec<_> = earlier.flat_map(|&(from, to, client)| [(from, to, client), (to, from, client)]).collect();
        let Some(path) = path(&both, from, to) else { continue };
        let name = |domain: DraftDomain| draft.domains[domain].name.value.as_str();
        let message = format!("a loop of switches: there is another way from `{}` to `{}`", name(from), name(to));
        let help = "a frame for all would go round without end; leave one of the ways out";
        let mut diagnostic = draft.at(&named_at(draft, client), message).help(help);
        for edge in path {
            diagnostic = diagnostic.related(draft.source, named_at(draft, both[edge].2), "the other way");
        }
        draft.error(diagnostic);
    }
}

/// Whether nobody is a client of its own by way of others.
fn is_circle_free(edges: &[(DraftDomain, DraftDomain, usize)]) -> bool {
    edges.iter().all(|(from, to, _)| path(edges, *to, *from).is_none())
}

fn check_class(draft: &mut Draft<'_>, class: DeviceClass) {
    let edges = edges(draft, class);
    let mut refused = BTreeSet::new();
    for &(from, to, client) in &edges {
        if refused.contains(&client) {
            continue;
        }
        let Some(path) = path(&edges, to, from) else { continue };
        let name = |domain: DraftDomain| draft.domains[domain].name.value.as_str();
        let mut names = vec![name(from)];
        names.extend(path.iter().map(|edge| name(edges[*edge].0)));
        names.push(names[0]);
        let message = format!("a circle of providers: `{}`", names.join("` is a client of `"));
        let help = "what one hands on would come back to it without end; let one of them name a device, or nobody";
        let mut diagnostic = draft.at(&named_at(draft, client), message).help(help);
        refused.insert(client);
        for edge in path {
            let (_, next, other) = edges[edge];
            refused.insert(other);
            diagnostic =
                diagnostic.related(draft.source, named_at(draft, other), format!("a client of `{}`", name(next)));
        }
        draft.error(diagnostic);
    }
}

/// The clients of components in devices' places that provide the class too: client's domain,
/// provider's domain, position in the draft's list of clients.
fn edges(draft: &Draft<'_>, class: DeviceClass) -> Vec<(DraftDomain, DraftDomain, usize)> {
    let far_ends = draft.providers.iter().filter(|other| other.class == class && other.service == Service::FarEnd);
    let far_ends: BTreeSet<DraftDomain> = far_ends.map(|provider| provider.domain).collect();
    let clients = draft.clients.iter().enumerate();
    clients
        .filter(|(_, client)| client.named_at.is_some() && draft.providers[client.provider].class == class)
        .map(|(index, client)| (client.domain, draft.providers[client.provider].domain, index))
        .filter(|(from, to, _)| far_ends.contains(from) && far_ends.contains(to))
        .collect()
}

fn named_at(draft: &Draft<'_>, client: usize) -> Range<usize> {
    draft.clients[client].named_at.clone().unwrap_or_default()
}
