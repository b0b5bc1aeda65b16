//! Work of a Linux without its devices, by which one in a virtual machine is compared with one
//! that has the machine to itself: the numbers of the rows, and how often each is done.

/// The mark at which Linux has booted, so that its programs can begin.
pub const BOOT: u64 = 500;

/// A program that is run again and again, or one that forks.
#[derive(Clone, Copy, Debug)]
pub struct Work {
    /// Its number in marks.
    pub number: u64,
    /// Its row.
    pub row: &'static str,
    /// How often it is run, after once that is not measured.
    pub rounds: u32,
    /// The program and its arguments; without one, a process begins and ends.
    pub program: &'static str,
}

/// All of it.
pub static WORK: [Work; 3] = [
    Work { number: 501, row: "cpu-compress", rounds: 2, program: "/bin/busybox gzip -c /bin/nginx" },
    Work { number: 502, row: "cpu-hash", rounds: 10, program: "/bin/busybox sha256sum /bin/nginx" },
    Work { number: 503, row: "cpu-fork", rounds: 2000, program: "" },
];
