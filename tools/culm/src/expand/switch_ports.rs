//! Names of ports in a configuration: those of a provider's clients, and of the connections by
//! which it is a client itself.

use super::draft::{Client, Domain, Draft, DraftDomain, DraftProvider, Service};
use crate::class;
use crate::diagnostics::Diagnostics;
use culm_manifest::problem::suggest;
use culm_manifest::reader::{Entry, Problems};
use culm_manifest::{ConfigType, Located, PortOptions};

/// Refuses options of ports that are nobody's, or of two, and who waits for mirrored frames that do
/// not come.
pub fn check(draft: &mut Draft<'_>) {
    check_mirrored(draft);
    for domain in 0..draft.domains.len() {
        for port in ports(draft, domain) {
            check_port(draft, domain, &port.key);
            check_mirror(draft, domain, &port.key);
        }
    }
}

/// Returns the options that the provider `domain` gives to the port of its client `name`, and where
/// the description has them.
pub fn options_of(draft: &Draft<'_>, domain: DraftDomain, name: &str) -> Option<Located<PortOptions>> {
    let port = ports(draft, domain).into_iter().find(|port| port.key.value == name)?;
    // What is wrong with the values is reported where they are read.
    let text = port.text(&mut Problems::new())?;
    Some(Located { span: text.span.clone(), value: PortOptions::parse(&text.value).ok()? })
}

/// Returns the ports to which the configuration of a domain gives options.
fn ports<'a>(draft: &Draft<'a>, domain: DraftDomain) -> Vec<Entry<'a>> {
    let Domain { name, manifest, .. } = &draft.domains[domain];
    let table = draft.file.domains.iter().find(|table| table.name.value == name.value);
    let Some(config) = table.and_then(|table| table.config.as_ref()) else { return Vec::new() };
    let fields = manifest.config.iter().filter(|field| field.kind == ConfigType::SwitchPorts);
    let mut ignored = Problems::new();
    let tables = fields.filter_map(|field| config.clone().take(&field.name)?.table("", &mut Problems::new()));
    tables.flat_map(|mut table| table.rest(&mut ignored)).collect()
}

/// Refuses a mirror that leads out of the system: what comes by an uplink is many networks', and
/// whoever may see it is named here.
fn check_mirror(draft: &mut Draft<'_>, domain: DraftDomain, port: &Located<String>) {
    let is_mirror = options_of(draft, domain, &port.value).is_some_and(|options| options.value.mirror);
    if is_mirror && draft.domains[domain].manifest.connection(&port.value).is_some() {
        let diagnostic = draft
            .at(&port.span, format!("`{}` leads out of the system, and cannot be a mirror", port.value))
            .help("give `mirror` to a client, one with the component `capture` say");
        draft.error(diagnostic);
    }
}

/// Refuses a connection for what a switch mirrors, where that mirrors nothing to it.
fn check_mirrored(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    for client in &draft.clients {
        let (domain, provider) = (&draft.domains[client.domain], &draft.providers[client.provider]);
        let connection = client.slot.and_then(|slot| domain.manifest.connections.get(slot));
        let (Some(connection), Some(at)) = (connection.filter(|connection| connection.mirrored), &client.named_at)
        else {
            continue;
        };
        let (own, name) = (&domain.name.value, &provider.name);
        if !is_switch(draft, provider.domain) {
            let help =
                format!("name a switch by `{}`, and give it `ports = {{ {own} = \"mirror\" }}`", connection.name);
            found.push(draft.at(at, format!("`{name}` is no switch, and mirrors nothing")).help(help));
            continue;
        }
        let options = options_of(draft, provider.domain, own);
        if options.as_ref().is_some_and(|options| options.value.mirror) {
            continue;
        }
        let diagnostic = draft.at(at, format!("`{name}` mirrors nothing to `{own}`"));
        let port = options.into_iter().map(|options| options.span);
        let diagnostic =
            port.fold(diagnostic, |diagnostic, at| diagnostic.related(draft.source, at, "its port's options"));
        found.push(diagnostic.help(format!("write `{own} = \"mirror\"` in the `ports` of `{name}`")));
    }
    found.into_iter().for_each(|diagnostic| draft.error(diagnostic));
}

/// Returns whether a domain is a switch.
pub fn is_switch(draft: &Draft<'_>, domain: DraftDomain) -> bool {
    draft.domains[domain].manifest.config.iter().any(|field| field.kind == ConfigType::SwitchPorts)
}

