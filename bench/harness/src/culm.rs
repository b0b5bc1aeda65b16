//! Culm's side: systems built by the tool's own command, and the report that it writes beside each
//! image.

use crate::lab::{BOARD, Lab};
use crate::spawn::run;
use crate::systems::System;
use anyhow::{Context, Result};
use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Bits of TTBR0 that hold an address (Arm ARM D8.3, 4 KiB granule).
const ADDRESS_MASK: u64 = 0x0000_ffff_ffff_f000;

/// A built system, as the tool's `report.json` describes it.
#[derive(Debug, Deserialize)]
pub struct Image {
    /// The image's file.
    pub image: ImageFile,
    /// The kernel.
    pub kernel: Program,
    /// Its protection domains.
    pub domains: Vec<Domain>,
}

/// The image's file.
#[derive(Debug, Deserialize)]
pub struct ImageFile {
    /// Where it is.
    pub path: PathBuf,
}

/// A program.
#[derive(Debug, Deserialize)]
pub struct Program {
    /// Its ELF file.
    pub elf: PathBuf,
}

/// A protection domain.
#[derive(Debug, Deserialize)]
pub struct Domain {
    /// Its name.
    pub name: String,
    /// Physical address of its translation table.
    pub table: u64,
    /// Its component's ELF file.
    pub elf: PathBuf,
}

/// Builds a system.
pub fn build(lab: &Lab, system: &System) -> Result<Image> {
    let description = system.description(&lab.root)?;
    let mut command = Command::new(&lab.settings.tool);
    command.current_dir(&lab.root).args(["build", "--release"]).arg(&description);
    run(&mut command).with_context(|| format!("cannot build the system '{}'", system.name))?;
    open(&lab.root.join("build").join(format!("{}-{BOARD}", system.name)).join("report.json"))
}

fn open(report: &Path) -> Result<Image> {
    let text = std::fs::read_to_string(report).with_context(|| format!("cannot read {}", report.display()))?;
    serde_json::from_str(&text).with_context(|| format!("{} is not a report of this version", report.display()))
}

impl Image {
    /// The protection domain whose translation table is at `table`.
    pub fn name_of(&self, table: u64) -> String {
        match self.domains.iter().find(|domain| domain.table & ADDRESS_MASK == table & ADDRESS_MASK) {
            Some(domain) => domain.name.clone(),
            None if table == 0 => "start".to_owned(),
            None => format!("table {table:#x}"),
        }
    }
}
