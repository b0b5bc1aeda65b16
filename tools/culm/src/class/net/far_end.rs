//! Queues, buffers and channels between a component in a device's place and its clients, and
//! between the two ends of a link.

use super::options::{ClientOptions, ProviderOptions};
use super::path::{Side, WiredClient};
use crate::expand::draft::Client;
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::plan::{DomainId, Memory, RegionKind};
use culm_abi::connection::net::BUFFER_SIZE;
use culm_abi::connection::{NetLink, NetProvider, NetProviderClient};

/// Connects a provider with its clients. It fills their receive buffers itself, and reads their
/// transmit buffers.
pub fn wire(wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
    let connection = &wiring.manifest(provider.domain).connections[provider.provider.slot];
    if connection.kind.is::<NetLink>() {
        return wire_link(wiring, provider);
    }
    let mut clients = Vec::new();
    for (client, domain) in &provider.clients {
        let options = ClientOptions::of(client);
        let (rx, tx) = wire_client(wiring, provider, (client, *domain), false);
        clients.push(NetProviderClient {
            rx_filled: rx.filled,
            rx_free: rx.free,
            tx_filled: tx.filled,
            tx_free: tx.free,
            rx_data: Memory::Region(rx.data),
            tx_data: Memory::Region(tx.data),
            rx_large: options.large,
            tx_large: options.large,
            rx_channel: rx.channel,
            tx_channel: tx.channel,
            buffer_size: BUFFER_SIZE,
            anti_spoof: options.anti_spoof,
            mac: options.mac.value,
            name: wiring.name(*domain),
        });
    }
    wiring.connect_provider(provider, "", NetProvider { clients });
}

/// Connects the two ends of a link, if it has another end.
fn wire_link(wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
    let Some((client, domain)) = provider.clients.first() else { return };
    let large = ClientOptions::of(client).large;
    // What one end receives, the other sends.
    let (tx, rx) = wire_client(wiring, provider, (client, *domain), true);
    let connection = NetLink {
        mac: ProviderOptions::of(provider.provider).mac,
        rx_large: large,
        tx_large: large,
        buffer_size: BUFFER_SIZE,
        rx_filled: rx.filled,
        rx_free: rx.free,
        tx_filled: tx.filled,
        tx_free: tx.free,
        rx_data: Memory::Region(rx.data),
        tx_data: Memory::Region(tx.data),
        rx_channel: rx.channel,
        tx_channel: tx.channel,
    };
    let peer = wiring.name(*domain);
    wiring.connect_provider(provider, &peer, connection);
}

/// Makes the queues of a client and gives it its connection. Returns the provider's ends: of what
/// the client receives, and of what it sends.
fn wire_client(
    wiring: &mut Wiring,
    provider: &ProviderClients<'_, '_>,
    (client, domain): (&Client, DomainId),
    linked: bool,
) -> (Side, Side) {
    let options = ClientOptions::of(client);
    let mut wired = WiredClient::new(wiring, client, domain, true);
    wired.linked = linked;
    let data = wired.receive_buffers(wiring, provider.domain);
    let first = (provider.domain, wired.reader(0));
    let (rx, receive) = wired.receive(wiring, first, (data, BUFFER_SIZE), options.queue);
    let receive = wired.lead_through(wiring, receive, options.queue);
    let (send, tx) = wired.send(wiring, provider.domain, RegionKind::Cached);
    wired.connect(wiring, &provider.provider.name, &receive, &send);
    (rx, tx)
}
