//! The Linux system calls that the peer uses, for arm64 (`asm-generic/unistd.h`), and the process's
//! arguments.

use core::arch::asm;

/// Numbers of system calls.
pub mod number {
    #![allow(missing_docs, reason = "the names are Linux's own")]
    pub const IO_SETUP: usize = 0;
    pub const IO_DESTROY: usize = 1;
    pub const IO_SUBMIT: usize = 2;
    pub const IO_GETEVENTS: usize = 4;
    pub const EVENTFD2: usize = 19;
    pub const OPENAT: usize = 56;
    pub const CLOSE: usize = 57;
    pub const PIPE2: usize = 59;
    pub const READ: usize = 63;
    pub const WRITE: usize = 64;
    pub const PREAD64: usize = 67;
    pub const PWRITE64: usize = 68;
    pub const FSYNC: usize = 82;
    pub const EXIT_GROUP: usize = 94;
    pub const FUTEX: usize = 98;
    pub const KILL: usize = 129;
    pub const RT_SIGACTION: usize = 134;
    pub const REBOOT: usize = 142;
    pub const GETPID: usize = 172;
    pub const SOCKET: usize = 198;
    pub const BIND: usize = 200;
    pub const LISTEN: usize = 201;
    pub const CONNECT: usize = 203;
    pub const SENDTO: usize = 206;
    pub const RECVFROM: usize = 207;
    pub const SETSOCKOPT: usize = 208;
    pub const CLONE: usize = 220;
    pub const EXECVE: usize = 221;
    pub const MMAP: usize = 222;
    pub const ACCEPT4: usize = 242;
    pub const RECVMMSG: usize = 243;
    pub const WAIT4: usize = 260;
    pub const SENDMMSG: usize = 269;
}

/// A system call with up to six arguments; a negative result is an error number.
///
/// # Safety
/// Linux reads or writes memory as the call says: pointers among the arguments must be valid for
/// that.
pub unsafe fn call(number: usize, arguments: [usize; 6]) -> isize {
    let result;
    // SAFETY: Linux keeps all registers except x0; what it does with memory is the caller's
    // promise.
    unsafe {
        asm!("svc #0", in("x8") number, inlateout("x0") arguments[0] => result, in("x1") arguments[1],
            in("x2") arguments[2], in("x3") arguments[3], in("x4") arguments[4], in("x5") arguments[5],
            options(nostack));
    }
    result
}

/// Writes to a file descriptor; what cannot be written is lost.
pub fn write(file: i32, bytes: &[u8]) {
    // SAFETY: the kernel reads `bytes`.
    unsafe { call(number::WRITE, [file as usize, bytes.as_ptr() as usize, bytes.len(), 0, 0, 0]) };
}

/// Ends the process.
pub fn exit(status: i32) -> ! {
    loop {
        // SAFETY: no memory is involved.
        unsafe { call(number::EXIT_GROUP, [status as usize, 0, 0, 0, 0, 0]) };
    }
}

/// Makes a second process, as fork does; 0 in the child.
pub fn fork() -> isize {
    const SIGCHLD: usize = 17;
    // SAFETY: without shared memory and on a copy of the stack.
    unsafe { call(number::CLONE, [SIGCHLD, 0, 0, 0, 0, 0]) }
}

/// Waits until a process has ended. Returns whether it did so with the status 0.
pub fn wait(process: isize) -> bool {
    let mut status = 0_u32;
    // SAFETY: Linux writes the status, which has its type.
    let ended = unsafe { call(number::WAIT4, [process as usize, (&raw mut status) as usize, 0, 0, 0, 0]) };
    ended == process && status == 0
}

/// Powers the machine off (`reboot(2)`, LINUX_REBOOT_CMD_POWER_OFF).
pub fn power_off() -> i32 {
    // SAFETY: no memory is involved.
    unsafe { call(number::REBOOT, [0xfee1_dead, 672_274_793, 0x4321_fedc, 0, 0, 0]) };
    1
}

/// The process's arguments.
pub struct Arguments {
    count: usize,
    first: *const *const u8,
}

impl Arguments {
    /// The arguments at `stack`.
    ///
    /// # Safety
    /// `stack` is the stack pointer with which Linux entered the program.
    pub unsafe fn new(stack: *const u64) -> Self {
        // SAFETY: the count stands there, and the pointers follow.
        unsafe { Self { count: *stack as usize, first: stack.add(1).cast() } }
    }

    /// The arguments from `index` on as a program is given them, if there are any: pointers to
    /// strings, and a null pointer behind the last (System V ABI).
    pub fn from(&self, index: usize) -> Option<*const *const u8> {
        // SAFETY: there are `count` pointers and the one that is null.
        (index < self.count).then(|| unsafe { self.first.add(index) })
    }

    /// Argument `index`, counted from the program's name.
    pub fn get(&self, index: usize) -> Option<&'static [u8]> {
        if index >= self.count {
            return None;
        }
        // SAFETY: there are `count` pointers to strings that end in zero, which live as long as the
        // process.
        unsafe {
            let start = *self.first.add(index);
            let mut length = 0;
            while *start.add(length) != 0 {
                length += 1;
            }
            Some(core::slice::from_raw_parts(start, length))
        }
    }
}
