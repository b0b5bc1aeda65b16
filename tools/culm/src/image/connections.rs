//! The class-specific part of each connection ([`culm_abi::connection`]): indices of the plan become addresses.

use super::block::Block;
use super::start::{Context, Item};
use crate::plan::{self, Child, ConnectionData, Device, DomainId, RingId};
use culm_abi::accounting::{CoreAccount, DomainAccount};
use culm_abi::connection::*;
use culm_abi::memory::STACK_BASE;
use culm_abi::start::{Memory, Span};

impl Context<'_> {
    fn ring(&self, id: RingId) -> Ring {
        let ring = &self.plan.rings[id];
        let address = self.places.address(self.domain, Item::Region(ring.region));
        Ring { address: address.map_or(0, |address| address + ring.offset), capacity: ring.capacity, reserved: 0 }
    }

    fn maybe_ring(&self, id: Option<RingId>) -> Ring {
        id.map_or(Ring::default(), |id| self.ring(id))
    }

    fn region(&self, memory: &plan::Memory) -> Memory {
        let item = Item::Region(memory.region);
        let dma = if memory.dma { self.places.physical(item) } else { 0 };
        Memory { dma, ..self.memory(item, memory.size) }
    }
}

/// Appends the structure that belongs to a connection.
pub(super) fn structure(context: &Context<'_>, block: &mut Block, data: &ConnectionData) -> Span {
    match data {
        &ConnectionData::Channel { channel, notify, call } => {
            block.one(Channel { channel, rights: super::system::rights(notify, call) })
        }
        ConnectionData::Region { memory, writable } => {
            block.one(Region { memory: context.region(memory), writable: u32::from(*writable), reserved: 0 })
        }
        ConnectionData::Device { device, interrupts } => {
            let interrupts = block.list(interrupts);
            block.one(device_of(context, &context.plan.devices[*device], interrupts))
        }
        ConnectionData::NetDriver { .. }
        | ConnectionData::NetRxVirtualiser { .. }
        | ConnectionData::NetTxVirtualiser { .. }
        | ConnectionData::NetCopier { .. }
        | ConnectionData::NetClient { .. } => net(context, block, data),
        &ConnectionData::SerialDriver { tx, rx, channel } => {
            block.one(SerialDriver { tx: context.ring(tx), rx: context.ring(rx), channel, reserved: 0 })
        }
        ConnectionData::SerialVirtualiser { driver_tx, driver_rx, driver_channel, clients } => {
            let clients: Vec<_> = clients
                .iter()
                .map(|client| SerialVirtualiserClient {
                    tx: context.ring(client.tx),
                    rx: context.maybe_ring(client.rx),
                    channel: client.channel,
                    rights: client.rights,
                    name: block.text(&client.name),
                })
                .collect();
            let clients = block.list(&clients);
            block.one(SerialVirtualiser {
                driver_tx: context.ring(*driver_tx),
                driver_rx: context.ring(*driver_rx),
                driver_channel: *driver_channel,
                reserved: 0,
                clients,
            })
        }
        &ConnectionData::SerialClient { tx, rx, channel } => {
            block.one(SerialClient { tx: context.ring(tx), rx: context.maybe_ring(rx), channel, reserved: 0 })
        }
        ConnectionData::Supervision { children } => {
            let children: Vec<_> = children.iter().map(|child| child_of(context, block, child)).collect();
            let children = block.list(&children);
            block.one(Supervision { children })
        }
        ConnectionData::Observation { rings } => observation(context, block, rings),
    }
}

fn device_of(context: &Context<'_>, device: &Device, interrupts: Span) -> culm_abi::connection::Device {
    let registers = context.places.address(context.domain, Item::Region(device.registers));
    let dma = device.dma.map_or(Memory::default(), |region| {
        context.region(&plan::Memory { region, dma: true, size: context.plan.regions[region].size })
    });
    culm_abi::connection::Device {
        registers: Memory {
            address: registers.map_or(0, |address| address + device.offset),
            size: device.board.registers.size,
            dma: 0,
        },
        interrupts,
        dma,
    }
}

fn net(context: &Context<'_>, block: &mut Block, data: &ConnectionData) -> Span {
    let ring = |id: &RingId| context.ring(*id);
    match data {
        ConnectionData::NetDriver {
            rx_free,
            rx_filled,
            tx_filled,
            tx_free,
            rx_channel,
            tx_channel,
            mac,
            large_receive,
        } => block.one(NetDriver {
            rx_free: ring(rx_free),
            rx_filled: ring(rx_filled),
            tx_filled: ring(tx_filled),
            tx_free: ring(tx_free),
            rx_channel: *rx_channel,
            tx_channel: *tx_channel,
            mac: *mac,
            large_receive: u8::from(*large_receive),
            reserved: 0,
        }),
        ConnectionData::NetCopier {
            device_filled,
            device_free,
            device_data,
            client_filled,
            client_free,
            client_data,
            device_buffer_size,
            client_buffer_size,
            device_channel,
            client_channel,
            client_large,
        } => block.one(NetCopier {
            device_filled: ring(device_filled),
            device_free: ring(device_free),
            device_data: context.region(device_data),
            client_filled: ring(client_filled),
            client_free: ring(client_free),
            client_data: context.region(client_data),
            device_buffer_size: *device_buffer_size,
            client_buffer_size: *client_buffer_size,
            device_channel: *device_channel,
            client_channel: *client_channel,
            client_large: *client_large,
            reserved: 0,
        }),
        ConnectionData::NetClient {
            rx_filled,
            rx_free,
            tx_filled,
            tx_free,
            rx_data,
            tx_data,
            rx_channel,
            tx_channel,
            buffer_size,
            owns_rx,
            rx_large,
            tx_large,
            mac,
        } => block.one(NetClient {
            rx_filled: ring(rx_filled),
            rx_free: ring(rx_free),
            tx_filled: ring(tx_filled),
            tx_free: ring(tx_free),
            rx_data: context.region(rx_data),
            tx_data: context.region(tx_data),
            rx_channel: *rx_channel,
            tx_channel: *tx_channel,
            buffer_size: *buffer_size,
            owns_rx: u32::from(*owns_rx),
            rx_large: *rx_large,
            tx_large: *tx_large,
            mac: *mac,
            reserved: [0; 2],
        }),
        virtualiser => net_virtualiser(context, block, virtualiser),
    }
}

