//! Asks a UDP echo server, with so many packets under way, between marks.

use crate::echo::{ADDRESS_SIZE, Address, open};
use crate::linux::{call, number, write};
use core::ptr::null;
use culm_bench_guest::mark;
use culm_bench_guest::pair::{PAIR, Pair};

const SOL_SOCKET: usize = 1;
/// With a `struct timeval` of 64-bit fields.
const SO_RCVTIMEO: usize = 20;

/// For an answer, in microseconds: whatever is under way then is lost.
const PATIENCE: u64 = 200_000;

/// A connected socket.
struct Asker {
    socket: usize,
    /// Packets that were sent and are not known to be lost or answered.
    under_way: u32,
    packet: [u8; 2048],
}

/// Asks the server at an address in dotted decimals: each row in turn, once the server answers.
pub fn run(address: &[u8], port: u16) -> i32 {
    let address = Address::new(parse(address), port);
    let Some(socket) = open(0) else { return 1 };
    let patience = [0, PATIENCE];
    // SAFETY: the kernel reads `address` and `patience`.
    let connected = unsafe {
        let patience = patience.as_ptr() as usize;
        call(number::SETSOCKOPT, [socket, SOL_SOCKET, SO_RCVTIMEO, patience, size_of::<[u64; 2]>(), 0]);
        call(number::CONNECT, [socket, &raw const address as usize, ADDRESS_SIZE as usize, 0, 0, 0])
    };
    if connected < 0 {
        write(2, b"peer: cannot connect\n");
        return 1;
    }
    let mut asker = Asker { socket, under_way: 0, packet: [b'p'; 2048] };
    for row in &PAIR {
        asker.ask(row, row.answers / 5);
        mark::begin(row.number, row.packets());
        asker.ask(row, row.answers);
        mark::end(row.number, row.packets());
    }
    0
}

impl Asker {
    /// Has so many packets answered. Those that are under way then stay so.
    fn ask(&mut self, row: &Pair, answers: u32) {
        let data = self.packet.as_mut_ptr() as usize;
        let mut answered = 0;
        while answered < answers {
            while self.under_way < row.window {
                // SAFETY: the kernel reads the bytes of `packet`.
                let sent = unsafe { call(number::SENDTO, [self.socket, data, row.size, 0, null::<u8>() as usize, 0]) };
                // What is not sent counts as lost.
                self.under_way += 1;
                if sent < 0 {
                    break;
                }
            }
            // SAFETY: the kernel writes at most the bytes of `packet`.
            let received = unsafe { call(number::RECVFROM, [self.socket, data, self.packet.len(), 0, 0, 0]) };
            if received < 0 {
                self.under_way = 0;
            } else {
                answered += 1;
                self.under_way = self.under_way.saturating_sub(1);
            }
        }
    }
}

/// Reads dotted decimals; what is none is zero.
fn parse(text: &[u8]) -> [u8; 4] {
    let mut address = [0; 4];
    for (byte, digits) in address.iter_mut().zip(text.split(|byte| *byte == b'.')) {
        *byte =
            digits.iter().fold(0, |number: u8, digit| number.wrapping_mul(10).wrapping_add(digit.wrapping_sub(b'0')));
    }
    address
}
