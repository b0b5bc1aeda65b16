//! Serial class: one virtualiser joins the clients' bytes, hands input to those that take it, and
//! the log to those that listen.

mod consoles;
mod outside;

pub use consoles::{Options, names as consoles, takes_keys};
pub use outside::{PortOptions, Ports};

use super::interface::{Class, NewClient, NewProvider, Virtualiser};
use crate::description::system::read_queue;
use crate::diagnostics::Diagnostics;
use crate::expand::draft::{Client, Draft, OfClass, Service};
use crate::expand::wiring::{ProviderClients, RingSpec, Wiring};
use crate::plan::{LogLevel, Rights};
use crate::reference::table::{Key, Table, key};
use culm_abi::connection::{SerialClient, SerialDriver, SerialVirtualiser, SerialVirtualiserClient};
use culm_manifest::reader::{Problems, TableReader};
use culm_manifest::units::format_size;
use culm_manifest::{ConnectionKind, Located};

/// The class.
pub struct Serial;

/// The class's name.
const NAME: &str = "serial";

/// Bytes in each queue where the description says nothing.
const DEFAULT_QUEUE: u32 = 4096;

/// The least that a queue can have: room for one line of a log.
const MIN_QUEUE: u32 = 256;

/// Bytes of the log that can wait for a client where the description says nothing.
const LOG_QUEUE: u32 = 64 * 1024;

/// The least that they can be: room for a line with the time of day, behind one that tells of
/// missing ones.
const MIN_LOG_QUEUE: u32 = 1024;

/// Bytes of input that can wait for a client: what a person types.
const INPUT_QUEUE: u32 = 256;

/// The operator's commands that can wait for a client.
const COMMAND_QUEUE: u32 = 16;

/// Entries of serial queues are bytes.
const ENTRY: u32 = 1;

/// The options of a device: bytes of the queue to its driver.
struct DeviceOptions {
    queue: u32,
}

/// The options of a client.
struct ClientOptions {
    /// Bytes of the queue of what it says.
    queue: u32,
    /// The other queue, if it has one.
    hears: Hears,
}

/// The second queue of a client.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hears {
    /// Nothing.
    Nothing,
    /// The console's input, and maybe the operator's commands.
    Input { commands: bool },
    /// The log, over a queue of so many bytes.
    Log(u32),
}

/// Bytes of a queue; one that no line fits into is refused, since nothing would ever come through
/// it.
fn queue_size(draft: &mut Draft<'_>, given: Option<&Located<u32>>, default: u32, least: u32) -> u32 {
    let Some(given) = given else { return default };
    if given.value < least {
        let diagnostic = draft
            .at(&given.span, format!("a serial queue of {} has no room for a line", format_size(given.value.into())))
            .help(format!("give it {least} at least, or leave `queue` out for {}", default.max(least)));
        draft.error(diagnostic);
    }
    given.value
}

/// Reads what a client is given: what is typed or the log, and not both.
fn read_hears<'a>(
    draft: &mut Draft<'a>,
    options: &mut TableReader<'a>,
    default: u32,
    problems: &mut Problems,
) -> ClientOptions {
    let input = options.take("input").and_then(|entry| entry.boolean(problems)).filter(|flag| flag.value);
    let log = options.take("log").and_then(|entry| entry.boolean(problems)).filter(|flag| flag.value);
    if let (Some(input), Some(log)) = (&input, &log) {
        let diagnostic = draft
            .at(&log.span, "a client cannot be given both what is typed and the log: it could not tell them apart")
            .related(draft.source, input.span.clone(), "what is typed")
            .help("leave out one of the two, or make two connections");
        draft.error(diagnostic);
    }
    let commands = options.take("commands").and_then(|entry| entry.boolean(problems)).filter(|flag| flag.value);
    if let (None, Some(commands)) = (&input, &commands) {
        let message = "the operator's commands are for consoles, and this client takes no input";
        draft.error(draft.at(&commands.span, message).help("add `input = true`, or leave `commands` out"));
    }
    let given = read_queue(options, problems);
    if log.is_some() {
        // It has little to say, and much to hear.
        let size = queue_size(draft, given.as_ref(), LOG_QUEUE, MIN_LOG_QUEUE);
        return ClientOptions { queue: MIN_QUEUE, hears: Hears::Log(size) };
    }
    let commands = commands.is_some();
    let hears = if input.is_some() { Hears::Input { commands } } else { Hears::Nothing };
    ClientOptions { queue: queue_size(draft, given.as_ref(), default, MIN_QUEUE), hears }
}

