//! Addresses in a configuration that are right by themselves and wrong together, or beside the
//! connections that are there. How they belong together, the component's manifest says (`of`,
//! `within`, `from`, `other_than`).

use super::draft::{Draft, DraftDomain};
use crate::diagnostics::Diagnostic;
use culm_manifest::reader::{Problems, TableReader};
use culm_manifest::{ConfigField, ConfigType, Located, network_of, station_address};
use std::fmt;
use std::net::IpAddr;
use std::ops::Range;

/// Checks the configuration of all domains.
pub fn check(draft: &mut Draft<'_>) {
    let file = draft.file;
    let mut found = Vec::new();
    for table in &file.domains {
        let (Some(domain), Some(config)) = (draft.domain(&table.name.value), &table.config) else { continue };
        without_connection(draft, domain, config, &mut found);
        let given = given(draft, domain, config);
        same_networks(draft, &given, &mut found);
        for address in &given {
            outside(draft, domain, &given, address, &mut found);
            range(draft, &given, address, &mut found);
            other_than(draft, &given, address, &mut found);
        }
    }
    found.into_iter().for_each(|diagnostic| draft.error(diagnostic));
}

/// The types of addresses that have their network's prefix.
const NETWORKS: &[ConfigType] = &[ConfigType::Ipv4Network, ConfigType::Ipv6Network];

/// An address that a system file gives.
pub struct Given<'a> {
    pub field: &'a ConfigField,
    pub address: IpAddr,
    /// Bits of the prefix of the network that is given with it.
    pub prefix: Option<u32>,
    pub span: Range<usize>,
}

/// The network of an address with its prefix.
#[derive(Clone, Copy, PartialEq, Eq)]
struct Network {
    first: IpAddr,
    prefix: u32,
}

impl fmt::Display for Network {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}/{}", self.first, self.prefix)
    }
}

impl Network {
    fn of(address: IpAddr, prefix: u32) -> Self {
        let first = match address {
            IpAddr::V4(address) => {
                let hosts = u32::MAX.checked_shr(prefix).unwrap_or(0);
                IpAddr::V4((address.to_bits() & !hosts).into())
            }
            IpAddr::V6(address) => {
                let hosts = u128::MAX.checked_shr(prefix).unwrap_or(0);
                IpAddr::V6((address.to_bits() & !hosts).into())
            }
        };
        Self { first, prefix }
    }

    fn has(&self, address: IpAddr) -> bool {
        address.is_ipv4() == self.first.is_ipv4() && Self::of(address, self.prefix) == *self
    }

    /// What `address` means in it, if it is no host's.
    fn of_no_host(&self, address: IpAddr) -> Option<&'static str> {
        let (IpAddr::V4(address), 0..=30) = (address, self.prefix) else { return None };
        let hosts = u32::MAX.checked_shr(self.prefix).unwrap_or(0);
        match address.to_bits() & hosts {
            0 => Some("the network itself"),
            all if all == hosts => Some("all of its hosts"),
            _ => None,
        }
    }
}

impl Given<'_> {
    fn network(&self) -> Option<Network> {
        self.prefix.map(|prefix| Network::of(self.address, prefix))
    }
}

/// The addresses that a configuration gives. What is wrong with one by itself has been reported.
pub fn given<'a>(draft: &Draft<'a>, domain: DraftDomain, config: &TableReader<'a>) -> Vec<Given<'a>> {
    let fields = draft.domains[domain].manifest.config.iter();
    fields.flat_map(|field| read(field, config.clone()).unwrap_or_default()).collect()
}

