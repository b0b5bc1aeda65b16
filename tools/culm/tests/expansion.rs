//! Rules of every plan, whatever the description: ends point at each other, queues lie in regions
//! that their two sides map, nobody notifies a passive domain. And no text, however broken, makes
//! the tool panic.

use culm_abi::connection::net::LARGE_BUFFER;
use culm_abi::memory::PAGE_SIZE;
use culm_queue::lendable;
use culm_tool::description::catalogue::Catalogue;
use culm_tool::plan::{ConnectionData, DomainConnection, End, Memory, PhysicalRange, Plan, Purpose, RegionKind};
use culm_tool::{expand, graph, show};
use proptest::prelude::*;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

const WORLD: &str = "../../tests/bad/world";

fn catalogue() -> Catalogue {
    Catalogue::read(Path::new(WORLD))
}

/// A file with this text, beside nothing.
fn written(folder: &tempfile::TempDir, text: &str) -> PathBuf {
    let path = folder.path().join("random.toml");
    std::fs::write(&path, text).expect("temporary files can be written");
    path
}

/// Every channel end is one side of a channel whose other side knows it.
fn check_ends(plan: &Plan) {
    for (id, domain) in plan.domains.iter().enumerate() {
        for (number, end) in domain.ends.iter().enumerate() {
            match end {
                End::Peer { domain: peer, end: back, notify, call, .. } => {
                    let other = &plan.domains[*peer].ends[*back as usize];
                    let End::Peer { domain: own, end: own_number, .. } = other else { panic!("{other:?}") };
                    assert_eq!((*own, *own_number as usize), (id, number), "{}", domain.name);
                    assert_ne!(*peer, id, "{} has a channel to itself", domain.name);
                    assert!(!(*notify && plan.domains[*peer].passive), "{} notifies a passive domain", domain.name);
                    if *call {
                        assert_eq!(domain.core, plan.domains[*peer].core);
                        assert!(domain.priority < plan.domains[*peer].priority);
                    }
                }
                End::Interrupt { device, .. } => assert_eq!(plan.devices[*device].driver, id),
                End::Child { domain: child } => {
                    assert_eq!(plan.domains[*child].supervisor, Some((id, number as u32)));
                }
                End::VirtualCpu { guest, cpu } => {
                    let guest = &plan.guests[*guest];
                    assert_eq!((guest.monitor, guest.cpus[*cpu].channel), (id, number as u32));
                }
            }
        }
    }
}

/// Queues lie in their regions without overlap, and exactly their two sides may write them.
fn check_rings(plan: &Plan) {
    for (id, region) in plan.regions.iter().enumerate() {
        let mut rings: Vec<_> = plan.rings.iter().filter(|ring| ring.region == id).collect();
        assert_eq!(region.purpose == Purpose::Queues, !rings.is_empty(), "{}", region.name);
        rings.sort_by_key(|ring| ring.offset);
        let mut free = 0;
        for ring in rings {
            assert!(ring.offset >= free, "{} overlaps", ring.name);
            assert_eq!(ring.offset % culm_queue::ALIGNMENT as u64, 0);
            let size = culm_queue::layout(ring.capacity, ring.entry_size as usize).expect("a layout") as u64;
            free = ring.offset + size;
            for side in [ring.producer, ring.consumer] {
                assert!(region.mappings.iter().any(|mapping| mapping.domain == side && mapping.writable));
            }
            let writers = region.mappings.iter().filter(|mapping| mapping.writable).count();
            assert_eq!(writers, 2, "{}", region.name);
        }
        assert!(free <= region.size);
        assert_eq!(region.size % culm_abi::memory::PAGE_SIZE, 0);
        let mut mapped: Vec<_> = region.mappings.iter().map(|mapping| mapping.domain).collect();
        mapped.sort_unstable();
        mapped.dedup();
        assert_eq!(mapped.len(), region.mappings.len(), "{} is mapped twice into one domain", region.name);
    }
}

