//! Culm's side: systems built by the tool's own command, and what their images say about themselves.

use crate::lab::Lab;
use crate::spawn::run;
use anyhow::{Context, Result};
use culm_abi::memory::{ADDRESS_BITS, IMAGE_OFFSET};
use culm_abi::system::{DomainDescription, HEADER_OFFSET, MAGIC, SystemHeader};
use serde::Deserialize;
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use zerocopy::FromBytes;

/// Bits of a translation table's entry or of TTBR0 that hold an address (Arm ARM D8.3, 4 KiB granule).
const ADDRESS_MASK: u64 = 0x0000_ffff_ffff_f000;

/// A built system.
pub struct Image {
    /// The image.
    pub path: PathBuf,
    /// Protection domains by the address of their translation table.
    domains: BTreeMap<u64, String>,
    /// The report that the tool wrote beside the image.
    pub report: Report,
}

/// The part of the tool's report that the harness reads.
#[derive(Debug, Default, Deserialize)]
pub struct Report {
    /// The kernel's ELF file.
    #[serde(default)]
    pub kernel: Option<PathBuf>,
    /// Its protection domains.
    #[serde(default)]
    pub domains: Vec<ReportDomain>,
}

/// One protection domain.
#[derive(Debug, Deserialize)]
pub struct ReportDomain {
    /// Its name.
    pub name: String,
    /// Its component's ELF file.
    #[serde(default)]
    pub elf: Option<PathBuf>,
}

/// Builds `systems/SYSTEM.toml` or `bench/systems/SYSTEM.toml`.
pub fn build(lab: &Lab, system: &str) -> Result<Image> {
    let own = lab.root.join(format!("bench/systems/{system}.toml"));
    let description = if own.exists() { own.display().to_string() } else { system.to_owned() };
    let mut command = Command::new(&lab.settings.tool);
    run(command.current_dir(&lab.root).args(["build", "--release", &description]))
        .with_context(|| format!("cannot build the system '{system}'"))?;
    let folder = lab.root.join("build").join(system);
    open(folder.join("image"), folder.join("report.json"))
}

fn open(path: PathBuf, report: PathBuf) -> Result<Image> {
    let bytes = std::fs::read(&path).with_context(|| format!("cannot read the image {}", path.display()))?;
    let domains = domains(&bytes).with_context(|| format!("{} is not an image of this version", path.display()))?;
    let text = std::fs::read_to_string(&report).with_context(|| format!("cannot read {}", report.display()))?;
    let report = serde_json::from_str(&text).with_context(|| format!("{} is not a report", report.display()))?;
    Ok(Image { path, domains, report })
}

impl Image {
    /// The protection domain whose translation table is at `table`.
    pub fn name_of(&self, table: u64) -> String {
        match self.domains.get(&(table & ADDRESS_MASK)) {
            Some(name) => name.clone(),
            None if table == 0 => "start".to_owned(),
            None => format!("table {table:#x}"),
        }
    }
}

/// Names of all domains by their tables, from the tables that the image carries for its kernel.
fn domains(image: &[u8]) -> Option<BTreeMap<u64, String>> {
    let header = SystemHeader::read_from_prefix(image.get(HEADER_OFFSET as usize..)?).ok()?.0;
    if header.magic != MAGIC {
        return None;
    }
    let mut domains = BTreeMap::new();
    for index in 0..u64::from(header.domains.count) {
        let address = header.domains.address + index * u64::from(header.domains.stride);
        let offset = offset_of(image, &header, address)?;
        let domain = DomainDescription::read_from_prefix(image.get(offset..)?).ok()?.0;
        let end = domain.name.iter().position(|byte| *byte == 0).unwrap_or(domain.name.len());
        let name = String::from_utf8_lossy(&domain.name[..end]).into_owned();
        domains.insert(domain.table & ADDRESS_MASK, name);
    }
    Some(domains)
}

/// Where the kernel's virtual `address` stands in the image: a walk of the kernel's own translation tables.
fn offset_of(image: &[u8], header: &SystemHeader, address: u64) -> Option<usize> {
    let within = |physical: u64| usize::try_from(physical.checked_sub(header.load_address)?).ok();
    let mut table = header.kernel_table & ADDRESS_MASK;
    for shift in [30, 21, 12] {
        let index = (address & ((1 << ADDRESS_BITS) - 1)) >> shift & 511;
        let start = within(table)? + index as usize * 8;
        let entry = u64::from_le_bytes(image.get(start..start + 8)?.try_into().ok()?);
        let block = shift != 12 && entry & 3 == 1;
        if block || shift == 12 {
            let low = (1u64 << shift) - 1;
            return (entry & 1 == 1).then_some(within((entry & ADDRESS_MASK & !low) + (address & low))?);
        }
        table = entry & ADDRESS_MASK;
    }
    None
}

/// The image's offset from the start of memory is a fact of the image format, not of one board.
const _: () = assert!(IMAGE_OFFSET.is_multiple_of(1 << 21));
