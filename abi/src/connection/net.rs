//! The net class.

use super::{Form, Start};
use culm_abi_derive::Structure;
use zerocopy::{FromBytes, Immutable};

/// Bytes of one buffer, unless the description says otherwise.
pub const BUFFER_SIZE: u32 = 2048;

/// Bytes of a device's receive buffer if a frame may lie in several: fewer pieces of those that do
/// are worth the memory. Each costs driver, virtualiser and who takes it some 300 instructions.
pub const PIECE_SIZE: u32 = 16384;

/// Bytes of one large buffer. (A packet in it is shorter by one at least:
/// `culm_net::slots::LARGEST_PACKET`.)
pub const LARGE_BUFFER: u32 = 65536;

/// Bytes of a `culm_net::Descriptor`, an entry of every queue but those of the driver.
pub const ENTRY_SIZE: u32 = 8;

/// Bytes of a `culm_net::DmaDescriptor`, an entry of the queues between driver and virtualisers.
pub const DMA_ENTRY_SIZE: u32 = 16;

/// Net class, driver's side: what the driver shares with the two virtualisers of its device.
/// Entries of all four rings are `culm_net::DmaDescriptor`s. Rings and channels are absent where
/// the virtualisers are in the driver's own domain.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 16, name = "net-driver", class = "net", role = Driver)]
#[repr(C)]
pub struct NetDriver<F: Form = Start> {
    /// Empty buffers, from the receive virtualiser.
    pub rx_free: F::Optional<F::Ring>,
    /// Received frames, to the receive virtualiser.
    pub rx_filled: F::Optional<F::Ring>,
    /// Frames to send, from the transmit virtualiser.
    pub tx_filled: F::Optional<F::Ring>,
    /// Sent buffers, back to the transmit virtualiser.
    pub tx_free: F::Optional<F::Ring>,
    /// Channel to the receive virtualiser.
    pub rx_channel: F::Optional<F::Channel>,
    /// Channel to the transmit virtualiser.
    pub tx_channel: F::Optional<F::Channel>,
    /// The address that the description gives to the device.
    pub mac: [u8; 6],
    /// Whether all who receive take a frame that lies in several buffers.
    pub large_receive: F::Flag,
}

/// Net class, receive virtualiser. Rings and channel to the driver are absent where that is in the
/// same domain.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 17, name = "net-rx-virtualiser", class = "net", role = Made)]
#[repr(C)]
pub struct NetRxVirtualiser<F: Form = Start> {
    /// Empty buffers, to the driver.
    pub driver_free: F::Optional<F::Ring>,
    /// Received frames, from the driver.
    pub driver_filled: F::Optional<F::Ring>,
    /// Channel to the driver.
    pub driver_channel: F::Optional<F::Channel>,
    /// Bytes of one buffer.
    pub buffer_size: u32,
    /// The buffers themselves; mapped read-only.
    pub data: F::Memory,
    /// Memory of the virtualiser's own that outlives it, for its record of who holds each buffer:
    /// `account_size` of all links and buffers.
    pub account: F::Memory,
    /// Who receives.
    pub clients: F::List<NetRxClient<F>>,
}

/// One client of a [`NetRxVirtualiser`]: a copier, or a client that reads the device's buffers
/// itself.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct NetRxClient<F: Form = Start> {
    /// Received frames, to the client. Entries are `culm_net::Descriptor`s.
    pub filled: F::Ring,
    /// Buffers that the client returns.
    pub free: F::Ring,
    /// Channel to the client.
    pub channel: F::Channel,
    /// Frames to this address, to broadcast and to multicast addresses go to the client.
    pub mac: [u8; 6],
    /// Whether frames to addresses that are no client's go to it too. One client at most has this.
    pub promiscuous: F::Flag,
}

