//! Names of ports in a configuration: those of a provider's clients, and of the connections by
//! which it is a client itself.

use super::draft::{Domain, Draft, DraftDomain};
use culm_manifest::problem::suggest;
use culm_manifest::reader::{Entry, Problems};
use culm_manifest::{ConfigType, Located, PortOptions};

/// Refuses options of ports that are nobody's, or of two.
pub fn check(draft: &mut Draft<'_>) {
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

fn check_port(draft: &mut Draft<'_>, domain: DraftDomain, port: &Located<String>) {
    let connections = draft.domains[domain].manifest.connections.iter().enumerate();
    // What is wrong with one that is named has been reported.
    let own = connections.filter(|(slot, _)| draft.named.contains(&(domain, *slot)));
    let of = draft.clients.iter().filter(|client| draft.providers[client.provider].domain == domain);
    let mut names: Vec<&str> = own.map(|(_, connection)| connection.name.as_str()).collect();
    let clients: Vec<&Located<String>> = of.map(|client| &draft.domains[client.domain].name).collect();
    let of_name: Vec<_> = clients.iter().filter(|client| client.value == port.value).collect();
    if let Some(client) = of_name.first().filter(|_| of_name.len() > 1 || names.contains(&port.value.as_str())) {
        let what = format!("`{}` has two ports of the name `{}`", draft.domains[domain].name.value, port.value);
        let (other, help) = match of_name.len() {
            1 => ("a client, and one of its own connections is called so too", "give the client another name"),
            _ => ("a client by several connections", "have a component for each port of which something is said"),
        };
        let diagnostic = draft.at(&port.span, what).related(draft.source, client.span.clone(), other).help(help);
        return draft.error(diagnostic);
    }
    names.extend(clients.iter().map(|client| client.value.as_str()));
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