/// Warns of VLANs that one port alone has: what belongs to them goes nowhere.
pub fn warn(draft: &Draft<'_>, found: &mut Diagnostics) {
    for domain in 0..draft.domains.len() {
        let given = ports(draft, domain);
        let names = names_of_ports(draft, domain);
        for port in &given {
            let (Some(text), Some(options)) =
                (port.text(&mut Problems::new()), options_of(draft, domain, &port.key.value))
            else {
                continue;
            };
            if options.value.mirror {
                continue;
            }
            let others = names.iter().filter(|name| **name != port.key.value);
            let others: Vec<PortOptions> = others
                .map(|name| options_of(draft, domain, name).map(|other| other.value).unwrap_or_default())
                .collect();
            for (first, last) in PortOptions::vlan_ranges(&text.value).unwrap_or_default() {
                if (first..=last).any(|vlan| others.iter().any(|other| other.joins(vlan))) {
                    continue;
                }
                let what = if first == last { format!("VLAN {first}") } else { format!("a VLAN of {first}-{last}") };
                let message = format!("no other port of `{}` has {what}", draft.domains[domain].name.value);
                let help =
                    "frames of a VLAN that one port alone has go nowhere: give it to another port too, or leave it out";
                found.push(draft.at(&text.span, message).help(help).warning());
            }
        }
    }
}

/// Returns whether a domain is a switch that keeps VLANs apart.
pub fn has_vlans(draft: &Draft<'_>, domain: DraftDomain) -> bool {
    let is_one = |name| options_of(draft, domain, name).is_some_and(|options| options.value.has_vlans());
    names_of_ports(draft, domain).into_iter().any(is_one)
}

/// Returns the connections by which switches without VLANs join another network to their own.
pub fn ways<'d>(draft: &'d Draft<'_>) -> Vec<&'d Client> {
    let joins = |client: &&Client| {
        let provider = &draft.providers[client.provider];
        provider.service == Service::FarEnd || class::of(provider.class).joins(client)
    };
    let of_switches = draft.clients.iter().filter(|client| client.slot.is_some() && is_switch(draft, client.domain));
    of_switches.filter(joins).filter(|client| !has_vlans(draft, client.domain)).collect()
}

/// Returns for each provider the first one of its network, as far as switches join them.
pub fn joined(draft: &Draft<'_>) -> Vec<DraftProvider> {
    let mut first: Vec<DraftProvider> = (0..draft.providers.len()).collect();
    for way in ways(draft) {
        let own = draft.providers.iter().position(|provider| provider.domain == way.domain);
        let Some(own) = own.map(|own| first[own]) else { continue };
        let other = first[way.provider];
        first.iter_mut().filter(|first| **first == own.max(other)).for_each(|first| *first = own.min(other));
    }
    first
}

/// Returns the names of a switch's ports: its own connections, and its clients.
fn names_of_ports<'d>(draft: &'d Draft<'_>, domain: DraftDomain) -> Vec<&'d str> {
    let connections = draft.domains[domain].manifest.connections.iter().enumerate();
    // What is wrong with one that is named has been reported.
    let own = connections.filter(|(slot, _)| draft.named.contains(&(domain, *slot)));
    let of = draft.clients.iter().filter(|client| draft.providers[client.provider].domain == domain);
    let clients = of.map(|client| draft.domains[client.domain].name.value.as_str());
    own.map(|(_, connection)| connection.name.as_str()).chain(clients).collect()
}

fn check_port(draft: &mut Draft<'_>, domain: DraftDomain, port: &Located<String>) {
    let mut names = names_of_ports(draft, domain);
    let of = draft.clients.iter().filter(|client| draft.providers[client.provider].domain == domain);
    let of_name: Vec<_> =
        of.map(|client| &draft.domains[client.domain].name).filter(|client| client.value == port.value).collect();
    let all_of_name = names.iter().filter(|name| **name == port.value).count();
    if let Some(client) = of_name.first().filter(|_| all_of_name > 1) {
        let what = format!("`{}` has two ports of the name `{}`", draft.domains[domain].name.value, port.value);
        let (other, help) = match of_name.len() {
            1 => ("a client, and one of its own connections is called so too", "give the client another name"),
            _ => ("a client by several connections", "have a component for each port of which something is said"),
        };
        let diagnostic = draft.at(&port.span, what).related(draft.source, client.span.clone(), other).help(help);
        return draft.error(diagnostic);
    }
    if names.contains(&port.value.as_str()) {
        return;
    }
    names.sort_unstable();
    names.dedup();
    let help = match suggest(&port.value, names.iter().copied()) {
        Some(help) => help,
        None => {
            "its ports are its clients, by the names of their domains, and its own connections; there are none".into()
        }
    };
    let diagnostic =
        draft.at(&port.span, format!("`{}` has no port `{}`", draft.domains[domain].name.value, port.value)).help(help);
    draft.error(diagnostic);
}
