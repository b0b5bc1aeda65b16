//! Queues, memory and channels between a provider of files and its clients.

use super::options::ClientOptions;
use crate::expand::wiring::{ProviderClients, RingSpec, Wiring};
use crate::plan::{Memory, Planned, Purpose, RegionKind, RegionPart};
use culm_abi::connection::file::ENTRY_SIZE;
use culm_abi::connection::{FileClient, FileProvider, FileProviderClient};

/// Connects a provider and its clients.
pub fn wire(wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
    let clients = provider.clients.iter().map(|(client, domain)| {
        let options = ClientOptions::of(client);
        let label = format!("{} {}", wiring.name(*domain), client.connection);
        let spec = |what: &str, forward| RingSpec {
            name: format!("{label} {what}"),
            capacity: options.queue,
            entry_size: ENTRY_SIZE,
            forward,
        };
        let specs = [spec("requests", true), spec("answers", false)];
        let rings = wiring.rings(format!("{label} queues"), (*domain, provider.domain), &specs, true);
        let [requests, answers] = [rings[0], rings[1]];
        let (client_end, channel) = wiring.channel((*domain, true), (provider.domain, true), &label);
        let size = options.memory;
        // A provider without a disk has no memory to lend: the two share some.
        let (region, offset) = wiring.borrowed((*domain, client.slot)).unwrap_or_else(|| {
            let mappings = [(*domain, true), (provider.domain, true)];
            (wiring.region(format!("{label} data"), size, RegionKind::Cached, Purpose::Buffers, &mappings), 0)
        });
        let memory = Memory::Region(RegionPart { region, offset, size, dma: false });
        let connection = FileClient { requests, answers, memory, channel: client_end };
        wiring.connect_slot(*domain, client.slot, &client.connection, &provider.provider.name, connection);
        FileProviderClient::<Planned> {
            requests,
            answers,
            memory,
            place: offset,
            folder: options.folder.clone(),
            name: wiring.name(*domain),
            channel,
            may_write: options.write,
        }
    });
    let clients = clients.collect();
    wiring.connect_provider(provider, "", FileProvider { clients });
}
