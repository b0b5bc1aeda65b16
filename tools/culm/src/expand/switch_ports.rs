//! Names of ports in a configuration: those of a provider's clients, and of the connections by
//! which it is a client itself.

use super::draft::{Draft, DraftDomain};
use culm_manifest::problem::suggest;
use culm_manifest::reader::Problems;
use culm_manifest::{ConfigType, Located};

/// Refuses options of ports that are nobody's.
pub fn check(draft: &mut Draft<'_>) {
    let file = draft.file;
    for table in &file.domains {
        let (Some(domain), Some(config)) = (draft.domain(&table.name.value), &table.config) else { continue };
        let fields = draft.domains[domain].manifest.config.iter().filter(|field| field.kind == ConfigType::SwitchPorts);
        for field in fields {
            // What is wrong with the values has been reported.
            let mut ignored = Problems::new();
            let entry = config.clone().take(&field.name).and_then(|entry| entry.table("", &mut ignored));
            let Some(mut ports) = entry else { continue };
            for port in ports.rest(&mut ignored) {
                check_port(draft, domain, &port.key);
            }
        }
    }
}

fn check_port(draft: &mut Draft<'_>, domain: DraftDomain, port: &Located<String>) {
    let connections = draft.domains[domain].manifest.connections.iter().enumerate();
    // What is wrong with one that is named has been reported.
    let own = connections.filter(|(slot, _)| draft.named.contains(&(domain, *slot)));
    let of = draft.clients.iter().filter(|client| draft.providers[client.provider].domain == domain);
    let mut names: Vec<&str> = own.map(|(_, connection)| connection.name.as_str()).collect();
    names.extend(of.map(|client| draft.domains[client.domain].name.value.as_str()));
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