/// Domains are by core, names are unique, connections are by slot and made once.
fn check_domains(plan: &Plan) {
    assert!(plan.domains.is_sorted_by_key(|domain| domain.core));
    let mut names: Vec<_> = plan.domains.iter().map(|domain| &domain.name).collect();
    names.sort();
    names.dedup();
    assert_eq!(names.len(), plan.domains.len());
    for domain in &plan.domains {
        let manifest = &plan.components[domain.component].manifest;
        assert!(domain.connections.is_sorted_by_key(|connection| connection.slot));
        assert_eq!(domain.config.len(), manifest.config.len());
        for connection in &domain.connections {
            let is_listed = manifest.connections.get(connection.slot as usize);
            assert_eq!(is_listed.is_none(), connection.slot == culm_abi::start::IMPLICIT, "{}", connection.name);
        }
        for (slot, wanted) in manifest.connections.iter().enumerate() {
            let made = domain.connections.iter().filter(|connection| connection.slot as usize == slot).count();
            assert!(made <= 1 && (made == 1 || wanted.optional), "{}.{}", domain.name, wanted.name);
        }
    }
}

/// Whether by this connection a domain does a virtualiser's work. A driver that does it too must
/// see the payload.
/// The registers of devices that a domain maps: where, and how many bytes.
fn registers_of(plan: &Plan, domain: usize) -> Vec<(u64, u64)> {
    let devices = plan.regions.iter().filter(|region| region.kind == RegionKind::Device);
    let mapped = devices.filter(|region| region.mappings.iter().any(|mapping| mapping.domain == domain));
    mapped.map(|region| (region.address.expect("registers are where they are"), region.size)).collect()
}

/// Who drives a device maps the pages of its registers, and of devices' registers nothing else.
fn check_registers(plan: &Plan) {
    for (id, domain) in plan.domains.iter().enumerate() {
        let own = plan.devices.iter().filter(|device| device.driver == id);
        let pages = own.map(|device| {
            let PhysicalRange { address, size } = device.board.registers;
            let first = address / PAGE_SIZE * PAGE_SIZE;
            (first, (address + size).next_multiple_of(PAGE_SIZE) - first)
        });
        let (mut pages, mut mapped) = (pages.collect::<Vec<_>>(), registers_of(plan, id));
        pages.sort_unstable();
        mapped.sort_unstable();
        assert_eq!(mapped, pages, "{}", domain.name);
    }
}

fn is_virtualiser(connection: &DomainConnection) -> bool {
    matches!(connection.data, ConnectionData::NetRxVirtualiser(_) | ConnectionData::NetTxVirtualiser(_))
}

/// Checks that no domain reaches payload that is none of its business.
fn check_payload(plan: &Plan) {
    for device in
        plan.devices.iter().filter(|device| !plan.domains[device.driver].connections.iter().any(is_virtualiser))
    {
        for region in plan.regions.iter().filter(|region| region.purpose == Purpose::Buffers) {
            let maps = region.mappings.iter().any(|mapping| mapping.domain == device.driver);
            assert!(!maps, "the driver of {} maps the payload in {}", device.board.name, region.name);
        }
    }
    for (id, domain) in plan.domains.iter().enumerate() {
        for connection in &domain.connections {
            let (memory, is_bare) = match &connection.data {
                ConnectionData::NetClient(client) => ([client.rx_data, client.tx_data], false),
                ConnectionData::NetBare(client) => ([client.rx_data, client.tx_data], true),
                _ => continue,
            };
            let [Memory::Region(rx_data), Memory::Region(tx_data)] = memory else {
                panic!("{} has its payload in no region", domain.name)
            };
            let others =
                |region: usize| plan.regions[region].mappings.iter().filter(move |mapping| mapping.domain != id);
            assert!(others(tx_data.region).all(|mapping| !mapping.writable), "{} shares its sending", domain.name);
            assert_eq!(others(rx_data.region).count() == 0, is_bare, "{}", domain.name);
            let writes = plan.regions[rx_data.region].mappings.iter().any(|it| it.domain == id && it.writable);
            assert!(!writes, "{} writes what it receives", domain.name);
        }
    }
}

