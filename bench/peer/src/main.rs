//! The Linux side of the benchmarks: a static program for Linux on arm64 that needs no C library,
//! so that it can be built with the tool chain that builds Culm's own components, and so that the
//! peer's figures hold its kernel's work and no library's.
//!
//! `peer echo PORT` answers each UDP packet with its content, one system call to receive and one to
//! send; `peer batch PORT` does the same with recvmmsg and sendmmsg; `peer ask ADDRESS PORT` has
//! such a server answer packets; `peer bulk` takes and sends as
//! much as it can over TCP; `peer disk` and `peer card` read and write `/dev/vda` and
//! `/dev/mmcblk0`, `peer file` reads a file, and `peer ipc` runs loops over system calls and
//! between two processes, each between marks that the counting plugin records (`bench/plugin`);
//! `peer loops ROUNDS` runs loops over instructions and memory (`bench/guest`); `peer work` runs a
//! program again and again; `peer begin` and `peer end` are a row's marks for programs that have
//! none; `peer booted` marks that Linux has booted; `peer off` powers the machine off.
#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod ask;
#[cfg(target_os = "none")]
mod bulk;
#[cfg(target_os = "none")]
mod disk;
#[cfg(target_os = "none")]
mod echo;
#[cfg(target_os = "none")]
mod file;
#[cfg(target_os = "none")]
mod ipc;
#[cfg(target_os = "none")]
mod linux;
#[cfg(target_os = "none")]
mod memory;
#[cfg(target_os = "none")]
mod work;

#[cfg(target_os = "none")]
mod program {
    use super::{ask, bulk, disk, echo, file, ipc, linux, memory, work};
    use core::arch::naked_asm;
    use culm_bench_guest::{disk as rows, mark, work::BOOT};

    /// Linux enters here with the arguments on the stack (System V ABI): count, then pointers.
    #[unsafe(naked)]
    // SAFETY: the one symbol of this name in the program; it only hands the stack pointer on.
    #[unsafe(no_mangle)]
    unsafe extern "C" fn _start() -> ! {
        naked_asm!("mov x0, sp", "mov x29, xzr", "mov x30, xzr", "b {main}", main = sym main)
    }

    extern "C" fn main(stack: *const u64) -> ! {
        // SAFETY: `stack` is what Linux passed: the count of arguments, then that many pointers to
        // strings that end in zero.
        let arguments = unsafe { linux::Arguments::new(stack) };
        let status = match arguments.get(1) {
            Some(b"echo") => echo::single(number(&arguments, 2) as u16),
            Some(b"batch") => echo::batch(number(&arguments, 2) as u16),
            Some(b"ask") => ask::run(arguments.get(2).unwrap_or_default(), number(&arguments, 3) as u16),
            Some(b"bulk") => bulk::run(),
            Some(b"disk") => disk::run(c"/dev/vda", &rows::DISK),
            Some(b"disk-of-guest") => disk::run(c"/dev/vda", &rows::GUEST),
            Some(b"card") => disk::run(c"/dev/mmcblk0", &rows::CARD),
            Some(b"file") => file::run(),
            Some(b"ipc") => ipc::run(),
            Some(b"loops") => memory::run(number(&arguments, 2)),
            Some(b"work") => work::run(number(&arguments, 2), number(&arguments, 3), &arguments, 4),
            Some(b"begin") => {
                mark::begin(number(&arguments, 2), number(&arguments, 3));
                0
            }
            Some(b"end") => {
                mark::end(number(&arguments, 2), number(&arguments, 3));
                0
            }
            Some(b"booted") => {
                mark::end(BOOT, 1);
                0
            }
            Some(b"off") => linux::power_off(),
            _ => {
                linux::write(
                    2,
                    b"usage: peer echo PORT | batch PORT | ask ADDRESS PORT | bulk | disk | disk-of-guest | card | file | ipc | \
                      loops ROUNDS | work ROW ROUNDS [PROGRAM ...] | begin ROW ROUNDS | end ROW ROUNDS | booted | off\n",
                );
                2
            }
        };
        linux::exit(status)
    }

    /// The number that an argument is.
    fn number(arguments: &linux::Arguments, index: usize) -> u64 {
        let digits = arguments.get(index).unwrap_or(b"7");
        digits.iter().fold(0, |number, digit| number.wrapping_mul(10).wrapping_add(u64::from(digit.wrapping_sub(b'0'))))
    }

    #[panic_handler]
    fn panic(_: &core::panic::PanicInfo) -> ! {
        linux::write(2, b"peer: panic\n");
        linux::exit(101)
    }
}

#[cfg(not(target_os = "none"))]
fn main() {}