/// Net class, copier: what stands on the way of one client's received frames, or of those that it
/// sends (`sent_through` in the system file), each time with who gives them on one side and who
/// reads them on the other.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 19, name = "net-copier", class = "net", role = Made)]
#[repr(C)]
pub struct NetCopier<F: Form = Start> {
    /// Frames, from their giver: the virtualiser, or the client where it sends.
    pub device_filled: F::Ring,
    /// Buffers returned to the giver.
    pub device_free: F::Ring,
    /// Frames for their reader: the client, or the virtualiser where the client sends.
    pub client_filled: F::Ring,
    /// Empty buffers of the reader.
    pub client_free: F::Ring,
    /// The buffers of the giver; mapped read-only.
    pub device_data: F::Memory,
    /// The buffers of the reader; a copier writes them, otherwise they are those of the giver.
    pub client_data: F::Memory,
    /// Bytes of one of the giver's buffers.
    pub device_buffer_size: u32,
    /// Bytes of one of the reader's buffers.
    pub client_buffer_size: u32,
    /// Channel to the giver.
    pub device_channel: F::Channel,
    /// Channel to the reader.
    pub client_channel: F::Channel,
    /// Large buffers of the reader's, at the end of `client_data`.
    pub client_large: u32,
}

/// Net class, transmit virtualiser. Rings and channel to the driver are absent where that is in the
/// same domain.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 18, name = "net-tx-virtualiser", class = "net", role = Made)]
#[repr(C)]
pub struct NetTxVirtualiser<F: Form = Start> {
    /// Frames to send, to the driver.
    pub driver_filled: F::Optional<F::Ring>,
    /// Sent buffers, from the driver.
    pub driver_free: F::Optional<F::Ring>,
    /// Channel to the driver.
    pub driver_channel: F::Optional<F::Channel>,
    /// Bytes of one buffer.
    pub buffer_size: u32,
    /// Buffers of the virtualiser's own, into which it copies the frames of clients with
    /// `anti_spoof`, so that a client cannot change an address after it was checked. Absent where
    /// no client has it.
    pub bounce: F::Optional<F::Memory>,
    /// Memory of the virtualiser's own that outlives it, for its record of who holds each buffer:
    /// `account_size` of all links and buffers, its own buffers last.
    pub account: F::Memory,
    /// Large buffers at the end of `bounce`.
    pub bounce_large: u32,
    /// Who sends.
    pub clients: F::List<NetTxClient<F>>,
}

/// One client of a [`NetTxVirtualiser`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct NetTxClient<F: Form = Start> {
    /// Frames to send, from the client. Entries are `culm_net::Descriptor`s.
    pub filled: F::Ring,
    /// Sent buffers, back to the client.
    pub free: F::Ring,
    /// The client's transmit buffers.
    pub data: F::Memory,
    /// Large buffers at the end of `data`.
    pub large: u32,
    /// Channel to the client.
    pub channel: F::Channel,
    /// The client's address.
    pub mac: [u8; 6],
    /// Whether frames must carry `mac` as their source.
    pub anti_spoof: F::Flag,
}

/// Net class, client of a device that is used bare: what it shares with the driver itself. It does
/// for itself what virtualisers do for others: all buffers are its own, and it tells the driver at
/// which addresses the device sees them. Entries of all four rings are `culm_net::DmaDescriptor`s.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 22, name = "net-bare", class = "net", role = Client)]
#[repr(C)]
pub struct NetBare<F: Form = Start> {
    /// Empty buffers, to the driver.
    pub rx_free: F::Ring,
    /// Received frames, from the driver.
    pub rx_filled: F::Ring,
    /// Frames to send, to the driver.
    pub tx_filled: F::Ring,
    /// Sent buffers, from the driver.
    pub tx_free: F::Ring,
    /// Receive buffers, which the device writes; mapped read-only.
    pub rx_data: F::Memory,
    /// Transmit buffers, which the client alone writes.
    #[connection(exclusive)]
    pub tx_data: F::Memory,
    /// Channel to the driver, for what is received.
    pub rx_channel: F::Channel,
    /// Channel to the driver, for what is sent.
    pub tx_channel: F::Channel,
    /// Bytes of one buffer.
    pub buffer_size: u32,
    /// The client's address, which is the device's.
    pub mac: [u8; 6],
}

/// Net class, provider: the far end of clients that have no device, in a switch for example.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 21, name = "net-provider", class = "net", role = Provider)]
#[repr(C)]
pub struct NetProvider<F: Form = Start> {
    /// Who sends and receives.
    pub clients: F::List<NetProviderClient<F>>,
}

