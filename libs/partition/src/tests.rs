//! Tables that are as they should be, and tables that are not.

use crate::bytes::Crc;
use crate::*;
use proptest::prelude::*;
use std::string::{String, ToString as _};
use std::vec;
use std::vec::Vec;

/// A disk's content, whose logical blocks have `unit` bytes.
#[derive(Clone)]
struct Image {
    bytes: Vec<u8>,
    granule: u8,
    /// The most blocks that are read at once.
    most: u32,
}

/// A partition of a test: name, first and last logical block.
type Expected<'a> = (&'a str, u64, u64);

impl Image {
    fn new(blocks: usize, granule: u8) -> Self {
        Self { bytes: vec![0; (blocks * BLOCK) << granule], granule, most: MAX_READ }
    }

    fn unit(&self) -> usize {
        BLOCK << self.granule
    }

    fn size(&self) -> u64 {
        (self.bytes.len() / self.unit()) as u64
    }

    fn put(&mut self, block: u64, offset: usize, bytes: &[u8]) {
        let at = block as usize * self.unit() + offset;
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
    }

    /// Writes entry `number` of the boot record at `block`.
    fn boot_entry(&mut self, block: u64, number: usize, kind: u8, first: u32, blocks: u32) {
        self.put(block, 510, &[0x55, 0xaa]);
        let at = 446 + 16 * number;
        self.put(block, at + 4, &[kind]);
        self.put(block, at + 8, &first.to_le_bytes());
        self.put(block, at + 12, &blocks.to_le_bytes());
    }

