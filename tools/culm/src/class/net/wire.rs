//! Queues, buffers and channels between a driver, its virtualisers and their clients.

use super::options::{ClientOptions, DeviceOptions};
use crate::expand::draft::Client;
use crate::expand::wiring::{DeviceClients, RingSpec, Wiring};
use crate::plan::{DomainId, EndNumber, Memory, Part, Planned, Purpose, RegionKind, RingId};
use culm_abi::connection::net::{BUFFER_SIZE, DMA_ENTRY_SIZE, ENTRY_SIZE, LARGE_BUFFER, PIECE_SIZE};
use culm_abi::connection::{
    NetClient, NetCopier, NetDriver, NetRxClient, NetRxVirtualiser, NetTxClient, NetTxVirtualiser,
};
use culm_queue::lendable;

/// Bytes of so many small and so many large buffers.
fn bytes_of(small: u32, large: u32) -> u64 {
    u64::from(small) * u64::from(BUFFER_SIZE) + u64::from(large) * u64::from(LARGE_BUFFER)
}

/// The queues and channel between a driver and one of its virtualisers.
struct DriverSide {
    /// Buffers on their way to the device.
    to_driver: RingId,
    /// Buffers on their way back.
    from_driver: RingId,
    driver_end: EndNumber,
    end: EndNumber,
}

/// Connects driver, virtualisers, copiers and clients of one device.
pub fn wire(wiring: &mut Wiring, device: &DeviceClients<'_, '_>) {
    let [rx, tx] = [device.virtualisers[0], device.virtualisers[1]];
    let driver = device.driver;
    let name = device.device.board.name.clone();
    let options = DeviceOptions::of(device.device);
    let rx_side = driver_side(wiring, device, (rx, options.queue), ["rx_free", "rx_filled"]);
    let tx_side = driver_side(wiring, device, (tx, options.transmit_queue()), ["tx_filled", "tx_free"]);
    let large_receive = device.clients.iter().all(|(client, _)| ClientOptions::of(client).takes_large());
    let rx_buffer = if large_receive { PIECE_SIZE } else { BUFFER_SIZE };
    let rx_size = u64::from(options.buffers) * u64::from(rx_buffer);
    let rx_data = wiring.region(format!("{name} rx data"), rx_size, RegionKind::Dma, Purpose::Buffers, &[(rx, false)]);
    let connection = NetDriver {
        rx_free: rx_side.to_driver,
        rx_filled: rx_side.from_driver,
        tx_filled: tx_side.to_driver,
        tx_free: tx_side.from_driver,
        rx_channel: rx_side.driver_end,
        tx_channel: tx_side.driver_end,
        mac: options.mac,
        large_receive,
    };
    wiring.connect(driver, &name, connection);
    let (mut rx_clients, mut tx_clients) = (Vec::new(), Vec::new());
    for (client, domain) in &device.clients {
        let options = ClientOptions::of(client);
        let ClientOptions { mac, connected_at: _, anti_spoof, copier, through, queue, buffers, large } = options;
        let copier = copier.map(|copier| wiring.id(copier));
        let through = through.iter().map(|domain| wiring.id(*domain)).collect();
        let (queue, buffers, large) = (*queue, *buffers, *large);
        let mac = mac.value;
        let wired = WiredClient { domain: *domain, copier, through, queue, buffers, large, rx_buffer, mac };
        let device_rx = Part { region: rx_data, offset: 0, size: rx_size, dma: false };
        let (rx_client, tx_client) = wire_client(wiring, device, client, &wired, device_rx, *anti_spoof);
        rx_clients.push(rx_client);
        tx_clients.push(tx_client);
    }
    let anti_spoof = tx_clients.iter().any(|client| client.anti_spoof);
    let bounce_large =
        tx_clients.iter().filter(|client| client.anti_spoof).map(|client| client.large).max().unwrap_or(0);
    let bounce = anti_spoof.then(|| {
        // Beyond what the queue to the driver has room for, nothing would use them.
        let small = options.buffers.min(lendable(options.transmit_queue()));
        let size = bytes_of(small, bounce_large);
        let name = format!("{name} tx bounce");
        let region = wiring.region(name, size, RegionKind::Dma, Purpose::Buffers, &[(tx, true)]);
        Memory::dma(region, size)
    });
    let driver_name = wiring.name(driver);
    let connection = NetRxVirtualiser {
        driver_free: rx_side.to_driver,
        driver_filled: rx_side.from_driver,
        data: Memory::dma(rx_data, rx_size),
        buffer_size: rx_buffer,
        driver_channel: rx_side.end,
        clients: rx_clients,
    };
    wiring.connect(rx, &driver_name, connection);
    let connection = NetTxVirtualiser {
        driver_filled: tx_side.to_driver,
        driver_free: tx_side.from_driver,
        driver_channel: tx_side.end,
        buffer_size: BUFFER_SIZE,
        bounce,
        bounce_large,
        clients: tx_clients,
    };
    wiring.connect(tx, &driver_name, connection);
}

