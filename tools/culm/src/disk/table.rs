//! Partition tables, as bytes on a disk.
//!
//! The crate for GPTs writes the records of an MBR too, as far as primary partitions go; logical
//! ones would need a second crate, and nothing here needs them.

use super::{Disk, Fat, Medium, Partition, SECTOR, Table};
use gpt::GptConfig;
use gpt::mbr::{PartRecord, ProtectiveMBR};
use gpt::partition::{Partition as Entry, PartitionAttributes};
use gpt::partition_types::{self, Type};
use std::collections::BTreeMap;
use std::io::{Error, Result};
use uuid::Uuid;

/// Sectors of a GPT with 128 entries before the first partition: protective MBR, header, entries.
pub const GPT_HEAD: u64 = 34;

/// Sectors of its backup behind the last one.
pub const GPT_TAIL: u64 = 33;

/// Partitions of a GPT with 128 entries.
pub const GPT_PARTITIONS: usize = 128;

/// Primary partitions of an MBR.
pub const MBR_PARTITIONS: usize = 4;

/// Sector and head of an MBR's record that say that a partition lies beyond what cylinders can
/// tell.
const NO_CYLINDER: [u8; 3] = [0xfe, 0xff, 0xff];

/// Writes the partition table of a disk.
///
/// # Errors
///
/// The medium cannot be written.
pub fn write_table(disk: &Disk, medium: &mut Medium) -> Result<()> {
    match disk.table {
        Table::Gpt(uuid) => write_gpt(disk, uuid, medium),
        Table::Mbr(signature) => write_mbr(disk, signature, medium),
    }
}

fn write_gpt(disk: &Disk, uuid: Uuid, medium: &mut Medium) -> Result<()> {
    // The record has 32 bits for its size.
    let protected = u32::try_from(disk.sectors - 1).unwrap_or(u32::MAX);
    let mut part = medium.part(0, disk.size());
    ProtectiveMBR::with_lb_size(protected).overwrite_lba0(&mut part).map_err(Error::other)?;
    let config = GptConfig::new().writable(true);
    let mut table = config.create_from_device(part, Some(uuid)).map_err(Error::other)?;
    let entries: BTreeMap<u32, Entry> = (1..).zip(disk.partitions.iter().map(entry)).collect();
    table.update_partitions(entries).map_err(Error::other)?;
    table.write().map_err(Error::other)?;
    Ok(())
}

fn entry(partition: &Partition) -> Entry {
    Entry {
        part_type_guid: kind_of(partition),
        part_guid: partition.uuid,
        first_lba: partition.first,
        last_lba: partition.first + partition.sectors - 1,
        flags: if partition.bootable { PartitionAttributes::BOOTABLE.bits() } else { 0 },
        name: partition.name.clone(),
    }
}

/// The type of a partition in a GPT: that of data that everybody reads, or Linux's for what has no
/// file system yet.
fn kind_of(partition: &Partition) -> Type {
    if partition.volume.is_some() { partition_types::BASIC } else { partition_types::LINUX_FS }
}

fn write_mbr(disk: &Disk, signature: u32, medium: &mut Medium) -> Result<()> {
    let mut table = ProtectiveMBR::new();
    table.set_disk_signature(signature.to_le_bytes());
    table.set_partition(0, PartRecord::zero());
    for (index, partition) in disk.partitions.iter().enumerate() {
        table.set_partition(index, record(partition));
    }
    medium.write_at(0, &table.to_bytes())
}

fn record(partition: &Partition) -> PartRecord {
    let [head, sector, track] = NO_CYLINDER;
    let os_type = match partition.volume.as_ref().map(|volume| volume.kind) {
        Some(Fat::Fat16) => 0x0e,
        Some(Fat::Fat32) => 0x0c,
        None => 0x83,
    };
    PartRecord {
        boot_indicator: if partition.bootable { 0x80 } else { 0 },
        start_head: head,
        start_sector: sector,
        start_track: track,
        os_type,
        end_head: head,
        end_sector: sector,
        end_track: track,
        // Within 32 bits: the description was checked.
        lb_start: partition.first as u32,
        lb_size: partition.sectors as u32,
    }
}

/// The most sectors of a disk with an MBR.
pub const MBR_SECTORS: u64 = u32::MAX as u64;

impl Table {
    /// Sectors before the first partition and behind the last one that the table takes.
    pub fn reserved(self) -> (u64, u64) {
        match self {
            Self::Gpt(_) => (GPT_HEAD, GPT_TAIL),
            Self::Mbr(_) => (1, 0),
        }
    }

    /// The most partitions.
    pub fn most(self) -> usize {
        match self {
            Self::Gpt(_) => GPT_PARTITIONS,
            Self::Mbr(_) => MBR_PARTITIONS,
        }
    }

    /// The most bytes of a disk.
    pub fn largest(self) -> u64 {
        match self {
            // More than any file has.
            Self::Gpt(_) => 1 << 53,
            Self::Mbr(_) => MBR_SECTORS * SECTOR,
        }
    }
}
