//! The class-specific part of each connection in a start block.
//!
//! A structure here says what one side of a connection is given: where its queues and data are, and which
//! channel to notify. Lists within a structure are [`Span`]s into the same start block.

use crate::start::{Memory, Span};
use core::sync::atomic::AtomicU64;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

/// Kinds of connection ([`crate::start::Connection::kind`]).
pub mod kind {
    /// A channel and nothing else: [`super::Channel`].
    pub const CHANNEL: u32 = 1;
    /// A shared region of memory: [`super::Region`].
    pub const REGION: u32 = 2;
    /// Registers and interrupts of a device: [`super::Device`].
    pub const DEVICE: u32 = 3;
    /// Net class, driver's side: [`super::NetDriver`].
    pub const NET_DRIVER: u32 = 16;
    /// Net class, receive virtualiser: [`super::NetRxVirtualiser`].
    pub const NET_RX_VIRTUALISER: u32 = 17;
    /// Net class, transmit virtualiser: [`super::NetTxVirtualiser`].
    pub const NET_TX_VIRTUALISER: u32 = 18;
    /// Net class, copier: [`super::NetCopier`].
    pub const NET_COPIER: u32 = 19;
    /// Net class, client: [`super::NetClient`].
    pub const NET_CLIENT: u32 = 20;
    /// Serial class, driver's side: [`super::SerialDriver`].
    pub const SERIAL_DRIVER: u32 = 32;
    /// Serial class, virtualiser: [`super::SerialVirtualiser`].
    pub const SERIAL_VIRTUALISER: u32 = 33;
    /// Serial class, client: [`super::SerialClient`]. Every domain has one for its log, unless it says `log = false`.
    pub const SERIAL_CLIENT: u32 = 34;
    /// Supervision of other domains: [`super::Supervision`].
    pub const SUPERVISION: u32 = 48;
    /// Observation of the system: [`super::Observation`].
    pub const OBSERVATION: u32 = 49;
}

/// A channel number that means "none".
pub const NO_CHANNEL: u32 = u32::MAX;

/// One ring of the `culm-queue` crate in shared memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Ring {
    /// Virtual address of the ring's header; the entries follow it.
    pub address: u64,
    /// Entries, a power of two.
    pub capacity: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// [`kind::CHANNEL`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Channel {
    /// This side's number of the channel.
    pub channel: u32,
    /// [`crate::system::end_rights`] of this side.
    pub rights: u32,
}

/// [`kind::REGION`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Region {
    /// The memory.
    pub memory: Memory,
    /// 1 where this side may write, else 0.
    pub writable: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// [`kind::DEVICE`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Device {
    /// The registers.
    pub registers: Memory,
    /// `u32` channel numbers of the device's interrupts, in the board's order.
    pub interrupts: Span,
    /// DMA memory for the device's own structures (descriptor rings), size 0 for none.
    pub dma: Memory,
}

/// [`kind::NET_DRIVER`]: what the driver shares with the two virtualisers of its device. Entries of all four rings
/// are `culm_net::DmaDescriptor`s.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NetDriver {
    /// Empty buffers, from the receive virtualiser.
    pub rx_free: Ring,
    /// Received frames, to the receive virtualiser.
    pub rx_filled: Ring,
    /// Frames to send, from the transmit virtualiser.
    pub tx_filled: Ring,
    /// Sent buffers, back to the transmit virtualiser.
    pub tx_free: Ring,
    /// Channel to the receive virtualiser.
    pub rx_channel: u32,
    /// Channel to the transmit virtualiser.
    pub tx_channel: u32,
    /// The address that the description gives to the device.
    pub mac: [u8; 6],
    /// 1 where all who receive take a frame that lies in several buffers, else 0.
    pub large_receive: u8,
    /// Reserved, 0.
    pub reserved: u8,
}

/// [`kind::NET_RX_VIRTUALISER`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NetRxVirtualiser {
    /// Empty buffers, to the driver.
    pub driver_free: Ring,
    /// Received frames, from the driver.
    pub driver_filled: Ring,
    /// The buffers themselves; mapped read-only.
    pub data: Memory,
    /// Bytes of one buffer.
    pub buffer_size: u32,
    /// Channel to the driver.
    pub driver_channel: u32,
    /// [`NetRxClient`]s.
    pub clients: Span,
}