fn driver_side(
    wiring: &mut Wiring,
    device: &DeviceClients<'_, '_>,
    (virtualiser, capacity): (DomainId, u32),
    [to_driver, from_driver]: [&str; 2],
) -> DriverSide {
    let name = &device.device.board.name;
    let spec = |what: &str, forward| RingSpec {
        name: format!("{name} {what}"),
        capacity,
        entry_size: DMA_ENTRY_SIZE,
        forward,
    };
    let region = format!("{} queues", wiring.name(virtualiser));
    let specs = [spec(to_driver, false), spec(from_driver, true)];
    let rings = wiring.rings(region, (device.driver, virtualiser), &specs, true);
    let (driver_end, end) = wiring.channel((device.driver, true), (virtualiser, true), name);
    DriverSide { to_driver: rings[0], from_driver: rings[1], driver_end, end }
}

/// A client on its way through [`wire_client`].
struct WiredClient {
    domain: DomainId,
    copier: Option<DomainId>,
    through: Vec<DomainId>,
    queue: u32,
    buffers: u32,
    large: u32,
    /// Bytes of one of the device's receive buffers.
    rx_buffer: u32,
    mac: [u8; 6],
}

impl WiredClient {
    /// Returns the domain that comes after the copier and the first `through` further components:
    /// the next of them, or the client.
    fn reader(&self, through: usize) -> DomainId {
        self.through.get(through).copied().unwrap_or(self.domain)
    }
}

/// The receiving side of a client.
#[derive(Clone, Copy)]
struct ReceiveSide {
    filled: RingId,
    free: RingId,
    data: Part,
    /// Bytes of one buffer in it.
    buffer_size: u32,
    channel: EndNumber,
}

/// Queues, buffers and channels of one client; returns what the two virtualisers are told of it.
fn wire_client(
    wiring: &mut Wiring,
    device: &DeviceClients<'_, '_>,
    client: &Client,
    wired: &WiredClient,
    device_rx: Part,
    anti_spoof: bool,
) -> (NetRxClient<Planned>, NetTxClient<Planned>) {
    let tx = device.virtualisers[1];
    let domain = wired.domain;
    let label = format!("{} {}", wiring.name(domain), client.connection);
    let (rx_client, receive) = wire_receive(wiring, device, wired, &label, device_rx);
    let size = bytes_of(wired.buffers, wired.large);
    let mappings = [(domain, true), (tx, false)];
    let tx_region = wiring.region(format!("{label} tx data"), size, RegionKind::Dma, Purpose::Buffers, &mappings);
    let spec = |what: &str, forward| RingSpec {
        name: format!("{label} {what}"),
        capacity: wired.queue,
        entry_size: ENTRY_SIZE,
        forward,
    };
    let specs = [spec("tx_filled", true), spec("tx_free", false)];
    let tx_rings = wiring.rings(format!("{label} tx queues"), (domain, tx), &specs, true);
    let (tx_channel, tx_end) = wiring.channel((domain, true), (tx, true), &format!("{label} tx"));
    let tx_client = NetTxClient {
        filled: tx_rings[0],
        free: tx_rings[1],
        data: Memory::dma(tx_region, size),
        channel: tx_end,
        anti_spoof,
        large: wired.large,
        mac: wired.mac,
    };
    let connection = NetClient {
        rx_filled: receive.filled,
        rx_free: receive.free,
        tx_filled: tx_rings[0],
        tx_free: tx_rings[1],
        rx_data: Memory::Region(receive.data),
        tx_data: Memory::region(tx_region, size),
        rx_channel: receive.channel,
        tx_channel,
        buffer_size: BUFFER_SIZE,
        owns_rx: wired.copier.is_some(),
        rx_large: if wired.copier.is_some() { wired.large } else { 0 },
        tx_large: wired.large,
        mac: wired.mac,
    };
    wiring.connect_slot(domain, client.slot, &client.connection, &device.device.board.name, connection);
    (rx_client, tx_client)
}

