//! The rows, against a disk in memory.

use super::BlockBench;
use culm_bench_guest::disk::{CARD, DISK, MAX_BLOCKS, MAX_DEPTH, Row, SPAN};
use culm_block::Disk;
use culm_block::testing::{RamDisk, connection};

#[test]
fn each_row_has_as_many_requests_under_way_as_it_says() {
    run(&DISK);
    run(&CARD);
}

fn run(rows: &'static [Row]) {
    let connection = connection(128, u64::from(MAX_DEPTH * MAX_BLOCKS), 0, 1);
    let mut bench = BlockBench::new(&connection, rows);
    let mut disk = RamDisk::new(&connection, Disk::new(SPAN, 1));
    disk.is_hollow = true;
    let mut most = vec![0; rows.len()];
    let mut done = 0;
    while bench.row < rows.len() {
        let _ = bench.round();
        disk.take();
        if let Some(most) = most.get_mut(bench.row) {
            *most = disk.taken.len().max(*most);
        }
        done += disk.taken.len();
        disk.finish_all();
        let _ = disk.end_round();
    }
    assert_eq!(most, rows.iter().map(|row| row.depth as usize).collect::<Vec<_>>());
    let expected: u32 = rows.iter().map(|row| row.warm_up + row.requests + row.depth).sum();
    assert_eq!(done, expected as usize);
    assert!(disk.results.iter().all(|result| result.is_ok()));
}
