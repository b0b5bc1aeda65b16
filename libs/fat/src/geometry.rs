//! Where things lie on a volume: its boot sector, read once, checked, and never believed again.

use crate::BLOCK;
use crate::error::NotFat;

/// The largest cluster, in bytes.
const LARGEST_CLUSTER: u32 = 64 << 10;
/// The fewest clusters of a FAT16 and of a FAT32 (Microsoft's FAT specification, "FAT Type
/// Determination").
const FEWEST_16: u32 = 4085;
const FEWEST_32: u32 = 65_525;
/// The most clusters: numbers from `0x0fff_fff6` on mean something else.
const MOST: u32 = 0x0fff_fff4;

/// A volume's layout. Places are in bytes from its beginning.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Geometry {
    pub(crate) is_fat32: bool,
    /// Bytes of a logical sector.
    pub(crate) sector: u32,
    /// Bytes of a cluster.
    pub(crate) cluster: u32,
    /// Logical sectors before the first table.
    reserved: u32,
    /// Count of tables, and sectors of one.
    tables: u32,
    table_sectors: u32,
    /// The one table that is in use, if they are not copies of each other.
    active: Option<u32>,
    root_entries: u32,
    /// Logical sectors of the volume.
    sectors: u32,
    /// The first cluster of the root folder, if it is one of clusters.
    pub(crate) root_cluster: u32,
    /// Where the information sector is, if the volume has one.
    pub(crate) information: Option<u64>,
    /// Number of the cluster behind the last one.
    pub(crate) end_cluster: u32,
    /// Whether the volume says that it was not put to rest.
    pub(crate) is_marked: bool,
}

/// A part of a volume.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Area {
    /// The boot sector and what follows it.
    Reserved,
    /// A file allocation table.
    Table,
    /// The root folder of a FAT16.
    Root,
    /// A cluster.
    Data,
}

fn word(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 2).map_or(0, |bytes| u32::from(bytes[0]) | u32::from(bytes[1]) << 8)
}

fn long(bytes: &[u8], at: usize) -> u32 {
    word(bytes, at) | word(bytes, at + 2) << 16
}

impl Geometry {
    /// Offset of the byte that holds the mark of a volume that is being written.
    pub(crate) fn mark_at(&self) -> u64 {
        if self.is_fat32 { 0x41 } else { 0x25 }
    }

    /// Reads the first block of a volume that has `length` bytes, on a device with blocks of
    /// `unit` bytes.
    pub(crate) fn parse(boot: &[u8], length: u64, unit: u32) -> Result<Self, NotFat> {
        if boot.len() < BLOCK || word(boot, 510) != 0xaa55 {
            return Err(NotFat::NoBootSector);
        }
        match boot.get(3..11) {
            Some(b"EXFAT   ") => return Err(NotFat::ExFat),
            Some(b"NTFS    ") => return Err(NotFat::Ntfs),
            _ => {}
        }
        let (sector, per_cluster) = (word(boot, 11), u32::from(boot[13]));
        let (reserved, tables, root_entries) = (word(boot, 14), u32::from(boot[16]), word(boot, 17));
        if !sector.is_power_of_two() || !(512..=4096).contains(&sector) || !per_cluster.is_power_of_two() {
            return Err(NotFat::NoBootSector);
        }
        let cluster = sector * per_cluster;
        if cluster > LARGEST_CLUSTER {
            return Err(NotFat::LargeClusters);
        }
        let is_fat32 = word(boot, 22) == 0;
        let table_sectors = if is_fat32 { long(boot, 36) } else { word(boot, 22) };
        let sectors = match word(boot, 19) {
            0 => long(boot, 32),
            short => short,
        };
        let root_bytes = u64::from(root_entries) * 32;
        let root_sectors = root_bytes.div_ceil(sector.into());
        let data = u64::from(reserved) + u64::from(tables) * u64::from(table_sectors) + root_sectors;
        let fits = (1..=2).contains(&tables) && reserved > u32::from(is_fat32) && table_sectors > 0;
        if !fits || (root_entries == 0) != is_fat32 || data >= u64::from(sectors) {
            return Err(NotFat::BadField);
        }
        if u64::from(sectors) * u64::from(sector) > length {
            return Err(NotFat::TooLong);
        }
        let clusters = ((u64::from(sectors) - data) / u64::from(per_cluster)) as u32;
        if clusters < FEWEST_16 && !is_fat32 {
            return Err(NotFat::Fat12);
        }
        if (clusters < FEWEST_32) == is_fat32 {
            return Err(NotFat::WrongCount);
        }
        let end_cluster = clusters.min(MOST) + 2;
        let bytes = if is_fat32 { 4 } else { 2 };
        let (flags, version, root_cluster) =
            if is_fat32 { (word(boot, 40), word(boot, 42), long(boot, 44)) } else { (0, 0, 0) };
        let active = (flags & 0x80 != 0).then_some(flags & 0xf);
        let has_room = u64::from(table_sectors) * u64::from(sector) >= u64::from(end_cluster) * bytes;
        // `lamfat` counts the bits of a table in 32 bits.
        let is_countable = u64::from(table_sectors) * u64::from(sector) < 1 << 29;
        let has_room = has_room && is_countable;
        let has_root = !is_fat32 || (2..end_cluster).contains(&root_cluster);
        if clusters > MOST || version != 0 || !has_room || !has_root || active.is_some_and(|active| active >= tables) {
            return Err(NotFat::BadField);
        }
        let start = data * u64::from(sector);
        if !start.is_multiple_of(unit.into()) || !cluster.is_multiple_of(unit) {
            return Err(NotFat::Unaligned);
        }
        let information = word(boot, 48);
        let has_information = is_fat32 && information > 0 && information < reserved;
        let information = has_information.then_some(u64::from(information) * u64::from(sector));
        let mut geometry = Self {
            is_fat32,
            sector,
            cluster,
            reserved,
            tables,
            table_sectors,
            active,
            root_entries,
            sectors,
            root_cluster,
            information,
            end_cluster,
            is_marked: false,
        };
        geometry.is_marked = boot[geometry.mark_at() as usize] & 1 != 0;
        Ok(geometry)
    }

