//! The options of the class's clients.

use crate::class::interface::NewClient;
use crate::description::system::{read_flag, read_queue};
use crate::expand::draft::{Client, Draft};
use culm_abi::connection::file::{MAX_DEPTH, MAX_MEMORY, MIN_MEMORY, MIN_QUEUE, is_path};
use culm_abi::memory::PAGE_SIZE;
use culm_manifest::Problem;
use culm_manifest::reader::{Problems, TableReader};
use culm_manifest::units::format_size;
use std::ops::Range;

/// Entries of a client's queues where the description says nothing.
pub const QUEUE: u32 = 32;

/// The most of them.
const MAX_QUEUE: u32 = 1024;

/// Bytes of a client's memory where the description says nothing.
pub const DEFAULT_MEMORY: u64 = 256 * 1024;

/// The options of a client.
pub struct ClientOptions {
    /// The folder that is its root.
    pub folder: String,
    /// It may write.
    pub write: bool,
    /// It may have its folder together with others.
    pub shared: bool,
    /// Bytes of its memory, whole pages.
    pub memory: u64,
    /// Entries of its queues.
    pub queue: u32,
    /// Where the system file says which folder it has.
    pub at: Range<usize>,
}

impl ClientOptions {
    /// Those of a client of this class.
    pub fn of(client: &Client) -> &Self {
        client.of_class.get()
    }

    /// Returns whether the two have a file in common.
    pub fn overlaps(&self, other: &Self) -> bool {
        let names = |folder: &str| -> Vec<String> {
            let names = folder.split('/').filter(|name| !name.is_empty());
            // Whether case matters is the file system's to say; of a FAT it does not.
            names.map(str::to_lowercase).collect()
        };
        let (own, other) = (names(&self.folder), names(&other.folder));
        own.starts_with(&other) || other.starts_with(&own)
    }
}

/// Reads the options of a client.
pub fn read_client<'a>(
    draft: &Draft<'a>,
    client: &NewClient<'_, 'a>,
    options: Option<&mut TableReader<'a>>,
    problems: &mut Problems,
) -> ClientOptions {
    let mut read = ClientOptions {
        folder: "/".to_string(),
        write: false,
        shared: false,
        memory: DEFAULT_MEMORY,
        queue: QUEUE,
        at: client.entry.span(),
    };
    let Some(options) = options else { return read };
    if let Some(folder) = options.take("folder").and_then(|entry| entry.text(problems)) {
        if is_path(&folder.value) {
            (read.folder, read.at) = (folder.value, folder.span);
        } else {
            let message = format!("`{}` is no path of a folder", folder.value);
            let rooted = format!("/{}", folder.value.trim_matches('/'));
            let example = if is_path(&rooted) { &rooted } else { "/site/pictures" };
            let help = format!(
                "write it as `\"{example}\"`: from the volume's root on, without `.` and `..`, \
                 {MAX_DEPTH} names at most"
            );
            problems.push(Problem::new(folder.span, message).help(help));
        }
    }
    read.write = read_flag(options, "write", false, problems);
    read.shared = read_flag(options, "shared", false, problems);
    read.memory = memory(options, draft.board.board.memory.size.min(MAX_MEMORY), problems);
    read.queue = queue(options, problems);
    read
}

/// Returns the bytes of a client's memory, whole pages.
fn memory(options: &mut TableReader<'_>, most: u64, problems: &mut Problems) -> u64 {
    let Some(given) = options.take("memory").and_then(|entry| entry.size(problems)) else { return DEFAULT_MEMORY };
    if !(MIN_MEMORY..=most).contains(&given.value) {
        let message = format!("a client of files cannot have {} of memory for them", format_size(given.value));
        let help = format!(
            "give it room for paths and for what it reads and writes at once, {} at least; without the key it has {}",
            format_size(MIN_MEMORY),
            format_size(DEFAULT_MEMORY)
        );
        problems.push(Problem::new(given.span, message).help(help));
        return DEFAULT_MEMORY;
    }
    given.value.next_multiple_of(PAGE_SIZE)
}

/// Returns the entries of a client's queues.
fn queue(options: &mut TableReader<'_>, problems: &mut Problems) -> u32 {
    let Some(given) = read_queue(options, problems) else { return QUEUE };
    if (MIN_QUEUE..=MAX_QUEUE).contains(&given.value) {
        return given.value;
    }
    let message = format!("a queue for files cannot have {} entries", given.value);
    let help = format!("give it {MIN_QUEUE} to {MAX_QUEUE}; without the key it has {QUEUE}");
    problems.push(Problem::new(given.span, message).help(help));
    QUEUE
}
