//! A hostile guest at its virtio devices: registers, memory and frames of any kind, and the
//! monitor's turn at any time.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_abi::guest::{VIRTIO_BLOCK, VIRTIO_CONSOLE, VIRTIO_ENTROPY, VIRTIO_NET, VIRTIO_NETS, device};
use culm_guest::virtio::block::{Block, MAX_BYTES, Request, Status};
use culm_guest::virtio::console::Console;
use culm_guest::virtio::entropy::{Entropy, PORTION};
use culm_guest::virtio::net::{HEADER, Net};
use culm_guest::virtio::testing::{Ram, set_up};
use culm_guest::virtio::{Devices, Memory};
use input::Input;
use libfuzzer_sys::fuzz_target;

/// Bytes of the guest's memory.
const SIZE: usize = 8192;

/// Where the queues of all devices are: they share them, which no driver does.
const PLACES: [u64; 3] = [Ram::BASE, Ram::BASE + 1024, Ram::BASE + 2048];

fn word(input: &mut Input<'_>) -> u64 {
    input.bytes(4).iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fn turn(devices: &mut Devices, ram: &Ram) {
    let Devices { nets, block: Some(block), entropy: Some(entropy), console: Some(console) } = devices else { return };
    for net in nets {
        for _ in 0..4 {
            let Some(frame) = net.next_frame(ram) else { break };
            let mut bytes = vec![0; frame.length.min(SIZE as u64) as usize];
            let read = net.read(ram, 0, &mut bytes);
            assert!(read.is_some() || !net.is_readable(ram));
            net.sent(ram);
        }
        net.publish(ram);
    }
    let mut request = Request::default();
    for _ in 0..4 {
        if !block.take_request(ram, &mut request) {
            break;
        }
        assert!(request.bytes <= MAX_BYTES, "a request has a limit");
        block.answer(ram, &request, Status::Done);
    }
    block.publish(ram);
    entropy.fill(ram, || Some([7; PORTION]));
    for byte in 0..40 {
        console.take_sent(ram);
        console.receive(ram, byte);
    }
    console.publish(ram);
    devices.take_causes(|_, causes| assert_eq!(causes.raised & !device::CAUSES, 0, "a cause that there is not"));
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let ram = Ram::new(SIZE);
    let mut devices = Devices {
        nets: [[2; 6], [3; 6]].map(Net::new).into(),
        block: Some(Block::default()),
        entropy: Some(Entropy::default()),
        console: Some(Console::default()),
    };
    while !input.is_over() {
        let what = input.byte();
        let slot = [VIRTIO_NET, VIRTIO_BLOCK, VIRTIO_ENTROPY, VIRTIO_NETS[1], VIRTIO_CONSOLE]
            [usize::from(what) / 8 % 5]
            .registers();
        match what % 8 {
            0 => {
                let (offset, value) = (word(&mut input) % slot.size, word(&mut input));
                if let Some((transport, offset)) = devices.at(slot.address + offset) {
                    transport.write(offset, 4, value);
                    transport.read(offset, what / 8);
                }
            }
            1 => {
                if let Some((transport, _)) = devices.at(slot.address) {
                    let features = word(&mut input);
                    set_up(transport, features, &[PLACES; 2], 1 << (input.byte() % 5));
                }
            }
            2..=5 => {
                let (at, count) = (word(&mut input) % SIZE as u64, usize::from(input.byte()));
                let _ = ram.write(Ram::BASE + at, input.bytes(count));
            }
            6 => {
                let length = word(&mut input) as usize % 4096;
                for net in &mut devices.nets {
                    net.deliver(&ram, [0; HEADER], &[&vec![1; length]]);
                }
            }
            _ => turn(&mut devices, &ram),
        }
    }
});
