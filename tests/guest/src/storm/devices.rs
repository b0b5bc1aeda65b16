//! The guest's devices, used as they should not be.

use culm_abi::guest::{
    DISTRIBUTOR, GuestRange, MAX_CPUS, SERIAL, VIRTIO_BLOCK, VIRTIO_CONSOLE, VIRTIO_ENTROPY, VIRTIO_NET, redistributors,
};
use culm_tests_guest::machine::{PLAYGROUND, load, store};
use culm_tests_guest::random::Random;

/// Registers of a virtio device (VIRTIO 1.2 §4.2.2), by offset.
pub mod register {
    pub const DEVICE_FEATURES: u64 = 0x010;
    pub const DEVICE_FEATURES_SELECT: u64 = 0x014;
    pub const DRIVER_FEATURES: u64 = 0x020;
    pub const DRIVER_FEATURES_SELECT: u64 = 0x024;
    pub const QUEUE_SELECT: u64 = 0x030;
    pub const QUEUE_SIZE: u64 = 0x038;
    pub const QUEUE_READY: u64 = 0x044;
    pub const NOTIFY: u64 = 0x050;
    pub const INTERRUPT_STATUS: u64 = 0x060;
    pub const INTERRUPT_ACKNOWLEDGE: u64 = 0x064;
    pub const STATUS: u64 = 0x070;
    pub const DESCRIPTORS: u64 = 0x080;
    pub const DRIVER: u64 = 0x090;
    pub const DEVICE: u64 = 0x0a0;
    pub const CONFIGURATION: u64 = 0x100;
}

pub const CARD: u64 = VIRTIO_NET.registers().address;
pub const DISK: u64 = VIRTIO_BLOCK.registers().address;
const ENTROPY: u64 = VIRTIO_ENTROPY.registers().address;

/// Bytes of the memory in which each CPU has the queues that it makes, and of one queue.
const QUEUES: u64 = 0x2_0000;
const QUEUE: u64 = 0x1_0000;

/// Places of its rings behind its table of descriptors, of which there are this many.
pub const AVAILABLE: u64 = 0x4000;
pub const USED: u64 = 0x8000;
const DESCRIPTORS: u64 = 256;

/// An address in the registers of some device.
pub fn place(random: &mut Random) -> u64 {
    const ALL: [GuestRange; 7] = [
        VIRTIO_NET.registers(),
        VIRTIO_BLOCK.registers(),
        VIRTIO_ENTROPY.registers(),
        VIRTIO_CONSOLE.registers(),
        DISTRIBUTOR,
        // As many as the guest has CPUs at least.
        redistributors(2),
        SERIAL,
    ];
    let range = random.one_of(&ALL);
    let near = range.size.min(0x200);
    let offset = if random.once_in(4) { random.below(range.size) } else { random.below(near) };
    // The second frame of a redistributor, about interrupts, is as busy as the first.
    let second = if range == redistributors(2) && random.once_in(2) { 0x1_0000 } else { 0 };
    let aligned = offset & !random.one_of(&[3, 3, 3, 7, 1, 0]);
    range.address + (aligned + second) % range.size
}

/// Accesses registers of devices.
pub fn access(random: &mut Random) {
    for _ in 0..random.below(16) {
        let size = random.one_of(&[4, 4, 4, 1, 2, 8]);
        // Devices' registers are device memory: what is not aligned is an exception.
        let address = place(random) & !(size - 1);
        if random.once_in(3) {
            load(address, size);
        } else {
            store(address, size, random.value());
        }
    }
}

/// Sets a virtio device's queues up, more or less as it should be done, and gives it buffers.
pub fn use_queues(cpu: usize, random: &mut Random) {
    let device = random.one_of(&[CARD, DISK, DISK, ENTROPY]);
    let queues = if device == CARD { 2 } else { 1 };
    if random.once_in(2) {
        set_up(device, cpu, queues, random);
    }
    for _ in 0..random.below(6) {
        let number = random.below(queues);
        let ring = ring(cpu, number);
        fill(device, ring, random);
        store(device + register::NOTIFY, 4, if random.once_in(16) { random.value() } else { number });
        if random.once_in(2) {
            let causes = load(device + register::INTERRUPT_STATUS, 4);
            store(device + register::INTERRUPT_ACKNOWLEDGE, 4, causes);
        }
    }
}

/// The address of a queue that a CPU makes.
pub fn ring(cpu: usize, number: u64) -> u64 {
    PLAYGROUND + (cpu % MAX_CPUS) as u64 * QUEUES + number * QUEUE
}

