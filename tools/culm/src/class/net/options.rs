//! The options of the class's devices and clients, and their checks.

use super::before::{BeforeClient, Way};
use crate::class::interface::NewClient;
use crate::description::system::{read_buffers, read_flag, read_queue};
use crate::expand::draft::{Client, Draft, DraftDomain, DraftProvider, OfClass, Provider, Service};
use crate::expand::switch_ports;
use culm_abi::connection::net::{LARGE_BUFFER, PIECE_SIZE};
use culm_abi::connection::{NetLink, NetProvider};
use culm_manifest::reader::{Entry, Problems, TableReader};
use culm_manifest::units::format_mac;
use culm_manifest::{ConnectionKind, Located};
use culm_queue::{capacity_for, lendable};
use std::ops::Range;

/// The class's name.
pub const NAME: &str = "net";

/// Payload buffers of a device or a client where the description says nothing.
pub const DEFAULT_BUFFERS: u32 = 512;

/// The fewest that a description can give to a device or a client.
const MIN_BUFFERS: u32 = 16;

// The card holds two packets of the greatest length at least: one comes while another is taken.
const _: () = assert!(MIN_BUFFERS >= 2 * LARGE_BUFFER.div_ceil(PIECE_SIZE));

/// The most clients of one device: a virtualiser's notification word has a bit for each, and one
/// for the driver.
const MAX_CLIENTS: usize = 63;

/// Large buffers of a client, each way, where the description says nothing.
pub const DEFAULT_LARGE: u32 = 16;

/// The most that a description can give to a client: 16 MiB.
const MAX_LARGE: u32 = 256;

/// The options of a device. A component in its place has none: there these are the usual ones.
pub struct ProviderOptions {
    /// Entries of each queue between driver and virtualisers.
    pub queue: u32,
    /// The same, if the system file says so.
    given_queue: Option<u32>,
    /// Payload buffers for frames received.
    pub buffers: u32,
    /// The device's hardware address.
    pub mac: [u8; 6],
    /// Where the system file gives it.
    pub mac_at: Option<Range<usize>>,
}

/// The options of a client, and the domains that stand before it.
pub struct ClientOptions {
    /// Its hardware address, and where the system file gives it, to the client or to the device
    /// whose it is; if nowhere, where it connects the client.
    pub mac: Located<[u8; 6]>,
    /// Where the system file connects it.
    pub connected_at: Range<usize>,
    /// It cannot send frames from another address.
    pub anti_spoof: bool,
    /// It receives frames to addresses that are no client's too.
    pub promiscuous: bool,
    /// The domain that copies for it.
    pub copier: Option<DraftDomain>,
    /// The domains that received frames go through between copier or provider and client.
    pub through: Vec<DraftDomain>,
    /// The domains that sent frames go through between client and virtualiser or provider.
    pub sent_through: Vec<DraftDomain>,
    /// Entries of its queues.
    pub queue: u32,
    /// Its own buffers, each way.
    pub buffers: u32,
    /// Large ones besides.
    pub large: u32,
    /// Whether it takes received packets in the pieces in which they lie: its component does, and
    /// nothing stands between.
    pub takes_pieces: bool,
}

impl ClientOptions {
    /// Those of a client of this class.
    pub fn of(client: &Client) -> &Self {
        client.of_class.get()
    }

    /// The count of its own buffers, each way.
    pub fn all_buffers(&self) -> u32 {
        self.buffers + self.large
    }

    /// Whether it takes received packets that lie in several of the device's buffers, which its
    /// copier puts together, if it has one.
    pub fn takes_large(&self) -> bool {
        (self.copier.is_some() || self.takes_pieces) && self.large > 0
    }
}

impl ProviderOptions {
    /// Those of a provider of this class.
    pub fn of<'d>(provider: &'d Provider<'_>) -> &'d Self {
        provider.of_class.get()
    }

    /// Entries of the queues by which frames go to the driver: what lies there delays everybody, so
    /// that it is no more than is good for the device, however many buffers the clients have.
    pub fn transmit_queue(&self) -> u32 {
        self.given_queue.unwrap_or(self.buffers.next_power_of_two())
    }
}

/// Hardware address of a provider (client 0) or of one of its further clients, where the
/// description gives none: QEMU's prefix of locally administered addresses, then ours.
fn default_mac(provider: usize, client: usize) -> [u8; 6] {
    [0x52, 0x54, 0x00, 0x43, provider as u8, client as u8]
}