    /// Returns where a table begins.
    fn table(&self, number: u32) -> u64 {
        (u64::from(self.reserved) + u64::from(number) * u64::from(self.table_sectors)) * u64::from(self.sector)
    }

    /// Returns the bytes of one table.
    pub(crate) fn table_length(&self) -> u64 {
        u64::from(self.table_sectors) * u64::from(self.sector)
    }

    /// Returns where the table that is read begins.
    pub(crate) fn first_table(&self) -> u64 {
        self.table(self.active.unwrap_or(0))
    }

    /// Returns where its copy begins, if it has one.
    pub(crate) fn second_table(&self) -> Option<u64> {
        (self.active.is_none() && self.tables == 2).then(|| self.table(1))
    }

    /// Returns where the table and its copy begin.
    pub(crate) fn tables(&self) -> impl Iterator<Item = u64> {
        [Some(self.first_table()), self.second_table()].into_iter().flatten()
    }

    /// Returns the bytes of a table's entry.
    pub(crate) fn entry_bytes(&self) -> u64 {
        if self.is_fat32 { 4 } else { 2 }
    }

    /// Returns where the root folder of a FAT16 is: its beginning and its length.
    pub(crate) fn root(&self) -> (u64, u64) {
        (self.table(self.tables), u64::from(self.root_entries) * 32)
    }

    /// Returns where the clusters begin.
    fn data(&self) -> u64 {
        let (root, length) = self.root();
        root + length.next_multiple_of(self.sector.into())
    }

    /// Returns whether there is such a cluster.
    pub(crate) fn has(&self, cluster: u32) -> bool {
        (2..self.end_cluster).contains(&cluster)
    }

    /// Returns where a cluster begins. It must be one of the volume.
    pub(crate) fn place(&self, cluster: u32) -> u64 {
        self.data() + u64::from(cluster.saturating_sub(2)) * u64::from(self.cluster)
    }

    /// Returns the bytes that tables, folders and files lie in.
    pub(crate) fn end(&self) -> u64 {
        self.place(self.end_cluster)
    }

    /// Returns the cluster that a byte lies in, if it lies in one.
    pub(crate) fn cluster_at(&self, at: u64) -> Option<u32> {
        let number = at.checked_sub(self.data())? / u64::from(self.cluster) + 2;
        u32::try_from(number).ok().filter(|cluster| self.has(*cluster))
    }

    /// Returns the part of the volume that a byte lies in.
    pub(crate) fn area(&self, at: u64) -> Area {
        if at < self.table(0) {
            Area::Reserved
        } else if at < self.table(self.tables) {
            Area::Table
        } else if at < self.data() {
            Area::Root
        } else {
            Area::Data
        }
    }

    /// Returns where the part ends that a byte lies in, clusters being parts of their own.
    pub(crate) fn end_of_area(&self, at: u64) -> u64 {
        match self.area(at) {
            Area::Reserved => self.table(0),
            Area::Table => {
                let within = at - self.table(0);
                self.table(0) + (within / self.table_length() + 1) * self.table_length()
            }
            Area::Root => self.data(),
            Area::Data => {
                let within = at - self.data();
                self.data() + (within / u64::from(self.cluster) + 1) * u64::from(self.cluster)
            }
        }
    }

    /// Makes the boot sector and the information sector that `lamfat` is shown: fields that were
    /// checked, and as the next free cluster one that is free.
    pub(crate) fn shown(&self, free: u32) -> ([u8; BLOCK], [u8; BLOCK]) {
        let (mut boot, mut information) = ([0; BLOCK], [0; BLOCK]);
        let mut put = |at: usize, bytes: &[u8]| boot[at..at + bytes.len()].copy_from_slice(bytes);
        put(0, &[0xeb, 0x58, 0x90]);
        put(11, &(self.sector as u16).to_le_bytes());
        put(13, &[(self.cluster / self.sector) as u8]);
        put(14, &(self.reserved as u16).to_le_bytes());
        put(16, &[self.tables as u8]);
        put(17, &(self.root_entries as u16).to_le_bytes());
        put(21, &[0xf8]);
        put(32, &self.sectors.to_le_bytes());
        put(510, &[0x55, 0xaa]);
        if self.is_fat32 {
            put(36, &self.table_sectors.to_le_bytes());
            put(40, &self.active.map_or(0, |active| 0x80 | active as u16).to_le_bytes());
            put(44, &self.root_cluster.to_le_bytes());
            put(48, &[1, 0]);
        } else {
            put(22, &(self.table_sectors as u16).to_le_bytes());
        }
        let mut put = |at: usize, number: u32| information[at..at + 4].copy_from_slice(&number.to_le_bytes());
        put(0, 0x4161_5252);
        put(484, 0x6141_7272);
        put(488, u32::MAX);
        put(492, free);
        put(508, 0xaa55_0000);
        (boot, information)
    }
}