    /// An image with a GPT of 128 entries at both ends, and these partitions.
    fn gpt(blocks: usize, granule: u8, parts: &[Expected<'_>]) -> Self {
        let mut image = Self::new(blocks, granule);
        let size = image.size();
        image.boot_entry(0, 0, 0xee, 1, size as u32 - 1);
        let mut entries = vec![0; 128 * 128];
        for (index, (name, first, last)) in parts.iter().enumerate() {
            let entry = &mut entries[index * 128..][..128];
            entry[..16].fill(0x11);
            entry[16..32].copy_from_slice(&core::array::from_fn::<u8, 16, _>(|byte| (index as u8) << 4 | byte as u8));
            entry[32..40].copy_from_slice(&first.to_le_bytes());
            entry[40..48].copy_from_slice(&last.to_le_bytes());
            for (unit, place) in name.encode_utf16().zip(entry[56..].chunks_mut(2)) {
                place.copy_from_slice(&unit.to_le_bytes());
            }
        }
        let array = (entries.len() / image.unit()) as u64;
        image.put(2, 0, &entries);
        image.put(size - 1 - array, 0, &entries);
        image.header(1, size - 1, 2, array, &entries);
        image.header(size - 1, 1, size - 1 - array, array, &entries);
        image
    }

    fn header(&mut self, place: u64, other: u64, array: u64, blocks: u64, entries: &[u8]) {
        let mut header = [0; 92];
        header[..8].copy_from_slice(b"EFI PART");
        header[8..12].copy_from_slice(&0x10000_u32.to_le_bytes());
        header[12..16].copy_from_slice(&92_u32.to_le_bytes());
        for (at, value) in [(24, place), (32, other), (40, 2 + blocks), (48, self.size() - 2 - blocks), (72, array)] {
            header[at..at + 8].copy_from_slice(&value.to_le_bytes());
        }
        for (at, value) in [(80, 128), (84, 128), (88, checksum(entries))] {
            header[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        self.put(place, 0, &header);
        self.seal(place);
    }

    /// Makes the checksum of the header at `place` right.
    fn seal(&mut self, place: u64) {
        self.put(place, 16, &[0; 4]);
        let at = place as usize * self.unit();
        let value = checksum(&self.bytes[at..at + 92]);
        self.put(place, 16, &value.to_le_bytes());
    }

    fn scan(&self) -> Result<Table, NoTable> {
        let mut scan = Scan::new((self.bytes.len() / BLOCK) as u64, self.granule, self.most);
        for _ in 0..1000 {
            let Some(read) = scan.wants() else { return scan.finish().expect("it is done") };
            assert!((1..=self.most.max(1 << self.granule)).contains(&read.blocks));
            let start = read.block as usize * BLOCK;
            // A range outside the disk is a panic here.
            scan.give(Some(&self.bytes[start..start + read.blocks as usize * BLOCK]));
        }
        panic!("there is no end to it");
    }

    fn find(&self, selector: &str) -> Result<(u64, u64), NotFound> {
        let table = self.scan().expect("there is a table");
        let selector = Selector::parse(selector).expect("a description");
        table.find(&selector).map(|partition| (partition.first, partition.blocks))
    }
}

fn checksum(bytes: &[u8]) -> u32 {
    let mut crc = Crc::new();
    crc.add(bytes);
    crc.value()
}

const PARTS: &[Expected<'_>] = &[("boot", 40, 49), ("größer", 50, 149), ("", 160, 160)];

#[test]
fn partitions_of_a_gpt_are_found() {
    let image = Image::gpt(300, 0, PARTS);
    assert_eq!(image.find("1"), Ok((40, 10)));
    assert_eq!(image.find("name=größer"), Ok((50, 100)));
    assert_eq!(image.find("3"), Ok((160, 1)));
    assert_eq!(image.find("uuid=13121110-1514-1716-1819-1a1b1c1d1e1f"), Ok((50, 100)));
    for absent in ["4", "name=boo", "name=boots", "uuid=00000000-01", "uuid=10111213-1415-1617-1819-1a1b1c1d1e1f"] {
        assert_eq!(image.find(absent), Err(NotFound::None), "{absent}");
    }
    let table = image.scan().expect("there is a table");
    assert_eq!((table.kind, table.flaw, table.partitions.len()), (Kind::Gpt, None, 3));
    assert_eq!(table.partitions[1].name().collect::<String>(), "größer");
}

#[test]
fn any_blocks_and_any_reads_will_do() {
    let image = Image::gpt(200, 3, &[("data", 10, 19)]);
    assert_eq!(image.find("name=data"), Ok((80, 80)));
    let mut image = Image::gpt(300, 0, PARTS);
    for most in [1, 3, 32] {
        image.most = most;
        assert_eq!(image.find("2"), Ok((50, 100)), "by {most}");
    }
    let mut image = Image::new(200, 3);
    image.boot_entry(0, 0, 0x83, 10, 10);
    assert_eq!(image.find("1"), Ok((80, 80)));
}

#[test]
fn two_of_one_name_are_ambiguous() {
    let image = Image::gpt(300, 0, &[("data", 40, 49), ("data", 50, 59)]);
    assert_eq!(image.find("name=data"), Err(NotFound::Ambiguous));
    assert_eq!(image.find("2"), Ok((50, 10)));
}

/// Damages the header at a logical block.
type Damage = fn(&mut Image, u64);

/// Each way in which a header can be wrong, with what is said of it.
fn damages() -> Vec<(HeaderProblem, Damage)> {
    fn set(image: &mut Image, place: u64, at: usize, value: u64) {
        image.put(place, at, &value.to_le_bytes());
        image.seal(place);
    }
    fn half(image: &mut Image, place: u64, at: usize, value: u32) {
        image.put(place, at, &value.to_le_bytes());
        image.seal(place);
    }
    vec![
        (HeaderProblem::Absent, |image, place| image.put(place, 0, b"x")),
        (HeaderProblem::Checksum, |image, place| image.put(place, 60, b"x")),
        (HeaderProblem::Checksum, |image, place| image.put(place, 12, &[0xff; 4])),
        (HeaderProblem::Checksum, |image, place| image.put(place, 12, &[0; 4])),
        (HeaderProblem::Misplaced, |image, place| set(image, place, 24, 7)),
        (HeaderProblem::Usable, |image, place| set(image, place, 40, 2)),
        (HeaderProblem::Usable, |image, place| set(image, place, 40, 290)),
        (HeaderProblem::Usable, |image, place| set(image, place, 48, 299)),
        (HeaderProblem::Usable, |image, place| set(image, place, 48, u64::MAX)),
        (HeaderProblem::Entries, |image, place| set(image, place, 72, 1)),
        (HeaderProblem::Entries, |image, place| set(image, place, 72, 290)),
        (HeaderProblem::Entries, |image, place| set(image, place, 72, u64::MAX)),
        (HeaderProblem::Entries, |image, place| half(image, place, 80, u32::MAX)),
        (HeaderProblem::Entries, |image, place| half(image, place, 80, 0)),
        (HeaderProblem::Entries, |image, place| half(image, place, 84, 0)),
        (HeaderProblem::Entries, |image, place| half(image, place, 84, 192)),
        (HeaderProblem::Entries, |image, place| half(image, place, 84, 1 << 30)),
        (HeaderProblem::EntriesChecksum, |image, place| half(image, place, 88, 1)),
    ]
}

#[test]
fn the_backup_is_used_if_the_first_is_bad() {
    for (index, (problem, damage)) in damages().into_iter().enumerate() {
        let mut image = Image::gpt(300, 0, PARTS);
        damage(&mut image, 1);
        let table = image.scan().expect("the backup is good");
        assert_eq!((table.flaw, table.partitions.len()), (Some(Flaw::Primary(problem)), 3), "damage {index}");
        assert_eq!(image.find("1"), Ok((40, 10)));
        damage(&mut image, 299);
        assert_eq!(image.scan(), Err(NoTable::BadGpt { primary: problem, backup: problem }), "damage {index}");
    }
}

/// The image was cut off: no partition reaches behind its end, and no backup is there.
#[test]
fn a_disk_that_is_too_small_has_no_table() {
    let mut image = Image::gpt(300, 0, PARTS);
    image.bytes.truncate(200 * BLOCK);
    let (primary, backup) = (HeaderProblem::Usable, HeaderProblem::Absent);
    assert_eq!(image.scan(), Err(NoTable::BadGpt { primary, backup }));
}

#[test]
fn partitions_that_cannot_be_are_refused() {
    let parts =
        [("a", 40, 49), ("b", 45, 59), ("c", 59, 59), ("d", 60, 70), ("e", 69, 68), ("f", 33, 34), ("g", 260, 267)];
    let image = Image::gpt(300, 0, &parts);
    let bad = |problem| Err(NotFound::Bad(problem));
    assert_eq!(image.find("1"), bad(Problem::Overlaps(2)));
    assert_eq!(image.find("name=b"), bad(Problem::Overlaps(1)));
    assert_eq!(image.find("3"), bad(Problem::Overlaps(2)));
    assert_eq!(image.find("4"), Ok((60, 11)));
    assert_eq!(image.find("5"), bad(Problem::Reversed));
    assert_eq!(image.find("6"), bad(Problem::OutOfRange));
    assert_eq!(image.find("7"), bad(Problem::OutOfRange));
    let message = |selector| image.find(selector).expect_err("it cannot be used").to_string();
    assert_eq!(message("2"), "it overlaps partition 1");
    assert_eq!(message("5"), "it ends before it begins");
    assert_eq!(message("7"), "it lies outside the disk, or outside what its table allows");
    assert_eq!(message("8"), "there is no such partition");
}

#[test]
fn what_cannot_be_read_is_said() {
    let image = Image::gpt(300, 0, PARTS);
    let mut scan = Scan::new(300, 0, MAX_READ);
    scan.give(None);
    assert_eq!(scan.finish(), Some(Err(NoTable::Unreadable)));
    let mut scan = Scan::new(300, 0, MAX_READ);
    scan.give(Some(&image.bytes[..BLOCK]));
    assert_eq!(scan.wants(), Some(Read { block: 1, blocks: 1 }));
    scan.give(Some(&[0; 100]));
    assert_eq!(scan.wants(), Some(Read { block: 299, blocks: 1 }));
    scan.give(Some(&image.bytes[299 * BLOCK..]));
    scan.give(None);
    let (primary, backup) = (HeaderProblem::Unreadable, HeaderProblem::UnreadableEntries);
    assert_eq!(scan.finish(), Some(Err(NoTable::BadGpt { primary, backup })));
    assert_eq!(Scan::new(0, 0, MAX_READ).finish(), Some(Err(NoTable::Unreadable)));
    assert_eq!(Scan::new(300, 0, MAX_READ).finish(), None);
}

#[test]
fn what_is_no_table_is_none() {
    assert_eq!(Image::new(8, 0).scan(), Err(NoTable::None));
    // The boot block of a file system has the signature too, and code where the entries would be.
    let mut image = Image::new(8, 0);
    image.put(0, 446, &[0x33; 64]);
    image.put(0, 510, &[0x55, 0xaa]);
    assert_eq!(image.scan(), Err(NoTable::None));
    image.put(0, 446, &[0; 64]);
    assert!(image.scan().expect("an empty table").partitions.is_empty());
}

/// Two primary partitions and three logical ones, the last of which comes before the others.
fn with_logical() -> Image {
    let mut image = Image::new(400, 0);
    image.put(0, 440, &0x1234_abcd_u32.to_le_bytes());
    image.boot_entry(0, 0, 0x0c, 10, 20);
    image.boot_entry(0, 1, 0x05, 100, 200);
    image.boot_entry(0, 3, 0x83, 300, 100);
    image.boot_entry(100, 0, 0x83, 60, 40);
    image.boot_entry(100, 1, 0x05, 150, 50);
    image.boot_entry(250, 0, 0x83, 1, 49);
    image.boot_entry(250, 1, 0x05, 10, 50);
    image.boot_entry(110, 0, 0x83, 1, 49);
    image
}

#[test]
fn logical_partitions_are_found() {
    let image = with_logical();
    let table = image.scan().expect("there is a table");
    let found: Vec<_> = table.partitions.iter().map(|part| (part.number, part.first, part.blocks)).collect();
    assert_eq!(found, [(1, 10, 20), (4, 300, 100), (5, 160, 40), (6, 251, 49), (7, 111, 49)]);
    assert!(table.partitions.iter().all(|partition| partition.problem.is_none()), "{table:?}");
    assert_eq!(image.find("uuid=1234ABCD-06"), Ok((251, 49)));
}

#[test]
fn a_chain_that_leads_back_or_outside_ends() {
    for next in [0, 150, 200, u32::MAX] {
        let mut image = with_logical();
        image.boot_entry(110, 1, 0x05, next, 50);
        let table = image.scan().expect("there is a table");
        assert_eq!((table.flaw, table.partitions.len()), (Some(Flaw::BrokenChain), 5), "to {next}");
    }
    let mut image = with_logical();
    image.put(250, 510, &[0; 2]);
    let table = image.scan().expect("there is a table");
    assert_eq!((table.flaw, table.partitions.len()), (Some(Flaw::BrokenChain), 3));
}

#[test]
fn a_long_chain_is_cut_off() {
    let mut image = Image::new(2000, 0);
    image.boot_entry(0, 0, 0x0f, 1, 1999);
    for record in 0..900 {
        image.boot_entry(1 + 2 * record, 0, 0x83, 1, 1);
        image.boot_entry(1 + 2 * record, 1, 0x05, 2 * record as u32 + 2, 2);
    }
    let table = image.scan().expect("there is a table");
    assert_eq!((table.flaw, table.partitions.len()), (Some(Flaw::TooMany), 251));
}

/// Tests that a chain that holds nothing is not followed without end.
#[test]
fn an_empty_chain_is_cut_off() {
    let mut image = Image::new(2000, 0);
    image.boot_entry(0, 0, 0x0f, 1, 1999);
    for record in 0..101_u32 {
        image.boot_entry(1 + u64::from(record), 1, 0x05, record + 1, 2);
    }
    image.boot_entry(102, 0, 0x83, 1, 1);
    assert_eq!(numbers(&image), (vec![], Some(Flaw::TooMany)));
    image.boot_entry(50, 0, 0x83, 200, 1);
    assert_eq!(numbers(&image), (vec![(5, 250, 1), (6, 103, 1)], None));
}

/// Whoever could write a part of the table would say what the others' partitions are.
#[test]
fn no_partition_holds_the_table() {
    let mut image = with_logical();
    image.boot_entry(0, 0, 0x0c, 0, 20);
    image.boot_entry(100, 0, 0x83, 0, 5);
    image.boot_entry(250, 0, 0x83, 1, 50);
    image.boot_entry(0, 3, 0x83, 290, 100);
    let bad = |problem| Err(NotFound::Bad(problem));
    assert_eq!(image.find("1"), bad(Problem::HoldsTable));
    assert_eq!(image.find("4"), bad(Problem::Overlaps(2)));
    assert_eq!(image.find("5"), bad(Problem::HoldsTable));
    assert_eq!(image.find("6"), bad(Problem::OutOfRange));
}

#[test]
fn more_partitions_than_there_is_space_for_are_left_out() {
    let mut image = Image::gpt(3000, 0, PARTS);
    let mut entries = vec![0; 1024 * 128];
    for (index, entry) in entries.chunks_mut(128).enumerate().skip(500) {
        entry[0] = 1;
        entry[32..40].copy_from_slice(&(1000 + index as u64).to_le_bytes());
        entry[40..48].copy_from_slice(&(1000 + index as u64).to_le_bytes());
    }
    image.put(2, 0, &entries);
    image.put(1, 40, &900_u64.to_le_bytes());
    image.put(1, 80, &1024_u32.to_le_bytes());
    image.put(1, 88, &checksum(&entries).to_le_bytes());
    image.seal(1);
    let table = image.scan().expect("there is a table");
    assert_eq!((table.flaw, table.partitions.len()), (Some(Flaw::TooMany), MAX_PARTITIONS));
    assert_eq!(table.partitions[0].number, 501);
}

/// Checks what holds for whatever a disk contains.
fn check(image: &Image) {
    let Ok(table) = image.scan() else { return };
    let size = (image.bytes.len() / BLOCK) as u64;
    let sound: Vec<_> = table.partitions.iter().filter(|partition| partition.problem.is_none()).collect();
    for (index, partition) in sound.iter().enumerate() {
        let end = partition.first + partition.blocks;
        assert!(partition.blocks > 0 && partition.first > 0 && end <= size, "{partition:?}");
        for other in &sound[..index] {
            assert!(end <= other.first || other.first + other.blocks <= partition.first, "{partition:?} {other:?}");
        }
    }
}

proptest! {
    #[test]
    fn any_partitions_of_a_gpt_are_apart(parts in proptest::collection::vec((30..300_u64, 0..40_u64), 0..40)) {
        let parts: Vec<Expected<'_>> = parts.iter().map(|(first, more)| ("", *first, first + more)).collect();
        let image = Image::gpt(300, 0, &parts);
        check(&image);
        // None is refused without a reason.
        for partition in image.scan().expect("there is a table").partitions {
            let index = partition.number as usize - 1;
            let (_, first, last) = parts[index];
            let overlaps = |(other, part): (usize, &Expected<'_>)| {
                other != index && part.1 <= last && first <= part.2 && part.1 >= 34 && part.2 <= 266
            };
            let alone = !parts.iter().enumerate().any(overlaps);
            prop_assert_eq!(partition.problem.is_none(), alone && first >= 34 && last <= 266);
        }
    }

    #[test]
    fn a_damaged_table_harms_nobody(
        logical: bool, granule in 0..4_u8, writes in proptest::collection::vec((0..4000_usize, any::<[u8; 4]>()), 0..20)
    ) {
        let mut image = if logical { with_logical() } else { Image::gpt(300, 0, PARTS) };
        let blocks = [0, 1, 2, 3, 100, 110, 250, 267, 299];
        for (at, bytes) in writes {
            let (block, offset) = (blocks[at / 500 % blocks.len()], at % 500);
            image.put(block, offset, &bytes);
        }
        // So that damages behind the checksum are seen too.
        for place in [1, 299] {
            if !logical {
                image.seal(place);
            }
        }
        check(&image);
        image.granule = granule;
        check(&image);
    }
}

/// Returns number, first block and count of blocks of each partition, and the table's flaw.
fn numbers(image: &Image) -> (Vec<(u32, u64, u64)>, Option<Flaw>) {
    let table = image.scan().expect("there is a table");
    (table.partitions.iter().map(|part| (part.number, part.first, part.blocks)).collect(), table.flaw)
}

/// Tests that logical partitions have the numbers that Linux gives them, whatever made the chain.
#[test]
fn logical_partitions_are_numbered_as_linux_does() {
    // The first record holds no partition.
    let mut image = Image::new(400, 0);
    image.boot_entry(0, 0, 0x05, 100, 200);
    image.boot_entry(100, 1, 0x05, 50, 50);
    image.boot_entry(150, 0, 0x83, 1, 20);
    image.boot_entry(150, 1, 0x05, 100, 50);
    image.boot_entry(200, 0, 0x83, 1, 30);
    let expected = vec![(5, 151, 20), (6, 201, 30)];
    assert_eq!(numbers(&image), (expected.clone(), None));
    // Bytes without meaning in the status of an entry, and in a whole one.
    image.put(150, 446 + 48, &[0x33]);
    image.boot_entry(150, 3, 0x83, 10, 10_000);
    assert_eq!(numbers(&image), (expected.clone(), None));
    // The link comes first.
    image.boot_entry(100, 0, 0x05, 50, 50);
    image.boot_entry(100, 1, 0, 0, 0);
    assert_eq!(numbers(&image), (expected.clone(), None));
    // All four entries are in use, one of them without a type.
    image.boot_entry(200, 1, 0x83, 31, 5);
    image.boot_entry(200, 2, 0, 36, 2);
    image.boot_entry(200, 3, 0x83, 38, 3);
    let mut more = expected.clone();
    more.extend([(7, 231, 5), (8, 236, 2), (9, 238, 3)]);
    assert_eq!(numbers(&image), (more, None));
}

#[test]
fn a_second_extended_partition_goes_on_with_the_numbers() {
    let mut image = with_logical();
    image.boot_entry(0, 3, 0x0f, 300, 100);
    image.boot_entry(300, 0, 0x83, 1, 20);
    let expected = vec![(1, 10, 20), (5, 160, 40), (6, 251, 49), (7, 111, 49), (8, 301, 20)];
    assert_eq!(numbers(&image), (expected.clone(), None));
    // A partition behind one that is left out has no number that is known.
    image.boot_entry(110, 1, 0x05, 300, 50);
    assert_eq!(numbers(&image), (expected[..4].to_vec(), Some(Flaw::BrokenChain)));
    image.boot_entry(0, 1, 0x05, 100, 301);
    assert_eq!(numbers(&image), (expected[..1].to_vec(), Some(Flaw::BrokenChain)));
}

/// Tests that no number is taken for another one modulo 256.
#[test]
fn numbers_end_at_255() {
    let mut image = Image::new(2000, 0);
    image.boot_entry(0, 0, 0x05, 1, 1999);
    for record in 0..300_usize {
        image.boot_entry(1 + 2 * record as u64, 0, 0x83, 1, 1);
        image.boot_entry(1 + 2 * record as u64, 1, 0x05, 2 * record as u32 + 2, 2);
    }
    let (partitions, flaw) = numbers(&image);
    assert_eq!((partitions.last().map(|part| part.0), flaw), (Some(255), Some(Flaw::TooMany)));
    assert_eq!(image.find("uuid=00000000-04"), Err(NotFound::None));
}

/// Tests that no partition can hold the block where the backup is looked for: whoever wrote there
/// would say what the others are as soon as the first header cannot be read.
#[test]
fn no_partition_holds_the_backup() {
    for other in [0, 1, 5, 299, 1 << 40] {
        let mut image = Image::gpt(300, 0, &[("a", 40, 99), ("b", 100, 299)]);
        image.put(1, 32, &u64::to_le_bytes(other));
        image.put(1, 48, &299_u64.to_le_bytes());
        image.seal(1);
        assert_eq!(image.scan().expect("the backup is good").flaw, Some(Flaw::Primary(HeaderProblem::Usable)));
        assert_eq!(image.find("2"), Err(NotFound::Bad(Problem::OutOfRange)), "{other}");
    }
}

/// Tests that a backup that cannot be used is told, while there is time to repair it.
#[test]
fn a_bad_backup_is_told() {
    for (index, (problem, damage)) in damages().into_iter().enumerate() {
        if problem == HeaderProblem::EntriesChecksum {
            continue;
        }
        let mut image = Image::gpt(300, 0, PARTS);
        damage(&mut image, 299);
        let table = image.scan().expect("the first one is good");
        assert_eq!((table.flaw, table.partitions.len()), (Some(Flaw::Backup(problem)), 3), "damage {index}");
        assert_eq!(image.find("1"), Ok((40, 10)));
    }
    // The first one says that the backup is elsewhere.
    let mut image = Image::gpt(300, 0, PARTS);
    image.put(1, 32, &290_u64.to_le_bytes());
    image.seal(1);
    assert_eq!(image.scan().expect("it is good").flaw, Some(Flaw::Backup(HeaderProblem::Misplaced)));
}

/// Tests that only a protective entry that begins behind the boot record stands for a GPT.
#[test]
fn a_protective_entry_begins_at_block_1() {
    let mut image = Image::gpt(300, 0, PARTS);
    image.boot_entry(0, 0, 0xee, 100, 50);
    assert_eq!(image.scan(), Err(NoTable::None));
}

/// Tests that a name that is no text is none, whatever stands for what it lacks.
#[test]
fn a_broken_name_is_found_by_no_text() {
    let mut image = Image::gpt(300, 0, &[("\u{fffd}", 40, 49), ("x", 50, 59)]);
    assert_eq!(image.find("name=\u{fffd}"), Ok((40, 10)));
    let mut entries = image.bytes[2 * BLOCK..34 * BLOCK].to_vec();
    entries[56..58].copy_from_slice(&0xd800_u16.to_le_bytes());
    image.put(2, 0, &entries);
    image.put(1, 88, &checksum(&entries).to_le_bytes());
    image.seal(1);
    assert_eq!(image.find("name=\u{fffd}"), Err(NotFound::None));
}

/// Tests that a revision that is not known is not taken for one that is.
#[test]
fn another_revision_is_not_read() {
    for place in [1, 299] {
        let mut image = Image::gpt(300, 0, PARTS);
        image.put(place, 8, &0x20000_u32.to_le_bytes());
        image.seal(place);
        let flaw = image.scan().expect("the other one is good").flaw;
        let problem = HeaderProblem::Revision;
        assert_eq!(flaw, Some(if place == 1 { Flaw::Primary(problem) } else { Flaw::Backup(problem) }));
    }
}
