//! Serial class: one virtualiser joins the clients' bytes and hands input to those that take it.

use super::connections::flag;
use super::devices::VirtualiserKind;
use super::draft::{ClientKind, Draft, DraftDevice};
use super::wiring::{DeviceClients, RingSpec, Wiring};
use crate::description::system::read_queue;
use crate::plan::Rights;
use culm_abi::connection::{SerialClient, SerialDriver, SerialVirtualiser, SerialVirtualiserClient};
use culm_manifest::reader::{Problems, TableReader};
use culm_manifest::units::format_size;
use culm_manifest::{ConnectionKind, Located};

/// The class's virtualiser.
pub const VIRTUALISERS: &[VirtualiserKind] = &[VirtualiserKind {
    suffix: "virt",
    component: "serial-virt",
    connection: || ConnectionKind::of::<SerialVirtualiser>(),
}];

/// Bytes in each queue where the description says nothing.
pub const DEFAULT_QUEUE: u32 = 4096;

/// The least that a queue can have: room for one line of a log.
const MIN_QUEUE: u32 = 256;

/// Bytes of input that can wait for a client: what a person types.
const INPUT_QUEUE: u32 = 256;

/// Entries of serial queues are bytes.
const ENTRY: u32 = 1;

/// Bytes of a queue; one that no line fits into is refused, since nothing would ever come through it.
pub fn queue_size(draft: &mut Draft<'_>, given: Option<&Located<u32>>, default: u32) -> u32 {
    let Some(given) = given else { return default };
    if given.value < MIN_QUEUE {
        let diagnostic = draft
            .at(&given.span, format!("a serial queue of {} has no room for a line", format_size(given.value.into())))
            .help(format!("give it {MIN_QUEUE} at least, or leave `queue` out for {}", default.max(MIN_QUEUE)));
        draft.error(diagnostic);
    }
    given.value
}

/// Options of a client.
pub fn read_client<'a>(
    draft: &mut Draft<'a>,
    options: Option<&mut TableReader<'a>>,
    device: Option<DraftDevice>,
    problems: &mut Problems,
) -> Option<ClientKind> {
    let default = device.map_or(DEFAULT_QUEUE, |device| draft.devices[device].queue);
    let Some(options) = options else { return Some(ClientKind::Serial { input: false, queue: default }) };
    let input = flag(Some(&mut *options), "input", false, problems);
    let queue = queue_size(draft, read_queue(options, problems).as_ref(), default);
    Some(ClientKind::Serial { input, queue })
}

/// Connects driver, virtualiser and clients of one device.
pub fn wire(wiring: &mut Wiring<'_>, device: &DeviceClients<'_, '_>) {
    let (driver, virtualiser) = (device.driver, device.virtualisers[0]);
    let name = &device.device.board.name;
    let rings = wiring.rings(
        format!("{name} queues"),
        (driver, virtualiser),
        &[
            RingSpec { name: format!("{name} tx"), capacity: device.device.queue, entry_size: ENTRY, forward: false },
            RingSpec { name: format!("{name} rx"), capacity: INPUT_QUEUE, entry_size: ENTRY, forward: true },
        ],
        false,
    );
    let (driver_end, virtualiser_end) = wiring.channel((driver, true), (virtualiser, true), name);
    let connection = SerialDriver { tx: rings[0], rx: rings[1], channel: driver_end };
    wiring.connect(driver, &wiring.name(virtualiser), connection);
    let clients = device.clients.iter().map(|(client, domain)| {
        let ClientKind::Serial { input, queue } = client.kind else { unreachable!("the draft checked the class") };
        let owner = wiring.name(*domain);
        let label = format!("{owner} {}", client.connection);
        let mut specs =
            vec![RingSpec { name: format!("{label} tx"), capacity: queue, entry_size: ENTRY, forward: true }];
        if input {
            let name = format!("{label} rx");
            specs.push(RingSpec { name, capacity: INPUT_QUEUE, entry_size: ENTRY, forward: false });
        }
        let rings = wiring.rings(format!("{label} queues"), (*domain, virtualiser), &specs, false);
        // A log is dropped where it does not fit: nobody waits for room, so nobody is told of it.
        let is_log = client.slot.is_none();
        let (client_end, end) = wiring.channel((*domain, true), (virtualiser, !is_log), &label);
        let (tx, rx) = (rings[0], rings.get(1).copied());
        let connection = SerialClient { tx, rx, channel: client_end };
        wiring.connect_slot(*domain, client.slot, &client.connection, name, connection);
        let rights = if is_log { Rights::NONE } else { Rights::NOTIFY };
        SerialVirtualiserClient { tx, rx, channel: end, rights, name: owner }
    });
    let connection = SerialVirtualiser {
        driver_tx: rings[0],
        driver_rx: rings[1],
        driver_channel: virtualiser_end,
        clients: clients.collect(),
    };
    wiring.connect(virtualiser, &wiring.name(driver), connection);
}
