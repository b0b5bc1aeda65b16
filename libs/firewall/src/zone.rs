//! Zones: the names by which rules call the networks on the router's sides.

use alloc::string::String;
use alloc::vec::Vec;

/// The most zones, besides the router itself.
pub const MAX_ZONES: usize = 15;

/// The longest name of a zone or group, in bytes.
pub const MAX_NAME: usize = 32;

/// Words that have a meaning in rules, so that no zone and no group is called so.
pub(crate) const RESERVED: [&str; 29] = [
    "addresses",
    "ah",
    "allow",
    "any",
    "at",
    "default",
    "deny",
    "esp",
    "forward",
    "from",
    "gre",
    "icmp",
    "icmp6",
    "in",
    "log",
    "nat",
    "out",
    "own",
    "port",
    "ports",
    "protocol",
    "reject",
    "sctp",
    "self",
    "source-port",
    "tcp",
    "to",
    "type",
    "udp",
];

/// A side of the router on which a packet comes or goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Zone(u8);

impl Zone {
    /// The router itself: it sends what comes from here, and what goes here is for it.
    pub const SELF: Self = Self(0);

    /// Every zone that there can be, in order.
    pub(crate) const EVERY: [Self; MAX_ZONES + 1] = {
        let mut every = [Self(0); MAX_ZONES + 1];
        let mut index = 0;
        while index <= MAX_ZONES {
            every[index] = Self(index as u8);
            index += 1;
        }
        every
    };

    /// Returns the zone's number, which is at most [`MAX_ZONES`]; that of the router itself is 0.
    pub fn index(self) -> usize {
        usize::from(self.0)
    }
}

/// The names of a router's zones.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Zones(Vec<String>);

/// Names that cannot be those of zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BadZones {
    /// There are more than [`MAX_ZONES`].
    TooMany,
    /// The one of this index is no name: a letter, then letters, digits, `-`, `_` and `.`, in all
    /// at most [`MAX_NAME`] bytes; and no word of the language.
    NoName(usize),
    /// The one of this index is there twice.
    Twice(usize),
}

impl Zones {
    /// Takes the names of zones.
    ///
    /// # Errors
    ///
    /// If they cannot be names of zones.
    pub fn new(names: &[&str]) -> Result<Self, BadZones> {
        if names.len() > MAX_ZONES {
            return Err(BadZones::TooMany);
        }
        let mut zones = Vec::with_capacity(names.len());
        for (index, name) in names.iter().enumerate() {
            if !is_name(name) || RESERVED.contains(name) {
                return Err(BadZones::NoName(index));
            }
            if zones.iter().any(|known| known == name) {
                return Err(BadZones::Twice(index));
            }
            zones.push(String::from(*name));
        }
        Ok(Self(zones))
    }

    /// Returns the zone that is called `name`; `self` is the router itself.
    pub fn find(&self, name: &str) -> Option<Zone> {
        if name == "self" {
            return Some(Zone::SELF);
        }
        let index = self.0.iter().position(|known| known == name)?;
        Zone::EVERY.get(index + 1).copied()
    }

    /// Returns the name of a zone.
    pub fn name(&self, zone: Zone) -> &str {
        zone.index().checked_sub(1).and_then(|index| self.0.get(index)).map_or("self", String::as_str)
    }

    /// Returns the names, that of the router itself not among them.
    pub fn names(&self) -> impl Iterator<Item = &str> + Clone {
        self.0.iter().map(String::as_str)
    }

    /// Returns all zones, the router itself first.
    pub fn all(&self) -> impl Iterator<Item = Zone> + use<> {
        Zone::EVERY.into_iter().take(self.0.len() + 1)
    }
}

/// Returns whether zones and groups can be called so, if the language has no such word.
pub(crate) fn is_name(text: &str) -> bool {
    let further = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
    text.len() <= MAX_NAME && text.starts_with(|first: char| first.is_ascii_alphabetic()) && text.bytes().all(further)
}

/// A set of zones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ZoneSet(u16);

impl ZoneSet {
    /// Every zone, and the router itself.
    pub const ALL: Self = Self(u16::MAX);
    /// No zone.
    pub const EMPTY: Self = Self(0);

    /// Returns the set with `zone` besides.
    pub fn with(self, zone: Zone) -> Self {
        Self(self.0 | 1 << zone.0)
    }

    /// Returns whether `zone` is in the set.
    pub fn contains(self, zone: Zone) -> bool {
        self.0 >> zone.0 & 1 != 0
    }

    /// Returns whether every zone of `other` is in the set.
    pub fn covers(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Returns whether a zone is in both sets.
    pub fn meets(self, other: Self) -> bool {
        self.0 & other.0 != 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zones_have_names() {
        let zones = Zones::new(&["inner", "outer"]).expect("two zones");
        let outer = zones.find("outer").expect("it is there");
        assert_eq!((outer.index(), zones.name(outer), zones.name(Zone::SELF)), (2, "outer", "self"));
        assert_eq!((zones.find("self"), zones.find("guest")), (Some(Zone::SELF), None));
        assert_eq!(zones.all().map(Zone::index).collect::<Vec<_>>(), [0, 1, 2]);
    }

    #[test]
    fn what_is_no_name_is_refused() {
        assert_eq!(Zones::new(&["a"; 16]), Err(BadZones::TooMany));
        assert_eq!(Zones::new(&["a", "b", "a"]), Err(BadZones::Twice(2)));
        for name in ["", "self", "any", "1st", "a,b", "zône", "a b", &"a".repeat(33)] {
            assert_eq!(Zones::new(&[name]), Err(BadZones::NoName(0)), "{name}");
        }
        assert!(Zones::new(&["eth0.100", "wlan-2_x"]).is_ok());
    }

    #[test]
    fn sets_of_zones_are_sets() {
        let zones = Zones::new(&["inner", "outer"]).expect("two zones");
        let [inner, outer] = ["inner", "outer"].map(|name| zones.find(name).expect("it is there"));
        let set = ZoneSet::EMPTY.with(inner);
        assert!(set.contains(inner) && !set.contains(outer) && !set.contains(Zone::SELF));
        assert!(ZoneSet::ALL.covers(set) && !set.covers(ZoneSet::ALL) && set.covers(ZoneSet::EMPTY));
        assert!(set.meets(set.with(outer)) && !set.meets(ZoneSet::EMPTY.with(outer)));
    }
}
