//! The options of the class's devices and clients.

use super::card;
use super::image::{self, Given, Image, Use};
use super::part::{self, Part, Wanted};
use crate::class::interface::{NewClient, NewProvider};
use crate::description::system::{read_flag, read_queue};
use crate::expand::draft::{Client, Draft, Provider};
use culm_abi::connection::block::{BLOCK, MIN_QUEUE};
use culm_abi::memory::PAGE_SIZE;
use culm_manifest::reader::{Entry, Problems, TableReader};
use culm_manifest::units::format_size;
use culm_manifest::{Located, Problem};
use culm_partition::Selector;
use std::ops::Range;

/// The class's name.
pub const NAME: &str = "block";

/// Entries of the queues between driver and virtualiser where the description says nothing.
pub const DEVICE_QUEUE: u32 = 128;

/// The most of them: the virtualiser keeps each request that is under way in its heap.
const MAX_DEVICE_QUEUE: u32 = 1024;

/// The most blocks of a disk: numbers of blocks have 40 bits in a queue.
const MAX_BLOCKS: u64 = 1 << 40;

/// Entries of a client's queues where the description says nothing.
pub const QUEUE: u32 = 64;

/// Bytes of a client's memory where the description says nothing.
pub const DEFAULT_MEMORY: u64 = 256 * 1024;

/// The options of a device.
pub struct DeviceOptions {
    /// Entries of each queue between driver and virtualiser.
    pub queue: u32,
    /// Where the system file says that nobody can write, if it does.
    pub read_only: Option<Range<usize>>,
    /// Where the system file says that the driver moves the data, if it does.
    pub pio: Option<Range<usize>>,
    /// The file that it is in an emulated machine, if that could be read.
    pub image: Option<Image>,
}

/// The options of a client.
pub struct ClientOptions {
    /// The part of the disk that it has.
    pub part: Part,
    /// It cannot write.
    pub read_only: bool,
    /// Bytes of its memory, whole pages.
    pub memory: u64,
    /// Entries of its queues.
    pub queue: u32,
    /// Where the system file has the key `queue`, or else where it says which part it has.
    pub queue_at: Range<usize>,
    /// Where the system file says which part it has.
    pub at: Range<usize>,
}

impl DeviceOptions {
    /// Those of a provider of this class.
    pub fn of<'d>(provider: &'d Provider<'_>) -> &'d Self {
        provider.of_class.get()
    }
}

impl ClientOptions {
    /// Those of a client of this class.
    pub fn of(client: &Client) -> &Self {
        client.of_class.get()
    }
}

/// Reads the keys of a device.
pub fn read_provider(
    draft: &mut Draft<'_>,
    new: NewProvider,
    keys: Option<&mut TableReader<'_>>,
    problems: &mut Problems,
) -> DeviceOptions {
    let Some(keys) = keys else {
        return DeviceOptions { queue: DEVICE_QUEUE, read_only: None, pio: None, image: None };
    };
    let before = problems.len();
    let (what, is_card) = (keys.what.clone(), card::is_emulated(draft, new.device));
    let given = keys.take("image").and_then(|entry| Given::read(draft, &entry, (&what, is_card), problems));
    let size = keys.take("size").and_then(|entry| blocks(&entry, 1, problems));
    let is_clear = problems.len() == before;
    let where_true = |flag: Option<Located<bool>>| flag.filter(|flag| flag.value).map(|flag| flag.span);
    let read_only = where_true(keys.take("read_only").and_then(|entry| entry.boolean(problems)));
    let pio = where_true(keys.take("pio").and_then(|entry| entry.boolean(problems)));
    let queue = queue_size(keys, DEVICE_QUEUE, MAX_DEVICE_QUEUE, problems);
    let queue = queue.map_or(DEVICE_QUEUE, |queue| queue.value);
    let file = if is_clear { image::find(draft, &keys.span, given, size) } else { None };
    let image = file.and_then(|file| image::read(draft, file, Use { read_only: read_only.is_some(), is_card }));
    DeviceOptions { queue, read_only, pio, image }
}

/// Returns the entries of queues that are given, within what serves the class; without the key
/// there are `default`.
fn queue_size(keys: &mut TableReader<'_>, default: u32, most: u32, problems: &mut Problems) -> Option<Located<u32>> {
    let given = read_queue(keys, problems)?;
    let advice = match given.value {
        ..MIN_QUEUE => format!("a request of many segments would not fit: give it {MIN_QUEUE} at least"),
        value if value > most => format!("the virtualiser has memory for {most}"),
        _ => return Some(given),
    };
    let message = format!("a disk's queue cannot have {} entries", given.value);
    problems.push(Problem::new(given.span, message).help(format!("{advice}; without the key it has {default}")));
    None
}

