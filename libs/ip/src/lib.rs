//! What stands beside TCP in a host on Ethernet, without input or output: frames and time go in,
//! frames and deadlines come out.
//!
//! Each part stands alone, so that a component links what it uses. The memory of each is given to
//! it when it is made; none takes more afterwards, and whatever a peer sends, none panics, waits,
//! or works without end. Time is told to each call ([`Instant`]); a part with timers says when it
//! wants to be called next (`deadline`), and gives what is due one by one (`poll`). Random numbers
//! are given too, so that a test can repeat what it has seen.
//!
//! [`host`] puts them together to a host on one link, and [`dhcp`] has its address leased.
//! [`neighbour`] finds the station that has an address, by ARP and neighbour discovery, and keeps
//! other stations from having one's own; [`multicast`] tells switches what to pass on. [`path`]
//! remembers how large packets to a destination may be, and [`reassembly`] puts fragments together.
//! [`icmp`] answers echo requests, and sends and reads errors. [`routers`] has what routers of IPv6
//! advertise: addresses, and who passes packets on. [`udp`] reads and writes datagrams.
//!
//! Packets are those of Ethernet without its header: whoever owns the link puts it in front.

#![no_std]
#![forbid(unsafe_code)]

#[cfg(test)]
extern crate std;

mod address;
mod bytes;
pub mod dhcp;
pub mod extension;
pub mod host;
pub mod icmp;
pub mod ipv4;
pub mod ipv6;
mod key;
mod link;
pub mod multicast;
pub mod neighbour;
pub mod path;
pub mod reassembly;
pub mod routers;
mod time;
pub mod udp;

pub use address::{Address, Cidr, InvalidCidr, is_host};
pub use key::Key;
pub use link::{ALL_NODES, ALL_ROUTERS, LinkAddress, solicited_node};
pub use time::Instant;

use culm_packet::ip::Flaw;

/// Why a packet is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Malformed {
    /// It ends before what it says that it has.
    Short,
    /// It is of a version or a kind that is none.
    Version,
    /// Its checksum is not that of its bytes.
    Checksum,
    /// It comes from farther away than it may.
    Distance,
    /// It says what nobody may say.
    Value,
}

impl From<Flaw> for Malformed {
    fn from(flaw: Flaw) -> Self {
        match flaw {
            Flaw::Version => Self::Version,
            Flaw::Truncated | Flaw::TotalLength => Self::Short,
            Flaw::HeaderLength | Flaw::Extension => Self::Value,
        }
    }
}
