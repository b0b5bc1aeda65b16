//! Drivers: the `[driver]` table of a manifest.

use crate::connection::{Connection, ConnectionKind, DeviceClass};
use crate::needs::{Needs, read_needs};
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
