//! Queues, buffers and channels between a driver, its virtualisers and their clients.

use super::options::{ClientOptions, ProviderOptions};
use super::path::{WiredClient, bytes_of};
use crate::expand::wiring::{ProviderClients, RingSpec, Wiring};
use crate::plan::{DomainId, EndNumber, Memory, Planned, Purpose, RegionKind, RegionPart, RingId};
use culm_abi::connection::net::{BUFFER_SIZE, DMA_ENTRY_SIZE, PIECE_SIZE};
use culm_abi::connection::{NetDriver, NetRxClient, NetRxVirtualiser, NetTxClient, NetTxVirtualiser};
use culm_abi::lending::account_size;
use culm_queue::lendable;

/// The queues and channel between a driver and one of its virtualisers, or a client in its place.
pub struct DriverSide {
    /// Buffers on their way to the device.
    pub to_driver: RingId,
    /// Buffers on their way back.
    pub from_driver: RingId,
    /// The driver's end of the channel.
    pub driver_end: EndNumber,
    /// The virtualiser's.
    pub end: EndNumber,
}

/// Connects driver, virtualisers, copiers and clients of one device.
pub fn wire(wiring: &mut Wiring, device: &ProviderClients<'_, '_>) {
    let [rx, tx] = [device.virtualisers[0], device.virtualisers[1]];
    let driver = device.domain;
    let name = device.provider.name.clone();
    let options = ProviderOptions::of(device.provider);
    let mut side = |(virtualiser, suffix, capacity), queues| {
        device.is_apart(virtualiser).then(|| driver_side(wiring, device, (virtualiser, suffix, capacity), queues))
    };
    let rx_side = side((rx, "rx", options.queue), ["rx_free", "rx_filled"]);
    let tx_side = side((tx, "tx", options.transmit_queue()), ["tx_filled", "tx_free"]);
    let large_receive = device.clients.iter().all(|(client, _)| ClientOptions::of(client).takes_large());
    let rx_buffer = if large_receive { PIECE_SIZE } else { BUFFER_SIZE };
    let rx_size = u64::from(options.buffers) * u64::from(rx_buffer);
    let rx_data = wiring.region(format!("{name} rx data"), rx_size, RegionKind::Dma, Purpose::Buffers, &[(rx, false)]);
    let connection = driver_connection(rx_side.as_ref(), tx_side.as_ref(), options.mac, large_receive);
    wiring.connect_provider(device, &name, connection);
    let (mut rx_clients, mut tx_clients) = (Vec::new(), Vec::new());
    for (client, domain) in &device.clients {
        let wired = WiredClient::new(wiring, client, *domain, false);
        let device_rx = RegionPart { region: rx_data, offset: 0, size: rx_size, dma: false };
        let (rx_client, tx_client) =
            wire_client(wiring, device, &wired, ClientOptions::of(client), (device_rx, rx_buffer));
        rx_clients.push(rx_client);
        tx_clients.push(tx_client);
    }
    let anti_spoof = tx_clients.iter().any(|client| client.anti_spoof);
    let bounce_large =
        tx_clients.iter().filter(|client| client.anti_spoof).map(|client| client.large).max().unwrap_or(0);
    // Beyond what the queue to the driver has room for, nothing would use them.
    let bounce_small = if anti_spoof { options.buffers.min(lendable(options.transmit_queue())) } else { 0 };
    let bounce = anti_spoof.then(|| {
        let size = bytes_of(bounce_small, bounce_large);
        let name = format!("{name} tx bounce");
        let region = wiring.region(name, size, RegionKind::Dma, Purpose::Buffers, &[(tx, true)]);
        Memory::dma(region, size)
    });
    let driver_name = wiring.name(driver);
    let links = 1 + device.clients.len() as u32;
    let of_clients: u32 = device.clients.iter().map(|(client, _)| ClientOptions::of(client).all_buffers()).sum();
    let rx_account = account(wiring, (rx, role_name(device, "rx")), account_size(links, options.buffers));
    let tx_account =
        account(wiring, (tx, role_name(device, "tx")), account_size(links, of_clients + bounce_small + bounce_large));
    let connection = NetRxVirtualiser {
        driver_free: rx_side.as_ref().map(|side| side.to_driver),
        driver_filled: rx_side.as_ref().map(|side| side.from_driver),
        data: Memory::dma(rx_data, rx_size),
        buffer_size: rx_buffer,
        account: rx_account,
        driver_channel: rx_side.as_ref().map(|side| side.end),
        clients: rx_clients,
    };
    wiring.connect(rx, &driver_name, connection);
    let connection = NetTxVirtualiser {
        driver_filled: tx_side.as_ref().map(|side| side.to_driver),
        driver_free: tx_side.as_ref().map(|side| side.from_driver),
        driver_channel: tx_side.as_ref().map(|side| side.end),
        buffer_size: BUFFER_SIZE,
        bounce,
        account: tx_account,
        bounce_large,
        clients: tx_clients,
    };
    wiring.connect(tx, &driver_name, connection);
}