fn read<'a>(field: &'a ConfigField, mut config: TableReader<'a>) -> Option<Vec<Given<'a>>> {
    network_of(field.kind).or(Some(field.kind)).filter(|kind| NETWORKS.contains(kind))?;
    let (entry, mut ignored) = (config.take(&field.name)?, Problems::new());
    field.read(&entry, &mut ignored)?;
    let texts = if field.kind.is_list() { entry.texts(&mut ignored)? } else { vec![entry.text(&mut ignored)?] };
    let one = |text: Located<String>| {
        let (address, prefix) = match field.kind {
            ConfigType::StationList => (station_address(&text.value)?, None),
            _ => match text.value.split_once('/') {
                Some((address, prefix)) => (address, Some(prefix.parse().ok()?)),
                None => (text.value.as_str(), None),
            },
        };
        Some(Given { field, address: address.parse().ok()?, prefix, span: text.span })
    };
    Some(texts.into_iter().filter_map(one).collect())
}

/// Refuses what is about a connection that is not there.
fn without_connection<'a>(
    draft: &Draft<'a>,
    domain: DraftDomain,
    config: &TableReader<'a>,
    found: &mut Vec<Diagnostic>,
) {
    let manifest = draft.domains[domain].manifest;
    for field in &manifest.config {
        let Some(of) = &field.relations.of else { continue };
        let Some((slot, _)) = manifest.connection(&of.value) else { continue };
        let Some(entry) = config.clone().take(&field.name) else { continue };
        if !draft.named.contains(&(domain, slot)) {
            let message = format!("`{}` is about the connection `{}`, which is not there", field.name, of.value);
            let help = format!("connect `{}`, or leave `{}` out", of.value, field.name);
            found.push(draft.at(&entry.key.span, message).help(help));
        }
    }
}

/// Refuses two networks that are one: what is for it could go either way.
fn same_networks(draft: &Draft<'_>, given: &[Given<'_>], found: &mut Vec<Diagnostic>) {
    for (index, later) in given.iter().enumerate() {
        let Some(network) = later.network() else { continue };
        let earlier = given.iter().take(index).find(|earlier| earlier.network() == Some(network));
        if let Some(earlier) = earlier {
            let message = format!("`{}` and `{}` are in one network, {network}", earlier.field.name, later.field.name);
            let help = "give each network addresses of its own: what is for this one could go either way";
            let diagnostic = draft.at(&later.span, message).related(draft.source, earlier.span.clone(), "the other");
            found.push(diagnostic.help(help));
        }
    }
}

