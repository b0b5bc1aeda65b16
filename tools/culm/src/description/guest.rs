//! `[guest.NAME]`: a virtual machine, as a system file describes it.

use culm_abi::system::MAX_CORES;
use culm_manifest::reader::{Entry, Problems};
use culm_manifest::{Located, Problem};
use std::ops::Range;

/// The most bytes of a kernel's command line that Linux takes: its `COMMAND_LINE_SIZE` for arm64
/// (arch/arm64/include/uapi/asm/setup.h), less the zero behind it.
pub const MAX_COMMAND_LINE: usize = 2047;

/// `[guest.NAME]`.
pub struct GuestTable {
    /// The guest's name.
    pub name: Located<String>,
    /// The table's place.
    pub span: Range<usize>,
    /// `kernel`: a file, an arm64 Image of Linux's kind, or the kernel of a package.
    pub kernel: Option<Located<String>>,
    /// `initrd`: a file, its initial RAM disk.
    pub initrd: Option<Located<String>>,
    /// `files`: what the tool packs into an initial RAM disk, by the path in that.
    pub files: Vec<(Located<String>, Located<String>)>,
    /// `memory`, in bytes.
    pub memory: Option<Located<u64>>,
    /// `cores`: that of each virtual CPU.
    pub cores: Option<Located<Vec<Located<u64>>>>,
    /// `priority` of its virtual CPUs.
    pub priority: Option<Located<u8>>,
    /// `command_line` of its kernel.
    pub command_line: String,
}

impl GuestTable {
    /// Where the guest's kernel and the files of its initial RAM disk come from.
    pub fn sources(&self) -> impl Iterator<Item = &str> {
        let files = self.files.iter().map(|(_, source)| source);
        self.kernel.iter().chain(files).map(|source| source.value.as_str())
    }
}

/// Reads a list of cores.
fn cores(entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<Vec<Located<u64>>>> {
    let cores = entry.list_of("0, 1", problems)?;
    // All of them, so that each mistake is reported.
    let cores: Vec<_> = cores.iter().map(|core| core.unsigned_up_to(MAX_CORES as u64 - 1, problems)).collect();
    Some(Located { value: cores.into_iter().collect::<Option<_>>()?, span: entry.span() })
}

/// Reads a kernel's command line.
fn command_line(entry: &Entry<'_>, problems: &mut Problems) -> Option<String> {
    let line = entry.text(problems)?;
    let (message, help) = if let Some(control) = line.chars().find(|letter| letter.is_control()) {
        let message = format!("`command_line` has a control character, U+{:04X}", u32::from(control));
        (message, "it is one line: leave spaces between its words".to_string())
    } else if line.len() > MAX_COMMAND_LINE {
        let help = format!("Linux takes {MAX_COMMAND_LINE} at most, and nothing of what is behind them");
        (format!("`command_line` has {} bytes", line.len()), help)
    } else {
        return Some(line.value);
    };
    problems.push(Problem::new(line.span, message).help(help));
    None
}

/// Reads a table; what is wrong with it goes to `problems`.
pub fn read(entry: &Entry<'_>, problems: &mut Problems) -> Option<GuestTable> {
    let mut table = entry.table(format!("[guest.{}]", entry.key.value), problems)?;
    let kernel = table.require("kernel").and_then(|entry| entry.text(problems));
    let initrd = table.take("initrd").and_then(|entry| entry.text(problems));
    let files = table.take("files").and_then(|entry| entry.table("`files`", problems));
    let files = files.map(|files| files.unknown()).unwrap_or_default();
    let files = files.iter().filter_map(|entry| Some((entry.key.clone(), entry.text(problems)?))).collect();
    let memory = table.require("memory").and_then(|entry| entry.size(problems));
    let cores = table.take("cores").and_then(|entry| self::cores(&entry, problems));
    let priority = table.require("priority").and_then(|entry| entry.integer(0..=255, problems));
    let command_line = table.take("command_line").and_then(|entry| self::command_line(&entry, problems));
    let guest = GuestTable {
        name: entry.key.clone(),
        span: table.span.clone(),
        kernel,
        initrd,
        files,
        memory,
        cores,
        // Within its type by the range above.
        priority: priority.map(|priority| priority.map(|priority| priority as u8)),
        command_line: command_line.unwrap_or_default(),
    };
    table.finish(problems);
    Some(guest)
}