/// One client of a [`NetProvider`].
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[repr(C)]
pub struct NetProviderClient<F: Form = Start> {
    /// Frames for the client. Entries are `culm_net::Descriptor`s.
    pub rx_filled: F::Ring,
    /// Empty receive buffers, which the client provides.
    pub rx_free: F::Ring,
    /// Frames that the client sends.
    pub tx_filled: F::Ring,
    /// Transmit buffers, lent to the client.
    pub tx_free: F::Ring,
    /// The client's receive buffers, which the provider alone writes.
    pub rx_data: F::Memory,
    /// The client's transmit buffers; mapped read-only.
    pub tx_data: F::Memory,
    /// Large buffers at the end of `rx_data`.
    pub rx_large: u32,
    /// Large buffers at the end of `tx_data`.
    pub tx_large: u32,
    /// Channel to whoever takes frames for the client.
    pub rx_channel: F::Channel,
    /// Channel to whoever brings the client's frames.
    pub tx_channel: F::Channel,
    /// Bytes of one buffer.
    pub buffer_size: u32,
    /// Whether frames of the client must carry `mac` as their source.
    pub anti_spoof: F::Flag,
    /// The client's address.
    pub mac: [u8; 6],
    /// The client's name.
    pub name: F::Text,
}

/// Net class, link: one end of what is between two that reach each other without a device and
/// without anybody in between. The other end is its only client's, and each is to the other what a
/// provider is to a client: it writes the other's receive buffers and reads the other's transmit
/// buffers. Entries of all four rings are `culm_net::Descriptor`s. Absent where there is no client.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 23, name = "net-link", class = "net", role = Provider)]
#[repr(C)]
pub struct NetLink<F: Form = Start> {
    /// The address of this end.
    pub mac: [u8; 6],
    /// Large buffers at the end of `rx_data`.
    pub rx_large: u32,
    /// Large buffers at the end of `tx_data`.
    pub tx_large: u32,
    /// Bytes of one buffer.
    pub buffer_size: u32,
    /// Frames from the client.
    pub rx_filled: F::Ring,
    /// Buffers of `rx_data` that are lent to the client, all of them at start.
    pub rx_free: F::Ring,
    /// Frames for the client.
    pub tx_filled: F::Ring,
    /// Buffers of `tx_data` that the client provides.
    pub tx_free: F::Ring,
    /// The client's transmit buffers; mapped read-only.
    pub rx_data: F::Memory,
    /// The client's receive buffers, which this end alone writes.
    #[connection(exclusive)]
    pub tx_data: F::Memory,
    /// Channel to the client, for what it sends.
    pub rx_channel: F::Channel,
    /// Channel to the client, for what it receives.
    pub tx_channel: F::Channel,
}

/// Net class, client.
#[derive(Clone, Copy, Debug, FromBytes, Immutable, Structure)]
#[connection(kind = 20, name = "net-client", class = "net", role = Client)]
#[repr(C)]
pub struct NetClient<F: Form = Start> {
    /// The client's address.
    pub mac: [u8; 6],
    /// Whether it receives frames to addresses that are no client's too.
    pub promiscuous: F::Flag,
    /// Whether a copier stands between: `rx_data` is the client's own, it owns all of its buffers
    /// at start and provides them. If not, buffers are lent to it by the receive virtualiser, and
    /// it returns them.
    pub owns_rx: F::Flag,
    /// Whether the far end is a link's: it takes packets as they are, with partial checksums and
    /// with many segments of TCP over either version of IP.
    pub linked: F::Flag,
    /// Large buffers at the end of `rx_data`.
    pub rx_large: u32,
    /// Large buffers at the end of `tx_data`.
    pub tx_large: u32,
    /// Bytes of one of the client's buffers.
    pub buffer_size: u32,
    /// Bytes of one of the buffers in `rx_data`, where those are the device's.
    pub rx_buffer_size: u32,
    /// Received frames.
    pub rx_filled: F::Ring,
    /// Empty receive buffers, returned by the client. With a copier the client provides all of them
    /// at start.
    pub rx_free: F::Ring,
    /// Frames to send.
    pub tx_filled: F::Ring,
    /// Sent buffers.
    pub tx_free: F::Ring,
    /// Receive buffers.
    pub rx_data: F::Memory,
    /// Transmit buffers, which the client alone writes.
    #[connection(exclusive)]
    pub tx_data: F::Memory,
    /// Channel to the copier (or, without one, to the receive virtualiser).
    pub rx_channel: F::Channel,
    /// Channel to the transmit virtualiser.
    pub tx_channel: F::Channel,
}
