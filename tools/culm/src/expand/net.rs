//! Net class: a receive and a transmit virtualiser share the device among clients; a copier per client keeps what
//! the device wrote out of the client's reach until it is copied. Between copier and client may stand further components,
//! through which received frames go.

use super::connections::flag;
use super::devices::VirtualiserKind;
use super::domains::{Making, make};
use super::draft::{Client, ClientKind, Device, Draft, DraftDevice, DraftDomain};
use super::wiring::{DeviceClients, RingSpec, Wiring};
use crate::description::catalogue::CatalogueComponent;
use crate::description::system::{DomainOptions, DomainTable, read_buffers, read_queue};
use crate::plan::{DomainId, EndNumber, LogLevel, Memory, Origin, Part, Planned, Purpose, RegionKind, RingId};
use culm_abi::connection::{
    NetClient, NetCopier, NetDriver, NetRxClient, NetRxVirtualiser, NetTxClient, NetTxVirtualiser,
};
use culm_manifest::reader::{Entry, Problems, TableReader};
use culm_manifest::units::format_mac;
use culm_manifest::{ConnectionKind, Located, Manifest};
use culm_net::{BUFFER_SIZE, Descriptor, DmaDescriptor, LARGE_BUFFER, PIECE_SIZE, capacity_for, lendable};

/// The class's virtualisers.
pub const VIRTUALISERS: &[VirtualiserKind] = &[
    VirtualiserKind { suffix: "rx", component: "net-rx", connection: || ConnectionKind::of::<NetRxVirtualiser>() },
    VirtualiserKind { suffix: "tx", component: "net-tx", connection: || ConnectionKind::of::<NetTxVirtualiser>() },
];

/// The copier's component.
const COPIER: &str = "net-copier";

/// Options of copiers and what else stands before a client: none, all is derived from the client's.
static DERIVED: DomainOptions = DomainOptions {
    priority: None,
    core: None,
    budget: None,
    period: None,
    stack: None,
    heap: None,
    log: None,
    on_fault: None,
    restart: None,
};

/// Payload buffers of a device or a client where the description says nothing.
pub const DEFAULT_BUFFERS: u32 = 512;

/// The fewest that a description can give to a device or a client.
pub const MIN_BUFFERS: u32 = 16;

/// The most clients of one device: a virtualiser's notification word has a bit for each, and one for the driver.
const MAX_CLIENTS: usize = 63;

/// Large buffers of a client, each way, where the description says nothing.
pub const DEFAULT_LARGE: u32 = 16;

/// The most that a description can give to a client: 16 MiB.
const MAX_LARGE: u32 = 256;

/// Bytes of an entry between driver and virtualisers.
const DMA_DESCRIPTOR: u32 = size_of::<DmaDescriptor>() as u32;

/// Bytes of an entry elsewhere.
const DESCRIPTOR: u32 = size_of::<Descriptor>() as u32;

/// Hardware address of a device (client 0) or of one of its further clients, where the description gives none:
/// QEMU's prefix of locally administered addresses, then ours.
pub fn default_mac(device: usize, client: usize) -> [u8; 6] {
    [0x52, 0x54, 0x00, 0x43, device as u8, client as u8]
}

/// How many buffers there are, and how long the queues in which they travel.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Entries of a queue. All the buffers can be lent over a pair of queues at once.
    pub queue: u32,
    /// Count of buffers, large ones not included.
    pub buffers: u32,
}