fn net_virtualiser(context: &Context<'_>, block: &mut Block, data: &ConnectionData) -> Span {
    match data {
        ConnectionData::NetRxVirtualiser { driver_free, driver_filled, data, buffer_size, driver_channel, clients } => {
            let client = |client: &plan::NetRxClient| NetRxClient {
                filled: context.ring(client.filled),
                free: context.ring(client.free),
                channel: client.channel,
                mac: client.mac,
                reserved: [0; 6],
            };
            let clients = block.list(&clients.iter().map(client).collect::<Vec<_>>());
            block.one(NetRxVirtualiser {
                driver_free: context.ring(*driver_free),
                driver_filled: context.ring(*driver_filled),
                data: context.region(data),
                buffer_size: *buffer_size,
                driver_channel: *driver_channel,
                clients,
            })
        }
        ConnectionData::NetTxVirtualiser {
            driver_filled,
            driver_free,
            driver_channel,
            buffer_size,
            bounce,
            bounce_large,
            clients,
        } => {
            let client = |client: &plan::NetTxClient| NetTxClient {
                filled: context.ring(client.filled),
                free: context.ring(client.free),
                data: context.region(&client.data),
                channel: client.channel,
                anti_spoof: u32::from(client.anti_spoof),
                large: client.large,
                mac: client.mac,
                reserved: [0; 6],
            };
            let clients = block.list(&clients.iter().map(client).collect::<Vec<_>>());
            block.one(NetTxVirtualiser {
                driver_filled: context.ring(*driver_filled),
                driver_free: context.ring(*driver_free),
                driver_channel: *driver_channel,
                buffer_size: *buffer_size,
                bounce: bounce.as_ref().map_or(Memory::default(), |bounce| context.region(bounce)),
                clients,
                bounce_large: *bounce_large,
                reserved: 0,
            })
        }
        // The other kinds are written by `structure` and `net`.
        _ => Span::default(),
    }
}

fn child_of(context: &Context<'_>, block: &mut Block, child: &Child) -> culm_abi::connection::Child {
    let domain = &context.plan.domains[child.domain];
    culm_abi::connection::Child {
        channel: child.channel,
        action: domain.on_fault.code(),
        limit: domain.restart.limit,
        reserved: 0,
        window: domain.restart.window,
        backoff: domain.restart.backoff,
        stack: context.memory(Item::Stack(child.domain), domain.stack),
        stack_base: STACK_BASE,
        name: block.text(&domain.name),
    }
}

fn observation(context: &Context<'_>, block: &mut Block, rings: &[RingId]) -> Span {
    let plan = context.plan;
    let domains: Vec<_> = (0..plan.domains.len()).map(|id| observed_domain(context, block, id)).collect();
    let domains = block.list(&domains);
    let rings: Vec<_> = rings
        .iter()
        .map(|&id| ObservedRing {
            ring: context.ring(id),
            producer: plan.rings[id].producer as u32,
            consumer: plan.rings[id].consumer as u32,
            name: block.text(&plan.rings[id].name),
        })
        .collect();
    let rings = block.list(&rings);
    let system = block.text(&plan.name);
    let board = block.text(&plan.board.name);
    let accounts = |item, count: usize, size: usize| context.memory(item, (count * size) as u64);
    block.one(Observation {
        core_accounts: accounts(Item::CoreAccounts, plan.cores() as usize, size_of::<CoreAccount>()),
        domain_accounts: accounts(Item::DomainAccounts, plan.domains.len(), size_of::<DomainAccount>()),
        domains,
        rings,
        picture: context.memory(Item::Picture, context.picture_size as u64),
        system,
        board,
    })
}

fn observed_domain(context: &Context<'_>, block: &mut Block, id: DomainId) -> ObservedDomain {
    let domain = &context.plan.domains[id];
    let manifest = &context.plan.component_of(id).manifest;
    let counter_names: Vec<Span> = manifest.counters.iter().map(|name| block.text(name)).collect();
    let counters = domain
        .counters
        .map_or(Memory::default(), |region| context.memory(Item::Region(region), context.plan.regions[region].size));
    ObservedDomain {
        name: block.text(&domain.name),
        component: block.text(&manifest.name),
        core: domain.core,
        priority: u32::from(domain.priority),
        budget: domain.budget.map_or(0, |budget| budget.budget),
        period: domain.budget.map_or(0, |budget| budget.period),
        counters,
        counter_names: block.list(&counter_names),
        passive: u32::from(domain.passive),
        reserved: 0,
    }
}
