//! Packets between two guests: the rows, for the program that sends them and for the harness.

/// A row: a Linux asks the echo server of another.
#[derive(Clone, Copy, Debug)]
pub struct Pair {
    /// Its number in marks.
    pub number: u64,
    /// Its name.
    pub row: &'static str,
    /// Bytes of a packet's payload.
    pub size: usize,
    /// Packets under way.
    pub window: u32,
    /// Answers that are measured, after a fifth of them that are not.
    pub answers: u32,
}

impl Pair {
    /// Returns how many packets are measured: each way has one for each answer.
    pub const fn packets(&self) -> u64 {
        2 * self.answers as u64
    }
}

/// All of them.
pub static PAIR: [Pair; 2] = [
    Pair { number: 510, row: "pair-udp-64-w1", size: 64, window: 1, answers: 2000 },
    Pair { number: 511, row: "pair-udp-64-w64", size: 64, window: 64, answers: 20_000 },
];