/// Every buffer can be lent: what is told apart by its place in a region travels in queues with
/// room for all of it.
fn check_lending(plan: &Plan) {
    let room = |rings: &[usize]| rings.iter().map(|ring| lendable(plan.rings[*ring].capacity)).min().expect("a ring");
    let size = |memory: Memory| match memory {
        Memory::Region(part) => part.size,
        other => panic!("{other:?} holds no buffers"),
    };
    let count = |size: u64, buffer: u32, large: u32| {
        let small = (size - u64::from(large) * u64::from(LARGE_BUFFER)) / u64::from(buffer);
        u32::try_from(small).expect("so many buffers") + large
    };
    for connection in plan.domains.iter().flat_map(|domain| &domain.connections) {
        let (buffers, room) = match &connection.data {
            ConnectionData::NetClient(it) => {
                (count(size(it.tx_data), it.buffer_size, it.tx_large), room(&[it.tx_filled, it.tx_free]))
            }
            ConnectionData::NetBare(it) => {
                let buffers = [it.rx_data, it.tx_data].map(|data| count(size(data), it.buffer_size, 0));
                let rooms = [room(&[it.rx_filled, it.rx_free]), room(&[it.tx_filled, it.tx_free])];
                assert!(buffers[0] <= rooms[0], "{buffers:?} buffers, room for {rooms:?}");
                (buffers[1], rooms[1])
            }
            ConnectionData::NetCopier(it) => (
                count(size(it.client_data), it.client_buffer_size, it.client_large),
                room(&[it.client_filled, it.client_free]),
            ),
            ConnectionData::NetRxVirtualiser(it) => {
                let of_clients = it.clients.iter().flat_map(|client| [client.filled, client.free]);
                let of_driver = [it.driver_free, it.driver_filled].into_iter().flatten();
                let rings: Vec<usize> = of_driver.chain(of_clients).collect();
                if rings.is_empty() {
                    continue;
                }
                (count(size(it.data), it.buffer_size, 0), room(&rings))
            }
            ConnectionData::NetTxVirtualiser(it) => {
                let (Some(bounce), Some(filled), Some(free)) = (it.bounce, it.driver_filled, it.driver_free) else {
                    continue;
                };
                let buffers = count(size(bounce), it.buffer_size, it.bounce_large) - it.bounce_large;
                (buffers, room(&[filled, free]))
            }
            _ => continue,
        };
        assert!(buffers <= room, "{}: {buffers} buffers, room for {room}", connection.name);
    }
}

fn check(plan: &Plan) {
    check_lending(plan);
    check_ends(plan);
    check_rings(plan);
    check_registers(plan);
    check_domains(plan);
    check_payload(plan);
    toml::from_str::<toml::Table>(&show::expanded(plan)).expect("an expanded system is TOML");
    assert!(graph::svg(plan).ends_with("</svg>\n"));
}

#[test]
fn the_recorded_systems_are_consistent() {
    let catalogue = catalogue();
    for (_, file) in catalogue.systems() {
        check(&expand::expand(&catalogue, &file, None).expect("it is well"));
    }
}

/// The driver of a device behind a bus has the page of its registers, the bus's alone the space in
/// which devices are configured: it could give one the memory of anybody.
#[test]
fn who_drives_a_device_behind_a_bus_maps_its_registers_alone() {
    let root = Path::new("../..").canonicalize().expect("the tree is there");
    let system = root.join("tests/systems/sd.toml");
    let plan = expand::expand(&Catalogue::read(&root), &system, None).expect("it is well");
    check(&plan);
    let mut found: Vec<_> = (0..plan.domains.len())
        .flat_map(|id| registers_of(&plan, id).into_iter().map(move |registers| (id, registers)))
        .map(|(id, registers)| (plan.domains[id].name.as_str(), registers))
        .collect();
    found.sort_unstable();
    let bus = ("pci0_driver", (0x40_1000_0000, 0x10_0000));
    assert_eq!(found, [bus, ("sd0_driver", (0x1000_0000, 0x1000)), ("uart0_driver", (0x900_0000, 0x1000))]);
}

