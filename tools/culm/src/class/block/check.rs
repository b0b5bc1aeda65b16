//! Checks that need all disks and their clients.

use super::card;
use super::options::{ClientOptions, DeviceOptions, NAME};
use super::volume;
use crate::diagnostics::{Diagnostic, Diagnostics};
use crate::disk::read::no_card_of;
use crate::expand::draft::{Client, Draft, DraftProvider};
use culm_abi::connection::BlockMemory;
use culm_abi::connection::block::CLIENT_REQUEST;
use culm_abi::memory::PAGE_SIZE;
use culm_manifest::ConnectionKind;
use culm_manifest::units::format_size;
use culm_partition::Table;

/// The most clients of one disk: the virtualiser's notification word has a bit for each, and one
/// for the driver.
const MAX_CLIENTS: usize = 63;

/// Checks that each of a disk's clients is alone where it writes, and that there are not too many.
pub fn check_clients(draft: &mut Draft<'_>, provider: DraftProvider) {
    let mut found = Vec::new();
    found.extend(check_image(draft, provider));
    found.extend(check_pio(draft, provider));
    found.extend(check_card(draft, provider));
    found.extend(volume::check(draft, provider));
    let clients: Vec<&Client> = draft.clients_of(provider).collect();
    let name = &draft.providers[provider].name;
    if let Some(client) = clients.get(MAX_CLIENTS) {
        let message = format!("{} clients of `{name}` are too many", clients.len());
        let help = format!("{MAX_CLIENTS} can share a disk");
        found.push(draft.at(&ClientOptions::of(client).at, message).help(help));
    }
    found.extend(clients.iter().filter_map(|client| check_heap(draft, client)));
    for (index, client) in clients.iter().enumerate() {
        let options = ClientOptions::of(client);
        let common = clients[..index].iter().find(|other| {
            let other = ClientOptions::of(other);
            options.part.overlaps(&other.part) && !(options.read_only && other.read_only)
        });
        let Some(other) = common else { continue };
        let (domain, other_domain) =
            (&draft.domains[client.domain].name.value, &draft.domains[other.domain].name.value);
        let (other, what) = (ClientOptions::of(other), format!("blocks of `{name}`"));
        let message = match (options.read_only, other.read_only) {
            (false, false) => format!("two writers of {what}: `{other_domain}` and `{domain}`"),
            (true, _) => format!("`{domain}` would read {what} that `{other_domain}` writes"),
            (false, true) => format!("`{domain}` would write {what} that `{other_domain}` reads"),
        };
        found
            .push(draft.at(&options.at, message).related(draft.source, other.at.clone(), "the other one's part").help(
            "give each a partition or a range (`offset`, `size`) of its own; only readers (`read_only = true`) share",
        ));
    }
    for diagnostic in found {
        draft.error(diagnostic);
    }
}

/// Returns what is wrong if a client's domain cannot keep the requests to this disk besides those
/// to the ones before: it would end where it starts, be restarted, and end again.
fn check_heap(draft: &Draft<'_>, client: &Client) -> Option<Diagnostic> {
    let kept = |client: &Client| {
        let requests = culm_queue::lendable(ClientOptions::of(client).queue);
        u64::from(requests) * u64::from(CLIENT_REQUEST)
    };
    let own = draft.clients_of_class(NAME).filter(|other| other.domain == client.domain);
    let before: u64 = own.take_while(|other| !std::ptr::eq(*other, client)).map(kept).sum();
    let (domain, needs) = (&draft.domains[client.domain], before + kept(client));
    if !(before..needs).contains(&domain.heap) {
        return None;
    }
    let options = ClientOptions::of(client);
    let (has, needs) = (format_size(domain.heap), format_size(needs.next_multiple_of(PAGE_SIZE)));
    let name = &domain.name.value;
    let message =
        format!("`{name}` has a heap of {has}, which cannot keep the requests of a queue of {}", options.queue);
    let help = format!(
        "write `heap = \"{needs}\"` or more, or make the queue shorter: what is under way stays in the heap, \
         {CLIENT_REQUEST} bytes for each request"
    );
    Some(draft.at(&options.queue_at, message).help(help))
}

/// Returns what is wrong if the driver is to move the data and cannot.
fn check_pio(draft: &Draft<'_>, provider: DraftProvider) -> Option<Diagnostic> {
    let provider = &draft.providers[provider];
    let at = DeviceOptions::of(provider).pio.as_ref()?;
    let manifest = draft.domains[provider.domain].manifest;
    if manifest.connection_of_kind(ConnectionKind::of::<BlockMemory>()).is_some() {
        return None;
    }
    let message = format!("`{}` cannot move data itself", manifest.name);
    Some(draft.at(at, message).help("leave `pio` out: its device moves it"))
}

/// Returns what is wrong with the image of an emulated SD card, with which QEMU does not start.
fn check_card(draft: &Draft<'_>, provider: DraftProvider) -> Vec<Diagnostic> {
    let provider = &draft.providers[provider];
    if !card::is_emulated(draft, provider.device.map(|(device, _)| device)) {
        return Vec::new();
    }
    let DeviceOptions { read_only, image, .. } = DeviceOptions::of(provider);
    let mut found = Vec::new();
    if let Some(at) = read_only {
        let message = format!("`{}` is an SD card, and QEMU has none that cannot be written", provider.name);
        let help = "leave it out here; each client can have it: `disk = { device = …, read_only = true }`";
        found.push(draft.at(at, message).help(help));
    }
    if let Some(image) = image.as_ref().filter(|image| !image.file.size.is_power_of_two()) {
        let (message, help) = no_card_of(image.file.size);
        let resize = match &image.file.path {
            Some(_) => format!("; `truncate -s {} FILE` makes it so large", image.file.size.next_power_of_two()),
            None => String::new(),
        };
        found.push(draft.at(&image.at, message).help(help + &resize));
    }
    found
}

/// Returns what is wrong if an earlier device has the same image, and one of the two writes.
fn check_image(draft: &Draft<'_>, provider: DraftProvider) -> Option<Diagnostic> {
    let own = DeviceOptions::of(&draft.providers[provider]).image.as_ref()?;
    let identity = own.identity?;
    let disks = draft.providers[..provider].iter().filter(|other| other.class.name() == NAME);
    let mut images = disks.filter_map(|other| Some((&other.name, DeviceOptions::of(other).image.as_ref()?)));
    let (name, other) = images.find(|(_, image)| image.identity == Some(identity))?;
    if own.file.read_only && other.file.read_only {
        return None;
    }
    let message =
        format!("{} is the image of `{name}` already: each would write what the other one does not know of", own.name);
    let help = "give each device an image of its own, or both `read_only = true`";
    Some(draft.at(&own.at, message).related(draft.source, other.at.clone(), "the other one").help(help))
}

/// Adds what is wrong with partition tables that can be used all the same.
pub fn warn(draft: &Draft<'_>, found: &mut Diagnostics) {
    for provider in draft.providers.iter().filter(|provider| provider.class.name() == NAME) {
        let Some(image) = &DeviceOptions::of(provider).image else { continue };
        if let Ok(Table { flaw: Some(flaw), .. }) = &image.table {
            let message = format!("the partition table of {}: {flaw}", image.name);
            let help = "`sgdisk -v FILE` says what is wrong in it, `sgdisk -e FILE` writes a GPT anew";
            found.push(draft.at(&image.at, message).help(help).warning());
        }
    }
}
