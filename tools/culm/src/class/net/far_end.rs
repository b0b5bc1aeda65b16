//! Queues, buffers and channels between a component in a device's place and its clients.

use super::options::ClientOptions;
use super::path::WiredClient;
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::plan::{Memory, RegionKind};
use culm_abi::connection::net::BUFFER_SIZE;
use culm_abi::connection::{NetProvider, NetProviderClient};

/// Connects a provider with its clients. It fills their receive buffers itself, and reads their
/// transmit buffers.
pub fn wire(wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
    let name = &provider.provider.name;
    let mut clients = Vec::new();
    for (client, domain) in &provider.clients {
        let options = ClientOptions::of(client);
        let wired = WiredClient::new(wiring, client, *domain, true);
        let data = wired.receive_buffers(wiring, provider.domain);
        let first = (provider.domain, wired.reader(0));
        let (rx, receive) = wired.receive(wiring, first, (data, BUFFER_SIZE), options.queue);
        let receive = wired.lead_through(wiring, receive, options.queue);
        let (send, tx) = wired.send(wiring, provider.domain, RegionKind::Cached);
        wired.connect(wiring, name, &receive, &send);
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
