//! Reading a disk's table, step by step: it says what it wants to see, and is given it.

use crate::bytes::Crc;
use crate::gpt::{Header, HeaderProblem};
use crate::mbr::{self, Entry};
use crate::{BLOCK, Flaw, Kind, MAX_PARTITIONS, MAX_READ, NoTable, Partition, Problem, Table, Uuid};
use alloc::vec::Vec;

/// Blocks that a scan wants to see.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Read {
    /// The first one.
    pub block: u64,
    /// How many: [`MAX_READ`] at most.
    pub blocks: u32,
}

/// A search for a disk's partition table.
///
/// Read what [`Self::wants`] says and [`Self::give`] it, until nothing is wanted: then
/// [`Self::finish`] has the table.
#[derive(Debug)]
pub struct Scan {
    /// Logical blocks of the disk.
    size: u64,
    /// The exponent of the count of blocks in a logical one.
    granule: u8,
    /// The most blocks to read at once.
    most: u32,
    state: State,
}

/// The state of a scan: what was found so far, and what is read next.
#[derive(Debug)]
enum State {
    /// The first block.
    First,
    /// The boot record of a logical partition.
    Chain(Chain),
    /// A GPT's header; of the backup, if the first one has this problem.
    Header { primary: Option<HeaderProblem> },
    /// A GPT's entries.
    Entries(Entries),
    /// The backup's header; the table is known.
    Backup(Table),
    /// Nothing more.
    Done(Result<Table, NoTable>),
}

/// An extended partition, which holds logical ones.
#[derive(Clone, Copy, Debug)]
struct Extended {
    number: u32,
    /// Its first logical block.
    first: u64,
    /// The logical block behind its last one.
    end: u64,
}

/// The chains of logical partitions, one for each extended partition.
#[derive(Debug)]
struct Chain {
    table: Table,
    signature: u32,
    /// The extended partition whose chain is read.
    extended: Extended,
    /// Those whose chains follow, in the opposite order.
    further: Vec<Extended>,
    /// The boot records that were visited; the last one is read next.
    records: Vec<u64>,
    /// Logical blocks that the link to this record gives it.
    length: u64,
    /// The number of the next logical partition.
    number: u32,
    /// Records in a row without a partition.
    empty: u32,
}

/// The largest number of a partition of an MBR: as many as Linux counts, and as an identifier has
/// space for.
const MAX_NUMBER: u32 = 255;

/// The most records that are visited.
const MAX_RECORDS: usize = 2 * MAX_PARTITIONS;

/// The most records in a row without a partition, as Linux follows them.
const MAX_EMPTY: u32 = 100;

/// The entries of a GPT.
#[derive(Debug)]
struct Entries {
    table: Table,
    header: Header,
    primary: Option<HeaderProblem>,
    /// Bytes that were read.
    done: u64,
    checksum: Crc,
}

impl Scan {
    /// Begins with a disk of so many blocks, whose logical ones are 2^`granule` blocks (0 for 512
    /// bytes, 3 for 4 KiB; 7 at most). No read is longer than `most` blocks, or than a logical one.
    pub fn new(blocks: u64, granule: u8, most: u32) -> Self {
        let granule = granule.min(MAX_READ.trailing_zeros() as u8);
        let most = (most.min(MAX_READ) >> granule << granule).max(1 << granule);
        let size = blocks >> granule;
        let state = if size == 0 { State::Done(Err(NoTable::Unreadable)) } else { State::First };
        Self { size, granule, most, state }
    }

    /// Returns what is read next, which lies within the disk, or `None` if there is nothing.
    pub fn wants(&self) -> Option<Read> {
        let one = |place: u64| Read { block: place << self.granule, blocks: 1 << self.granule };
        match &self.state {
            State::First => Some(one(0)),
            State::Chain(chain) => chain.records.last().map(|record| one(*record)),
            State::Header { primary: None } => Some(one(1)),
            State::Header { primary: Some(_) } | State::Backup(_) => Some(one(self.size - 1)),
            State::Entries(entries) => {
                let all = entries.header.entry_bytes().next_multiple_of(self.unit());
                let blocks = (all - entries.done) / BLOCK as u64;
                let block = (entries.header.entries << self.granule) + entries.done / BLOCK as u64;
                Some(Read { block, blocks: blocks.min(self.most.into()) as u32 })
            }
            State::Done(_) => None,
        }
    }

    /// Returns the bytes of a logical block.
    fn unit(&self) -> u64 {
        (BLOCK as u64) << self.granule
    }