/// Reads the sizes of a device or a client, which has `large` buffers besides.
pub fn sizes(draft: &mut Draft<'_>, queue: Option<&Located<u32>>, buffers: Option<&Located<u32>>, large: u32) -> Sizes {
    let by_queue = queue.map(|queue| lendable(queue.value).saturating_sub(large));
    let count = buffers.map(|buffers| buffers.value).or(by_queue).unwrap_or(DEFAULT_BUFFERS);
    let needed = capacity_for(count + large);
    let capacity = queue.map_or(needed, |queue| queue.value);
    if let (Some(queue), true) = (queue, lendable(capacity) < count + large) {
        let besides = if large > 0 { format!(" and {large} large ones") } else { String::new() };
        let message = format!("a queue of {capacity} entries has no room for {count} buffers{besides}");
        let mut diagnostic = draft.at(&queue.span, message).help(format!(
            "an eighth of it stays empty, so that none waits for room: give it {needed} entries, or use fewer buffers"
        ));
        if let Some(buffers) = buffers {
            diagnostic = diagnostic.related(draft.source, buffers.span.clone(), "the buffers");
        }
        draft.error(diagnostic);
    }
    if count < MIN_BUFFERS {
        let span = buffers.or(queue).map_or(0..0, |count| count.span.clone());
        let least = if buffers.is_some() { MIN_BUFFERS } else { capacity_for(MIN_BUFFERS + large) };
        let diagnostic = draft
            .at(&span, format!("{count} buffer{} cannot keep a network going", if count == 1 { "" } else { "s" }))
            .help(format!(
                "give it {least} at least: some are on their way to the device while others come back; \
                 without the key there are {DEFAULT_BUFFERS}"
            ));
        draft.error(diagnostic);
    }
    Sizes { queue: capacity, buffers: count }
}

/// A device has room for one packet of the greatest length, and no more clients than its virtualisers can tell apart.
pub fn check_clients(draft: &mut Draft<'_>, device: DraftDevice) {
    let needed = LARGE_BUFFER.div_ceil(PIECE_SIZE) * 2;
    let clients: Vec<&Client> = clients_of(draft, device).collect();
    let mut names = clients.iter().map(|client| draft.domains[client.domain].name.span.clone());
    let beyond = names.nth(MAX_CLIENTS);
    let (count, large) = (clients.len(), !clients.is_empty() && clients.iter().all(|client| takes_large(client)));
    let in_use = &draft.devices[device];
    let (name, buffers) = (in_use.board.name.clone(), in_use.buffers);
    let span = in_use.table.buffers.as_ref().or(in_use.table.queue.as_ref()).map(|count| count.span.clone());
    if let Some(span) = beyond {
        let diagnostic = draft
            .at(&span, format!("{count} clients of `{name}` are too many"))
            .help(format!("{MAX_CLIENTS} can share one network device; use a second device for the others"));
        draft.error(diagnostic);
    }
    if let (true, true, Some(span)) = (large, (MIN_BUFFERS..needed).contains(&buffers), span) {
        let diagnostic = draft
            .at(&span, format!("{buffers} buffers of `{name}` cannot hold the packets that its clients take"))
            .help(format!(
                "a packet of many TCP segments takes {} buffers: give it {needed} at least, or its clients \
                 `large_buffers = 0`",
                needed / 2
            ));
        draft.error(diagnostic);
    }
}

/// Options of a client; adds its copier.
pub fn read_client<'a>(
    draft: &mut Draft<'a>,
    (table, domain): (&DomainTable<'a>, DraftDomain),
    entry: &Entry<'a>,
    mut options: Option<&mut TableReader<'a>>,
    device: Option<DraftDevice>,
    problems: &mut Problems,
) -> Option<ClientKind> {
    let mut take = |key: &'a str| options.as_mut().and_then(|options| options.take(key));
    let mac = take("mac").and_then(|entry| entry.mac(problems));
    let copier_priority = take("copier_priority").and_then(|entry| entry.integer(0..=255, problems));
    let anti_spoof = flag(options.as_deref_mut(), "anti_spoof", false, problems);
    let copier = flag(options.as_deref_mut(), "copier", true, problems);
    let through = options.as_mut().and_then(|options| options.take("through")).and_then(|entry| entry.texts(problems));
    let (queue, buffers, large) = match &mut options {
        Some(options) => {
            let large = options.take("large_buffers").and_then(|entry| entry.integer(0..=MAX_LARGE.into(), problems));
            (read_queue(options, problems), read_buffers(options, problems), large)
        }
        None => (None, None, None),
    };
    let large = check_large(draft, large.as_ref(), queue.as_ref().or(buffers.as_ref()));
    let Sizes { queue, buffers } = sizes(draft, queue.as_ref(), buffers.as_ref(), large);
    if let (false, Some(priority)) = (copier, &copier_priority) {
        let diagnostic = draft
            .at(&priority.span, format!("`{}` has no copier to give a priority", table.name.value))
            .help("leave out `copier_priority`, or `copier = false`");
        draft.error(diagnostic);
    }
    let device = device?;
    let mac = mac.unwrap_or_else(|| free_mac(draft, device, entry));
    check_mac(draft, &mac);
    check_privacy(draft, device, copier, entry);
    let before = BeforeClient { table, domain, device, entry };
    let copier = if copier { Some(before.add_copier(draft, copier_priority)?) } else { None };
    let through = before.add_through(draft, copier, through.unwrap_or_default())?;
    Some(ClientKind::Net { mac, anti_spoof, copier, through, queue, buffers, large })
}