/// One client of a [`NetRxVirtualiser`]: a copier, or a client that reads the device's buffers itself.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NetRxClient {
    /// Received frames, to the client. Entries are `culm_net::Descriptor`s.
    pub filled: Ring,
    /// Buffers that the client returns.
    pub free: Ring,
    /// Channel to the client.
    pub channel: u32,
    /// Frames to this address, to broadcast and to multicast addresses go to the client.
    pub mac: [u8; 6],
    /// Reserved, 0.
    pub reserved: [u8; 6],
}

/// [`kind::NET_COPIER`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NetCopier {
    /// Received frames, from the virtualiser.
    pub device_filled: Ring,
    /// Buffers returned to the virtualiser.
    pub device_free: Ring,
    /// The device's buffers; mapped read-only.
    pub device_data: Memory,
    /// Frames for the client.
    pub client_filled: Ring,
    /// Empty buffers of the client.
    pub client_free: Ring,
    /// The client's receive buffers.
    pub client_data: Memory,
    /// Bytes of one of the device's buffers.
    pub device_buffer_size: u32,
    /// Bytes of one of the client's buffers.
    pub client_buffer_size: u32,
    /// Channel to the virtualiser.
    pub device_channel: u32,
    /// Channel to the client.
    pub client_channel: u32,
    /// Large buffers of the client's, at the end of `client_data`.
    pub client_large: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// [`kind::NET_TX_VIRTUALISER`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NetTxVirtualiser {
    /// Frames to send, to the driver.
    pub driver_filled: Ring,
    /// Sent buffers, from the driver.
    pub driver_free: Ring,
    /// Channel to the driver.
    pub driver_channel: u32,
    /// Bytes of one buffer.
    pub buffer_size: u32,
    /// Buffers of the virtualiser's own, into which it copies the frames of clients with `anti_spoof`, so that
    /// a client cannot change an address after it was checked. Size 0 where no client has it.
    pub bounce: Memory,
    /// [`NetTxClient`]s.
    pub clients: Span,
    /// Large buffers at the end of `bounce`.
    pub bounce_large: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// One client of a [`NetTxVirtualiser`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NetTxClient {
    /// Frames to send, from the client. Entries are `culm_net::Descriptor`s.
    pub filled: Ring,
    /// Sent buffers, back to the client.
    pub free: Ring,
    /// The client's transmit buffers.
    pub data: Memory,
    /// Channel to the client.
    pub channel: u32,
    /// 1 where frames must carry `mac` as their source, else 0.
    pub anti_spoof: u32,
    /// Large buffers at the end of `data`.
    pub large: u32,
    /// The client's address.
    pub mac: [u8; 6],
    /// Reserved, 0.
    pub reserved: [u8; 6],
}

/// [`kind::NET_CLIENT`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct NetClient {
    /// Received frames.
    pub rx_filled: Ring,
    /// Empty receive buffers, returned by the client. With a copier the client provides all of them at start.
    pub rx_free: Ring,
    /// Frames to send.
    pub tx_filled: Ring,
    /// Sent buffers.
    pub tx_free: Ring,
    /// Receive buffers.
    pub rx_data: Memory,
    /// Transmit buffers.
    pub tx_data: Memory,
    /// Channel to the copier (or, without one, to the receive virtualiser).
    pub rx_channel: u32,
    /// Channel to the transmit virtualiser.
    pub tx_channel: u32,
    /// Bytes of one buffer.
    pub buffer_size: u32,
    /// 1 where a copier stands between: `rx_data` is the client's own, it owns all of its buffers at start and provides
    /// them. 0: buffers are lent to it by the receive virtualiser, and it returns them.
    pub owns_rx: u32,
    /// Large buffers at the end of `rx_data`.
    pub rx_large: u32,
    /// Large buffers at the end of `tx_data`.
    pub tx_large: u32,
    /// The client's address.
    pub mac: [u8; 6],
    /// Reserved, 0.
    pub reserved: [u8; 2],
}