/// How many buffers there are, and how long the queues in which they travel.
#[derive(Clone, Copy, Debug)]
struct Sizes {
    /// Entries of a queue. All the buffers can be lent over a pair of queues at once.
    queue: u32,
    /// Count of buffers, large ones not included.
    buffers: u32,
}

/// Reads the sizes of a device or a client, which has `large` buffers besides.
fn sizes(draft: &mut Draft<'_>, queue: Option<&Located<u32>>, buffers: Option<&Located<u32>>, large: u32) -> Sizes {
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

/// Returns whether a provider is one end of a link.
fn is_link(draft: &Draft<'_>, provider: DraftProvider) -> bool {
    draft.providers[provider].connection(draft).kind.is::<NetLink>()
}

/// A link has two ends: this one's and one client's.
fn check_link(draft: &mut Draft<'_>, provider: DraftProvider) {
    let at: Vec<Range<usize>> =
        draft.clients_of(provider).map(|client| ClientOptions::of(client).connected_at.clone()).collect();
    let name = draft.providers[provider].name.clone();
    let (base, connection) = (&draft.providers[provider].base.span, draft.providers[provider].connection(draft));
    if at.is_empty() && !connection.optional {
        let message = format!("nobody is at the other end of the link `{}` of `{name}`", connection.name);
        let diagnostic = draft.at(base, message).help(format!("name it in a `[pd]`: `net = \"{name}\"`"));
        draft.error(diagnostic);
    }
    if let [first, second, ..] = &at[..] {
        let diagnostic = draft
            .at(second, format!("a second client of `{name}`, which is one end of a link"))
            .related(draft.source, first.clone(), "the other end")
            .help("a link joins two; put a `[pd]` of the component `switch` between more, and name that");
        draft.error(diagnostic);
    }
}

/// A device has no more clients than its virtualisers can tell apart.
pub fn check_clients(draft: &mut Draft<'_>, provider: DraftProvider) {
    if is_link(draft, provider) {
        return check_link(draft, provider);
    }
    let clients: Vec<&Client> = draft.clients_of(provider).collect();
    let names: Vec<Range<usize>> =
        clients.iter().map(|client| draft.domains[client.domain].name.span.clone()).collect();
    let count = clients.len();
    let in_use = &draft.providers[provider];
    // A component in a device's place has two channels to each client.
    let most = if in_use.service == Service::FarEnd { MAX_CLIENTS / 2 } else { MAX_CLIENTS };
    let name = in_use.name.clone();
    if let Some(span) = names.get(most) {
        let diagnostic = draft
            .at(span, format!("{count} clients of `{name}` are too many"))
            .help(format!("{most} can share one network device; use a second device for the others"));
        draft.error(diagnostic);
    }
}

/// Reads the keys of the provider that is to be number `index`.
pub fn read_provider(
    draft: &mut Draft<'_>,
    index: DraftProvider,
    keys: Option<&mut TableReader<'_>>,
    problems: &mut Problems,
) -> ProviderOptions {
    let (mut buffers, mut queue, mut mac) = (None, None, None);
    if let Some(keys) = keys {
        buffers = read_buffers(keys, problems);
        queue = read_queue(keys, problems);
        mac = keys.take("mac").and_then(|entry| entry.mac(problems));
    }
    let given_queue = queue.as_ref().map(|queue| queue.value);
    let Sizes { queue, buffers } = sizes(draft, queue.as_ref(), buffers.as_ref(), 0);
    if let Some(mac) = &mac {
        check_mac(draft, mac);
    }
    let (mac, mac_at) = mac.map_or((default_mac(index, 0), None), |mac| (mac.value, Some(mac.span)));
    ProviderOptions { queue, given_queue, buffers, mac, mac_at }
}

/// Reads the options of a client; adds its copier, and what else stands before it.
pub fn read_client<'a>(
    draft: &mut Draft<'a>,
    client: &NewClient<'_, 'a>,
    mut options: Option<&mut TableReader<'a>>,
    problems: &mut Problems,
) -> Option<OfClass> {
    let NewClient { domain, entry, provider } = *client;
    let serves_clients = provider.is_some_and(|provider| draft.providers[provider].service == Service::FarEnd);
    let mut take = |key: &'a str| options.as_mut().and_then(|options| options.take(key));
    let mac = take("mac").and_then(|entry| entry.mac(problems));
    let copier_priority = take("copier_priority").and_then(|entry| entry.integer(0..=255, problems));
    let through = take("through").and_then(|entry| entry.texts(problems));
    let sent_through = take("sent_through").and_then(|entry| entry.texts(problems));
    let promiscuous = take("promiscuous").and_then(|entry| entry.boolean(problems));
    let given_copier = take("copier").and_then(|entry| entry.boolean(problems));
    let large = take("large_buffers").and_then(|entry| entry.integer(0..=MAX_LARGE.into(), problems));
    let (mut anti_spoof, mut queue, mut buffers) = (false, None, None);
    if let Some(options) = options {
        anti_spoof = read_flag(options, "anti_spoof", anti_spoof, problems);
        queue = read_queue(options, problems);
        buffers = read_buffers(options, problems);
    }
    let copier = given_copier.as_ref().map_or(!serves_clients, |copier| copier.value);
    if let (true, true, Some(given)) = (serves_clients, copier, &given_copier) {
        let diagnostic = draft
            .at(
                &given.span,
                format!(
                    "`{}` has no copier: its provider copies for each client itself",
                    draft.domains[domain].name.value
                ),
            )
            .help("leave out `copier`");
        draft.error(diagnostic);
    }
    let link = provider.is_some_and(|provider| is_link(draft, provider));
    if let (true, true) = (link, anti_spoof) {
        let own = draft.domains[domain].name.value.clone();
        let diagnostic = draft
            .at(&entry.span(), format!("nobody is between `{own}` and its link's other end, to check addresses"))
            .help("leave out `anti_spoof`: a guest's monitor lets no frame pass that has another address");
        draft.error(diagnostic);
    }
    // A switch hands on frames to many, and divides none: it neither takes large ones nor asks a
    // device for them.
    let hands_on = draft.domains[domain].manifest.connection_of_kind(ConnectionKind::of::<NetProvider>()).is_some();
    let large = match &large {
        None if serves_clients && !link || hands_on => 0,
        large => check_large(draft, large.as_ref(), queue.as_ref().or(buffers.as_ref())),
    };
    let Sizes { queue, buffers } = sizes(draft, queue.as_ref(), buffers.as_ref(), large);
    if let (false, Some(priority)) = (copier, &copier_priority) {
        let diagnostic = draft
            .at(&priority.span, format!("`{}` has no copier to give a priority", draft.domains[domain].name.value))
            .help("leave out `copier_priority`, or `copier = false`");
        draft.error(diagnostic);
    }
    let provider = provider?;
    if let Some(mac) = &mac {
        check_mac(draft, mac);
    }
    let mac = mac.unwrap_or_else(|| free_mac(draft, provider, entry));
    check_only_use(draft, provider, &mac);
    let promiscuous = promiscuous.filter(|promiscuous| promiscuous.value);
    if let Some(promiscuous) = &promiscuous {
        check_promiscuous(draft, client, promiscuous, anti_spoof);
    }
    if serves_clients && anti_spoof {
        check_stations(draft, domain, provider, entry);
    }
    if !serves_clients {
        check_privacy(draft, provider, copier, entry);
    }
    let before = BeforeClient { domain, provider, entry };
    let copier = if copier && !serves_clients { Some(before.add_copier(draft, copier_priority)?) } else { None };
    let through = before.add_through(draft, copier, through.unwrap_or_default(), Way::Received)?;
    let sent_through = before.add_through(draft, copier, sent_through.unwrap_or_default(), Way::Sent)?;
    let connected_at = entry.span();
    let connection = draft.domains[domain].manifest.connection(&entry.key.value);
    let takes_pieces = through.is_empty() && connection.is_some_and(|(_, connection)| connection.takes_pieces);
    Some(OfClass::new(ClientOptions {
        mac,
        connected_at,
        anti_spoof,
        promiscuous: promiscuous.is_some(),
        copier,
        through,
        sent_through,
        queue,
        buffers,
        large,
        takes_pieces,
    }))
}