/// Count of large buffers: they travel in the same queues as the others, most of whose places are for those. `room` is how
/// long these are, or how many others there are, if the description says so.
fn check_large(draft: &mut Draft<'_>, large: Option<&Located<i128>>, room: Option<&Located<u32>>) -> u32 {
    let room = room.map_or(DEFAULT_BUFFERS, |room| room.value);
    let most = room / 4;
    let Some(large) = large else { return DEFAULT_LARGE.min(most) };
    if large.value > most.into() {
        let diagnostic = draft
            .at(&large.span, format!("{} large buffers are too many beside {room} places for others", large.value))
            .help(format!("at most a quarter of `queue` can be large buffers, without it of `buffers`: {most}"));
        draft.error(diagnostic);
    }
    large.value as u32
}

/// Whether a client takes received packets that lie in several of the device's buffers: its copier puts them together.
fn takes_large(client: &Client) -> bool {
    matches!(client.kind, ClientKind::Net { copier: Some(_), large: 1.., .. })
}

/// Bytes of so many small and so many large buffers.
fn bytes_of(small: u32, large: u32) -> u64 {
    u64::from(small) * u64::from(BUFFER_SIZE) + u64::from(large) * u64::from(LARGE_BUFFER)
}

/// The device's own address for its first client, one derived from it for each further one.
fn free_mac(draft: &Draft<'_>, device: DraftDevice, entry: &Entry<'_>) -> Located<[u8; 6]> {
    let taken = clients_of(draft, device).count();
    let mac = if taken == 0 { draft.devices[device].mac } else { default_mac(device, taken) };
    Located::new(mac, entry.span())
}

fn clients_of<'d>(draft: &'d Draft<'_>, device: DraftDevice) -> impl Iterator<Item = &'d Client> + 'd {
    draft.clients.iter().filter(move |client| client.device == device)
}

/// Who has no copier reads all that the device receives, so it must be the device's only client.
fn check_privacy(draft: &mut Draft<'_>, device: DraftDevice, copier: bool, entry: &Entry<'_>) {
    let other = clients_of(draft, device).find_map(|client| match &client.kind {
        ClientKind::Net { mac, copier: with, .. } if !copier || with.is_none() => Some(mac.span.clone()),
        _ => None,
    });
    if let Some(other) = other {
        let name = &draft.devices[device].table.name.value;
        let diagnostic = draft
            .at(&entry.span(), format!("a client without a copier would read the frames of `{name}`'s other clients"))
            .related(draft.source, other, "the other client")
            .help("leave out `copier = false`: it is for a device's only client");
        draft.error(diagnostic);
    }
}

fn check_mac(draft: &mut Draft<'_>, mac: &Located<[u8; 6]>) {
    if mac.value[0] & 1 != 0 || mac.value == [0; 6] {
        let diagnostic = draft
            .at(&mac.span, format!("{} is not the address of one interface", format_mac(mac.value)))
            .help("its first byte must be even (odd ones are for groups), and not all may be zero");
        draft.error(diagnostic);
    }
    let other = draft.clients.iter().find_map(|client| match &client.kind {
        ClientKind::Net { mac: taken, .. } if taken.value == mac.value => Some(taken.span.clone()),
        _ => None,
    });
    if let Some(other) = other {
        let diagnostic = draft
            .at(&mac.span, format!("the hardware address {} is used twice", format_mac(mac.value)))
            .related(draft.source, other, "the other client of this address")
            .help("give each client its own, or leave `mac` out");
        draft.error(diagnostic);
    }
}

