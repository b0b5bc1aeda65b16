//! The block class: the protocol between driver, virtualiser and clients, and both sides of it.
//!
//! # Requests and answers
//!
//! ```text
//!            ── requests ──►             ── requests ──►
//!   client                  virtualiser                  driver
//!            ◄── answers ───             ◄── answers ───
//! ```
//!
//! Both pairs of queues speak the same protocol: the virtualiser is the driver's client. A
//! [`Request`] reads or writes blocks of [`BLOCK`] bytes, discards them or writes zeroes to them,
//! or makes what was written durable. Each gets one [`Answer`], under the token that its client
//! gave it, in any order. Many may be under way.
//!
//! * A request that moves data names up to [`MAX_SEGMENTS`] [`Segment`]s of memory, which the
//!   device reads or writes itself: nobody copies. Memory is counted in blocks too. So a segment
//!   that no device takes, or that shares a cache line with something else, cannot be expressed. A
//!   client's places count from the beginning of its data region; the driver's from the device's
//!   address 0.
//! * Until a request is answered, its memory belongs to the device: a client that writes there
//!   writes anything to its own blocks, and one that reads there reads anything. It has no
//!   deadline.
//! * The first entry that a provider sends says what the [`Disk`] is and which requests it takes.
//!   It sends another whenever that changes. A client that was restarted leaves its data region
//!   alone until [`Client::disk`] is some: before that, the device may still read or write there
//!   for its previous life.
//!
//! # Order
//!
//! Requests that are under way at the same time have no order, whatever their blocks: whoever needs
//! one waits for the answer. A read that is sent after the answer to a write sees what was written.
//! A flush makes all writes and clears durable of its client that were answered before the flush
//! was sent; of others it says nothing. If a flush fails, whatever was written since the last one
//! that did not, until the answer, may be lost; a further flush says nothing of it. A write that is
//! under way when the power fails may have changed any of its blocks, and of a device with larger
//! blocks inside than it shows, their neighbours.
//!
//! # Restart
//!
//! Either side may be restarted at any time; a pair of queues is a [`culm::Link`]. Two rules make
//! that lose nothing:
//!
//! 1. *Who sent a request keeps it until it is answered, and sends it again if the pair starts
//!    over.* [`Client`] does so, for a component as for the virtualiser. So a request may be done
//!    twice. That cannot be told from once, since its memory stays as it is until the answer,
//!    and nothing else may rely on its blocks before.
//! 2. *Who carries requests out ends all of a pair's earlier ones before the pair starts over.*
//!    Otherwise the device could write an earlier request's data after a later one's. [`Port`]
//!    waits for its answers to be given; a driver resets its device before it takes requests.
//!
//! So each side keeps what it needs in its own memory, and leaves nothing for its next life but the
//! queues. Requests wait while a driver is away. A client that is restarted has forgotten its own.
//!
//! Two more rules are for drivers, since nobody behind them could know:
//!
//! 3. *A reset keeps what was answered, or the medium has another number afterwards.* What was
//!    answered before a reset and not flushed must still be there after it. Otherwise an answered
//!    write would be lost, and the next flush be answered as if it were not.
//! 4. *A flush that failed is not taken for one that went well, even by the next life.* A driver
//!    that is restarted after the device failed a flush and before the answer looks at what its
//!    device left, and counts the failure ([`Disk::failures`]). If that cannot be known, the medium
//!    gets another number. The device would do the flush, sent again, without what it has lost.
//!
//! A virtualiser tells each client that a failed flush concerns by its own next flush. It keeps in
//! memory that outlives it whether somebody is still to be told, and up to which count: so its next
//! life tells all of them, and those whom nothing concerned too.
//!
//! # Media
//!
//! Requests for one medium must not reach another that was put in its place. A disk has a number
//! for its medium ([`Disk::medium`]). A provider whose medium changes starts the pair over, and a
//! client that finds another number sends nothing again: what was under way is answered by
//! [`Error::Changed`]. The number stands for the blocks and what is in them: a part of a disk that
//! begins elsewhere than before is another medium to its client. A medium that is taken out and put
//! in again counts as another one whatever its number, since it may have been changed elsewhere; so
//! a provider says that it is absent in between ([`Port::set_disk`]).
//!
//! # Files
//!
//! [`request`] and [`disk`] say what is asked and of what; [`entry`] how it lies in a queue.
//! [`client`] is the side that asks, [`provider`] the side that answers. [`driver`] is that one as
//! a virtualiser sees it, in a domain of its own or in the virtualiser's.

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod client;
pub mod disk;
pub mod driver;
pub mod entry;
pub mod provider;
pub mod request;
#[cfg(not(target_os = "none"))]
pub mod testing;

#[cfg(test)]
mod tests;

pub use client::{Client, Completion, NotSent};
pub use culm_abi::connection::block::BLOCK;
pub use disk::Disk;
pub use entry::{Answer, AnswerEntry, RequestEntry};
pub use provider::{Port, Taken};
pub use request::{Error, Operation, Request, Segment, Shift};

/// The most segments of one request.
pub const MAX_SEGMENTS: usize = 16;

/// The most blocks that one request reads or writes: 1 MiB.
pub const MAX_BLOCKS: u32 = 2048;

/// The most blocks of a disk, and of memory: numbers of blocks have 40 bits in a queue.
pub const MAX_DISK: u64 = 1 << 40;

/// Returns how many requests can be under way over queues of these capacities: their answers, and a
/// few entries that say what the disk is, always have space.
pub const fn depth(requests: u32, answers: u32) -> u32 {
    let least = if requests < answers { requests } else { answers };
    culm_queue::lendable(least).saturating_sub(2)
}
