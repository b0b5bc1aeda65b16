//! Which station of the link has an address: the cache of neighbours ([`Cache`]), filled by ARP
//! ([`arp`]) and neighbour discovery ([`discovery`]), and one's own right to an address
//! ([`Claim`]).
//!
//! Both protocols share one cache and its states, those of RFC 4861 §7.3.2. ARP has none of its
//! own, and a neighbour whose answers stop is noticed the same way over both.

pub mod arp;
mod cache;
mod claim;
pub mod discovery;
mod entry;
mod message;
pub mod router;

pub use cache::{Action, Advertised, Cache, Place, Resolution, WAYS};
pub use claim::{Claim, Rules, Step};
pub use entry::{Entry, Times};
pub use message::{
    LONGEST, Message, NeighbourAdvertisement, NeighbourSolicitation, Prefix, RouterAdvertisement, RouterSolicitation,
};

#[cfg(test)]
mod tests;
