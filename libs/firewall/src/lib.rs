//! Rules of a packet filter: a readable language, its checks, and tables in which a packet's rule
//! is found without a look at each rule.
//!
//! [`parse()`] reads rules, one a line, and returns a [`RuleSet`], or each mistake with its place
//! and what would be right. An [`Engine`] is made of that: for a packet's [`Key`] it says what
//! becomes of the packet and which rule says so. The language is described in the book
//! (`docs/src/reference/firewall.md`).
//!
//! [`nftables()`] writes rules as Linux has them, so that the two can be compared.
//!
//! The engine is asked about the first packet of a connection. What belongs to a connection that
//! was allowed passes without it; who keeps the connections sees to that.
//!
//! A rule is a product of sets: zones, protocols, addresses, ports. So for each of these a table
//! gives, for a value, a row of bits: one for each rule, set if the value is in the rule's set
//! (bit vectors, after Lakshman and Stiliadis, "High-Speed Policy-based Packet Forwarding", 1998).
//! The first bit that is set in all rows of a packet is its rule. Each row begins with a summary,
//! of which a bit stands for 64 rules (after Baboescu and Varghese, "Scalable Packet
//! Classification", 2001), so that of the rows only those words are read where a rule may be.
//!
//! Making an engine allocates, within a limit that the caller sets. Asking it does not, and nothing
//! in a packet makes it dearer than its worst case ([`Engine`]).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod check;
mod engine;
mod nftables;
mod parse;
mod problem;
mod ranges;
mod rule;
mod table;
mod token;
mod values;
mod zone;

pub use engine::{Ends, Engine, Key, Verdict};
pub use nftables::nftables;
pub use parse::parse;
pub use problem::{Problem, position};
pub use ranges::{Number, Ranges};
pub use rule::{Action, Addresses, Family, Forward, Lender, Match, Nat, Outcome, Protocols, Rule, RuleSet, protocol};
pub use table::TooLarge;
pub use zone::{BadZones, MAX_NAME, MAX_ZONES, Zone, ZoneSet, Zones};

/// The longest text of rules, in bytes.
pub const MAX_TEXT: usize = 1 << 20;

/// The most rules of each kind: of the filter, of NAT, of forwarding.
pub const MAX_RULES: usize = 4096;

/// The most ranges of addresses and ports in all rules and groups together.
pub const MAX_RANGES: usize = 1 << 16;

/// The most problems that are told at once.
pub const MAX_PROBLEMS: usize = 50;