    /// Takes the bytes of what was wanted; `None` if it cannot be read.
    pub fn give(&mut self, bytes: Option<&[u8]>) {
        let Some(wanted) = self.wants() else { return };
        let bytes = bytes.and_then(|bytes| bytes.get(..wanted.blocks as usize * BLOCK));
        self.state = match core::mem::replace(&mut self.state, State::First) {
            State::First => self.first(bytes),
            State::Chain(chain) => self.logical(chain, bytes),
            State::Header { primary } => self.header(primary, bytes),
            State::Entries(entries) => self.entries(entries, bytes),
            State::Backup(table) => self.backup(table, bytes),
            done @ State::Done(_) => done,
        };
    }

    /// Returns the table, or why there is none, if nothing more is wanted.
    pub fn finish(self) -> Option<Result<Table, NoTable>> {
        match self.state {
            State::Done(mut result) => {
                if let Ok(table) = &mut result {
                    table.check_overlaps();
                }
                Some(result)
            }
            _ => None,
        }
    }

    fn first(&self, bytes: Option<&[u8]>) -> State {
        let Some(bytes) = bytes else { return State::Done(Err(NoTable::Unreadable)) };
        let Some(entries) = mbr::first(bytes) else { return State::Done(Err(NoTable::None)) };
        if entries.iter().any(|entry| entry.is_protective()) {
            // A protective partition begins at block 1 (UEFI 2.10 §5.2.3). One elsewhere makes the
            // disk none with an MBR, and none with a GPT.
            let has_gpt = self.size > 1 && entries.iter().any(|entry| entry.is_protective() && entry.first == 1);
            return if has_gpt { State::Header { primary: None } } else { State::Done(Err(NoTable::None)) };
        }
        let (signature, mut table) = (mbr::signature(bytes), Table::new(Kind::Mbr));
        let (mut further, mut is_broken) = (Vec::new(), false);
        for (number, entry) in (1..).zip(entries).filter(|(_, entry)| entry.is_used()) {
            let mut partition = self.partition(entry, 0, number, signature, (0, self.size));
            if entry.first == 0 {
                partition.problem = Some(Problem::HoldsTable);
            }
            if !entry.is_extended() {
                table.add(partition);
            } else if is_broken || partition.problem.is_some() {
                is_broken = true;
            } else {
                let first = u64::from(entry.first);
                further.push(Extended { number, first, end: first + u64::from(entry.blocks) });
            }
        }
        if is_broken {
            table.flaw = Some(Flaw::BrokenChain);
        }
        for extended in &further {
            let (first, end) = (extended.first << self.granule, extended.end << self.granule);
            for partition in &mut table.partitions {
                let overlaps = partition.first < end && first < partition.first + partition.blocks;
                if overlaps && partition.problem.is_none() {
                    partition.problem = Some(Problem::Overlaps(extended.number));
                }
            }
        }
        further.reverse();
        let Some(extended) = further.pop() else { return State::Done(Ok(table)) };
        let Extended { first, end, .. } = extended;
        let (records, length) = (Vec::from([first]), end - first);
        State::Chain(Chain { table, signature, extended, further, records, length, number: 5, empty: 0 })
    }

    /// Takes the boot record of logical partitions. Usually its first entry is the partition, and
    /// the second one the link to the next record; but any entry may be either, and the last two
    /// may hold anything. Partitions count from the record, the link from the extended partition.
    fn logical(&self, mut chain: Chain, bytes: Option<&[u8]>) -> State {
        let Some(entries) = bytes.and_then(mbr::entries) else { return chain.broken(self.granule) };
        let record = chain.records.last().copied().unwrap_or_default();
        let bounds = (chain.extended.first, chain.extended.end);
        chain.empty += 1;
        for (index, entry) in entries.iter().enumerate().filter(|(_, entry)| entry.is_used() && !entry.is_extended()) {
            let partition = self.partition(*entry, record, chain.number, chain.signature, bounds);
            let is_outside = u64::from(entry.first) + u64::from(entry.blocks) > chain.length;
            if index >= 2 && (is_outside || partition.problem.is_some()) {
                continue;
            }
            if chain.number > MAX_NUMBER {
                return chain.too_many(self.granule);
            }
            chain.table.add(partition);
            (chain.number, chain.empty) = (chain.number + 1, 0);
        }
        let Some(next) = entries.iter().find(|entry| entry.is_used() && entry.is_extended()) else {
            return self.next_chain(chain);
        };
        let place = bounds.0 + u64::from(next.first);
        if place >= bounds.1 || chain.records.contains(&place) {
            return chain.broken(self.granule);
        }
        if chain.empty >= MAX_EMPTY || chain.records.len() >= MAX_RECORDS {
            return chain.too_many(self.granule);
        }
        chain.records.push(place);
        chain.length = next.blocks.into();
        State::Chain(chain)
    }