/// [`kind::SERIAL_DRIVER`]. Entries of serial rings are bytes.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SerialDriver {
    /// Bytes to send.
    pub tx: Ring,
    /// Bytes received.
    pub rx: Ring,
    /// Channel to the virtualiser.
    pub channel: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// [`kind::SERIAL_VIRTUALISER`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SerialVirtualiser {
    /// Bytes to the driver.
    pub driver_tx: Ring,
    /// Bytes from the driver.
    pub driver_rx: Ring,
    /// Channel to the driver.
    pub driver_channel: u32,
    /// Reserved, 0.
    pub reserved: u32,
    /// [`SerialVirtualiserClient`]s.
    pub clients: Span,
}

/// One client of a [`SerialVirtualiser`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SerialVirtualiserClient {
    /// Bytes from the client.
    pub tx: Ring,
    /// Bytes to the client; capacity 0 where the description gives it no input.
    pub rx: Ring,
    /// Channel to the client.
    pub channel: u32,
    /// [`crate::system::end_rights`] of the virtualiser over that channel: it may not notify who only logs, which
    /// waits for nothing.
    pub rights: u32,
    /// The client's name.
    pub name: Span,
}

/// [`kind::SERIAL_CLIENT`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct SerialClient {
    /// Bytes to send.
    pub tx: Ring,
    /// Bytes received; capacity 0 where the description gives no input.
    pub rx: Ring,
    /// Channel to the virtualiser.
    pub channel: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// [`kind::SUPERVISION`].
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Supervision {
    /// [`Child`]ren.
    pub children: Span,
}

/// One domain under supervision.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Child {
    /// The supervisor's channel end for this domain.
    pub channel: u32,
    /// What to do at a fault: [`fault_action`].
    pub action: u32,
    /// Restarts that the domain may owe service for before it is stopped for good.
    pub limit: u32,
    /// Reserved, 0.
    pub reserved: u32,
    /// Nanoseconds of service that pay for `limit` restarts.
    pub window: u64,
    /// Nanoseconds before a restart; doubled for each that service is owed for.
    pub backoff: u64,
    /// The domain's stack as the supervisor sees it, read-only, for a backtrace.
    pub stack: Memory,
    /// Address of the stack's first byte in the domain's own address space.
    pub stack_base: u64,
    /// The domain's name.
    pub name: Span,
}

/// Values of [`Child::action`].
pub mod fault_action {
    /// Restart the domain.
    pub const RESTART: u32 = 0;
    /// Leave it stopped.
    pub const STOP: u32 = 1;
    /// Halt the whole system with a status that is not 0.
    pub const HALT: u32 = 2;
}

/// [`kind::OBSERVATION`]: the right to see the whole system, given by `observe = true`.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct Observation {
    /// Where the [`crate::accounting::CoreAccount`]s are.
    pub core_accounts: Memory,
    /// Where the [`crate::accounting::DomainAccount`]s are, in image order.
    pub domain_accounts: Memory,
    /// [`ObservedDomain`]s, in image order.
    pub domains: Span,
    /// [`ObservedRing`]s.
    pub rings: Span,
    /// The system's picture, an SVG file (bytes), mapped like a file of the configuration.
    pub picture: Memory,
    /// The system's name.
    pub system: Span,
    /// The board's name.
    pub board: Span,
}

/// One domain, as an observer sees it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ObservedDomain {
    /// Its name.
    pub name: Span,
    /// Its component.
    pub component: Span,
    /// Its core.
    pub core: u32,
    /// Its priority.
    pub priority: u32,
    /// Nanoseconds it may run in each period, 0 for no limit.
    pub budget: u64,
    /// The period in nanoseconds.
    pub period: u64,
    /// Its [`Counters`], read-only; size 0 for none.
    pub counters: Memory,
    /// Names of the counters: [`Span`]s of UTF-8.
    pub counter_names: Span,
    /// 1 where it is passive.
    pub passive: u32,
    /// Reserved, 0.
    pub reserved: u32,
}

/// One ring, as an observer sees it.
#[derive(Clone, Copy, Debug, FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C)]
pub struct ObservedRing {
    /// The ring, mapped read-only.
    pub ring: Ring,
    /// Index of the producing domain.
    pub producer: u32,
    /// Index of the consuming domain.
    pub consumer: u32,
    /// What travels, for example `rx_filled`.
    pub name: Span,
}

/// The page of counters that a component's manifest names: it alone writes, observers read.
#[repr(C)]
#[derive(Debug)]
pub struct Counters {
    /// One word per name, in the manifest's order.
    pub values: [AtomicU64; 512],
}
