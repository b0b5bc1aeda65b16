//! Values of the type `switch-ports`: the options of a switch's ports, by the names of those behind
//! them.
//!
//! In a system file it is a table like `{ web = "vlan 10", uplink = "trunk 10,20" }`. The options
//! are those of [`PortOptions`], which the switch reads too. Whether there are ports of these names
//! is checked where the system is known.

use crate::problem::Problem;
use crate::reader::{Entry, Problems};
use culm_bridge::PortOptions;

/// Reads the table: names and their options, in the order of the file.
pub fn read(entry: &Entry<'_>, problems: &mut Problems) -> Option<Vec<(String, String)>> {
    let before = problems.len();
    if !entry.is_table() {
        let what = format!("`{}` must be a table, not {}", entry.key.value, entry.kind());
        problems.push(Problem::new(entry.span(), what).help("write `{ web = \"vlan 10\", uplink = \"trunk 10,20\" }`"));
        return None;
    }
    let mut table = entry.table(format!("`{}`", entry.key.value), problems)?;
    let mut ports = Vec::new();
    for port in table.rest(problems) {
        let Some(options) = port.text(problems) else { continue };
        if let Err(mistake) = PortOptions::parse(&options.value) {
            problems.push(Problem::new(options.span.clone(), mistake.to_string()).help(mistake.advice()));
        }
        ports.push((port.key.value, options.value));
    }
    (problems.len() == before).then_some(ports)
}
