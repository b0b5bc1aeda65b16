//! The load, against a disk in memory.

use super::{BlockLoad, Config};
use culm_block::Disk;
use culm_block::testing::{RamDisk, connection};

#[test]
fn as_many_requests_as_it_is_told_are_under_way_without_end() {
    let connection = connection(128, 64, 0, 1);
    let config = Config { number: 3, writes: true, blocks: 8, depth: 5, beat: 10 };
    let mut load = BlockLoad::new(&connection, config);
    // Three requests fill it, and a part of one is left.
    let mut disk = RamDisk::new(&connection, Disk::new(30, 1));
    for round in 0..100 {
        let _ = load.round();
        disk.take();
        assert!(round == 0 || disk.taken.len() == 5, "{} under way in round {round}", disk.taken.len());
        disk.finish_all();
        let _ = disk.end_round();
    }
    assert!(load.done > 400 && disk.results.iter().all(|result| result.is_ok()));
}
