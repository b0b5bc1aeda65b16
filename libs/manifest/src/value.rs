//! Typed values of a component's configuration.

use crate::problem::{Located, Problem};
use crate::reader::{Entry, Problems};
use crate::relations::Relations;
use crate::{address, address_list, cache_control, service, sha256, switch_ports};
use std::net::{Ipv4Addr, Ipv6Addr};

/// Type of a configuration field.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ConfigType {
    /// `true` or `false`.
    Bool,
    /// 8 bits, unsigned.
    U8,
    /// 16 bits, unsigned.
    U16,
    /// 32 bits, unsigned.
    U32,
    /// 64 bits, unsigned.
    U64,
    /// 64 bits, signed.
    I64,
    /// UTF-8 text.
    String,
    /// An IPv4 address of one host, as text.
    Ipv4,
    /// The same with the length of its network's prefix, as text.
    Ipv4Network,
    /// An IPv6 address of one host, as text.
    Ipv6,
    /// The same with the length of its network's prefix, as text.
    Ipv6Network,
    /// A SHA-256, as text.
    Sha256,
    /// A hardware address, six bytes.
    Mac,
    /// A duration, in nanoseconds.
    Duration,
    /// A size, in bytes.
    Size,
    /// The content of a file.
    File,
    /// The content of a folder, packed into an archive.
    Folder,
    /// A list of text.
    StringList,
    /// A list of IPv4 addresses of hosts, none of them twice.
    Ipv4List,
    /// The same, where each may be of IPv6 too.
    IpList,
    /// A list of services: hosts' names or addresses, each with a port.
    ServiceList,
    /// A list of stations, by their hardware addresses, with an IPv4 address for each.
    StationList,
    /// Directives for caches, by patterns of their paths.
    CacheControl,
    /// Options of a switch's ports, by their names.
    SwitchPorts,
    /// Rules of a firewall, in a file or in the system file.
    FirewallRules,
}

impl ConfigType {
    /// Whether its values are numbers or sizes, none below 0.
    pub fn is_unsigned(self) -> bool {
        matches!(self, Self::U8 | Self::U16 | Self::U32 | Self::U64 | Self::Size)
    }

    /// Whether its values are lists of text.
    pub fn is_list(self) -> bool {
        matches!(self, Self::StringList | Self::Ipv4List | Self::IpList | Self::ServiceList | Self::StationList)
    }

    /// Every type by its name in a manifest.
    pub const NAMES: &[(&str, ConfigType)] = &[
        ("bool", ConfigType::Bool),
        ("u8", ConfigType::U8),
        ("u16", ConfigType::U16),
        ("u32", ConfigType::U32),
        ("u64", ConfigType::U64),
        ("i64", ConfigType::I64),
        ("string", ConfigType::String),
        ("ipv4", ConfigType::Ipv4),
        ("ipv4-network", ConfigType::Ipv4Network),
        ("ipv6", ConfigType::Ipv6),
        ("ipv6-network", ConfigType::Ipv6Network),
        ("sha256", ConfigType::Sha256),
        ("mac", ConfigType::Mac),
        ("duration", ConfigType::Duration),
        ("size", ConfigType::Size),
        ("file", ConfigType::File),
        ("folder", ConfigType::Folder),
        ("list-of-string", ConfigType::StringList),
        ("list-of-ipv4", ConfigType::Ipv4List),
        ("list-of-ip", ConfigType::IpList),
        ("list-of-service", ConfigType::ServiceList),
        ("list-of-station", ConfigType::StationList),
        ("cache-control", ConfigType::CacheControl),
        ("switch-ports", ConfigType::SwitchPorts),
        ("firewall-rules", ConfigType::FirewallRules),
    ];

    /// The type's name in a manifest.
    pub fn name(self) -> &'static str {
        Self::NAMES.iter().find(|(_, kind)| *kind == self).map_or("", |(name, _)| name)
    }

    /// Smallest and largest value that the type itself can hold; `None` where it is not a number.
    pub fn limits(self) -> Option<(i128, i128)> {
        match self {
            ConfigType::U8 => Some((0, u8::MAX.into())),
            ConfigType::U16 => Some((0, u16::MAX.into())),
            ConfigType::U32 => Some((0, u32::MAX.into())),
            ConfigType::U64 | ConfigType::Duration | ConfigType::Size => Some((0, u64::MAX.into())),
            ConfigType::I64 => Some((i64::MIN.into(), i64::MAX.into())),
            _ => None,
        }
    }
}

/// A configuration value. Which variant belongs to which [`ConfigType`] follows from the names.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Value {
    /// [`ConfigType::Bool`].
    Bool(bool),
    /// [`ConfigType::U8`] to [`ConfigType::U64`], [`ConfigType::Duration`] (nanoseconds),
    /// [`ConfigType::Size`] (bytes).
    Unsigned(u64),
    /// [`ConfigType::I64`].
    Signed(i64),
    /// [`ConfigType::String`], [`ConfigType::Ipv4`], [`ConfigType::Ipv4Network`],
    /// [`ConfigType::Ipv6`], [`ConfigType::Ipv6Network`] and [`ConfigType::Sha256`];
    /// [`ConfigType::FirewallRules`] that stand in the system file.
    Text(String),
    /// [`ConfigType::Mac`].
    Mac([u8; 6]),
    /// [`ConfigType::File`] and [`ConfigType::Folder`], and [`ConfigType::FirewallRules`] in a
    /// file: the path as it is written.
    Path(String),
    /// [`ConfigType::StringList`], [`ConfigType::Ipv4List`], [`ConfigType::IpList`],
    /// [`ConfigType::ServiceList`] and [`ConfigType::StationList`].
    List(Vec<String>),
    /// [`ConfigType::CacheControl`]: patterns with their directives. [`ConfigType::SwitchPorts`]:
    /// names of ports with their options.
    Pairs(Vec<(String, String)>),
}

