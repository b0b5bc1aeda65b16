//! Direct reads and writes of a disk, by size and by how many are under way: what Culm's
//! `block-bench` does, in the same rows under the same numbers.
//!
//! One at a time they are read and written by `pread` and `pwrite`, as dd does; many by Linux's
//! asynchronous input and output (`io_submit`), as fio does by default.

use crate::linux::{call, number, write};
use culm_bench_guest::mark;

/// The part of the disk over which each row goes, again and again.
const SPAN: usize = 16 << 20;

/// Requests before those that are measured.
const WARM_UP: usize = 400;

/// The most requests under way.
const DEPTH: usize = 32;

/// Memory for all of them.
const MEMORY: usize = 128 << 10;

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

/// Runs all rows and says so.
pub fn run() -> i32 {
    // O_RDWR | O_DIRECT.
    const DIRECT: usize = 2 | 0o200_000;
    const HERE: usize = -100_isize as usize;
    // SAFETY: the path ends in zero, and Linux reads no further; the memory is a fresh mapping
    // (PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE) that is never unmapped.
    let (file, memory) = unsafe {
        let path = c"/dev/vda".as_ptr() as usize;
        (call(number::OPENAT, [HERE, path, DIRECT, 0, 0, 0]), call(number::MMAP, [0, MEMORY, 3, 0x8022, usize::MAX, 0]))
    };
    if file < 0 || memory < 0 {
        write(2, b"peer: no disk, or no memory\n");
        return 1;
    }
    let disk = Disk { file: file as usize, memory: memory as usize };
    let whole = disk.single(1, number::PREAD64, 4096, 4000)
        && disk.single(2, number::PWRITE64, 4096, 4000)
        && disk.many(3, 0, 16_000)
        && disk.many(4, 1, 16_000)
        && disk.single(5, number::PREAD64, MEMORY, 1000)
        && disk.single(6, number::PWRITE64, MEMORY, 1000)
        && disk.durable(7, 1000);
    if !whole {
        write(2, b"peer: a request failed\n");
        return 1;
    }
    write(1, b"peer: disk rows done\n");
    0
}

impl Disk {
    /// One request at a time. Returns false if one failed.
    fn single(&self, row: u64, number: usize, bytes: usize, requests: usize) -> bool {
        for index in 0..WARM_UP + requests {
            if index == WARM_UP {
                mark::begin(row, requests as u64);
            }
            // SAFETY: Linux reads or writes so many bytes of `memory`, which is as long.
            let moved = unsafe { call(number, [self.file, self.memory, bytes, index * bytes % SPAN, 0, 0]) };
            if moved != bytes as isize {
                return false;
            }
        }
        mark::end(row, requests as u64);
        true
    }

    /// Writes of 4 KiB, each made durable by the next request. Returns false if one failed.
    fn durable(&self, row: u64, writes: usize) -> bool {
        for index in 0..WARM_UP / 2 + writes {
            if index == WARM_UP / 2 {
                mark::begin(row, 2 * writes as u64);
            }
            let place = 2 * index * 4096 % SPAN;
            // SAFETY: Linux reads so many bytes of `memory`, which is longer.
            let written = unsafe { call(number::PWRITE64, [self.file, self.memory, 4096, place, 0, 0]) };
            // SAFETY: no memory is involved.
            let flushed = unsafe { call(number::FSYNC, [self.file, 0, 0, 0, 0, 0]) };
            if (written, flushed) != (4096, 0) {
                return false;
            }
        }
        mark::end(row, 2 * writes as u64);
        true
    }

    /// [`DEPTH`] requests of 4 KiB at a time. Returns false if one failed.
    fn many(&self, row: u64, operation: u16, requests: usize) -> bool {
        let mut context = 0_usize;
        // SAFETY: Linux writes the context, which has its type.
        if unsafe { call(number::IO_SETUP, [DEPTH, (&raw mut context) as usize, 0, 0, 0, 0]) } != 0 {
            return false;
        }
        let mut all = [Request::default(); DEPTH];
        let mut events = [Event::default(); DEPTH];
        let mut free: [usize; DEPTH] = core::array::from_fn(|place| place);
        let (mut idle, mut sent, mut done) = (DEPTH, 0, 0);
        while done < WARM_UP + requests {
            let mut pointers = [0_usize; DEPTH];
            for (pointer, place) in pointers.iter_mut().zip(&free[..idle]) {
                all[*place] = Request {
                    data: *place as u64,
                    operation,
                    file: self.file as u32,
                    buffer: (self.memory + place * 4096) as u64,
                    bytes: 4096,
                    offset: (sent * 4096 % SPAN) as u64,
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
                if event.result != 4096 {
                    return false;
                }
                *place = event.data as usize;
                done += 1;
                if done == WARM_UP {
                    mark::begin(row, requests as u64);
                }
                if done == WARM_UP + requests {
                    mark::end(row, requests as u64);
                }
            }
        }
        // It ends what is under way.
        // SAFETY: no memory is involved.
        unsafe { call(number::IO_DESTROY, [context, 0, 0, 0, 0, 0]) };
        true
    }
}
