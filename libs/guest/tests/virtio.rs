//! A guest that does anything with its virtio devices: registers, rings and descriptors of any
//! content, changed at any time. Nothing is a panic or without end, and no byte outside of its
//! memory is asked for in vain.

use culm_abi::guest::{VIRTIO, VIRTIO_NETS, VIRTIO_SLOTS, VirtioSlot, device};
use culm_guest::virtio::block::{Block, Geometry, MAX_BYTES, Request, SECTOR, Status};
use culm_guest::virtio::console::Console;
use culm_guest::virtio::entropy::{Entropy, PORTION};
use culm_guest::virtio::net::{HEADER, Net};
use culm_guest::virtio::testing::{Ram, set_up};
use culm_guest::virtio::{Devices, Memory};
use proptest::prelude::*;

const BASE: u64 = Ram::BASE;
const SIZE: u64 = 16384;

/// A step of the guest's.
#[derive(Clone, Debug)]
enum Step {
    /// Writes a register of one of the devices.
    Register(u64, u64, u64),
    /// Sets a device up as a driver does: slot, features that it takes, size of its queues.
    SetUp(u64, u64, u64),
    /// Writes a half word of its memory.
    Store(u64, u16),
    /// Makes a chain available: descriptor, address, length, flags, next.
    Offer(u16, u64, u32, u16, u16),
    /// Makes buffers of one length available, as a driver does that wants to receive.
    Buffers(u16, u32),
    /// A frame comes.
    Frame(usize),
    /// The monitor has its turn.
    Turn,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let slot = 0..VIRTIO_SLOTS as u64;
    let step = prop_oneof![
        2 => (slot.clone(), 0..0x120_u64, any::<u32>()).prop_map(|(slot, at, value)| Step::Register(slot, at, value.into())),
        2 => (slot, any::<u64>(), prop_oneof![9 => Just(4), 1 => any::<u64>()])
            .prop_map(|(slot, features, size)| Step::SetUp(slot, features, size)),
        2 => (0..SIZE / 2, any::<u16>()).prop_map(|(at, value)| Step::Store(BASE + at * 2, value)),
        8 => (0..4_u16, prop_oneof![9 => BASE..BASE + SIZE, 1 => any::<u64>()], prop_oneof![3 => 0..2000_u32, 1 => any::<u32>()],
            0..4_u16, prop_oneof![9 => 0..4_u16, 1 => any::<u16>()])
            .prop_map(|(number, address, length, flags, next)| Step::Offer(number, address, length, flags, next)),
        3 => (1..4_u16, 64..1500_u32).prop_map(|(count, length)| Step::Buffers(count, length)),
        3 => (0..5000_usize).prop_map(Step::Frame),
        6 => Just(Step::Turn),
    ];
    prop::collection::vec(step, 1..120)
}

/// Where the queues of all devices are: they share them, which no driver does.
const PLACES: [u64; 3] = [BASE, BASE + 1024, BASE + 2048];

/// The registers of the device in a slot.
fn registers(slot: u64) -> u64 {
    VIRTIO.address + slot * VirtioSlot::SIZE
}

fn offer(ram: &Ram, available: &mut u16, (number, address, length, flags, next): (u16, u64, u32, u16, u16)) {
    let word = u128::from(address) | u128::from(length) << 64 | u128::from(flags) << 96 | u128::from(next) << 112;
    ram.write(PLACES[0] + 16 * u64::from(number), &word.to_le_bytes()).expect("inside");
    ram.store(PLACES[1] + 4 + 2 * u64::from(*available % 4), number).expect("inside");
    *available = available.wrapping_add(1);
    ram.store(PLACES[1] + 2, *available).expect("inside");
}

/// Carries bytes both ways, as a monitor does. A buffer of the guest's can have 4 GiB.
fn console_turn(console: &mut Console, ram: &Ram) {
    let sent = (0..SIZE).take_while(|_| console.take_sent(ram).is_some()).count();
    assert!(sent == 0 || console.is_used() || !console.transport.is_live());
    for byte in 0..100 {
        let has_room = console.has_room(ram);
        let received = console.receive(ram, byte);
        assert!(!received || has_room);
    }
    console.publish(ram);
}

/// Takes all that there is, as a monitor does.
fn turn(devices: &mut Devices, ram: &Ram) {
    let Devices { nets, block: Some(block), entropy: Some(entropy), console: Some(console) } = devices else { return };
    for net in nets {
        for _ in 0..8 {
            let Some(frame) = net.next_frame(ram) else { break };
            let mut bytes = vec![0; frame.length.min(SIZE) as usize];
            let read = net.read(ram, 0, &mut bytes);
            assert!(read.is_some() || !net.is_readable(ram));
            net.sent(ram);
        }
        net.publish(ram);
    }
    let mut request = Request::default();
    for _ in 0..8 {
        if !block.take_request(ram, &mut request) {
            break;
        }
        assert!(request.bytes <= MAX_BYTES && request.bytes.is_multiple_of(SECTOR));
        let bytes: u64 = request.source().chain(request.target()).map(|part| u64::from(part.length)).sum();
        assert!(bytes <= 2 * MAX_BYTES);
        block.answer(ram, &request, Status::Done);
    }
    block.publish(ram);
    console_turn(console, ram);
    assert!(entropy.fill(ram, || Some([7; PORTION])).bytes <= 256 * PORTION as u64);
    devices.take_causes(|_, causes| assert_eq!(causes.raised & !device::CAUSES, 0));
}

proptest! {
    #[test]
    fn whatever_a_guest_does_its_devices_stay_sound(steps in steps()) {
        let ram = Ram::new(SIZE as usize);
        let mut block = Block::default();
        block.set_geometry(&Geometry { sectors: 100, block: 512, most: MAX_BYTES, read_only: false });
        let mut devices = Devices { nets: VIRTIO_NETS.map(|_| Net::new([2; 6])).into(), block: Some(block), entropy: Some(Entropy::default()), console: Some(Console::default()) };
        let mut available = 0;
        for step in steps {
            match step {
                Step::Register(slot, offset, value) => {
                    let (transport, offset) = devices.at(registers(slot) + offset).expect("it is there");
                    transport.write(offset, 4, value);
                    transport.read(offset, (value & 15) as u8);
                }
                Step::SetUp(slot, features, size) => {
                    // Its rings are empty, or the device would find them broken at once.
                    ram.write(BASE, &[0; 3072]).expect("inside");
                    available = 0;
                    let (transport, _) = devices.at(registers(slot)).expect("it is there");
                    set_up(transport, features, &[PLACES; 2], size);
                }
                Step::Store(address, value) => ram.store(address, value).expect("inside"),
                Step::Offer(number, address, length, flags, next) => {
                    offer(&ram, &mut available, (number, address, length, flags, next));
                }
                Step::Buffers(count, length) => {
                    for number in 0..count {
                        let address = BASE + 4096 + 2048 * u64::from(number);
                        offer(&ram, &mut available, (number, address, length, 2, 0));
                    }
                }
                Step::Frame(length) => {
                    for net in &mut devices.nets {
                        net.deliver(&ram, [0; HEADER], &[&vec![1; length]]);
                    }
                }
                Step::Turn => turn(&mut devices, &ram),
            }
        }
    }
}
