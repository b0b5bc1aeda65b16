//! Partition tables of a medium that anybody may have written.
//!
//! The input says how many blocks the disk has and what is written where, or begins with what
//! sfdisk or sgdisk has written; checksums can be made right, so that what lies behind them is
//! reached. Whatever stands there, the scan ends, asks only
//! for what the disk has, and what can be found is within the disk and apart from all else that
//! can.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_partition::{BLOCK, MAX_READ, Scan, Selector};
use input::Input;
use libfuzzer_sys::fuzz_target;

const BLOCKS: usize = 400;

/// What programs have written: the blocks of a disk that are not zero, after their count, each as
/// its number, its length without zeroes at the end, and its bytes. One is sfdisk's, with two
/// partitions, an extended one and two in that; the other is sgdisk's, with three.
const REAL: [&[u8]; 2] = [include_bytes!("../common/mbr.blocks"), include_bytes!("../common/gpt.blocks")];

/// How many partitions are found there if nothing is changed.
const PARTITIONS: [usize; 2] = [4, 3];

/// Unpacks such a disk.
fn real(mut packed: &[u8]) -> Vec<u8> {
    let mut take = |count: usize| {
        let (taken, rest) = packed.split_at(count.min(packed.len()));
        packed = rest;
        taken
    };
    let number = |bytes: &[u8]| bytes.iter().rev().fold(0, |number, byte| number << 8 | usize::from(*byte));
    let mut disk = vec![0; number(take(4)) * BLOCK];
    while let block @ [_, ..] = take(4) {
        let at = number(block) * BLOCK;
        let length = number(take(2));
        disk[at..at + length].copy_from_slice(take(length));
    }
    disk
}

/// Writes into the blocks where tables are.
fn write(disk: &mut [u8], input: &mut Input<'_>) {
    const PLACES: [usize; 8] = [0, 1, 2, 3, 34, 100, BLOCKS - 33, BLOCKS - 1];
    let place = usize::from(input.byte());
    let offset = usize::from(input.byte()) * 2;
    let count = usize::from(input.byte() % 65);
    let bytes = input.bytes(count);
    let at = (PLACES[place % PLACES.len()] * BLOCK + offset).min(disk.len() - bytes.len());
    disk[at..at + bytes.len()].copy_from_slice(bytes);
}

/// Writes a GPT's header whose checksums are right, with numbers that are nearly so.
fn header(disk: &mut [u8], input: &mut Input<'_>) {
    let size = disk.len() / BLOCK;
    let (place, other) = if input.byte() % 2 == 0 { (1, size - 1) } else { (size - 1, 1) };
    let mut number = |usual: usize| match input.byte() {
        changed @ 0x80.. => usual.wrapping_add(usize::from(changed)).wrapping_sub(0xc0),
        _ => usual,
    };
    let entries = number(if place == 1 { 2 } else { size.saturating_sub(33) });
    let fields = [(24, place, 8), (32, other, 8), (40, number(34), 8), (48, number(size.saturating_sub(34)), 8)];
    let array = [(72, entries, 8), (80, number(128), 4), (84, 128 << (number(0) % 4), 4), (12, number(92), 4)];
    let start = place * BLOCK;
    if start == 0 || start + BLOCK > disk.len() {
        return;
    }
    disk[start..start + 8].copy_from_slice(b"EFI PART");
    let mut length = 0;
    for (at, value, bytes) in fields.into_iter().chain(array) {
        disk[start + at..start + at + bytes].copy_from_slice(&(value as u64).to_le_bytes()[..bytes]);
        length = value;
    }
    let array_bytes = array[1].1.wrapping_mul(array[2].1);
    let listed = entries.checked_mul(BLOCK).and_then(|first| disk.get(first..first.checked_add(array_bytes)?));
    let sum = crc(listed.unwrap_or_default());
    disk[start + 88..start + 92].copy_from_slice(&sum.to_le_bytes());
    disk[start + 16..start + 20].fill(0);
    let sum = crc(&disk[start..start + length.min(BLOCK)]);
    disk[start + 16..start + 20].copy_from_slice(&sum.to_le_bytes());
}

/// CRC-32, bit by bit.
fn crc(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(!0_u32, |crc, byte| {
        (0..8).fold(crc ^ u32::from(*byte), |crc, _| if crc & 1 == 0 { crc >> 1 } else { crc >> 1 ^ 0xedb8_8320 })
    })
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let mut disk = vec![0; (1 + usize::from(input.byte()) * 2).min(BLOCKS) * BLOCK];
    let (kind, most) = (input.byte(), u32::from(input.byte()));
    let granule = if kind < 0xe0 { kind % 9 } else { 0 };
    let real_kind = usize::from(kind).checked_sub(0xe0).map(|kind| kind / 16);
    let is_unchanged = input.is_over() && most >= 64;
    if let Some(kind) = real_kind {
        disk = real(REAL[kind]);
    } else if disk.len() > BLOCK {
        // A signature, and a GPT in one input of two.
        disk[510..512].copy_from_slice(&[0x55, 0xaa]);
        disk[450] = if input.byte() % 2 == 0 { 0xee } else { 0x05 };
        disk[454..462].copy_from_slice(&[1, 0, 0, 0, 0xff, 1, 0, 0]);
    }
    while !input.is_over() {
        match input.byte() % 4 {
            0 => header(&mut disk, &mut input),
            _ => write(&mut disk, &mut input),
        }
    }
    let size = (disk.len() / BLOCK) as u64;
    let mut scan = Scan::new(size, granule, most);
    let mut reads = 0;
    while let Some(read) = scan.wants() {
        assert!((1..=MAX_READ).contains(&read.blocks) && read.block + u64::from(read.blocks) <= size);
        let start = read.block as usize * BLOCK;
        scan.give(disk.get(start..start + read.blocks as usize * BLOCK));
        reads += 1;
        assert!(reads < 1000, "there is no end to it");
    }
    let finished = scan.finish();
    if let (Some(kind), true) = (real_kind, is_unchanged) {
        let found = finished.as_ref().and_then(|result| result.as_ref().ok()).expect("the table is whole");
        let usable = |number| found.find(&Selector::Number(number)).is_ok();
        let count = found.partitions.iter().filter(|partition| usable(partition.number)).count();
        assert_eq!(count, PARTITIONS[kind], "{found:?}");
    }
    let Some(Ok(table)) = finished else { return };
    let mut found: Vec<(u64, u64)> = Vec::new();
    for partition in &table.partitions {
        if let Ok(partition) = table.find(&Selector::Number(partition.number)) {
            let end = partition.first + partition.blocks;
            assert!(partition.first > 0 && partition.blocks > 0 && end <= size, "{partition:?}");
            assert!(found.iter().all(|(first, last)| end <= *first || *last <= partition.first), "{table:?}");
            found.push((partition.first, end));
        }
    }
});
