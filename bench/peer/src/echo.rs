//! A UDP server that answers each packet with its content.

use crate::linux::{call, number, write};
use core::ptr::null_mut;

const BATCH: usize = 64;
const PACKET: usize = 2048;
const AF_INET: usize = 2;
const SOCK_DGRAM: usize = 2;
const SOL_SOCKET: usize = 1;
const SO_RCVBUFFORCE: usize = 33;
/// Return after the first packet, with whatever else is there by then.
const MSG_WAITFORONE: usize = 0x1_0000;

/// `struct sockaddr_in`: family, port and address in network byte order.
#[derive(Clone, Copy)]
#[repr(C)]
pub struct Address {
    family: u16,
    port: u16,
    address: u32,
    zero: [u8; 8],
}

const NO_ADDRESS: Address = Address { family: 0, port: 0, address: 0, zero: [0; 8] };
/// Its size.
pub const ADDRESS_SIZE: u32 = size_of::<Address>() as u32;

impl Address {
    /// Returns the address of a port; zero stands for any, of this machine or of a port.
    pub fn new([a, b, c, d]: [u8; 4], port: u16) -> Self {
        Self { family: AF_INET as u16, port: port.to_be(), address: u32::from_ne_bytes([a, b, c, d]), ..NO_ADDRESS }
    }
}

/// `struct iovec`.
#[derive(Clone, Copy)]
#[repr(C)]
struct Piece {
    base: *mut u8,
    length: usize,
}

/// `struct mmsghdr`: a `struct msghdr` and the count of bytes.
#[derive(Clone, Copy)]
#[repr(C)]
struct Message {
    name: *mut Address,
    name_length: u32,
    pieces: *mut Piece,
    piece_count: usize,
    control: *mut u8,
    control_length: usize,
    flags: i32,
    padding: u32,
    received: u32,
}

/// Opens a UDP port of this machine, or any.
pub fn open(port: u16) -> Option<usize> {
    let address = Address::new([0; 4], port);
    // SAFETY: the kernel reads `address` and no other memory.
    let (socket, bound) = unsafe {
        let socket = call(number::SOCKET, [AF_INET, SOCK_DGRAM, 0, 0, 0, 0]);
        let pointer = &raw const address as usize;
        (socket, call(number::BIND, [socket as usize, pointer, ADDRESS_SIZE as usize, 0, 0, 0]))
    };
    // Room for every window that is measured: with Linux's default a twelfth of 256 small packets
    // is dropped.
    let (level, option, size) = (SOL_SOCKET, SO_RCVBUFFORCE, 8u32 << 20);
    // SAFETY: the kernel reads `size`.
    unsafe { call(number::SETSOCKOPT, [socket as usize, level, option, &raw const size as usize, 4, 0]) };
    if socket < 0 || bound < 0 {
        write(2, b"peer: cannot open the port\n");
        return None;
    }
    Some(socket as usize)
}

/// One system call to receive a packet, one to send it. Returns only where the port cannot be
/// opened.
pub fn single(port: u16) -> i32 {
    let Some(socket) = open(port) else { return 1 };
    let mut packet = [0u8; PACKET];
    let (data, mut peer) = (packet.as_mut_ptr() as usize, NO_ADDRESS);
    loop {
        let mut length = ADDRESS_SIZE;
        let peer = &raw mut peer as usize;
        // SAFETY: the kernel writes at most `PACKET` bytes to `packet`, an address to `peer` and
        // its length to `length`.
        let received = unsafe { call(number::RECVFROM, [socket, data, PACKET, 0, peer, &raw mut length as usize]) };
        if received >= 0 {
            // SAFETY: the kernel reads what it has just written.
            unsafe { call(number::SENDTO, [socket, data, received as usize, 0, peer, length as usize]) };
        }
    }
}

/// One system call to receive what is there, one to send it all. Returns only where the port cannot
/// be opened.
pub fn batch(port: u16) -> i32 {
    let Some(socket) = open(port) else { return 1 };
    let mut packets = [[0u8; PACKET]; BATCH];
    let mut peers = [NO_ADDRESS; BATCH];
    let mut pieces = [Piece { base: null_mut(), length: 0 }; BATCH];
    let mut messages = [Message {
        name: null_mut(),
        name_length: 0,
        pieces: null_mut(),
        piece_count: 1,
        control: null_mut(),
        control_length: 0,
        flags: 0,
        padding: 0,
        received: 0,
    }; BATCH];
    for index in 0..BATCH {
        pieces[index].base = packets[index].as_mut_ptr();
        messages[index].name = &raw mut peers[index];
        messages[index].pieces = &raw mut pieces[index];
    }
    let first = messages.as_mut_ptr();
    loop {
        for index in 0..BATCH {
            // SAFETY: `first` points to `BATCH` messages, `pieces` has as many; only the kernel
            // looks at them besides, during calls.
            unsafe {
                (*first.add(index)).name_length = ADDRESS_SIZE;
                (*(*first.add(index)).pieces).length = PACKET;
            }
        }
        // SAFETY: each message describes one packet's buffer and one address, all of which outlive
        // the call.
        let received = unsafe { call(number::RECVMMSG, [socket, first as usize, BATCH, MSG_WAITFORONE, 0, 0]) };
        if received <= 0 {
            continue;
        }
        for index in 0..received as usize {
            // SAFETY: as above; `received` is at most `BATCH`.
            unsafe { (*(*first.add(index)).pieces).length = (*first.add(index)).received as usize };
        }
        // SAFETY: as above; the kernel reads what it has written.
        unsafe { call(number::SENDMMSG, [socket, first as usize, received as usize, 0, 0, 0]) };
    }
}
