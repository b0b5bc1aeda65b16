//! The needs of a component that is given a device: which ones it knows, and what it uses of them.

use crate::problem::Problem;
use crate::reader::{Entry, Problems, TableReader};
use core::ops::Range;

/// The most interrupts that a driver can ask for: far more than any device has.
pub const MAX_INTERRUPTS: u64 = 64;

/// The trigger of an interrupt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trigger {
    /// The line's being active.
    Level,
    /// The line's becoming active.
    Edge,
}

impl Trigger {
    /// Both by their names in boards and manifests.
    pub const NAMES: &[(&str, Trigger)] = &[("level", Trigger::Level), ("edge", Trigger::Edge)];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Trigger::Level => "level",
            Trigger::Edge => "edge",
        }
    }
}

/// The devices that a component can be given, and what it uses of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Needs {
    /// The devices, as boards name them in `compatible`.
    pub compatible: Vec<String>,
    /// Bytes of registers that it uses, 0 where it does not say.
    pub registers: u64,
    /// How the devices interrupt, if all do it in the same way.
    pub trigger: Option<Trigger>,
    /// How many interrupts of the device it uses, 0 where it does not say.
    pub interrupts: u64,
    /// Bytes of memory for the device's own structures that it uses, 0 where it does not say.
    pub dma: u64,
    /// Where this stands in the manifest.
    pub span: Range<usize>,
}

/// Reads what a component needs of a device.
pub(crate) fn read_needs(
    table: &mut TableReader<'_>,
    compatible: Option<Entry<'_>>,
    span: Range<usize>,
    problems: &mut Problems,
) -> Option<Needs> {
    let compatible = compatible.and_then(|entry| entry.texts(problems));
    let registers = table.take("registers").map_or(Some(0), |entry| entry.size(problems).map(|size| size.value));
    let trigger = match table.take("trigger") {
        Some(entry) => entry.choice(Trigger::NAMES, problems).map(|trigger| Some(trigger.value)),
        None => Some(None),
    };
    let interrupts = table
        .take("interrupts")
        .map_or(Some(0), |entry| entry.unsigned_up_to(MAX_INTERRUPTS, problems).map(|count| count.value));
    let dma = table.take("dma").map_or(Some(0), |entry| entry.size(problems).map(|size| size.value));
    let compatible = compatible?;
    if compatible.is_empty() {
        problems.push(
            Problem::new(span.clone(), "a driver for no device")
                .help("list what boards write for its devices: `compatible = [\"virtio,net\"]`"),
        );
    }
    let compatible = compatible.into_iter().map(|text| text.value).collect();
    Some(Needs { compatible, registers: registers?, interrupts: interrupts?, dma: dma?, trigger: trigger?, span })
}