/// Goes through VIRTIO 1.2 §3.1.1, with mistakes.
fn set_up(device: u64, cpu: usize, queues: u64, random: &mut Random) {
    agree(device, |offered, half| match random.below(8) {
        0 => random.value(),
        1 | 2 => offered & (random.number() | half),
        _ => offered,
    });
    for number in 0..queues {
        let size = if random.once_in(16) { random.value() } else { 1 << random.below(9) };
        let parts = [0, AVAILABLE, USED].map(|offset| ring(cpu, number) + offset);
        place_queue(device, number, size, parts.map(|part| if random.once_in(24) { wild(random) } else { part }));
    }
    store(device + register::STATUS, 4, 0xf);
}

/// Resets a device, and settles on the features that `choose` makes of each half of what it offers.
pub fn agree(device: u64, mut choose: impl FnMut(u64, u64) -> u64) {
    for status in [0, 1, 3] {
        store(device + register::STATUS, 4, status);
    }
    for half in 0..2 {
        store(device + register::DEVICE_FEATURES_SELECT, 4, half);
        let wanted = choose(load(device + register::DEVICE_FEATURES, 4), half);
        store(device + register::DRIVER_FEATURES_SELECT, 4, half);
        store(device + register::DRIVER_FEATURES, 4, wanted);
    }
    store(device + register::STATUS, 4, 0xb);
}

/// Tells a device where a queue's descriptors, the driver's ring and the device's are.
pub fn place_queue(device: u64, number: u64, size: u64, parts: [u64; 3]) {
    store(device + register::QUEUE_SELECT, 4, number);
    store(device + register::QUEUE_SIZE, 4, size);
    for (part, address) in [register::DESCRIPTORS, register::DRIVER, register::DEVICE].into_iter().zip(parts) {
        store(device + part, 4, address & 0xffff_ffff);
        store(device + part + 4, 4, address >> 32);
    }
    store(device + register::QUEUE_READY, 4, 1);
}

/// Puts buffers into a queue: mostly such as a driver would, whose content is at random.
fn fill(device: u64, ring: u64, random: &mut Random) {
    let count = random.below(DESCRIPTORS) + 1;
    for index in 0..count {
        let descriptor = ring + 16 * index;
        let buffer = if random.once_in(32) { wild(random) } else { crate::steps::place(random, 16) };
        let length = match random.below(8) {
            0 => random.value(),
            1 => 0,
            2 => 1 << random.below(20),
            3 => 16,
            _ => 512 * random.below(16),
        };
        // More follow (1), the device writes (2), an indirect table (4), to which nobody agreed.
        let flags = if random.once_in(8) { random.value() } else { random.below(4) };
        let next = if random.once_in(8) { random.value() } else { index + 1 };
        store(descriptor, 8, buffer);
        store(descriptor + 8, 4, length);
        store(descriptor + 12, 2, flags);
        store(descriptor + 14, 2, next);
        if index < 8 && (PLAYGROUND..PLAYGROUND + 0x3f_0000).contains(&buffer) {
            begin_buffer(device, buffer, random);
        }
    }
    let available = ring + AVAILABLE;
    for index in 0..DESCRIPTORS {
        store(available + 4 + 2 * index, 2, if random.once_in(16) { random.value() } else { random.below(count) });
    }
    let index = load(available + 2, 2);
    let more = if random.once_in(16) { random.value() } else { random.below(8) };
    store(available + 2, 2, index.wrapping_add(more));
    store(available, 2, random.below(2));
}

/// Writes the beginning of a request to the disk, or of a frame from the card's own address.
fn begin_buffer(device: u64, buffer: u64, random: &mut Random) {
    if device == DISK {
        let sector = if random.once_in(4) { random.value() } else { random.below(1 << 14) };
        store(buffer, 4, random.value_or(&[0, 1, 1, 4, 8, 11, 13]));
        store(buffer + 8, 8, sector);
    } else if device == CARD {
        // The header of VIRTIO 1.2 §5.1.6: of flags and kinds of segments any.
        store(buffer, 8, if random.once_in(2) { 0 } else { random.value() });
        store(buffer + 8, 4, if random.once_in(2) { 0 } else { random.value() });
        for byte in 0..6 {
            store(buffer + 12 + byte, 1, 0xff);
            let own = load(CARD + register::CONFIGURATION + byte, 1);
            store(buffer + 18 + byte, 1, if random.once_in(32) { random.value() } else { own });
        }
        let kind = random.value_or(&[0x0008, 0x0608, 0xdd86]);
        store(buffer + 24, 2, kind);
        store(buffer + 26, 1, random.value_or(&[0x45, 0x60]));
    }
}

/// An address that is no memory's, or at the edge of it. None in code and data: a device that wrote
/// there would only lose the program.
fn wild(random: &mut Random) -> u64 {
    let number = random.number();
    match random.below(6) {
        0 => number | 1 << 63,
        1 => number & 0x3fff_ffff,
        2 => PLAYGROUND + 0x60_0000 - 16 + (number & 31),
        3 => u64::MAX - (number & 0xffff),
        4 => crate::steps::place(random, 1),
        _ => 0x8000_0000 + (number & 0xff_ffff_ffff),
    }
}
