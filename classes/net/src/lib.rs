//! The net class: the protocol between driver, virtualisers, copiers and clients, and the client's
//! side of it.
//!
//! # Buffers
//!
//! A packet lies in a buffer of fixed size: first the [`PacketHeader`] ([`HEADROOM`] bytes), then
//! the Ethernet frame. The header is the class's metadata and is laid out like virtio-net's (VIRTIO
//! 1.2 §5.1.6), so a virtio device reads and writes it by itself and its driver maps no payload; a
//! driver of another device translates. Most buffers are small: they hold packets that fit the
//! link. Behind them a client has some large ones, for packets that carry many TCP segments at once
//! and that the device divides ([`flags::SEGMENTATION_OFFLOAD_4`],
//! [`flags::SEGMENTATION_OFFLOAD_6`]).
//!
//! [`flags::SEGMENTATION_OFFLOAD_4`]: descriptor::flags::SEGMENTATION_OFFLOAD_4
//! [`flags::SEGMENTATION_OFFLOAD_6`]: descriptor::flags::SEGMENTATION_OFFLOAD_6
//!
//! # Queues
//!
//! ```text
//!           DmaDescriptor           Descriptor            Descriptor
//!   driver ── rx_filled ──► net-rx ── filled ──► copier ── filled ──► client
//!          ◄─ rx_free ─────        ◄─ free ────         ◄─ free ────
//!          ◄─ tx_filled ─── net-tx ◄────────────────────── filled ───
//!          ── tx_free ────►        ─────────────────────── free ────►
//! ```
//!
//! Every queue is one of `culm-queue`. The virtualisers lend the buffers, and know at every moment
//! who holds which one. A driver or client holds a buffer that it got over one queue of a pair and
//! returns it over the other. (With a copier, the client's receive buffers are its own, and it
//! provides them.) A buffer that is returned by a peer that does not hold it is refused and
//! counted.
//!
//! A pair of queues is a [`culm::Link`], by which both sides start over after one of them was
//! restarted.
//!
//! * [`descriptor`]: the entries.
//! * [`slots`]: the division of a data region into buffers. What the virtualisers need besides to
//!   lend these is of no class: `culm-lending`.
//! * [`header`], [`mac`], [`checksum`]: the parts of a packet. [`outgoing`]: the packets that a
//!   client with one address may send.
//! * [`driver`]: what a virtualiser has for a driver: a pair of queues, or the device's own queue.
//! * [`wire`]: the fields of headers.
//! * [`client`]: the client's queues and buffers; [`provider`]: their far end where there is no
//!   device. `stack` (feature `stack`): TCP/IP on top of the client, and with the feature `names`
//!   addresses of hosts.
//!
//! # Notifications
//!
//! Filled buffers wake the other side whenever it sleeps. Empty ones do so only if a side runs
//! short of them: it asks for such a wake-up while it holds few, and otherwise finds returned
//! buffers at its next turn.

#![no_std]
#![deny(unsafe_code)]

extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std;

pub mod checksum;
pub mod client;
pub mod descriptor;
pub mod driver;
pub mod header;
pub mod mac;
pub mod outgoing;
pub mod provider;
pub mod slots;
#[cfg(feature = "stack")]
pub mod stack;
#[cfg(not(target_os = "none"))]
pub mod testing;
pub use culm_packet::wire;

pub use client::Client;
pub use culm::link::release_batch;
pub use culm_abi::connection::net::{BUFFER_SIZE, LARGE_BUFFER, PIECE_SIZE};
pub use culm_queue::{capacity_for, lendable};
pub use descriptor::{BufferEntry, Descriptor, DmaDescriptor};
pub use header::PacketHeader;
pub use mac::Mac;
pub use slots::Slots;

/// Bytes of the packet header in front of each frame.
pub const HEADROOM: usize = 12;

/// Bytes of an Ethernet header: destination, source, type (IEEE 802.3 §3.1.1, without a VLAN tag).
pub const ETHERNET_HEADER: usize = wire::ethernet::HEADER;

/// The shortest packet that is passed on: packet header and Ethernet header.
pub const MIN_PACKET: usize = HEADROOM + ETHERNET_HEADER;

/// The largest IP packet on the link.
pub const MTU: usize = 1500;