/// Makes the domains that received frames go through before they reach a client.
struct BeforeClient<'d, 'a> {
    table: &'d DomainTable<'a>,
    domain: DraftDomain,
    device: DraftDevice,
    entry: &'d Entry<'a>,
}

impl<'a> BeforeClient<'_, 'a> {
    /// The copier runs on its client's core, one priority above it, so that what it copies is ready when the client runs.
    fn add_copier(&self, draft: &mut Draft<'a>, priority: Option<Located<i128>>) -> Option<DraftDomain> {
        let span = self.entry.key.span.clone();
        let (component, manifest) = draft.own_component(COPIER, &span)?;
        if manifest.connection_of_kind(ConnectionKind::of::<NetCopier>()).is_none() {
            let message = format!("the manifest of `{COPIER}` lists no connection of the kind `net-copier`");
            let diagnostic = draft.at(&span, message);
            draft.error(diagnostic);
            return None;
        }
        let client_priority = draft.domains[self.domain].priority;
        if priority.is_none() && client_priority == u8::MAX {
            let name = &self.table.name.value;
            let diagnostic = draft
                .at(&span, format!("the copier of `{name}` has no room above priority 255"))
                .help("lower the client's priority, give the copier one (`copier_priority`), or do without (`copier = false`)");
            draft.error(diagnostic);
        }
        let priority = priority.map_or(client_priority.saturating_add(1), |priority| priority.value as u8);
        let name = Located::new(self.name(draft, "copier"), span);
        Some(self.add(draft, name, (component, manifest), Origin::Copier(self.device), priority))
    }

    /// Components by name, in the order in which frames go through them: at the copier's priority, so that frames stay together.
    fn add_through(
        &self,
        draft: &mut Draft<'a>,
        copier: Option<DraftDomain>,
        names: Vec<Located<String>>,
    ) -> Option<Vec<DraftDomain>> {
        let mut made = Vec::new();
        for (index, wanted) in names.into_iter().enumerate() {
            let (component, manifest) = draft.component_for(
                "component",
                |component| {
                    let manifest = component.manifest.as_ref().ok();
                    manifest.is_some_and(|manifest| {
                        manifest.connection_of_kind(ConnectionKind::of::<NetCopier>()).is_some()
                    })
                },
                &wanted.value,
                &wanted.span,
            )?;
            if manifest.connection_of_kind(ConnectionKind::of::<NetCopier>()).is_none() {
                let diagnostic = draft
                    .at(&wanted.span, format!("frames cannot go through `{}`", wanted.value))
                    .help("its manifest would need a connection of the kind `net-copier`");
                draft.error(diagnostic);
                return None;
            }
            let priority = draft.domains[copier.unwrap_or(self.domain)].priority;
            let name = Located::new(self.name(draft, &format!("through{}", index + 1)), wanted.span);
            made.push(self.add(draft, name, (component, manifest), Origin::Through(self.device), priority));
        }
        Some(made)
    }

    /// The client's name and what this is to it; with the connection's name where there are several.
    fn name(&self, draft: &Draft<'_>, role: &str) -> String {
        let connections = &draft.domains[self.domain].manifest.connections;
        let several = connections.iter().filter(|other| other.kind.is::<NetClient>()).count() > 1;
        let client = &self.table.name.value;
        if several { format!("{client}_{}_{role}", self.entry.key.value) } else { format!("{client}_{role}") }
    }

    fn add(
        &self,
        draft: &mut Draft<'a>,
        name: Located<String>,
        (component, manifest): (&'a CatalogueComponent, &'a Manifest),
        origin: Origin,
        priority: u8,
    ) -> DraftDomain {
        let core = draft.domains[self.domain].core;
        let making = Making { name, component, manifest, origin, options: &DERIVED, priority, core, config: None };
        let mut domain = make(draft, making);
        domain.log = LogLevel::Warn;
        draft.domains.push(domain);
        draft.domains.len() - 1
    }
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
pub fn wire(wiring: &mut Wiring<'_>, device: &DeviceClients<'_, '_>) {
    let [rx, tx] = [device.virtualisers[0], device.virtualisers[1]];
    let driver = device.driver;
    let name = device.device.board.name.clone();
    let rx_side = driver_side(wiring, device, (rx, device.device.queue), ["rx_free", "rx_filled"]);
    let tx_side = driver_side(wiring, device, (tx, transmit_queue(device.device)), ["tx_filled", "tx_free"]);
    let large_receive = device.clients.iter().all(|(client, _)| takes_large(client));
    let rx_buffer = if large_receive { PIECE_SIZE } else { BUFFER_SIZE };
    let rx_size = u64::from(device.device.buffers) * u64::from(rx_buffer);
    let rx_data = wiring.region(format!("{name} rx data"), rx_size, RegionKind::Dma, Purpose::Buffers, &[(rx, false)]);
    let connection = NetDriver {
        rx_free: rx_side.to_driver,
        rx_filled: rx_side.from_driver,
        tx_filled: tx_side.to_driver,
        tx_free: tx_side.from_driver,
        rx_channel: rx_side.driver_end,
        tx_channel: tx_side.driver_end,
        mac: device.device.mac,
        large_receive,
    };
    wiring.connect(driver, &name, connection);
    let (mut rx_clients, mut tx_clients) = (Vec::new(), Vec::new());
    for (client, domain) in &device.clients {
        let ClientKind::Net { mac, anti_spoof, copier, through, queue, buffers, large } = &client.kind else {
            unreachable!("the draft checked the class")
        };
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
        let small = device.device.buffers.min(lendable(transmit_queue(device.device)));
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

/// Entries of the queues by which frames go to the driver: what lies there delays everybody, so that it is no more than
/// is good for the device, however many buffers the clients have.
fn transmit_queue(device: &Device<'_>) -> u32 {
    device.table.queue.as_ref().map_or(device.buffers.next_power_of_two(), |queue| queue.value)
}

fn driver_side(
    wiring: &mut Wiring<'_>,
    device: &DeviceClients<'_, '_>,
    (virtualiser, capacity): (DomainId, u32),
    [to_driver, from_driver]: [&str; 2],
) -> DriverSide {
    let name = &device.device.board.name;
    let spec = |what: &str, forward| RingSpec {
        name: format!("{name} {what}"),
        capacity,
        entry_size: DMA_DESCRIPTOR,
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
    /// Who comes after the copier or the first of `through`s: the rest of them, then the client.
    fn reader(&self, through: usize) -> DomainId {
        self.through.get(through).copied().unwrap_or(self.domain)
    }
}

/// What a client receives by.
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
    wiring: &mut Wiring<'_>,
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
        entry_size: DESCRIPTOR,
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

/// From the receive virtualiser to the client: by its copier, or straight from the device's buffers, and through what
/// stands between.
fn wire_receive(
    wiring: &mut Wiring<'_>,
    device: &DeviceClients<'_, '_>,
    wired: &WiredClient,
    label: &str,
    device_rx: Part,
) -> (NetRxClient<Planned>, ReceiveSide) {
    let rx = device.virtualisers[0];
    let reader = wired.copier.unwrap_or(wired.reader(0));
    let reader_name = if reader == wired.domain { label.to_string() } else { wiring.name(reader) };
    wiring.map(device_rx.region, reader, false);
    let rings = receive_rings(wiring, &reader_name, (rx, reader), device.device.queue);
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
        let capacity = if wired.copier.is_some() { wired.queue } else { device.device.queue };
        side = wire_stage(wiring, wired, label, (*domain, reader), &side, (side.data, capacity));
    }
    (rx_client, side)
}

/// A domain between the giver of received frames (`from`) and the next `reader`, which it gives frames in `data`.
fn wire_stage(
    wiring: &mut Wiring<'_>,
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
fn receive_rings(wiring: &mut Wiring<'_>, label: &str, pair: (DomainId, DomainId), capacity: u32) -> Vec<RingId> {
    let spec =
        |what: &str, forward| RingSpec { name: format!("{label} {what}"), capacity, entry_size: DESCRIPTOR, forward };
    wiring.rings(format!("{label} rx queues"), pair, &[spec("rx_filled", true), spec("rx_free", false)], true)
}
