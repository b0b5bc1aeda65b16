//! A component's program in whole pages: what all its domains share, and what each has for itself.
//!
//! A segment's content lies at its load address, which is where it is mapped; it is never writable
//! there. A segment that the program writes is zeroed memory at the segment's address, which the
//! runtime fills from the content at each start: so a restarted domain begins with pristine data
//! although nobody else touches its memory.

use super::translation::Permissions;
use crate::build::elf::{Program, Segment};
use crate::failure::Failure;
use culm_abi::memory::{PAGE_SIZE, PROGRAM_BASE, STACK_BASE};
use std::collections::BTreeMap;

/// Pages next to each other with the same permissions.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Content {
    /// Virtual address of the first page.
    pub address: u64,
    /// The bytes, whole pages.
    pub bytes: Vec<u8>,
    /// [`Permissions::Read`] or [`Permissions::ReadExecute`].
    pub permissions: Permissions,
}

/// Zeroed memory that a domain writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Zeroed {
    /// Virtual address of the first page.
    pub address: u64,
    /// Bytes, whole pages.
    pub size: u64,
}

/// A program in whole pages.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ProgramPages {
    /// Shared by all domains that run the program, sorted by address.
    pub contents: Vec<Content>,
    /// Each domain's own, sorted by address.
    pub zeroed: Vec<Zeroed>,
    /// Virtual address of the entry point.
    pub entry: u64,
}

/// Rounds up to whole pages.
pub const fn pages(size: u64) -> u64 {
    size.div_ceil(PAGE_SIZE) * PAGE_SIZE
}

const fn page_of(address: u64) -> u64 {
    address / PAGE_SIZE * PAGE_SIZE
}

/// Divides `program`, a component's, into pages.
pub fn divide(name: &str, program: &Program) -> Result<ProgramPages, Failure> {
    let wrong = |what: String| {
        Failure::new(format!("the program of component `{name}` {what}"))
            .detail(program.path.display().to_string())
            .help("it must be linked with the linker script of the runtime, runtime/link.ld")
    };
    let mut shared: BTreeMap<u64, (Vec<u8>, bool)> = BTreeMap::new();
    let mut own: BTreeMap<u64, u64> = BTreeMap::new();
    for segment in &program.segments {
        let writable = segment.write || segment.address != segment.load_address;
        for (start, size) in [(segment.address, segment.size), (segment.load_address, segment.content.len() as u64)] {
            let end = start.saturating_add(size);
            if size > 0 && (start < PROGRAM_BASE || end > STACK_BASE - PAGE_SIZE) {
                return Err(wrong(format!(
                    "has a segment at {start:#x} to {end:#x}, outside the addresses of programs"
                )));
            }
        }
        add_content(&mut shared, segment).map_err(&wrong)?;
        if writable {
            let (first, end) = (page_of(segment.address), pages(segment.address + segment.size));
            own.insert(first, end - first);
        }
    }
    let program_pages = ProgramPages { contents: join(shared), zeroed: join_zeroed(own), entry: program.entry };
    if let Some(clash) = program_pages.clash() {
        return Err(wrong(format!("has both constants and variables in the page at {clash:#x}")));
    }
    let executable = |content: &Content| {
        let end = content.address + content.bytes.len() as u64;
        content.permissions == Permissions::ReadExecute && (content.address..end).contains(&program.entry)
    };
    if !program_pages.contents.iter().any(executable) {
        return Err(wrong(format!("starts at {:#x}, where it has no code", program.entry)));
    }
    Ok(program_pages)
}

/// Copies a segment's content into its pages.
fn add_content(shared: &mut BTreeMap<u64, (Vec<u8>, bool)>, segment: &Segment) -> Result<(), String> {
    let mut done = 0;
    while done < segment.content.len() {
        let address = segment.load_address + done as u64;
        let (page, within) = (page_of(address), (address % PAGE_SIZE) as usize);
        let length = (PAGE_SIZE as usize - within).min(segment.content.len() - done);
        let (bytes, execute) = shared.entry(page).or_insert_with(|| (vec![0; PAGE_SIZE as usize], segment.execute));
        if *execute != segment.execute {
            return Err(format!("has both code and data in the page at {page:#x}"));
        }
        bytes[within..within + length].copy_from_slice(&segment.content[done..done + length]);
        done += length;
    }
    Ok(())
}

