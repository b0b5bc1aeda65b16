//! `[guest.NAME]`: a virtual machine, as a system file describes it.

use culm_manifest::Located;
use culm_manifest::reader::{Entry, Problems};
use std::ops::Range;

/// `[guest.NAME]`.
pub struct GuestTable {
    /// The guest's name.
    pub name: Located<String>,
    /// The table's place.
    pub span: Range<usize>,
    /// `kernel`: a file, an arm64 Image of Linux's kind.
    pub kernel: Option<Located<String>>,
    /// `initrd`: a file, its initial RAM disk.
    pub initrd: Option<Located<String>>,
    /// `memory`, in bytes.
    pub memory: Option<Located<u64>>,
    /// `priority` of its virtual CPU.
    pub priority: Option<Located<u8>>,
    /// `command_line` of its kernel.
    pub command_line: String,
}

/// Reads a table; what is wrong with it goes to `problems`.
pub fn read(entry: &Entry<'_>, problems: &mut Problems) -> Option<GuestTable> {
    let mut table = entry.table(format!("[guest.{}]", entry.key.value), problems)?;
    let kernel = table.require("kernel").and_then(|entry| entry.text(problems));
    let initrd = table.take("initrd").and_then(|entry| entry.text(problems));
    let memory = table.require("memory").and_then(|entry| entry.size(problems));
    let priority = table.require("priority").and_then(|entry| entry.integer(0..=255, problems));
    let command_line = table.take("command_line").and_then(|entry| entry.text(problems));
    let guest = GuestTable {
        name: entry.key.clone(),
        span: table.span.clone(),
        kernel,
        initrd,
        memory,
        // Within its type by the range above.
        priority: priority.map(|priority| priority.map(|priority| priority as u8)),
        command_line: command_line.map_or_else(String::new, |text| text.value),
    };
    table.finish(problems);
    Some(guest)
}
