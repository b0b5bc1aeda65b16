//! Ranges of addresses and interrupts, as board files write them.

use super::board_checks::END_OF_ADDRESSES;
use crate::plan::{Interrupt, PhysicalRange, Trigger};
use culm_abi::system::{END_INTERRUPT, FIRST_INTERRUPT};
use culm_manifest::reader::{Entry, Problems};
use culm_manifest::{Located, Problem};

/// An interrupt and the interrupt controller, as advice shows them.
pub const INTERRUPT_FORM: &str = "{ number = 33, trigger = \"level\" }";

/// A range for messages.
pub fn in_words(range: PhysicalRange) -> String {
    format!("{:#x} to {:#x}", range.address, range.end().saturating_sub(1))
}

/// Reads `{ address, size }`, with the key of the address.
pub fn read_range<'a>(
    entry: &Entry<'a>,
    address_key: &'a str,
    problems: &mut Problems,
) -> Option<Located<PhysicalRange>> {
    let mut table = entry.table(format!("`{}`", entry.key.value), problems)?;
    let address = table.require(address_key).and_then(|entry| entry.unsigned(problems));
    let size = table.require("size").and_then(|entry| entry.size(problems));
    let span = table.span.clone();
    table.finish(problems);
    let (address, size) = (address?.value, size?.value);
    if size == 0 || address.checked_add(size).is_none_or(|end| end > END_OF_ADDRESSES) {
        problems.push(
            Problem::new(span, format!("`{}` is no range of addresses", entry.key.value))
                .help("it must have a size, and end within 48 bits of address"),
        );
        return None;
    }
    Some(Located::new(PhysicalRange { address, size }, span))
}

/// Reads `{ number, trigger }`.
pub fn read_interrupt(entry: &Entry<'_>, problems: &mut Problems) -> Option<Located<Interrupt>> {
    if !entry.is_table() {
        problems.push(entry.wrong("a list of tables").help(format!("write each interrupt as `{INTERRUPT_FORM}`")));
        return None;
    }
    let mut table = entry.table("an interrupt", problems)?;
    let number = table.require("number").and_then(|entry| {
        let number = entry.unsigned(problems)?;
        let range = u64::from(FIRST_INTERRUPT)..u64::from(END_INTERRUPT);
        if !range.contains(&number.value) {
            problems.push(
                Problem::new(number.span.clone(), format!("there is no interrupt {} on the board", number.value)).help(
                    format!(
                        "an interrupt of a device has a number from {FIRST_INTERRUPT} to {}: its SPI number plus 32",
                        END_INTERRUPT - 1
                    ),
                ),
            );
            return None;
        }
        Some(number.value as u32)
    });
    let trigger = table.require("trigger").and_then(|entry| entry.choice(Trigger::NAMES, problems));
    let span = table.span.clone();
    table.finish(problems);
    Some(Located::new(Interrupt { number: number?, trigger: trigger?.value }, span))
}
