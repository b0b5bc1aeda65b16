//! Queues, memory and channels between a disk's driver, its virtualiser and their clients.

use super::options::{ClientOptions, DeviceOptions};
use crate::expand::wiring::{ProviderClients, RingSpec, Wiring};
use crate::plan::{DomainId, Memory, Planned, Purpose, RegionId, RegionKind, RingId};
use culm_abi::connection::block::{ACCOUNT_SIZE, BLOCK, ENTRY_SIZE};
use culm_abi::connection::{
    BlockClient, BlockDriver, BlockMemory, BlockMemoryRegion, BlockVirtualiser, BlockVirtualiserClient,
};

/// Connects driver, virtualiser and clients of one disk.
pub fn wire(wiring: &mut Wiring, device: &ProviderClients<'_, '_>) {
    let (driver, name) = (device.domain, &device.provider.name);
    let Some(&virtualiser) = device.virtualisers.first() else { return };
    let queue = DeviceOptions::of(device.provider).queue;
    let queues_between = device.is_apart(virtualiser).then(|| queues(wiring, (virtualiser, driver), name, queue));
    let ends = queues_between.map(|_| wiring.channel((driver, true), (virtualiser, true), name));
    let [to_driver, from_driver] = [0, 1].map(|which| queues_between.map(|queues| queues[which]));
    let connection = BlockDriver { requests: to_driver, answers: from_driver, channel: ends.map(|ends| ends.0) };
    wiring.connect_provider(device, &wiring.name(virtualiser), connection);
    // The device writes it, the virtualiser reads it.
    let size = u64::from(culm_partition::MAX_READ) * BLOCK as u64;
    let table =
        wiring.region(format!("{name} table"), size, RegionKind::Dma, Purpose::Buffers, &[(virtualiser, false)]);
    let mut memory = vec![(table, size)];
    let clients = device.clients.iter().map(|(client, domain)| {
        let options = ClientOptions::of(client);
        let label = format!("{} {}", wiring.name(*domain), client.connection);
        let [requests, answers] = queues(wiring, (*domain, virtualiser), &label, options.queue);
        let (client_end, channel) = wiring.channel((*domain, true), (virtualiser, true), &label);
        // The client's own, and what it lends to clients of its own.
        let (lender, own) = ((*domain, client.slot), options.memory);
        let size = own + wiring.lent(lender);
        let data_name = format!("{label} data");
        let data = wiring.region(data_name, size, RegionKind::Dma, Purpose::Buffers, &[(*domain, true)]);
        memory.push((data, size));
        wiring.lend(lender, data, own);
        let connection = BlockClient { requests, answers, data: Memory::region(data, size), channel: client_end };
        wiring.connect_slot(*domain, client.slot, &client.connection, name, connection);
        BlockVirtualiserClient::<Planned> {
            requests,
            answers,
            data: Memory::dma(data, size),
            first: options.part.first,
            blocks: options.part.blocks,
            partition: options.part.partition.clone(),
            name: wiring.name(*domain),
            channel,
            read_only: options.read_only,
        }
    });
    let clients = clients.collect();
    if DeviceOptions::of(device.provider).pio.is_some() {
        give_memory(wiring, driver, name, &memory);
    }
    // It begins at zero when the system does, and a restart leaves it.
    let account = wiring.region(
        format!("{name} account"),
        ACCOUNT_SIZE,
        RegionKind::Cached,
        Purpose::Account,
        &[(virtualiser, true)],
    );
    let account = Memory::region(account, ACCOUNT_SIZE);
    let connection = BlockVirtualiser {
        requests: to_driver,
        answers: from_driver,
        table: Memory::dma(table, size),
        account,
        clients,
        channel: ends.map(|ends| ends.1),
    };
    wiring.connect(virtualiser, &wiring.name(driver), connection);
}

/// Lets a driver that moves the data itself see the memory of requests.
fn give_memory(wiring: &mut Wiring, driver: DomainId, name: &str, memory: &[(RegionId, u64)]) {
    let region = |(region, size): &(RegionId, u64)| BlockMemoryRegion { data: Memory::dma(*region, *size) };
    let regions = memory.iter().map(region).collect();
    for (region, _) in memory {
        wiring.map(*region, driver, true);
    }
    wiring.connect(driver, name, BlockMemory { regions });
}

/// Makes the queues between who asks and who answers; returns that of requests, and that of
/// answers.
fn queues(wiring: &mut Wiring, (asks, answers): (DomainId, DomainId), label: &str, capacity: u32) -> [RingId; 2] {
    let spec =
        |what: &str, forward| RingSpec { name: format!("{label} {what}"), capacity, entry_size: ENTRY_SIZE, forward };
    let specs = [spec("requests", true), spec("answers", false)];
    let rings = wiring.rings(format!("{label} queues"), (asks, answers), &specs, true);
    [rings[0], rings[1]]
}