/// A client of the network card: core, priority, whether it has a copier though it is alone,
/// whether it is watched, buffers.
type RandomClient = (u32, u8, bool, bool, u32);

fn described(is_fused: bool, clients: &[RandomClient], calls: &[(u8, bool)]) -> String {
    let mut text = format!("[device.nic0]\npriority = 240\nfused = {is_fused}\n[device.uart0]\npriority = 60\n");
    for (index, (core, priority, wants, anti_spoof, buffers)) in clients.iter().enumerate() {
        let copier = *wants || clients.len() > 1;
        let _ = writeln!(
            text,
            "[pd.net{index}]\ncomponent = \"idle\"\npriority = {priority}\ncore = {core}\nobserve = {anti_spoof}\n\
             net = {{ device = \"nic0\", copier = {copier}, anti_spoof = {anti_spoof}, buffers = {buffers} }}\n\
             serial = {{ device = \"uart0\", input = {wants} }}"
        );
    }
    for (index, (priority, passive)) in calls.iter().enumerate() {
        let _ = writeln!(
            text,
            "[pd.caller{index}]\ncomponent = \"client\"\npriority = {priority}\n\
             [pd.callee{index}]\ncomponent = \"server\"\npriority = {}\npassive = {passive}\n\
             [[channel]]\nends = [\"caller{index}.server\", \"callee{index}.client\"]\ncall = \"caller{index}\"",
            priority + 1
        );
    }
    text
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn random_systems_are_consistent(
        is_fused in any::<bool>(),
        clients in prop::collection::vec((0..4u32, 1..254u8, any::<bool>(), any::<bool>(), 16..64u32), 0..6),
        calls in prop::collection::vec((0..254u8, any::<bool>()), 0..4),
    ) {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let path = written(&folder, &described(is_fused, &clients, &calls));
        match expand::expand(&catalogue(), &path, None) {
            Ok(plan) => check(&plan),
            Err(mistakes) => panic!("{mistakes}"),
        }
    }

    #[test]
    fn a_changed_description_is_refused_or_well(
        changes in prop::collection::vec((0..2000usize, prop::option::of(any::<char>())), 1..8),
    ) {
        let mut text: Vec<char> = include_str!("../../../tests/bad/world/systems/full.toml").chars().collect();
        for (at, change) in changes {
            let at = at % text.len();
            match change {
                Some(c) => text[at] = c,
                None => { text.remove(at); }
            }
        }
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let path = written(&folder, &text.into_iter().collect::<String>());
        match expand::expand(&catalogue(), &path, None) {
            Ok(plan) => check(&plan),
            Err(mistakes) => prop_assert!(!mistakes.render(true).is_empty()),
        }
    }

    #[test]
    fn any_text_is_refused_without_a_panic(text in "(\\[|\\]|=|\"|\\.|\n|pd|device|nic0|[a-z0-9 ]){0,80}") {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        if let Err(mistakes) = expand::expand(&catalogue(), &written(&folder, &text), None) {
            mistakes.render(false);
        }
    }
}

#[test]
fn two_hundred_domains_are_no_trouble() {
    let mut text = String::from("[device.uart0]\npriority = 60\n");
    for index in 0..200 {
        let _ = writeln!(text, "[pd.p{index}]\ncomponent = \"idle\"\npriority = {}\ncore = {}", index % 250, index % 4);
    }
    let folder = tempfile::tempdir().expect("there is a place for temporary files");
    let plan = expand::expand(&catalogue(), &written(&folder, &text), None).expect("it is well");
    assert_eq!(plan.domains.len(), 203);
    check(&plan);
}
