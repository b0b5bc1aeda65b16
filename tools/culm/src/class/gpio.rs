//! Gpio class: the driver of a chip of lines shows each client the state of one, in a page of its
//! own, and notifies it of changes.

use super::interface::{Class, NewClient};
use crate::description::system::read_flag;
use crate::expand::draft::{Client, Draft, DraftProvider, OfClass, Service};
use crate::expand::wiring::{ProviderClients, Wiring};
use crate::plan::{Memory, Purpose, RegionKind};
use crate::reference::table::{Table, key};
use culm_abi::connection::{GpioClient, GpioProvider, GpioProviderClient};
use culm_abi::memory::PAGE_SIZE;
use culm_manifest::ConnectionKind;
use culm_manifest::Located;
use culm_manifest::reader::{Problems, TableReader};

/// The class.
pub struct Gpio;

/// Lines of the largest chip: it has a bit for each in a register of 32.
const MAX_LINES: i128 = 32;

/// The options of a client.
struct ClientOptions {
    line: u32,
    active_low: bool,
}

impl Class for Gpio {
    fn name(&self) -> &'static str {
        "gpio"
    }

    fn client_kind(&self, service: Service) -> Option<ConnectionKind> {
        (service == Service::FarEnd).then(ConnectionKind::of::<GpioClient>)
    }

    fn client_keys(&self) -> Vec<Table> {
        vec![Table {
            heading: "Connections of the kind gpio-client",
            intro: "`button = { device = \"gpio0\", line = 3 }`.".to_string(),
            keys: vec![
                key("device", "text", "required", "the chip"),
                key("line", "0 to 31", "0", "the chip's line that it watches, one that the chip has"),
                key("active_low", "true or false", "false", "the line is active, a button pressed, where it is low"),
            ],
        }]
    }

    fn read_client<'a>(
        &self,
        draft: &mut Draft<'a>,
        client: &NewClient<'_, 'a>,
        options: Option<&mut TableReader<'a>>,
        problems: &mut Problems,
    ) -> Option<OfClass> {
        let (mut line, mut active_low) = (None, false);
        if let Some(options) = options {
            line = options.take("line").and_then(|entry| entry.integer(0..=MAX_LINES - 1, problems));
            active_low = read_flag(options, "active_low", active_low, problems);
        }
        if let (Some(provider), Some(line)) = (client.provider, &line) {
            check_line(draft, provider, line);
        }
        let line = line.map_or(0, |line| line.value as u32);
        Some(OfClass::new(ClientOptions { line, active_low }))
    }

    fn receives(&self, _: &Client) -> bool {
        true
    }

    fn wire(&self, wiring: &mut Wiring, provider: &ProviderClients<'_, '_>) {
        let clients = provider.clients.iter().map(|(client, domain)| {
            let &ClientOptions { line, active_low } = client.of_class.get();
            let label = format!("{} {}", wiring.name(*domain), client.connection);
            let mappings = [(provider.domain, true), (*domain, false)];
            let name = format!("{label} line");
            let page = wiring.region(name, PAGE_SIZE, RegionKind::Cached, Purpose::Shown, &mappings);
            let shown = Memory::region(page, PAGE_SIZE);
            let (channel, client_end) = wiring.channel((provider.domain, true), (*domain, false), &label);
            let connection = GpioClient { shown, channel: client_end };
            wiring.connect_slot(*domain, client.slot, &client.connection, &provider.provider.name, connection);
            GpioProviderClient { shown, line, channel, active_low }
        });
        let clients = clients.collect();
        wiring.connect_provider(provider, "", GpioProvider { clients });
    }
}

/// Checks that the chip has the line, if its driver says how many there are.
fn check_line(draft: &mut Draft<'_>, provider: DraftProvider, line: &Located<i128>) {
    let chip = &draft.providers[provider];
    let Some(count) = chip.connection(draft).count.filter(|count| line.value >= i128::from(*count)) else { return };
    let driver = &draft.domains[chip.domain].manifest.name;
    let diagnostic = draft
        .at(&line.span, format!("`{}` has no line {}", chip.name, line.value))
        .help(format!("`{driver}` drives chips of {count} lines: name one from 0 to {}", count - 1));
    draft.error(diagnostic);
}
