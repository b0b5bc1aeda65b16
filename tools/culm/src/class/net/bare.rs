//! A device that is used bare: its one client shares the driver's queues, and owns all buffers.

use super::keys;
use super::options::{ClientOptions, ProviderOptions, check_only_use};
use super::path::bytes_of;
use super::wire::{driver_connection, driver_side};
use crate::class::interface::NewClient;
use crate::expand::draft::{Draft, OfClass};
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::plan::{Memory, Purpose, RegionKind};
use culm_abi::connection::NetBare;
use culm_abi::connection::net::BUFFER_SIZE;
use culm_manifest::Located;
use culm_manifest::reader::TableReader;
use culm_queue::lendable;

/// Reads a client's options, of which there are none: what others can say is refused.
pub fn read_client<'a>(
    draft: &mut Draft<'a>,
    client: &NewClient<'_, 'a>,
    options: Option<&mut TableReader<'a>>,
) -> Option<OfClass> {
    if let Some(options) = options {
        refuse_options(draft, options);
    }
    let provider = client.provider?;
    let device = ProviderOptions::of(&draft.providers[provider]);
    let (queue, buffers) = (device.queue, device.buffers);
    let connected_at = client.entry.span();
    let mac = Located::new(device.mac, device.mac_at.clone().unwrap_or_else(|| connected_at.clone()));
    // A second client is refused by `check_bare`.
    if draft.clients_of(provider).next().is_none() {
        check_only_use(draft, provider, &mac);
    }
    let (through, sent_through) = (Vec::new(), Vec::new());
    let (anti_spoof, copier, large, takes_pieces) = (false, None, 0, false);
    let promiscuous = false;
    let options = ClientOptions {
        mac,
        connected_at,
        anti_spoof,
        promiscuous,
        copier,
        through,
        sent_through,
        queue,
        buffers,
        large,
        takes_pieces,
    };
    Some(OfClass::new(options))
}

/// Reports options that concern virtualisers and copiers, or that the device's table has.
fn refuse_options<'a>(draft: &mut Draft<'a>, options: &mut TableReader<'a>) {
    let of_device = keys::device_keys();
    let known = keys::client_keys();
    for key in known.iter().flat_map(|table| &table.keys).filter(|key| key.name != "device") {
        // `take` alone would make the key a suggestion for one that is misspelt.
        let Some(entry) = Some(key.name).filter(|name| options.has(name)).and_then(|name| options.take(name)) else {
            continue;
        };
        let diagnostic = if of_device.iter().any(|other| other.name == key.name) {
            draft
                .at(&entry.span(), format!("a client of a bare device has no `{}` of its own", key.name))
                .help("say it in the device's table: queues, buffers and address are the same for both")
        } else {
            draft
                .at(&entry.span(), format!("`{}` means nothing for the client of a bare device", key.name))
                .help(format!("leave `{}` out: nobody stands between this client and the driver", key.name))
        };
        draft.error(diagnostic);
    }
}

/// Connects the driver with its client. A packet lies in one buffer, since nobody would put several
/// together.
pub fn wire(wiring: &mut Wiring, device: &ProviderClients<'_, '_>) {
    let Some((client, domain)) = device.clients.first() else { return };
    let name = &device.provider.name;
    let options = ProviderOptions::of(device.provider);
    let (rx, tx) = (options.queue, options.transmit_queue());
    let rx_side = driver_side(wiring, device, (*domain, "rx", rx), ["rx_free", "rx_filled"]);
    let tx_side = driver_side(wiring, device, (*domain, "tx", tx), ["tx_filled", "tx_free"]);
    let mut buffers = |what, count, writable| {
        let size = bytes_of(count, 0);
        let name = format!("{name} {what} data");
        let region = wiring.region(name, size, RegionKind::Dma, Purpose::Buffers, &[(*domain, writable)]);
        Memory::dma(region, size)
    };
    let rx_data = buffers("rx", options.buffers, false);
    // Beyond what the queue to the driver has room for, nothing would use them.
    let tx_data = buffers("tx", options.buffers.min(lendable(tx)), true);
    let connection = driver_connection(Some(&rx_side), Some(&tx_side), options.mac, false);
    wiring.connect_provider(device, &wiring.name(*domain), connection);
    let connection = NetBare {
        rx_free: rx_side.to_driver,
        rx_filled: rx_side.from_driver,
        tx_filled: tx_side.to_driver,
        tx_free: tx_side.from_driver,
        rx_data,
        tx_data,
        rx_channel: rx_side.end,
        tx_channel: tx_side.end,
        buffer_size: BUFFER_SIZE,
        mac: options.mac,
    };
    wiring.connect_slot(*domain, client.slot, &client.connection, name, connection);
}