/// The name of a virtualiser's domain, and of what is its own too if the driver's domain does its
/// work.
fn role_name(device: &ProviderClients<'_, '_>, suffix: &str) -> String {
    format!("{}_{suffix}", device.provider.prefix())
}

/// Memory for a virtualiser's record of buffers, which nobody else maps.
fn account(wiring: &mut Wiring, (virtualiser, name): (DomainId, String), size: u64) -> Memory {
    let name = format!("{name} account");
    let region = wiring.region(name, size, RegionKind::Cached, Purpose::Account, &[(virtualiser, true)]);
    Memory::region(region, size)
}

/// Makes the queues and the channel between the device's driver and a virtualiser.
pub fn driver_side(
    wiring: &mut Wiring,
    device: &ProviderClients<'_, '_>,
    (virtualiser, suffix, capacity): (DomainId, &str, u32),
    [to_driver, from_driver]: [&str; 2],
) -> DriverSide {
    let name = &device.provider.name;
    let spec = |what: &str, forward| RingSpec {
        name: format!("{name} {what}"),
        capacity,
        entry_size: DMA_ENTRY_SIZE,
        forward,
    };
    let region = format!("{} queues", role_name(device, suffix));
    let specs = [spec(to_driver, false), spec(from_driver, true)];
    let rings = wiring.rings(region, (device.domain, virtualiser), &specs, true);
    let (driver_end, end) = wiring.channel((device.domain, true), (virtualiser, true), name);
    DriverSide { to_driver: rings[0], from_driver: rings[1], driver_end, end }
}

/// Returns a driver's connection, made of its links with the receiving and the sending side.
pub fn driver_connection(
    rx: Option<&DriverSide>,
    tx: Option<&DriverSide>,
    mac: [u8; 6],
    large_receive: bool,
) -> NetDriver<Planned> {
    NetDriver {
        rx_free: rx.map(|side| side.to_driver),
        rx_filled: rx.map(|side| side.from_driver),
        tx_filled: tx.map(|side| side.to_driver),
        tx_free: tx.map(|side| side.from_driver),
        rx_channel: rx.map(|side| side.driver_end),
        tx_channel: tx.map(|side| side.driver_end),
        mac,
        large_receive,
    }
}

/// Queues, buffers and channels of one client; returns what the two virtualisers are told of it.
/// Received frames come by its copier, or straight from the device's buffers, `received`.
fn wire_client(
    wiring: &mut Wiring,
    device: &ProviderClients<'_, '_>,
    wired: &WiredClient<'_>,
    options: &ClientOptions,
    received: (RegionPart, u32),
) -> (NetRxClient<Planned>, NetTxClient<Planned>) {
    let [rx, tx] = [device.virtualisers[0], device.virtualisers[1]];
    let device_queue = ProviderOptions::of(device.provider).queue;
    let mac = options.mac.value;
    let reader = wired.copier.unwrap_or(wired.reader(0));
    wiring.map(received.0.region, reader, false);
    let (own, mut side) = wired.receive(wiring, (rx, reader), received, device_queue);
    let rx_client =
        NetRxClient { filled: own.filled, free: own.free, channel: own.channel, mac, promiscuous: options.promiscuous };
    let capacity = wired.receive_capacity(device_queue);
    if let Some(copier) = wired.copier {
        let data = wired.receive_buffers(wiring, copier);
        side = wired.stage(wiring, (copier, wired.reader(0)), &side, data, capacity);
    }
    let receive = wired.lead_through(wiring, side, capacity);
    let (send, own) = wired.send(wiring, tx, RegionKind::Dma);
    let tx_client = NetTxClient {
        filled: own.filled,
        free: own.free,
        data: Memory::dma(own.data.region, own.data.size),
        channel: own.channel,
        anti_spoof: options.anti_spoof,
        large: options.large,
        mac,
    };
    wired.connect(wiring, &device.provider.name, &receive, &send);
    (rx_client, tx_client)
}