/// Refuses an address that is in none of the networks in which it should be, or no other station's.
fn outside(
    draft: &Draft<'_>,
    domain: DraftDomain,
    given: &[Given<'_>],
    address: &Given<'_>,
    found: &mut Vec<Diagnostic>,
) {
    let within = &address.field.relations.within;
    // A link-local address is in all of them.
    let is_link_local = matches!(address.address, IpAddr::V6(address) if address.is_unicast_link_local());
    if within.is_empty() || is_link_local {
        return;
    }
    let is_one = |other: &&Given<'_>| within.iter().any(|name| name.value == other.field.name);
    let networks: Vec<_> = given.iter().filter(is_one).collect();
    let all = networks.iter().filter_map(|other| Some((*other, other.network()?)));
    let Some((other, network)) = all.clone().find(|(_, network)| network.has(address.address)) else {
        // A network that is wrong by itself has been reported.
        let is_wrong = |name: &Located<String>| !networks.iter().any(|other| other.field.name == name.value);
        let table = draft.file.domains.iter().find(|table| table.name.value == draft.domains[domain].name.value);
        let config = table.and_then(|table| table.config.clone());
        if within.iter().any(|name| is_wrong(name) && config.as_ref().is_some_and(|config| config.has(&name.value))) {
            return;
        }
        found.push(nowhere(draft, address, &all.collect::<Vec<_>>()));
        return;
    };
    let (name, text) = (&address.field.name, address.address);
    let (message, help) = if other.address == text {
        (format!("{text} is the component's own address"), format!("`{name}` is that of another station"))
    } else if let Some(what) = network.of_no_host(text) {
        (format!("{text} means {what}"), format!("`{name}` is that of one host in {network}"))
    } else {
        return;
    };
    found.push(draft.at(&address.span, message).related(draft.source, other.span.clone(), "the network").help(help));
}

fn nowhere(draft: &Draft<'_>, address: &Given<'_>, networks: &[(&Given<'_>, Network)]) -> Diagnostic {
    if networks.is_empty() {
        let names: Vec<_> = address.field.relations.within.iter().map(|name| format!("`{}`", name.value)).collect();
        let message = format!("there is no network in which {} could be", address.address);
        let help = format!("give {} too, or leave `{}` out", names.join(" or "), address.field.name);
        return draft.at(&address.span, message).help(help);
    }
    let known: Vec<String> = networks.iter().map(|(_, network)| network.to_string()).collect();
    let message = format!("{} is not in {}", address.address, known.join(" or "));
    let diagnostic = draft.at(&address.span, message);
    let related = networks.iter().fold(diagnostic, |diagnostic, (other, _)| {
        diagnostic.related(draft.source, other.span.clone(), "a network where it could be")
    });
    let names: Vec<String> = networks.iter().map(|(other, _)| format!("`{}`", other.field.name)).collect();
    related.help(format!("choose an address of {}, or correct {}", known.join(" or "), names.join(" or ")))
}

/// Refuses a range that is none, is too long, or has another address of the configuration in it.
fn range(draft: &Draft<'_>, given: &[Given<'_>], last: &Given<'_>, found: &mut Vec<Diagnostic>) {
    let Some(from) = &last.field.relations.from else { return };
    let Some(first) = given.iter().find(|other| other.field.name == from.value) else { return };
    let bits = |address: IpAddr| match address {
        IpAddr::V4(address) => address.to_bits().into(),
        IpAddr::V6(address) => address.to_bits(),
    };
    let (low, high) = (bits(first.address), bits(last.address));
    let name = &last.field.name;
    let other = |diagnostic: Diagnostic| diagnostic.related(draft.source, first.span.clone(), "the first address");
    if high < low {
        let message = format!("the range ends at {}, before it begins", last.address);
        found.push(other(draft.at(&last.span, message)).help(format!("exchange `{}` and `{name}`", from.value)));
        return;
    }
    let count = (high - low).saturating_add(1);
    if let Some(max) = last.field.max.filter(|max| i128::try_from(count).is_ok_and(|count| count > *max)) {
        let message = format!("the range has {count} addresses");
        found.push(other(draft.at(&last.span, message)).help(format!("it can have {max}: lower `{name}`")));
    }
    for taken in given.iter().filter(|taken| (low..=high).contains(&bits(taken.address))) {
        // Lists of addresses may have such as are in the range.
        if taken.field.name == *name || taken.field.name == from.value || taken.field.kind.is_list() {
            continue;
        }
        let message = format!("{}, the `{}`, lies in the range", taken.address, taken.field.name);
        let help = format!("choose `{}` and `{name}` so that it is not between them", from.value);
        let related = draft.at(&last.span, message).related(draft.source, taken.span.clone(), "the address in it");
        found.push(other(related).help(help));
    }
}

/// Refuses an address that the configuration has for something else.
fn other_than(draft: &Draft<'_>, given: &[Given<'_>], address: &Given<'_>, found: &mut Vec<Diagnostic>) {
    let is_one = |other: &&Given<'_>| {
        other.address == address.address
            && address.field.relations.other_than.iter().any(|name| name.value == other.field.name)
    };
    let Some(other) = given.iter().find(is_one) else { return };
    let (name, other_name) = (&address.field.name, &other.field.name);
    let diagnostic = draft
        .at(&address.span, format!("{} is the `{other_name}`, and cannot be in `{name}`", address.address))
        .related(draft.source, other.span.clone(), "the same address")
        .help(format!("choose another one for `{name}`, or leave it out"));
    found.push(diagnostic);
}
