//! Classes of devices and of what stands in for them: what the tool knows of each, in one file or
//! folder each. The rest of the tool knows devices, drivers, providers, virtualisers, clients,
//! queues, regions and channels, and names no class.

mod block;
mod bus;
mod clock;
mod entropy;
mod file;
mod gpio;
pub(crate) mod interface;
mod net;
mod outside;
mod serial;

pub use outside::{Options, Outside};

use culm_abi::connection::{KINDS, Role};
use culm_manifest::DeviceClass;
use interface::Class;

/// Every class, by its name in `culm-abi`.
const CLASSES: &[(&str, &dyn Class)] = &[
    ("net", &net::Net),
    ("block", &block::Block),
    ("serial", &serial::Serial),
    ("clock", &clock::Clock),
    ("file", &file::File),
    ("entropy", &entropy::Entropy),
    ("gpio", &gpio::Gpio),
    ("bus", &bus::Bus),
];

/// A class that has drivers or providers and is not here does not compile.
const _: () = {
    let mut kind = 0;
    while kind < KINDS.len() {
        if let (Some(class), Role::Driver | Role::Provider) = (KINDS[kind].class, KINDS[kind].role) {
            let mut at = 0;
            while !equal(CLASSES[at].0, class) {
                at += 1;
                assert!(at < CLASSES.len(), "a class of culm-abi is not in the tool's table");
            }
        }
        kind += 1;
    }
};

const fn equal(first: &str, second: &str) -> bool {
    let (first, second) = (first.as_bytes(), second.as_bytes());
    let mut at = 0;
    while at < first.len() && at < second.len() && first[at] == second[at] {
        at += 1;
    }
    at == first.len() && at == second.len()
}

/// Every class.
pub(crate) fn all() -> impl Iterator<Item = &'static dyn Class> + Clone {
    CLASSES.iter().map(|(_, class)| *class)
}

/// Returns the implementation of a class.
pub(crate) fn of(class: DeviceClass) -> &'static dyn Class {
    let found = CLASSES.iter().find(|(name, _)| *name == class.name());
    found.expect("every class that is declared is in the table").1
}

#[cfg(test)]
mod tests;