/// Count of large buffers: they travel in the same queues as the others, most of whose places are
/// for those. `room` is how long these are, or how many others there are, if the description says
/// so.
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

/// The device's own address for its first client, one derived from it for each further one.
/// Without a device there are only those.
fn free_mac(draft: &Draft<'_>, provider: DraftProvider, entry: &Entry<'_>) -> Located<[u8; 6]> {
    let in_use = &draft.providers[provider];
    let taken = draft.clients_of(provider).count() + usize::from(in_use.service == Service::FarEnd);
    if taken > 0 {
        return Located::new(default_mac(provider, taken), entry.span());
    }
    let options = ProviderOptions::of(in_use);
    Located::new(options.mac, options.mac_at.clone().unwrap_or_else(|| entry.span()))
}

/// Checks that a client without a copier is the device's only client: it reads all that the device
/// receives.
fn check_privacy(draft: &mut Draft<'_>, provider: DraftProvider, copier: bool, entry: &Entry<'_>) {
    let others = draft.clients_of(provider).map(ClientOptions::of);
    let others: Vec<_> = others.filter(|other| !copier || other.copier.is_none()).collect();
    let other = others.first().map(|other| other.connected_at.clone());
    if let Some(other) = other {
        let name = &draft.providers[provider].name;
        let diagnostic = draft
            .at(&entry.span(), format!("a client without a copier would read the frames of `{name}`'s other clients"))
            .related(draft.source, other, "the other client")
            .help("leave out `copier = false`: it is for a device's only client");
        draft.error(diagnostic);
    }
}

