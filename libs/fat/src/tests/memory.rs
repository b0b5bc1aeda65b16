//! The memory that recovery asks for, and what it holds of it.

use super::*;
use crate::Recovered;
use crate::recover::room;
use crate::table::END;

/// The heap that the file service has.
const HEAP: usize = 2 << 20;

/// Tests that whoever has a large cache, or a disk with large blocks, can recover a small volume.
#[test]
fn a_small_volume_is_recovered_with_the_largest_cache() {
    for mut disk in [Disk::small(), Disk::large(), Disk::coarse(), Disk::uneven()] {
        room::limit(HEAP);
        let mut volume = mounted(&mut disk);
        let recovered = run(&mut volume, &mut disk, Operation::Recover);
        let Ok(Answer::Recovered(Recovered { is_whole, .. })) = recovered else { panic!("{recovered:?}") };
        assert!(is_whole, "with units of {} bytes", disk.unit);
    }
}

/// Returns the most bytes that were written between two flushes.
fn most_at_once(disk: &Disk) -> usize {
    let bytes = |event: &Event| if let Event::Write { bytes, .. } = event { bytes.len() } else { 0 };
    let between = disk.record.split(|event| matches!(event, Event::Flush));
    between.map(|events| events.iter().map(bytes).sum()).max().unwrap_or(0)
}

#[test]
fn as_many_bytes_are_written_at_once_in_large_blocks_as_in_small_ones() {
    for granule in [0, 1] {
        let unit = BLOCK << granule;
        let mut disk = Disk { unit, ..Disk::formatted(68 << 11, &["-F", "32", "-s", "2"]) };
        let number = |at: usize| u32::from_le_bytes(disk.bytes[at..at + 4].try_into().unwrap()) as usize;
        let (table, length) = (usize::from(disk.bytes[14]) * BLOCK, number(36) * BLOCK);
        // Nothing names any of these clusters.
        for at in (3..60_000).flat_map(|cluster| [table + 4 * cluster, table + length + 4 * cluster]) {
            disk.bytes[at..at + 4].copy_from_slice(&END.to_le_bytes());
        }
        let mut volume = mounted(&mut disk);
        let recovered = run(&mut volume, &mut disk, Operation::Recover);
        let all = Recovered { is_whole: true, freed: 59_997, ..Recovered::default() };
        assert_eq!(recovered, Ok(Answer::Recovered(all)));
        // The unit of a last entry's copy, and that with the mark, come on top.
        let most = 64 * BLOCK + 2 * unit;
        assert!(most_at_once(&disk) <= most, "{} of {most}", most_at_once(&disk));

        write(&mut volume, &mut disk, "long", b"").unwrap();
        let (file, _) = opened(&mut volume, &mut disk, Operation::Append { path: "long".into() }).unwrap();
        let size = 50 << 20;
        run(&mut volume, &mut disk, Operation::Reserve { file, size }).unwrap();
        run(&mut volume, &mut disk, Operation::Publish { file, size }).unwrap();
        run(&mut volume, &mut disk, Operation::Close { file }).unwrap();
        disk.record.clear();
        run(&mut volume, &mut disk, Operation::Remove { path: "long".into() }).unwrap();
        while volume.is_freeing() {
            run(&mut volume, &mut disk, Operation::Free).unwrap();
        }
        assert!((most / 2..=most).contains(&most_at_once(&disk)), "{} of {most}", most_at_once(&disk));
        run(&mut volume, &mut disk, Operation::Rest).unwrap();
        assert_eq!(disk.complaint(), None);
    }
}