fn join(shared: BTreeMap<u64, (Vec<u8>, bool)>) -> Vec<Content> {
    let mut contents: Vec<Content> = Vec::new();
    for (address, (bytes, execute)) in shared {
        let permissions = if execute { Permissions::ReadExecute } else { Permissions::Read };
        match contents.last_mut() {
            Some(last) if last.permissions == permissions && last.address + last.bytes.len() as u64 == address => {
                last.bytes.extend(bytes);
            }
            _ => contents.push(Content { address, bytes, permissions }),
        }
    }
    contents
}

fn join_zeroed(own: BTreeMap<u64, u64>) -> Vec<Zeroed> {
    let mut ranges: Vec<Zeroed> = Vec::new();
    for (address, size) in own {
        match ranges.last_mut() {
            Some(last) if address <= last.address + last.size => {
                last.size = last.size.max(address + size - last.address);
            }
            _ => ranges.push(Zeroed { address, size }),
        }
    }
    ranges
}

impl ProgramPages {
    /// The first page that is both content and zeroed memory.
    fn clash(&self) -> Option<u64> {
        self.zeroed.iter().find_map(|zeroed| {
            self.contents
                .iter()
                .map(|content| (content.address.max(zeroed.address), content.address + content.bytes.len() as u64))
                .find(|&(start, end)| start < end.min(zeroed.address + zeroed.size))
                .map(|(start, _)| start)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn segment(address: u64, load_address: u64, content: &[u8], size: u64, write: bool, execute: bool) -> Segment {
        Segment { address, load_address, size, content: content.to_vec(), write, execute }
    }

    fn program(segments: Vec<Segment>) -> Program {
        Program { path: "test.elf".into(), entry: PROGRAM_BASE, segments }
    }

    #[test]
    fn initialised_data_is_content_after_the_constants_and_zeroed_memory_at_its_address() {
        let text = segment(PROGRAM_BASE, PROGRAM_BASE, &[1; 10], 10, false, true);
        let rodata = segment(0x20_1000, 0x20_1000, &[2; 0x1800], 0x1800, false, false);
        let data = segment(0x20_3000, 0x20_2800, &[3; 0x10], 0x2000, true, false);
        let pages = divide("x", &program(vec![text, rodata, data])).expect("sound");
        assert_eq!(pages.contents.len(), 2);
        assert_eq!(pages.contents[1].bytes.len(), 0x2000);
        assert_eq!(pages.contents[1].bytes[0x17ff..0x1802], [2, 3, 3]);
        assert_eq!(pages.zeroed, [Zeroed { address: 0x20_3000, size: 0x2000 }]);
    }

    #[test]
    fn what_the_linker_script_would_not_make_is_refused() {
        let text = segment(PROGRAM_BASE, PROGRAM_BASE, &[1; 10], 10, false, true);
        let check = |other: Segment| {
            divide("x", &program(vec![text.clone(), other])).map_err(|failure| failure.message().to_string())
        };
        let same_page = segment(PROGRAM_BASE + 16, PROGRAM_BASE + 16, &[0], 1, false, false);
        assert!(check(same_page).is_err_and(|message| message.contains("both code and data")));
        let low = segment(0, 0, &[0], 1, false, false);
        assert!(check(low).is_err_and(|message| message.contains("outside the addresses")));
        let in_place = segment(0x20_1000, 0x20_1000, &[0], 1, true, false);
        assert!(check(in_place).is_err_and(|message| message.contains("constants and variables")));
        let mut lost = program(vec![text.clone()]);
        lost.entry = 0x30_0000;
        assert!(divide("x", &lost).is_err());
    }
}
