//! Drivers: the `[driver]` table of a manifest, and what a component needs of a device.

use crate::connection::{Connection, ConnectionKind, DeviceClass, Trigger};
use crate::manifest::MAX_INTERRUPTS;
use crate::problem::{Located, Problem};
use crate::reader::{Entry, Problems, TableReader};
use core::ops::Range;
use culm_abi::connection::Device;

/// The classes and the needs of a driver.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Driver {
    /// The classes that its devices provide by it.
    pub classes: Vec<DeviceClass>,
    /// The devices it drives, and what it uses of them.
    pub needs: Needs,
    /// The driver that it fuses with its virtualisers, if it names one. Its classes and needs are
    /// that one's, and there are none before [`Manifest::fuse`](crate::Manifest::fuse).
    pub fuses: Option<Located<String>>,
}

impl Driver {
    /// Whether it provides a class.
    pub fn provides(&self, class: DeviceClass) -> bool {
        self.classes.contains(&class)
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

/// Reads a `[driver]` table.
pub(crate) fn read_driver(entry: &Entry<'_>, problems: &mut Problems) -> Option<Driver> {
    let mut table = entry.table("[driver]", problems)?;
    if let Some(fuses) = table.take("fuses") {
        return read_fusing(&fuses, table, entry.span(), problems);
    }
    let classes = table.require("class").and_then(|entry| read_classes(&entry, problems));
    let compatible = table.require("compatible");
    let needs = read_needs(&mut table, compatible, entry.span(), problems);
    table.finish(problems);
    Some(Driver { classes: classes?, needs: needs?, fuses: None })
}

/// Reads a `[driver]` table that names another driver, from which it has all its other keys.
fn read_fusing(
    fuses: &Entry<'_>,
    mut table: TableReader<'_>,
    span: Range<usize>,
    problems: &mut Problems,
) -> Option<Driver> {
    let fuses = fuses.text(problems);
    for key in ["class", "compatible", "registers", "interrupts", "dma", "trigger"] {
        let (Some(given), Some(fuses)) = (table.take(key), &fuses) else { continue };
        let message = format!("`{key}` is what `{}` says, which is fused", fuses.value);
        problems.push(
            Problem::new(given.key.span.clone(), message)
                .related(fuses.span.clone(), "fused here")
                .help("leave out one of the two"),
        );
    }
    table.finish(problems);
    Some(Driver { classes: Vec::new(), needs: Needs { span, ..Needs::default() }, fuses: Some(fuses?) })
}

/// One class, or a list of those that a device provides.
pub fn read_classes(entry: &Entry<'_>, problems: &mut Problems) -> Option<Vec<DeviceClass>> {
    if !entry.is_list() {
        return entry.choice(DeviceClass::names(), problems).map(|class| vec![class.value]);
    }
    let elements = entry.list(problems)?;
    elements.iter().map(|entry| entry.choice(DeviceClass::names(), problems).map(|class| class.value)).collect()
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

/// A driver has a device, and provides each of its classes by a connection; of the others only who
/// says what it needs of a device can have one.
pub(crate) fn check_driver(driver: Option<&Driver>, connections: &[Connection], problems: &mut Problems) {
    let devices = connections.iter().filter(|connection| connection.kind.is::<Device>());
    let Some(driver) = driver else {
        for connection in devices.filter(|connection| connection.needs.is_none()) {
            let message = "a connection of the kind `device` that does not say of which devices";
            problems.push(Problem::new(connection.span.clone(), message).help(
                "add `compatible` for a device that the component owns, or for a driver a `[driver]` table with `class` \
                 and `compatible`",
            ));
        }
        return;
    };
    let mut needed: Vec<ConnectionKind> = Vec::new();
    if devices.clone().next().is_none() {
        needed.push(ConnectionKind::of::<Device>());
    }
    for class in &driver.classes {
        if !connections.iter().any(|connection| connection.kind.provided_class() == Some(*class)) {
            needed.extend(class.provided_by().next());
        }
    }
    for kind in needed {
        let classes: Vec<&str> = driver.classes.iter().map(|class| class.name()).collect();
        let classes = classes.join("` and `");
        let message = format!("a driver of the class `{classes}` needs a connection of the kind `{}`", kind.name());
        let help = format!("add a `[[connection]]` with `kind = \"{}\"`", kind.name());
        problems.push(Problem::new(driver.needs.span.clone(), message).help(help));
    }
    for connection in connections {
        let Some(class) = connection.kind.provided_class().filter(|class| !driver.provides(*class)) else { continue };
        let message =
            format!("`{}` provides the class `{}`, which `[driver]` does not name", connection.name, class.name());
        problems.push(
            Problem::new(connection.span.clone(), message)
                .help(format!("add \"{}\" to its list `class`", class.name())),
        );
    }
    for connection in devices.filter(|connection| connection.needs.is_some()) {
        problems.push(
            Problem::new(connection.span.clone(), format!("`[driver]` says of which devices `{}` is", connection.name))
                .help("leave `compatible` and what goes with it out here"),
        );
    }
}
