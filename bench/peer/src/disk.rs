//! Direct reads and writes of a disk, by size and by how many are under way: what Culm's
//! `block-bench` does, in the same rows under the same numbers.
//!
//! One at a time they are read and written by `pread` and `pwrite`, as dd does; many by Linux's
//! asynchronous input and output (`io_submit`), as fio does by default.

use crate::linux::{call, number, write};
use core::ffi::CStr;
use culm_bench_guest::disk::{BLOCK, MAX_BLOCKS, MAX_DEPTH, Operation, Row};
use culm_bench_guest::mark;

/// The most requests under way.
const DEPTH: usize = MAX_DEPTH as usize;

/// Memory for all of them.
const MEMORY: usize = DEPTH * MAX_BLOCKS as usize * BLOCK as usize;

/// A request, as `io_submit` takes it (Linux, `include/uapi/linux/aio_abi.h`).
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Request {
    data: u64,
    key_and_flags: u64,
    /// 0 to read, 1 to write.
    operation: u16,
    priority: i16,
    file: u32,
    buffer: u64,
    bytes: u64,
    offset: u64,
    reserved: u64,
    flags: u64,
}

/// An answer, as `io_getevents` gives it.
#[derive(Clone, Copy, Default)]
#[repr(C)]
struct Event {
    data: u64,
    request: u64,
    result: i64,
    result2: i64,
}

/// The disk, and memory to read into and write from.
struct Disk {
    file: usize,
    memory: usize,
}

/// Runs `rows` on the disk at `path` and says so.
pub fn run(path: &CStr, rows: &[Row]) -> i32 {
    // O_RDWR | O_DIRECT.
    const DIRECT: usize = 2 | 0o200_000;
    const HERE: usize = -100_isize as usize;
    // SAFETY: the path ends in zero, and Linux reads no further; the memory is a fresh mapping
    // (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE) that is never unmapped.
    let (file, memory) = unsafe {
        (
            call(number::OPENAT, [HERE, path.as_ptr() as usize, DIRECT, 0, 0, 0]),
            call(number::MMAP, [0, MEMORY, 3, 0x8022, usize::MAX, 0]),
        )
    };
    if file < 0 || memory < 0 {
        write(2, b"peer: no disk, or no memory\n");
        return 1;
    }
    let disk = Disk { file: file as usize, memory: memory as usize };
    let whole = (0..)
        .zip(rows)
        .all(|(number, row)| if row.depth == 1 { disk.single(number, row) } else { disk.many(number, row) });
    if !whole {
        write(2, b"peer: a request failed\n");
        return 1;
    }
    write(1, b"peer: disk rows done\n");
    0
}

impl Disk {
    /// One request at a time. Returns false if one failed.
    fn single(&self, number: u64, row: &Row) -> bool {
        let bytes = (row.blocks * BLOCK) as usize;
        for index in 0..row.warm_up + row.requests {
            if index == row.warm_up {
                mark::begin(number, row.requests.into());
            }
            let measured = index.saturating_sub(row.warm_up);
            if measured > 0 && row.is_lap(measured) {
                mark::lap(number, measured.into());
            }
            let (function, moved) = match row.operation {
                Operation::Read => (number::PREAD64, bytes),
                _ if row.is_flush(index) => (number::FSYNC, 0),
                Operation::Write | Operation::WriteFlush => (number::PWRITE64, bytes),
            };
            let place = row.block(index) as usize * BLOCK as usize;
            // SAFETY: Linux reads or writes so many bytes of `memory`, which is as long; fsync
            // takes the file alone.
            let result = unsafe { call(function, [self.file, self.memory, bytes, place, 0, 0]) };
            if result != moved as isize {
                return false;
            }
        }
        mark::end(number, row.requests.into());
        true
    }

    /// As many requests at a time as the row says. Returns false if one failed.
    fn many(&self, number: u64, row: &Row) -> bool {
        let bytes = (row.blocks * BLOCK) as usize;
        let operation = u16::from(row.operation == Operation::Write);
        let (begin, end) = (row.warm_up, row.warm_up + row.requests);
        let mut context = 0_usize;
        // SAFETY: Linux writes the context, which has its type.
        if unsafe { call(number::IO_SETUP, [DEPTH, (&raw mut context) as usize, 0, 0, 0, 0]) } != 0 {
            return false;
        }
        let mut all = [Request::default(); DEPTH];
        let mut events = [Event::default(); DEPTH];
        let mut free: [usize; DEPTH] = core::array::from_fn(|place| place);
        let (mut idle, mut sent, mut done) = (row.depth as usize, 0, 0);
        while done < end {
            let mut pointers = [0_usize; DEPTH];
            for (pointer, place) in pointers.iter_mut().zip(&free[..idle]) {
                all[*place] = Request {
                    data: *place as u64,
                    operation,
                    file: self.file as u32,
                    buffer: (self.memory + place * bytes) as u64,
                    bytes: bytes as u64,
                    offset: row.block(sent) * u64::from(BLOCK),
                    ..Request::default()
                };
                *pointer = (&raw const all[*place]) as usize;
                sent += 1;
            }
            // SAFETY: the pointers lead to requests, whose buffers lie in `memory`, one each.
            let submitted = unsafe { call(number::IO_SUBMIT, [context, idle, pointers.as_ptr() as usize, 0, 0, 0]) };
            if submitted != idle as isize {
                return false;
            }
            // SAFETY: there is space for so many events.
            let count = unsafe { call(number::IO_GETEVENTS, [context, 1, DEPTH, events.as_mut_ptr() as usize, 0, 0]) };
            let Some(ended) = events.get(..count.max(0) as usize).filter(|ended| !ended.is_empty()) else {
                return false;
            };
            idle = ended.len();
            for (place, event) in free.iter_mut().zip(ended) {
                if event.result != bytes as i64 {
                    return false;
                }
                *place = event.data as usize;
                done += 1;
                if done == begin {
                    mark::begin(number, row.requests.into());
                }
                if done == end {
                    mark::end(number, row.requests.into());
                }
            }
        }
        // It ends what is under way.
        // SAFETY: no memory is involved.
        unsafe { call(number::IO_DESTROY, [context, 0, 0, 0, 0, 0]) };
        true
    }
}