/// One field of a component's configuration.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigField {
    /// Its name, which is also that of the field in the generated `Config`.
    pub name: String,
    /// Its type.
    pub kind: ConfigType,
    /// Value where the system description gives none. Without a default the field is required,
    /// unless `optional`.
    pub default: Option<Value>,
    /// The field may be absent: the component sees an `Option`.
    pub optional: bool,
    /// Least value allowed (numbers), or least length (text and lists).
    pub min: Option<i128>,
    /// Greatest value allowed (numbers), or greatest length (text and lists); of the last address
    /// of a range, the most addresses that the range has.
    pub max: Option<i128>,
    /// Folders only: files are packed with their gzip form besides, where that is smaller.
    pub gzip: bool,
    /// What it has to do with other fields, and with connections.
    pub relations: Relations,
    /// Its purpose, one sentence.
    pub description: String,
}

impl ConfigField {
    /// Whether a system description must give the field.
    pub fn required(&self) -> bool {
        self.default.is_none() && !self.optional
    }

    /// Reads a value of this field's type and bounds.
    pub fn read(&self, entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<Value>> {
        let span = entry.span();
        let value = match self.kind {
            ConfigType::Bool => Value::Bool(entry.boolean(problems)?.value),
            ConfigType::U8 | ConfigType::U16 | ConfigType::U32 | ConfigType::U64 | ConfigType::I64 => {
                return self.read_number(entry, problems);
            }
            ConfigType::String => Value::Text(entry.text(problems)?.value),
            ConfigType::Ipv4 => Value::Text(address::address::<Ipv4Addr>(entry, problems)?),
            ConfigType::Ipv4Network => Value::Text(address::network::<Ipv4Addr>(entry, problems)?),
            ConfigType::Ipv6 => Value::Text(address::address::<Ipv6Addr>(entry, problems)?),
            ConfigType::Ipv6Network => Value::Text(address::network::<Ipv6Addr>(entry, problems)?),
            ConfigType::Sha256 => Value::Text(sha256::read(entry, problems)?),
            ConfigType::Mac => Value::Mac(entry.mac(problems)?.value),
            ConfigType::Duration => Value::Unsigned(entry.duration(problems)?.value),
            ConfigType::Size => Value::Unsigned(entry.size(problems)?.value),
            ConfigType::File | ConfigType::Folder => Value::Path(entry.text(problems)?.value),
            ConfigType::StringList => list(entry.texts(problems)?),
            ConfigType::Ipv4List => list(address_list::ipv4_addresses(entry, problems)?),
            ConfigType::IpList => list(address_list::ip_addresses(entry, problems)?),
            ConfigType::ServiceList => list(service::services(entry, problems)?),
            ConfigType::StationList => list(address_list::stations(entry, problems)?),
            ConfigType::CacheControl => Value::Pairs(cache_control::read(entry, problems)?),
            ConfigType::SwitchPorts => Value::Pairs(switch_ports::read(entry, problems)?),
            ConfigType::FirewallRules => {
                let text = entry.text(problems)?.value;
                // Whoever writes rules here writes lines of them.
                if text.contains('\n') { Value::Text(text) } else { Value::Path(text) }
            }
        };
        if let Some(measure) = measure(&value).filter(|_| self.relations.from.is_none())
            && (self.min.is_some_and(|min| measure < min) || self.max.is_some_and(|max| measure > max))
        {
            problems.push(Problem::new(span, format!("`{}` is out of range", self.name)).help(self.bounds_in_words()));
            return None;
        }
        Some(Located::new(value, span))
    }

    fn read_number(&self, entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<Value>> {
        let (least, greatest) = self.kind.limits()?;
        let range = self.min.unwrap_or(least).max(least)..=self.max.unwrap_or(greatest).min(greatest);
        let number = entry.integer(range, problems)?;
        // The range above is within the type's.
        Some(number.map(|number| match self.kind {
            ConfigType::I64 => Value::Signed(number as i64),
            _ => Value::Unsigned(number as u64),
        }))
    }

    /// Returns `min` and `max` as advice.
    fn bounds_in_words(&self) -> String {
        let format = |bound: i128| match self.kind {
            ConfigType::Duration => crate::units::format_duration(bound.try_into().unwrap_or(u64::MAX)),
            ConfigType::Size => crate::units::format_size(bound.try_into().unwrap_or(u64::MAX)),
            ConfigType::String => format!("{bound} bytes"),
            ConfigType::CacheControl | ConfigType::SwitchPorts => format!("{bound} elements"),
            kind if kind.is_list() => format!("{bound} elements"),
            _ => bound.to_string(),
        };
        match (self.min, self.max) {
            (Some(min), Some(max)) => format!("it must be from {} to {}", format(min), format(max)),
            (Some(min), None) => format!("it must be {} at least", format(min)),
            (None, Some(max)) => format!("it must be {} at most", format(max)),
            (None, None) => String::new(),
        }
    }
}

fn list(texts: Vec<Located<String>>) -> Value {
    Value::List(texts.into_iter().map(|text| text.value).collect())
}

/// Returns what `min` and `max` bound: a number itself, the length of text and lists.
fn measure(value: &Value) -> Option<i128> {
    match value {
        Value::Unsigned(value) => Some((*value).into()),
        Value::Signed(value) => Some((*value).into()),
        Value::Text(text) => Some(text.len() as i128),
        Value::List(list) => Some(list.len() as i128),
        Value::Pairs(pairs) => Some(pairs.len() as i128),
        Value::Bool(_) | Value::Mac(_) | Value::Path(_) => None,
    }
}
