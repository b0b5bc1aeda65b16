//! Requests as a good driver makes them, which get as far as to what they ask for: frames, of which
//! some are in another's name, and pieces of the disk, of which some are beyond its end.

use crate::devices::{AVAILABLE, CARD, DISK, USED, agree, place_queue, register, ring};
use culm_tests_guest::machine::{load, microsecond, now, store};
use culm_tests_guest::random::Random;

/// Places of a queue.
const SIZE: u64 = 64;

/// Where a queue's buffers are, behind its rings, and bytes of one.
const BUFFERS: u64 = 0xa000;
const BUFFER: u64 = 0x1000;

/// The most requests at a time, and descriptors of one.
const MOST: u64 = 6;
const PARTS: u64 = 3;

/// Flags of a descriptor (VIRTIO 1.2 §2.7.5).
const MORE: u64 = 1;
const DEVICE_WRITES: u64 = 2;

/// Microseconds in which a device is to have answered; other CPUs may have spoilt the requests.
const PATIENCE: u64 = 2000;

/// Bytes of the header before a frame (§5.1.6), and of the disk's before its data (§5.2.6).
const FRAME_HEADER: u64 = 12;
const DISK_HEADER: u64 = 16;

/// Has a device do a few things, of which it is to refuse some.
pub fn make(cpu: usize, random: &mut Random) {
    if random.once_in(2) { send_frames(cpu, random) } else { ask_disk(cpu, random) }
}

fn send_frames(cpu: usize, random: &mut Random) {
    const TRANSMIT: u64 = 1;
    let queue = ring(cpu, TRANSMIT);
    set_up(CARD, cpu, TRANSMIT);
    let count = random.below(MOST) + 1;
    for index in 0..count {
        let buffer = queue + BUFFERS + index * BUFFER;
        let any = 60 + random.below(1455);
        let length = random.one_of(&[14, 60, any, 1514, 1515, 3000]);
        write_frame(buffer, random);
        offer(queue, index, &[(buffer, FRAME_HEADER + length, 0)]);
    }
    submit(CARD, TRANSMIT, queue, count);
}

/// Writes a frame to everybody, behind a header that asks for nothing. Nobody has reason to answer
/// it: it is ARP that asks for no address, or a packet that is broken or empty.
fn write_frame(buffer: u64, random: &mut Random) {
    const ARP: [u8; 10] = [0x08, 0x06, 0, 1, 8, 0, 6, 4, 0, 1];
    const IPV4: [u8; 10] = [0x08, 0x00, 0x45, 0, 0, 20, 0, 0, 0, 0];
    const IPV6: [u8; 10] = [0x86, 0xdd, 0x60, 0, 0, 0, 0, 0, 59, 0];
    let frame = buffer + FRAME_HEADER;
    write(buffer, &[0; FRAME_HEADER as usize]);
    write(frame, &[0xff; 6]);
    write(frame + 6, &sender(random));
    write(frame + 12, &random.one_of(&[ARP, ARP, IPV4, IPV6]));
    // Where ARP tells its sender's address, and asks for one.
    write(frame + 22, &sender(random));
    write(frame + 28, &[0; 14]);
}

/// The card's own address, nearly that, or any that is a station's.
fn sender(random: &mut Random) -> [u8; 6] {
    let mut address = core::array::from_fn(|index| load(CARD + register::CONFIGURATION + index as u64, 1) as u8);
    match random.below(8) {
        0 => address[random.below(6) as usize] ^= 1 << random.below(8),
        1 => address = random.number().to_le_bytes().first_chunk().map_or(address, |any| *any),
        _ => {}
    }
    address
}

fn ask_disk(cpu: usize, random: &mut Random) {
    const SECTOR: u64 = 512;
    const READ: u64 = 0;
    const WRITE: u64 = 1;
    const FLUSH: u64 = 4;
    let queue = ring(cpu, 0);
    set_up(DISK, cpu, 0);
    let [low, high] = [0, 4].map(|half| load(DISK + register::CONFIGURATION + half, 4));
    let sectors = high << 32 | low;
    let count = random.below(MOST) + 1;
    for index in 0..count {
        let buffer = queue + BUFFERS + index * BUFFER;
        let length = SECTOR * (random.below(6) + 1);
        let sector = match random.below(6) {
            0 => sectors.saturating_sub(1),
            1 => sectors.wrapping_add(random.below(1 << 20)),
            2 => random.value(),
            _ => random.below(sectors.max(1)),
        };
        let kind = random.one_of(&[READ, WRITE, READ, WRITE, FLUSH]);
        store(buffer, 4, kind);
        store(buffer + 4, 4, 0);
        store(buffer + 8, 8, sector);
        let (data, status) = (buffer + SECTOR, buffer + DISK_HEADER);
        let whole = [(buffer, DISK_HEADER, 0), (data, length, if kind == READ { DEVICE_WRITES } else { 0 })];
        let parts = [whole[0], whole[1], (status, 1, DEVICE_WRITES)];
        // A flush has no data.
        if kind == FLUSH { offer(queue, index, &[parts[0], parts[2]]) } else { offer(queue, index, &parts) }
    }
    submit(DISK, 0, queue, count);
}

/// Sets a device up with all that it offers and one queue.
fn set_up(device: u64, cpu: usize, number: u64) {
    const LIVE: u64 = 0xf;
    let queue = ring(cpu, number);
    for part in [AVAILABLE, USED] {
        store(queue + part, 4, 0);
    }
    agree(device, |offered, _| offered);
    place_queue(device, number, SIZE, [0, AVAILABLE, USED].map(|offset| queue + offset));
    store(device + register::STATUS, 4, LIVE);
}

/// Writes the request of this number: its parts, each with address, length and flags.
fn offer(queue: u64, index: u64, parts: &[(u64, u64, u64)]) {
    let first = index * PARTS;
    for (number, (address, length, flags)) in (first..).zip(parts) {
        let descriptor = queue + 16 * number;
        let is_last = number + 1 == first + parts.len() as u64;
        store(descriptor, 8, *address);
        store(descriptor + 8, 4, *length);
        store(descriptor + 12, 2, flags | if is_last { 0 } else { MORE });
        store(descriptor + 14, 2, number + 1);
    }
    store(queue + AVAILABLE + 4 + 2 * index, 2, first);
}

/// Has the device take so many requests, and waits a little for the last of them.
fn submit(device: u64, number: u64, queue: u64, count: u64) {
    store(queue + AVAILABLE + 2, 2, count);
    store(device + register::NOTIFY, 4, number);
    let end = now() + PATIENCE * microsecond();
    while now() < end && load(queue + USED + 2, 2) != count {}
    let causes = load(device + register::INTERRUPT_STATUS, 4);
    store(device + register::INTERRUPT_ACKNOWLEDGE, 4, causes);
}

fn write(address: u64, bytes: &[u8]) {
    for (place, byte) in (address..).zip(bytes) {
        store(place, 1, (*byte).into());
    }
}