impl Class for Serial {
    fn name(&self) -> &'static str {
        NAME
    }

    fn virtualisers(&self) -> Vec<Virtualiser> {
        let connection = ConnectionKind::of::<SerialVirtualiser>();
        vec![Virtualiser { suffix: "virt", component: "serial-mux", connection }]
    }

    /// A client of its own queues sees no difference to the virtualiser's.
    fn client_kind(&self, service: Service) -> Option<ConnectionKind> {
        (service != Service::FarEnd).then(ConnectionKind::of::<SerialClient>)
    }

    fn device_keys(&self) -> Vec<Key> {
        vec![key(
            "queue",
            "power of two",
            DEFAULT_QUEUE.to_string(),
            "serial: bytes of the queue from the virtualiser to the driver",
        )]
    }

    fn client_keys(&self) -> Vec<Table> {
        vec![Table {
            heading: "Connections of the kind serial-client",
            intro: "`console = \"uart0\"`, or a table. A log needs no connection: every domain has one.".to_string(),
            keys: vec![
                key("device", "text", "required", "the device"),
                key(
                    "input",
                    "true or false",
                    "false",
                    "it is a console: while it is in focus, it is given what is typed",
                ),
                key(
                    "commands",
                    "true or false",
                    "false",
                    "while it is in focus, it is given the operator's commands too: letters typed behind Ctrl-]",
                ),
                key("log", "true or false", "false", "it is given the log instead: each line as it was printed"),
                key(
                    "queue",
                    "power of two",
                    "the device's",
                    format!(
                        "bytes of its output queue; with `log` bytes of the log that can wait for it, and {LOG_QUEUE} \
                         where nothing is said"
                    ),
                ),
            ],
        }]
    }

    fn rules(&self) -> &'static [&'static str] {
        &["A serial queue has 256 bytes at least, one for the log 1024."]
    }

    fn read_provider<'a>(
        &self,
        draft: &mut Draft<'a>,
        _: NewProvider,
        keys: Option<&mut TableReader<'a>>,
        problems: &mut Problems,
    ) -> OfClass {
        let queue = keys.and_then(|keys| read_queue(keys, problems));
        OfClass::new(DeviceOptions { queue: queue_size(draft, queue.as_ref(), DEFAULT_QUEUE, MIN_QUEUE) })
    }

    fn read_client<'a>(
        &self,
        draft: &mut Draft<'a>,
        client: &NewClient<'_, 'a>,
        options: Option<&mut TableReader<'a>>,
        problems: &mut Problems,
    ) -> Option<OfClass> {
        let device = client.provider.map(|provider| draft.providers[provider].of_class.get::<DeviceOptions>());
        let default = device.map_or(DEFAULT_QUEUE, |device| device.queue);
        Some(OfClass::new(match options {
            Some(options) => read_hears(draft, options, default, problems),
            None => ClientOptions { queue: default, hears: Hears::Nothing },
        }))
    }

    fn log(&self) -> Option<OfClass> {
        Some(OfClass::new(ClientOptions { queue: DEFAULT_QUEUE, hears: Hears::Nothing }))
    }

    fn receives(&self, client: &Client) -> bool {
        matches!(client.of_class.get::<ClientOptions>().hears, Hears::Input { .. })
    }

    /// Where no device takes the logs, nobody will see them.
    fn warn(&self, draft: &Draft<'_>, found: &mut Diagnostics) {
        let has_serial = draft.providers.iter().any(|provider| provider.class.name() == NAME);
        if has_serial || draft.domains.iter().all(|domain| domain.log == LogLevel::Off) {
            return;
        }
        let mut on_board =
            draft.board.board.devices.iter().filter(|device| device.classes.iter().any(|class| class.name() == NAME));
        let help = match on_board.next() {
            Some(device) => format!("add `[device.{}]` with a `priority`: its driver's", device.name),
            None => "the board has none; `log = \"off\"` says that no log is wanted".to_string(),
        };
        let message = "the system uses no serial device: nobody will see what its domains log, nor why one faults";
        found.push(draft.at(&draft.file.first_line, message).help(help).warning());
    }

    fn wire(&self, wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
        let driver = provider.domain;
        let name = &provider.provider.name;
        let capacity = provider.provider.of_class.get::<DeviceOptions>().queue;
        let bare = provider.clients.first().filter(|_| provider.provider.service == Service::Bare);
        let Some(&virtualiser) = provider.virtualisers.first().or(bare.map(|(_, domain)| domain)) else { return };
        let specs = [
            RingSpec { name: format!("{name} tx"), capacity, entry_size: ENTRY, forward: false },
            RingSpec { name: format!("{name} rx"), capacity: INPUT_QUEUE, entry_size: ENTRY, forward: true },
        ];
        let between = provider.is_apart(virtualiser).then(|| {
            let rings = wiring.rings(format!("{name} queues"), (driver, virtualiser), &specs, false);
            (rings[0], rings[1], wiring.channel((driver, true), (virtualiser, true), name))
        });
        let (tx, rx) = (between.map(|(tx, _, _)| tx), between.map(|(_, rx, _)| rx));
        let connection = SerialDriver { tx, rx, channel: between.map(|(_, _, ends)| ends.0) };
        wiring.connect_provider(provider, &wiring.name(virtualiser), connection);
        if let (Some((client, domain)), Some((tx, rx, ends))) = (bare, between) {
            let connection = SerialClient { tx, rx: Some(rx), commands: None, channel: ends.1 };
            wiring.connect_slot(*domain, client.slot, &client.connection, name, connection);
            return;
        }
        let names = consoles::client_names(wiring, provider, |client| self.receives(client));
        let clients = provider.clients.iter().zip(names).map(|((client, domain), name)| {
            let &ClientOptions { queue, hears } = client.of_class.get();
            let owner = wiring.name(*domain);
            let label = format!("{owner} {}", client.connection);
            let mut specs =
                vec![RingSpec { name: format!("{label} tx"), capacity: queue, entry_size: ENTRY, forward: true }];
            let capacity = match hears {
                Hears::Nothing => None,
                Hears::Input { .. } => Some(INPUT_QUEUE),
                Hears::Log(size) => Some(size),
            };
            if let Some(capacity) = capacity {
                specs.push(RingSpec { name: format!("{label} rx"), capacity, entry_size: ENTRY, forward: false });
            }
            if (hears == Hears::Input { commands: true }) {
                let name = format!("{label} commands");
                specs.push(RingSpec { name, capacity: COMMAND_QUEUE, entry_size: ENTRY, forward: false });
            }
            let rings = wiring.rings(format!("{label} queues"), (*domain, virtualiser), &specs, false);
            // A log is dropped where it does not fit: nobody waits for room, so nobody is told of
            // it.
            let is_log = client.slot.is_none();
            let (client_end, end) = wiring.channel((*domain, true), (virtualiser, !is_log), &label);
            let (tx, rx, commands) = (rings[0], rings.get(1).copied(), rings.get(2).copied());
            let connection = SerialClient { tx, rx, commands, channel: client_end };
            wiring.connect_slot(*domain, client.slot, &client.connection, &provider.provider.name, connection);
            let rights = if is_log { Rights::NONE } else { Rights::NOTIFY };
            let log = matches!(hears, Hears::Log(_));
            SerialVirtualiserClient { tx, rx, commands, channel: end, rights, name, log, focus: false }
        });
        let connection = SerialVirtualiser {
            driver_tx: tx,
            driver_rx: rx,
            driver_channel: between.map(|(_, _, ends)| ends.1),
            clients: clients.collect(),
        };
        wiring.connect(virtualiser, &wiring.name(driver), connection);
    }
}