/// A client whose frames are of its own address alone has no further stations behind it.
fn check_stations(draft: &mut Draft<'_>, client: DraftDomain, provider: DraftProvider, entry: &Entry<'_>) {
    let (provider, own) = (draft.providers[provider].domain, draft.domains[client].name.value.clone());
    let Some(options) = switch_ports::options_of(draft, provider, &own).filter(|options| options.value.stations) else {
        return;
    };
    let diagnostic = draft
        .at(&entry.span(), format!("`{own}` may send from its own address only, but further stations are behind it"))
        .related(draft.source, options.span, "`stations`, says its port")
        .help("leave out `anti_spoof`, or `stations`: the frames of all other stations would be dropped");
    draft.error(diagnostic);
}

/// Frames for nobody's address go to one client of a device, which sends in others' names too.
fn check_promiscuous(draft: &mut Draft<'_>, client: &NewClient<'_, '_>, promiscuous: &Located<bool>, anti_spoof: bool) {
    let Some(provider) = client.provider else { return };
    let (name, own) = (draft.providers[provider].name.clone(), draft.domains[client.domain].name.value.clone());
    if draft.providers[provider].service == Service::FarEnd {
        let diagnostic = draft
            .at(&promiscuous.span, format!("`{name}` is no device: it has nothing for a client that is promiscuous"))
            .help(
                "leave out `promiscuous`: it is for the client of a device that passes frames on to clients of its own",
            );
        draft.error(diagnostic);
    }
    if anti_spoof {
        let diagnostic = draft
            .at(&promiscuous.span, format!("`{own}` would receive for others, and could not send for them"))
            .help("leave out `anti_spoof` here, and give it to this one's own clients");
        draft.error(diagnostic);
    }
    let others = draft.clients_of(provider).map(ClientOptions::of);
    let others: Vec<_> = others.filter(|other| other.promiscuous).collect();
    if let Some(other) = others.first().map(|other| other.connected_at.clone()) {
        let diagnostic = draft
            .at(&promiscuous.span, format!("two clients of `{name}` are promiscuous"))
            .related(draft.source, other, "the other one")
            .help("frames for nobody's address go to one client: leave out `promiscuous` of the other");
        draft.error(diagnostic);
    }
}

/// Refuses an address that the system file gives and that cannot be one interface's.
fn check_mac(draft: &mut Draft<'_>, mac: &Located<[u8; 6]>) {
    if mac.value[0] & 1 != 0 || mac.value == [0; 6] {
        let diagnostic = draft
            .at(&mac.span, format!("{} is not the address of one interface", format_mac(mac.value)))
            .help("its first byte must be even (odd ones are for groups), and not all may be zero");
        draft.error(diagnostic);
    }
}

/// Refuses an address that another client has already: of the same provider, or of a device where
/// both are devices', which may lead to one network.
pub fn check_only_use(draft: &mut Draft<'_>, provider: DraftProvider, mac: &Located<[u8; 6]>) {
    let is_device = |provider: DraftProvider| draft.providers[provider].device.is_some();
    let near = |client: &&Client| client.provider == provider || is_device(client.provider) && is_device(provider);
    let others = draft.clients_of_class(NAME).filter(near).map(ClientOptions::of);
    let others: Vec<_> = others.filter(|other| other.mac.value == mac.value).collect();
    let other = others.first().map(|other| other.mac.span.clone());
    if let Some(other) = other {
        let diagnostic = draft
            .at(&mac.span, format!("the hardware address {} is used twice", format_mac(mac.value)))
            .related(draft.source, other, "the other use of this address")
            .help("give each client its own, or leave `mac` out");
        draft.error(diagnostic);
    }
}
