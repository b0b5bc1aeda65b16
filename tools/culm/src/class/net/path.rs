//! The two ways of a client's frames: queues, buffers and channels between it and whoever serves
//! it, through the components that stand in between.

use super::options::ClientOptions;
use crate::expand::draft::Client;
use crate::expand::wiring::{RingSpec, Wiring};
use crate::plan::{DomainId, EndNumber, Memory, Purpose, RegionKind, RegionPart, RingId};
use culm_abi::connection::net::{BUFFER_SIZE, ENTRY_SIZE, LARGE_BUFFER};
use culm_abi::connection::{NetClient, NetCopier};

/// Bytes of so many small and so many large buffers.
pub fn bytes_of(small: u32, large: u32) -> u64 {
    u64::from(small) * u64::from(BUFFER_SIZE) + u64::from(large) * u64::from(LARGE_BUFFER)
}

/// A client on its way through the wiring.
pub struct WiredClient<'d> {
    client: &'d Client,
    options: &'d ClientOptions,
    domain: DomainId,
    /// The beginning of the names of what belongs to it.
    label: String,
    /// The domain that copies for it.
    pub copier: Option<DomainId>,
    /// Its receive buffers are its own.
    owns_rx: bool,
    /// The far end is a link's.
    pub linked: bool,
    through: Vec<DomainId>,
    sent_through: Vec<DomainId>,
}

/// One end of a pair of queues, as the domain of that end is told of it.
#[derive(Clone, Copy)]
pub struct Side {
    /// Buffers with frames.
    pub filled: RingId,
    /// Empty buffers.
    pub free: RingId,
    /// The buffers.
    pub data: RegionPart,
    /// Bytes of one of them.
    pub buffer_size: u32,
    /// The domain's end of the channel.
    pub channel: EndNumber,
}

impl<'d> WiredClient<'d> {
    /// A client whose receive buffers are its own, or else its device's.
    pub fn new(wiring: &Wiring, client: &'d Client, domain: DomainId, is_far_end: bool) -> Self {
        let options = ClientOptions::of(client);
        let ids = |domains: &[usize]| domains.iter().map(|domain| wiring.id(*domain)).collect();
        Self {
            client,
            options,
            domain,
            label: format!("{} {}", wiring.name(domain), client.connection),
            copier: options.copier.map(|copier| wiring.id(copier)),
            owns_rx: options.copier.is_some() || is_far_end,
            linked: false,
            through: ids(&options.through),
            sent_through: ids(&options.sent_through),
        }
    }

    /// The domain that comes after the copier or provider and the first `through` further
    /// components: the next of them, or the client.
    pub fn reader(&self, through: usize) -> DomainId {
        self.through.get(through).copied().unwrap_or(self.domain)
    }

    /// Large buffers among those that the client receives in.
    fn rx_large(&self) -> u32 {
        if self.owns_rx { self.options.large } else { 0 }
    }

    /// The client's own receive buffers, which `writer` fills for the first reader.
    pub fn receive_buffers(&self, wiring: &mut Wiring, writer: DomainId) -> RegionPart {
        let size = bytes_of(self.options.buffers, self.options.large);
        let mappings = [(writer, true), (self.reader(0), false)];
        let name = format!("{} rx data", self.label);
        let region = wiring.region(name, size, RegionKind::Cached, Purpose::Buffers, &mappings);
        RegionPart { region, offset: 0, size, dma: false }
    }

    /// Queues for received frames in `data`, from a giver to a reader; returns the ends of both.
    pub fn receive(
        &self,
        wiring: &mut Wiring,
        (giver, reader): (DomainId, DomainId),
        (data, buffer_size): (RegionPart, u32),
        capacity: u32,
    ) -> (Side, Side) {
        let name = self.name_of(wiring, reader);
        let spec = |what: &str, forward| RingSpec {
            name: format!("{name} {what}"),
            capacity,
            entry_size: ENTRY_SIZE,
            forward,
        };
        let specs = [spec("rx_filled", true), spec("rx_free", false)];
        let rings = wiring.rings(format!("{name} rx queues"), (giver, reader), &specs, true);
        let (end, channel) = wiring.channel((giver, true), (reader, true), &format!("{} rx", self.label));
        let side = |channel| Side { filled: rings[0], free: rings[1], data, buffer_size, channel };
        (side(end), side(channel))
    }

    /// Returns the name by which the queues of a domain are called: the client's connection, or
    /// that which stands in between.
    fn name_of(&self, wiring: &Wiring, domain: DomainId) -> String {
        if domain == self.domain { self.label.clone() } else { wiring.name(domain) }
    }

