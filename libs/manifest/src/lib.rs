//! Component manifests: what a component is, needs and is configured by.
//!
//! A component's crate holds a `component.toml` beside its `Cargo.toml`. The macro
//! `culm::component!` makes typed structures from it, the build tool checks systems against it:
//! both read it through this crate, so that there is one owner of the format. [`reader`], [`units`]
//! and [`problem`] also serve the tool for its own files.

#![forbid(unsafe_code)]

mod address;
mod address_list;
mod cache_control;
mod connection;
mod driver;
mod kind;
mod manifest;
mod need;
mod needs;
pub mod problem;
pub mod reader;
mod relations;
mod service;
mod sha256;
mod switch_ports;
mod syntax;
pub mod units;
mod value;

pub use address_list::station_address;
pub use connection::{Connection, ConnectionKind, DeviceClass, FileSystem, MemoryKind};
pub use culm_bridge::PortOptions;
pub use driver::{Driver, read_classes};
pub use kind::Kind;
pub use manifest::{DEFAULT_STACK, Manifest, RESERVED};
pub use need::Need;
pub use needs::{MAX_INTERRUPTS, Needs, Trigger};
pub use problem::{Located, Problem};
pub use relations::{Relations, network_of};
pub use value::{ConfigField, ConfigType, Value};