    /// Goes on with the next extended partition, if there is one.
    fn next_chain(&self, mut chain: Chain) -> State {
        let Some(extended) = chain.further.pop() else { return chain.ended(self.granule) };
        if chain.records.contains(&extended.first) {
            return chain.broken(self.granule);
        }
        chain.records.push(extended.first);
        (chain.extended, chain.length) = (extended, extended.end - extended.first);
        State::Chain(chain)
    }

    /// The partition of an entry that counts from logical block `base` on and must lie within
    /// `bounds`.
    fn partition(&self, entry: Entry, base: u64, number: u32, signature: u32, bounds: (u64, u64)) -> Partition {
        let first = base + u64::from(entry.first);
        let end = first + u64::from(entry.blocks);
        let inside = bounds.0 <= first && end <= bounds.1;
        Partition {
            number,
            first: if inside { first << self.granule } else { 0 },
            blocks: if inside { u64::from(entry.blocks) << self.granule } else { 0 },
            uuid: Uuid::Mbr { signature, number: number as u8 },
            name: [0; 36],
            problem: (!inside).then_some(Problem::OutOfRange),
        }
    }

    fn header(&self, primary: Option<HeaderProblem>, bytes: Option<&[u8]>) -> State {
        let place = if primary.is_none() { 1 } else { self.size - 1 };
        let parsed = bytes.ok_or(HeaderProblem::Unreadable).and_then(|bytes| Header::parse(bytes, place, self.size));
        match parsed {
            Ok(header) => {
                let table = Table::new(Kind::Gpt);
                State::Entries(Entries { table, header, primary, done: 0, checksum: Crc::new() })
            }
            Err(problem) => self.next_header(primary, problem),
        }
    }

    /// Goes on with the backup, if this was the first one.
    fn next_header(&self, primary: Option<HeaderProblem>, problem: HeaderProblem) -> State {
        match primary {
            None => State::Header { primary: Some(problem) },
            Some(primary) => State::Done(Err(NoTable::BadGpt { primary, backup: problem })),
        }
    }

    fn entries(&self, mut entries: Entries, bytes: Option<&[u8]>) -> State {
        let Some(bytes) = bytes else { return self.next_header(entries.primary, HeaderProblem::UnreadableEntries) };
        let (header, left) = (entries.header, entries.header.entry_bytes() - entries.done);
        let listed = bytes.get(..left as usize).unwrap_or(bytes);
        entries.checksum.add(listed);
        let before = entries.done / u64::from(header.entry_size);
        for (number, entry) in (before as u32 + 1..).zip(listed.chunks(header.entry_size as usize)) {
            if let Some(partition) = header.entry(entry, number, self.granule) {
                entries.table.add(partition);
            }
        }
        entries.done += bytes.len() as u64;
        if entries.done < header.entry_bytes() {
            return State::Entries(entries);
        }
        if !header.has_checksum(entries.checksum) {
            return self.next_header(entries.primary, HeaderProblem::EntriesChecksum);
        }
        let Entries { mut table, primary, .. } = entries;
        match primary {
            Some(problem) => table.flaw = Some(Flaw::Primary(problem)),
            None if header.other == self.size - 1 => return State::Backup(table),
            None => table.flaw = table.flaw.or(Some(Flaw::Backup(HeaderProblem::Misplaced))),
        }
        State::Done(Ok(table))
    }

    /// Looks at the backup's header, while the first one is good and the backup can be repaired.
    fn backup(&self, mut table: Table, bytes: Option<&[u8]>) -> State {
        let place = self.size - 1;
        let parsed = bytes.ok_or(HeaderProblem::Unreadable).and_then(|bytes| Header::parse(bytes, place, self.size));
        if let Err(problem) = parsed {
            table.flaw = table.flaw.or(Some(Flaw::Backup(problem)));
        }
        State::Done(Ok(table))
    }
}

impl Chain {
    /// The chain ends. A partition that holds one of its records cannot be used.
    fn ended(mut self, granule: u8) -> State {
        for partition in &mut self.table.partitions {
            let blocks = partition.first..partition.first + partition.blocks;
            let holds = self.records.iter().any(|record| blocks.contains(&(record << granule)));
            if holds && partition.problem.is_none() {
                partition.problem = Some(Problem::HoldsTable);
            }
        }
        State::Done(Ok(self.table))
    }

    fn broken(mut self, granule: u8) -> State {
        self.table.flaw = Some(Flaw::BrokenChain);
        self.ended(granule)
    }

    fn too_many(mut self, granule: u8) -> State {
        self.table.flaw = Some(Flaw::TooMany);
        self.ended(granule)
    }
}
