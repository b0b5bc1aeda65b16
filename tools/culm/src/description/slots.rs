//! Bridges and what sits behind them: a device in a slot has the address that the board gives it,
//! and the interrupt line of its slot.

use super::resources::{INTERRUPT_FORM, in_words, read_interrupt, read_range};
use crate::plan::{BoardDevice, Bridge, PhysicalRange, Slot};
use culm_manifest::problem::suggest;
use culm_manifest::reader::{Entry, Problems};
use culm_manifest::{Located, Problem};

/// Highest number of a slot (PCI 3.0, 3.2.2.3.2: five bits).
pub const MAX_SLOT: i128 = 31;
/// Highest base address register (PCI 3.0, 6.1).
pub const MAX_BAR: i128 = 5;
/// Interrupt lines of a bridge, INTA# to INTD# (PCI 3.0, 2.2.6).
const LINES: usize = 4;

/// Lowest number of a slot that a device can have: in the first, the bridge itself sits.
pub const MIN_SLOT: i128 = 1;

/// Reads `slot`: where a device sits, and what is expected there.
pub fn read_slot(entry: &Entry<'_>, problems: &mut Problems) -> Option<Slot> {
    let mut table = entry.table("`slot`", problems)?;
    let bridge = table.require("bridge").and_then(|entry| entry.text(problems));
    let number = table.require("number").and_then(|entry| entry.integer(MIN_SLOT..=MAX_SLOT, problems));
    let vendor = table.require("vendor").and_then(|entry| entry.integer(0..=0xfffe, problems));
    let product = table.require("product").and_then(|entry| entry.integer(0..=0xffff, problems));
    let bar = table.take("bar").map_or(Some(0), |entry| Some(entry.integer(0..=MAX_BAR, problems)?.value));
    table.finish(problems);
    Some(Slot {
        bridge: bridge?.value,
        number: number?.value as u32,
        vendor: vendor?.value as u16,
        product: product?.value as u16,
        bar: bar? as u32,
    })
}

/// Reads `bridge`: what there is for the devices behind one.
pub fn read_bridge(entry: &Entry<'_>, problems: &mut Problems) -> Option<Bridge> {
    let mut table = entry.table("`bridge`", problems)?;
    let window = table.require("window").and_then(|entry| read_range(&entry, "address", problems));
    let aside = table.require("aside").and_then(|entry| read_range(&entry, "address", problems));
    let lines = table.require("interrupts").and_then(|entry| {
        let lines = entry.list_of(INTERRUPT_FORM, problems)?;
        if lines.len() != LINES {
            let message = format!("a bridge has {LINES} interrupt lines, not {}", lines.len());
            problems.push(Problem::new(entry.span(), message).help("list INTA, INTB, INTC and INTD of slot 0"));
            return None;
        }
        lines.iter().map(|line| read_interrupt(line, problems)).collect::<Option<Vec<_>>>()
    });
    table.finish(problems);
    let (window, aside) = (window?.value, aside?);
    if !is_place(aside.value) || !window.contains(aside.value) {
        let message = format!("{} cannot be set aside", in_words(aside.value));
        problems.push(Problem::new(aside.span, message).help(format!(
            "it is a power of two of bytes, at a multiple of that, within the window, {}",
            in_words(window)
        )));
        return None;
    }
    let interrupts = lines?.into_iter().map(|line| line.value).collect();
    Some(Bridge { window, aside: aside.value, interrupts })
}

/// Whether a base address register can have this size and address.
fn is_place(range: PhysicalRange) -> bool {
    range.size.is_power_of_two() && range.address.is_multiple_of(range.size)
}

/// Gives each device in a slot the interrupt of its line, and checks that it can be there. `known`
/// are the names of all devices, also of those that could not be read.
pub fn resolve(devices: &mut [(Located<String>, BoardDevice)], known: &[&str], problems: &mut Problems) {
    let bridges: Vec<(String, Bridge)> =
        devices.iter().filter_map(|(name, device)| Some((name.value.clone(), device.bridge.clone()?))).collect();
    let read: Vec<String> = devices.iter().map(|(name, _)| name.value.clone()).collect();
    for index in 0..devices.len() {
        let (earlier, rest) = devices.split_at_mut(index);
        let (name, device) = &mut rest[0];
        let Some(slot) = &device.slot else { continue };
        let same = |other: &&(Located<String>, BoardDevice)| {
            other.1.slot.as_ref().is_some_and(|other| (&other.bridge, other.number) == (&slot.bridge, slot.number))
        };
        if let Some((other, _)) = earlier.iter().find(same) {
            let message = format!("`{}` and `{}` sit in one slot", other.value, name.value);
            problems.push(
                Problem::new(name.span.clone(), message)
                    .related(other.span.clone(), "the other one")
                    .help("give one of them another `number`"),
            );
        }
        let Some((_, bridge)) = bridges.iter().find(|(name, _)| *name == slot.bridge) else {
            // A value that could not be read has been reported.
            if !known.contains(&slot.bridge.as_str()) || read.contains(&slot.bridge) {
                problems.push(no_bridge(&rest[0], &bridges));
            }
            continue;
        };
        let is_inside = bridge.window.contains(device.registers) && !bridge.aside.overlaps(device.registers);
        if !is_place(device.registers) || !is_inside {
            let message = format!("the registers of `{}` cannot be {}", name.value, in_words(device.registers));
            problems.push(Problem::new(name.span.clone(), message).help(format!(
                "they are a power of two of bytes, at a multiple of that, within the window of `{}`, {}, less {}",
                slot.bridge,
                in_words(bridge.window),
                in_words(bridge.aside)
            )));
        }
        if !device.interrupts.is_empty() {
            let message = format!("`{}` has the interrupt of its slot", name.value);
            problems.push(Problem::new(name.span.clone(), message).help("leave `interrupts` out"));
        }
        // A device of one function has INTA#, which goes round the lines by the slot.
        device.interrupts = vec![bridge.interrupts[slot.number as usize % LINES]];
    }
}

/// Says that a device sits behind what is no bridge.
fn no_bridge((name, device): &(Located<String>, BoardDevice), bridges: &[(String, Bridge)]) -> Problem {
    let bridge = device.slot.as_ref().map_or("", |slot| &slot.bridge);
    let names = bridges.iter().map(|(name, _)| name.as_str());
    Problem::new(name.span.clone(), format!("`{}` sits behind `{bridge}`, which is no bridge", name.value))
        .help(suggest(bridge, names).unwrap_or_else(|| "no device of the board has a `bridge`".to_string()))
}