/// Reads the options of a client; `None` if its part of the disk cannot be.
pub fn read_client<'a>(
    draft: &mut Draft<'a>,
    client: &NewClient<'_, 'a>,
    options: Option<&mut TableReader<'a>>,
    problems: &mut Problems,
) -> Option<ClientOptions> {
    let mut wanted = Wanted { at: client.entry.span(), ..Wanted::default() };
    let (mut read_only, mut memory, mut queue) = (false, DEFAULT_MEMORY, None);
    let before = problems.len();
    if let Some(options) = options {
        wanted.partition = options.take("partition").and_then(|entry| partition(&entry, problems));
        wanted.offset = options.take("offset").and_then(|entry| blocks(&entry, 0, problems));
        wanted.size = options.take("size").and_then(|entry| blocks(&entry, 1, problems));
        read_only = read_flag(options, "read_only", false, problems);
        memory = memory_size(options, draft.board.board.memory.size, problems);
        queue = queue_size(options, QUEUE, u32::MAX, problems);
    }
    // A key that was given and could not be read meant something else than its default.
    let is_clear = problems.len() == before;
    let provider = client.provider.filter(|_| is_clear)?;
    let device = DeviceOptions::of(&draft.providers[provider]);
    let read_only = read_only || device.read_only.is_some();
    let part = match part::find(draft, device.image.as_ref(), &wanted) {
        Ok(part) => part,
        Err(diagnostic) => {
            draft.error(*diagnostic);
            return None;
        }
    };
    let at = wanted.partition.map_or(wanted.at, |partition| partition.span);
    let queue_at = queue.as_ref().map_or_else(|| at.clone(), |queue| queue.span.clone());
    let queue = queue.map_or(QUEUE, |queue| queue.value);
    Some(ClientOptions { part, read_only, memory, queue, queue_at, at })
}

/// Returns the bytes of a client's memory: whole pages, one at least.
fn memory_size(options: &mut TableReader<'_>, most: u64, problems: &mut Problems) -> u64 {
    let Some(given) = options.take("memory").and_then(|entry| entry.size(problems)) else { return DEFAULT_MEMORY };
    if !(1..=most).contains(&given.value) {
        let message = format!("a client of a disk cannot have {} of memory for it", format_size(given.value));
        let help = format!(
            "give it room for what it reads and writes at once, {} at least; without the key it has {}",
            format_size(PAGE_SIZE),
            format_size(DEFAULT_MEMORY)
        );
        problems.push(Problem::new(given.span, message).help(help));
        return DEFAULT_MEMORY;
    }
    given.value.next_multiple_of(PAGE_SIZE)
}

/// Reads which partition is meant, as `culm_partition::Selector` writes it.
fn partition(entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<String>> {
    if entry.is_whole_number() {
        let number = entry.integer(1..=u32::MAX.into(), problems)?;
        return Some(number.map(|number| number.to_string()));
    }
    if !entry.is_text() {
        let wrong = entry.wrong("the number, name or UUID of a partition");
        problems.push(wrong.help("write `partition = 1`, or `partition = \"boot\"`"));
        return None;
    }
    let text = entry.text(problems)?;
    let is_explicit = text.value.starts_with("name=") || text.value.starts_with("uuid=");
    let uuid = format!("uuid={}", text.value);
    let selector = match Selector::parse(&uuid) {
        _ if is_explicit => text.value.clone(),
        Ok(_) => uuid,
        Err(_) => format!("name={}", text.value),
    };
    if Selector::parse(&selector).is_err() {
        let problem = Problem::new(text.span, format!("`{}` can be no partition", text.value));
        problems.push(problem.help(
            "a name has 1 to 36 letters; a UUID is what `lsblk -o PARTUUID` shows; a number stands without quotation marks",
        ));
        return None;
    }
    Some(Located::new(selector, text.span))
}

/// Reads a size in whole blocks, `least` at least; returns their count.
fn blocks(entry: &Entry<'_>, least: u64, problems: &mut Problems) -> Option<Located<u64>> {
    let size = entry.size(problems)?;
    let (count, rest) = (size.value / BLOCK as u64, size.value % BLOCK as u64);
    if rest == 0 && (least..=MAX_BLOCKS).contains(&count) {
        return Some(size.map(|_| count));
    }
    let whole = size.value - rest;
    let (message, help) = match (count, rest) {
        (MAX_BLOCKS.., _) => {
            let most = format_size(MAX_BLOCKS * BLOCK as u64);
            ("is more than a disk can have", format!("the most are {most}"))
        }
        (_, 0) => ("is no size", format!("leave it out, or give it a block of {BLOCK} bytes at least")),
        _ => {
            let above = whole + BLOCK as u64;
            (
                "is no whole count of blocks",
                format!("disks have blocks of {BLOCK} bytes: the nearest are {whole} and {above}"),
            )
        }
    };
    problems.push(Problem::new(size.span.clone(), format!("`{}` {message}", entry.key.value)).help(help));
    None
}
