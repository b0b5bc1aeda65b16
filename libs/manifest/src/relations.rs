//! What a field of the configuration has to do with others and with the component's connections, so
//! that a system file can be checked for values that are right by themselves and wrong together.

use crate::connection::Connection;
use crate::problem::{Located, Problem, suggest};
use crate::reader::{Problems, TableReader};
use crate::value::{ConfigField, ConfigType};

/// The relations of a field.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Relations {
    /// The connection that it is about: a system without that one does not give it.
    pub of: Option<Located<String>>,
    /// The fields of networks in one of which its address is, as far as a system gives them.
    pub within: Vec<Located<String>>,
    /// The field with the first address of the range whose last one it is.
    pub from: Option<Located<String>>,
}

impl Relations {
    /// Reads the keys of a field's table.
    pub fn read(table: &mut TableReader<'_>, problems: &mut Problems) -> Self {
        let of = table.take("of").and_then(|entry| entry.text(problems));
        let within = table.take("within").and_then(|entry| entry.texts(problems)).unwrap_or_default();
        let from = table.take("from").and_then(|entry| entry.text(problems));
        Self { of, within, from }
    }
}

/// Checks that what fields name is there, and of a type that makes sense.
pub fn check(fields: &[ConfigField], connections: &[Connection], problems: &mut Problems) {
    for field in fields {
        let Relations { of, within, from } = &field.relations;
        if let Some(of) = of.as_ref().filter(|of| !connections.iter().any(|own| own.name == of.value)) {
            let names = connections.iter().map(|own| own.name.as_str());
            let help = suggest(&of.value, names).unwrap_or_else(|| "leave `of` out: it has none".into());
            problems.push(Problem::new(of.span.clone(), format!("there is no connection `{}`", of.value)).help(help));
        }
        let network = network_of(field.kind);
        for name in within {
            check_field(fields, name, network, "a network that its address could be in", problems);
        }
        if let Some(from) = from {
            let first = network.map(|_| field.kind);
            check_field(fields, from, first, "the first address of a range whose last one it could be", problems);
        }
    }
}

/// The type of networks that have addresses of this type.
pub fn network_of(kind: ConfigType) -> Option<ConfigType> {
    match kind {
        ConfigType::Ipv4 => Some(ConfigType::Ipv4Network),
        ConfigType::Ipv6 => Some(ConfigType::Ipv6Network),
        _ => None,
    }
}

fn check_field(
    fields: &[ConfigField],
    name: &Located<String>,
    kind: Option<ConfigType>,
    what: &str,
    problems: &mut Problems,
) {
    let is_it = |field: &&ConfigField| Some(field.kind) == kind;
    if fields.iter().filter(is_it).any(|field| field.name == name.value) {
        return;
    }
    let names = fields.iter().filter(is_it).map(|field| field.name.as_str());
    let help = suggest(&name.value, names).unwrap_or_else(|| "only addresses of hosts have such fields".into());
    problems.push(Problem::new(name.span.clone(), format!("`{}` is not {what}", name.value)).help(help));
}