/// From the receive virtualiser to the client: by its copier, or straight from the device's
/// buffers, and through what stands between.
fn wire_receive(
    wiring: &mut Wiring,
    device: &DeviceClients<'_, '_>,
    wired: &WiredClient,
    label: &str,
    device_rx: Part,
) -> (NetRxClient<Planned>, ReceiveSide) {
    let rx = device.virtualisers[0];
    let reader = wired.copier.unwrap_or(wired.reader(0));
    let reader_name = if reader == wired.domain { label.to_string() } else { wiring.name(reader) };
    wiring.map(device_rx.region, reader, false);
    let rings = receive_rings(wiring, &reader_name, (rx, reader), DeviceOptions::of(device.device).queue);
    let (rx_end, reader_end) = wiring.channel((rx, true), (reader, true), &format!("{label} rx"));
    let rx_client = NetRxClient { filled: rings[0], free: rings[1], channel: rx_end, mac: wired.mac };
    let (filled, free) = (rings[0], rings[1]);
    let mut side = ReceiveSide { filled, free, data: device_rx, buffer_size: wired.rx_buffer, channel: reader_end };
    if let Some(copier) = wired.copier {
        let reader = wired.reader(0);
        let size = bytes_of(wired.buffers, wired.large);
        let mappings = [(copier, true), (reader, false)];
        let region = wiring.region(format!("{label} rx data"), size, RegionKind::Cached, Purpose::Buffers, &mappings);
        let data = Part { region, offset: 0, size, dma: false };
        side = wire_stage(wiring, wired, label, (copier, reader), &side, (data, wired.queue));
    }
    for (index, domain) in wired.through.iter().enumerate() {
        let reader = wired.reader(index + 1);
        wiring.map(side.data.region, reader, false);
        // The same buffers on both sides, so that both queues have to hold them.
        let capacity = if wired.copier.is_some() { wired.queue } else { DeviceOptions::of(device.device).queue };
        side = wire_stage(wiring, wired, label, (*domain, reader), &side, (side.data, capacity));
    }
    (rx_client, side)
}

/// A domain between the giver of received frames (`from`) and the next `reader`, which it gives
/// frames in `data`.
fn wire_stage(
    wiring: &mut Wiring,
    wired: &WiredClient,
    label: &str,
    (stage, reader): (DomainId, DomainId),
    from: &ReceiveSide,
    (data, capacity): (Part, u32),
) -> ReceiveSide {
    let name = if reader == wired.domain { label.to_string() } else { wiring.name(reader) };
    let rings = receive_rings(wiring, &name, (stage, reader), capacity);
    let (stage_end, channel) = wiring.channel((stage, true), (reader, true), &format!("{label} rx"));
    let connection = NetCopier {
        device_filled: from.filled,
        device_free: from.free,
        device_data: Memory::Region(from.data),
        client_filled: rings[0],
        client_free: rings[1],
        client_data: Memory::Region(data),
        device_buffer_size: from.buffer_size,
        client_buffer_size: BUFFER_SIZE,
        device_channel: from.channel,
        client_channel: stage_end,
        client_large: if wired.copier.is_some() { wired.large } else { 0 },
    };
    wiring.connect(stage, &wiring.name(reader), connection);
    ReceiveSide { filled: rings[0], free: rings[1], data, buffer_size: BUFFER_SIZE, channel }
}

/// `filled` and `free` between a giver of received frames and their reader.
fn receive_rings(wiring: &mut Wiring, label: &str, pair: (DomainId, DomainId), capacity: u32) -> Vec<RingId> {
    let spec =
        |what: &str, forward| RingSpec { name: format!("{label} {what}"), capacity, entry_size: ENTRY_SIZE, forward };
    wiring.rings(format!("{label} rx queues"), pair, &[spec("rx_filled", true), spec("rx_free", false)], true)
}