    /// Whether the client's receive queues are as long as its own, not as a device's.
    pub fn receive_capacity(&self, device: u32) -> u32 {
        if self.owns_rx { self.options.queue } else { device }
    }

    /// A domain that gets frames as `from` and gives them to the next reader in `data`; returns
    /// that one's end.
    pub fn stage(
        &self,
        wiring: &mut Wiring,
        (stage, reader): (DomainId, DomainId),
        from: &Side,
        data: RegionPart,
        capacity: u32,
    ) -> Side {
        let (own, next) = self.receive(wiring, (stage, reader), (data, BUFFER_SIZE), capacity);
        connect_stage(wiring, (stage, reader), from, &own, self.rx_large());
        next
    }

    /// Leads received frames through the components between copier or provider and client.
    pub fn lead_through(&self, wiring: &mut Wiring, mut from: Side, capacity: u32) -> Side {
        for (index, domain) in self.through.iter().enumerate() {
            let reader = self.reader(index + 1);
            wiring.map(from.data.region, reader, false);
            // The same buffers on both sides, so that both queues have to hold them.
            from = self.stage(wiring, (*domain, reader), &from, from.data, capacity);
        }
        from
    }

    /// Buffers and queues for the frames that the client sends to `server`, through the components
    /// in between; returns the ends of client and server.
    pub fn send(&self, wiring: &mut Wiring, server: DomainId, kind: RegionKind) -> (Side, Side) {
        let label = &self.label;
        let size = bytes_of(self.options.buffers, self.options.large);
        let first = self.sent_through.first().copied().unwrap_or(server);
        let mappings = [(self.domain, true), (first, false)];
        let region = wiring.region(format!("{label} tx data"), size, kind, Purpose::Buffers, &mappings);
        let data = RegionPart { region, offset: 0, size, dma: false };
        let (client, mut from) = self.send_queues(wiring, (self.domain, first), data);
        for (index, stage) in self.sent_through.iter().enumerate() {
            let next = self.sent_through.get(index + 1).copied().unwrap_or(server);
            wiring.map(region, next, false);
            let (own, side) = self.send_queues(wiring, (*stage, next), data);
            connect_stage(wiring, (*stage, next), &from, &own, self.options.large);
            from = side;
        }
        (client, from)
    }

    fn send_queues(&self, wiring: &mut Wiring, (giver, taker): (DomainId, DomainId), data: RegionPart) -> (Side, Side) {
        let name = self.name_of(wiring, giver);
        let spec = |what: &str, forward| RingSpec {
            name: format!("{name} {what}"),
            capacity: self.options.queue,
            entry_size: ENTRY_SIZE,
            forward,
        };
        let specs = [spec("tx_filled", true), spec("tx_free", false)];
        let rings = wiring.rings(format!("{name} tx queues"), (giver, taker), &specs, true);
        let (channel, end) = wiring.channel((giver, true), (taker, true), &format!("{} tx", self.label));
        let side = |channel| Side { filled: rings[0], free: rings[1], data, buffer_size: BUFFER_SIZE, channel };
        (side(channel), side(end))
    }

    /// Gives the client its connection.
    pub fn connect(&self, wiring: &mut Wiring, provider: &str, receive: &Side, send: &Side) {
        let connection = NetClient {
            rx_filled: receive.filled,
            rx_free: receive.free,
            tx_filled: send.filled,
            tx_free: send.free,
            rx_data: Memory::Region(receive.data),
            tx_data: Memory::Region(send.data),
            rx_channel: receive.channel,
            tx_channel: send.channel,
            buffer_size: BUFFER_SIZE,
            rx_buffer_size: receive.buffer_size,
            owns_rx: self.owns_rx,
            linked: self.linked,
            rx_large: self.rx_large(),
            tx_large: self.options.large,
            mac: self.options.mac.value,
            promiscuous: self.options.promiscuous,
        };
        wiring.connect_slot(self.domain, self.client.slot, &self.client.connection, provider, connection);
    }
}

/// Gives a domain on a client's way its connection: frames come `from` one side and go `to` the
/// other.
fn connect_stage(wiring: &mut Wiring, (stage, reader): (DomainId, DomainId), from: &Side, to: &Side, large: u32) {
    let connection = NetCopier {
        device_filled: from.filled,
        device_free: from.free,
        device_data: Memory::Region(from.data),
        client_filled: to.filled,
        client_free: to.free,
        client_data: Memory::Region(to.data),
        device_buffer_size: from.buffer_size,
        client_buffer_size: to.buffer_size,
        device_channel: from.channel,
        client_channel: to.channel,
        client_large: large,
    };
    wiring.connect(stage, &wiring.name(reader), connection);
}
