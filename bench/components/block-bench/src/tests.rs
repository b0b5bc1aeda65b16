//! The rows, against a disk in memory.

use super::{BlockBench, ROWS, SPAN, WARM_UP};
use culm_block::Disk;
use culm_block::testing::{RamDisk, connection};

#[test]
fn each_row_has_as_many_requests_under_way_as_it_says() {
    let connection = connection(128, 256, 0, 1);
    let mut bench = BlockBench::new(&connection);
    let mut disk = RamDisk::new(&connection, Disk::new(SPAN, 1));
    let mut most = [0; ROWS.len()];
    let mut done = 0;
    while bench.row < ROWS.len() {
        let _ = bench.round();
        disk.take();
        if let Some(most) = most.get_mut(bench.row) {
            *most = disk.taken.len().max(*most);
        }
        done += disk.taken.len();
        disk.finish_all();
        let _ = disk.end_round();
    }
    assert_eq!(most, ROWS.each_ref().map(|row| row.depth as usize));
    let expected: u32 = ROWS.iter().map(|row| WARM_UP + row.requests + row.depth).sum();
    assert_eq!(done, expected as usize);
    assert!(disk.results.iter().all(|result| result.is_ok()));
}
