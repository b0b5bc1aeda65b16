//! What a field of the configuration has to do with others and with the component's connections, so
//! that a system file can be checked for values that are right by themselves and wrong together.

use crate::connection::Connection;
use crate::problem::{Located, Problem, suggest};
use crate::reader::{Problems, TableReader};
use crate::value::{ConfigField, ConfigType};
use culm_abi::connection::Channel;

/// The relations of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relations {
    /// The connection that it is about: a system without that one does not give it. An address with
    /// its network is the component's own there.
    pub of: Option<Located<String>>,
    /// The fields of networks in one of which its address is, as far as a system gives them.
    pub within: Vec<Located<String>>,
    /// The field with the first address of the range whose last one it is.
    pub from: Option<Located<String>>,
    /// The fields whose addresses it must not have.
    pub other_than: Vec<Located<String>>,
    /// The field whose number it must not exceed.
    pub at_most: Option<Located<String>>,
    /// The channel at whose other end the component's field of the same name must have the same
    /// value, or none too.
    pub same_by: Option<Located<String>>,
    /// The fields that a system must give where it gives this one, or says yes to it.
    pub needs: Vec<Located<String>>,
    /// The fields of which a system must give one, or say yes to it, where it does so with this.
    pub needs_any: Vec<Located<String>>,
}

impl Relations {
    /// Reads the keys of a field's table.
    pub fn read(table: &mut TableReader<'_>, problems: &mut Problems) -> Self {
        let of = table.take("of").and_then(|entry| entry.text(problems));
        let within = table.take("within").and_then(|entry| entry.texts(problems)).unwrap_or_default();
        let from = table.take("from").and_then(|entry| entry.text(problems));
        let other_than = table.take("other_than").and_then(|entry| entry.texts(problems)).unwrap_or_default();
        let at_most = table.take("at_most").and_then(|entry| entry.text(problems));
        let same_by = table.take("same_by").and_then(|entry| entry.text(problems));
        let needs = table.take("needs").and_then(|entry| entry.texts(problems)).unwrap_or_default();
        let needs_any = table.take("needs_any").and_then(|entry| entry.texts(problems)).unwrap_or_default();
        Self { of, within, from, other_than, at_most, same_by, needs, needs_any }
    }
}

/// Checks that what fields name is there, and of a type that makes sense.
pub fn check(fields: &[ConfigField], connections: &[Connection], problems: &mut Problems) {
    for field in fields {
        let Relations { of, within, from, other_than, at_most, same_by, needs, needs_any } = &field.relations;
        if let Some(of) = of {
            check_connection(connections.iter(), of, ("connection", "of"), problems);
        }
        if let Some(same_by) = same_by {
            let channels = connections.iter().filter(|connection| connection.kind.is::<Channel>());
            check_connection(channels, same_by, ("channel", "same_by"), problems);
        }
        let network = network_of(field.kind);
        for name in within {
            check_field(fields, name, |kind| Some(kind) == network, "a network that its address could be in", problems);
        }
        if let Some(from) = from {
            let is_one = |kind| matches!(field.kind, ConfigType::Ipv4 | ConfigType::Ipv6) && kind == field.kind;
            check_field(fields, from, is_one, "the first address of a range whose last one it could be", problems);
        }
        for name in other_than {
            let is_one =
                |kind: ConfigType| network.is_some_and(|network| kind == network || network_of(kind) == Some(network));
            check_field(fields, name, is_one, "an address that it could have too", problems);
        }
        if let Some(at_most) = at_most {
            let is_one = |kind: ConfigType| field.kind.is_unsigned() && kind.is_unsigned();
            check_field(fields, at_most, is_one, "a number that it could exceed", problems);
        }
        for name in needs.iter().chain(needs_any) {
            let others = fields.iter().filter(|other| other.name != field.name);
            if !others.clone().any(|other| other.name == name.value) {
                let help = suggest(&name.value, others.map(|other| other.name.as_str()));
                let help = help.unwrap_or_else(|| "leave it out: there is no other field".into());
                let message = format!("`{}` is not another field that it could need", name.value);
                problems.push(Problem::new(name.span.clone(), message).help(help));
            }
        }
    }
}

fn check_connection<'a>(
    connections: impl Iterator<Item = &'a Connection> + Clone,
    name: &Located<String>,
    (what, key): (&str, &str),
    problems: &mut Problems,
) {
    if connections.clone().any(|own| own.name == name.value) {
        return;
    }
    let names = connections.map(|own| own.name.as_str());
    let help = suggest(&name.value, names).unwrap_or_else(|| format!("leave `{key}` out: it has none"));
    problems.push(Problem::new(name.span.clone(), format!("there is no {what} `{}`", name.value)).help(help));
}

/// The type of networks that have addresses of this type.
pub fn network_of(kind: ConfigType) -> Option<ConfigType> {
    match kind {
        ConfigType::Ipv4 | ConfigType::Ipv4List | ConfigType::StationList => Some(ConfigType::Ipv4Network),
        ConfigType::Ipv6 => Some(ConfigType::Ipv6Network),
        _ => None,
    }
}

fn check_field(
    fields: &[ConfigField],
    name: &Located<String>,
    is_one: impl Fn(ConfigType) -> bool,
    what: &str,
    problems: &mut Problems,
) {
    let is_it = |field: &&ConfigField| is_one(field.kind);
    if fields.iter().filter(is_it).any(|field| field.name == name.value) {
        return;
    }
    let names = fields.iter().filter(is_it).map(|field| field.name.as_str());
    let help = suggest(&name.value, names).unwrap_or_else(|| "there is no field that this could mean".into());
    problems.push(Problem::new(name.span.clone(), format!("`{}` is not {what}", name.value)).help(help));
}
