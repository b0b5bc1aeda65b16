//! Loops over Linux's ways to signal: what Culm's calls and notifications are compared with.
//!
//! Each row runs between two marks (`hint #96` with the row's number in x0 and its rounds in x1,
//! then `hint #97`), at which the counting plugin records its counters.

use crate::linux::{call, exit, fork, number, write};
use core::sync::atomic::{AtomicU32, Ordering};
use culm_bench_guest::ipc::{EVENTFD, FUTEX, GETPID, PIPE};
use culm_bench_guest::mark;

const ROUNDS: usize = 10_000;
const WARM_UP: usize = 1_000;

const FUTEX_WAIT: usize = 0;
const FUTEX_WAKE: usize = 1;
const SIGKILL: usize = 9;

fn measure(row: u64, mut round: impl FnMut()) {
    for _ in 0..WARM_UP {
        round();
    }
    mark::begin(row, ROUNDS as u64);
    for _ in 0..ROUNDS {
        round();
    }
    mark::end(row, ROUNDS as u64);
}

/// Runs all rows and says so.
pub fn run() -> i32 {
    measure(GETPID, || {
        // SAFETY: no memory is involved.
        unsafe { call(number::GETPID, [0; 6]) };
    });
    futex();
    for (row, number, size) in [(PIPE, number::PIPE2, 1), (EVENTFD, number::EVENTFD2, 8)] {
        let (mut there, mut back) = ([0u32; 2], [0u32; 2]);
        open_pair(number, &mut there);
        open_pair(number, &mut back);
        files(row, [there[1], there[0], back[1], back[0]], size);
    }
    write(1, b"peer: ipc rows done\n");
    0
}

/// Opens a pipe (`ends`: read, write) or an event counter (both the same).
fn open_pair(number: usize, ends: &mut [u32; 2]) {
    if number == number::PIPE2 {
        // SAFETY: the kernel writes two descriptors.
        unsafe { call(number, [ends.as_mut_ptr() as usize, 0, 0, 0, 0, 0]) };
    } else {
        // SAFETY: no memory is involved.
        let file = unsafe { call(number, [0; 6]) } as u32;
        *ends = [file, file];
    }
}

/// Ping-pong between two processes over files: `[write there, read there, write back, read back]`.
fn files(row: u64, ends: [u32; 4], size: usize) {
    let transfer = |number: usize, file: u32, word: &mut u64| {
        // SAFETY: the kernel reads or writes at most the eight bytes of `word`.
        unsafe { call(number, [file as usize, word as *mut u64 as usize, size, 0, 0, 0]) };
    };
    let child = fork();
    if child == 0 {
        let mut word = 1u64;
        loop {
            transfer(number::READ, ends[1], &mut word);
            transfer(number::WRITE, ends[2], &mut word);
        }
    }
    let mut word = 1u64;
    measure(row, || {
        transfer(number::WRITE, ends[0], &mut word);
        transfer(number::READ, ends[3], &mut word);
    });
    end_child(child);
}

/// Ping-pong between two processes over a word in shared memory.
fn futex() {
    // SAFETY: a fresh shared anonymous page (PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS),
    // that is never unmapped.
    let turn: &AtomicU32 = unsafe {
        let page = call(number::MMAP, [0, 4096, 3, 0x21, usize::MAX, 0]);
        if page < 0 {
            exit(1);
        }
        &*(page as *const AtomicU32)
    };
    let pass = |mine: u32, theirs: u32| {
        turn.store(theirs, Ordering::Release);
        let word = turn as *const AtomicU32 as usize;
        // SAFETY: the kernel looks at the shared word only.
        unsafe { call(number::FUTEX, [word, FUTEX_WAKE, 1, 0, 0, 0]) };
        while turn.load(Ordering::Acquire) != mine {
            // SAFETY: as above.
            unsafe { call(number::FUTEX, [word, FUTEX_WAIT, theirs as usize, 0, 0, 0]) };
        }
    };
    let child = fork();
    if child == 0 {
        while turn.load(Ordering::Acquire) != 1 {
            // SAFETY: as above.
            unsafe { call(number::FUTEX, [turn as *const AtomicU32 as usize, FUTEX_WAIT, 0, 0, 0, 0]) };
        }
        loop {
            pass(1, 0);
        }
    }
    measure(FUTEX, || pass(0, 1));
    end_child(child);
}

fn end_child(child: isize) {
    // SAFETY: no memory is involved.
    unsafe {
        call(number::KILL, [child as usize, SIGKILL, 0, 0, 0, 0]);
        call(number::WAIT4, [child as usize, 0, 0, 0, 0, 0]);
    }
}
