//! A hostile guest at its virtio devices: registers, memory and frames of any kind, and the
//! monitor's turn at any time.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_abi::guest::{VIRTIO_BLOCK, VIRTIO_ENTROPY, VIRTIO_NET, device};
use culm_guest::virtio::block::{Block, MAX_BYTES, Status};
use culm_guest::virtio::entropy::{Entropy, PORTION};
use culm_guest::virtio::net::{HEADER, Net};
use culm_guest::virtio::{Devices, Memory};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::cell::RefCell;

/// Where the guest's memory begins, and its bytes.
const BASE: u64 = 0x4000_0000;
const SIZE: usize = 8192;

struct Ram(RefCell<Vec<u8>>);

impl Ram {
    fn at(&self, address: u64, length: usize) -> Option<std::ops::Range<usize>> {
        let start = usize::try_from(address.checked_sub(BASE)?).ok()?;
        let end = start.checked_add(length).filter(|end| *end <= SIZE)?;
        Some(start..end)
    }
}

impl Memory for Ram {
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        bytes.copy_from_slice(&self.0.borrow()[self.at(address, bytes.len())?]);
        Some(())
    }
    fn write(&self, address: u64, bytes: &[u8]) -> Option<()> {
        self.0.borrow_mut()[self.at(address, bytes.len())?].copy_from_slice(bytes);
        Some(())
    }
    fn load(&self, address: u64) -> Option<u16> {
        let mut bytes = [0; 2];
        self.read(address, &mut bytes)?;
        Some(u16::from_le_bytes(bytes))
    }
    fn store(&self, address: u64, value: u16) -> Option<()> {
        self.write(address, &value.to_le_bytes())
    }
}

fn word(input: &mut Input<'_>) -> u64 {
    input.bytes(4).iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

/// Sets a device up as a driver does, with queues at the beginning of the memory.
fn set_up(devices: &mut Devices, address: u64, size: u64) {
    let Some((transport, _)) = devices.at(address) else { return };
    let begin = [(0x70, 0), (0x24, 1), (0x20, 1), (0x24, 0), (0x20, 1 << 29), (0x70, 11)];
    let queue =
        |number| [(0x30, number), (0x38, size), (0x80, BASE), (0x90, BASE + 1024), (0xa0, BASE + 2048), (0x44, 1)];
    for (offset, value) in begin.into_iter().chain(queue(0)).chain(queue(1)).chain([(0x70, 15)]) {
        transport.write(offset, 4, value);
    }
}

fn turn(devices: &mut Devices, ram: &Ram) {
    let Devices { net: Some(net), block: Some(block), entropy: Some(entropy) } = devices else { return };
    for _ in 0..4 {
        let Some(frame) = net.next_frame(ram) else { break };
        let mut bytes = vec![0; frame.length.min(SIZE as u64) as usize];
        let _ = net.read(ram, 0, &mut bytes);
        net.sent(ram);
    }
    net.publish(ram);
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
    assert!(devices.take_causes().all(|(_, causes)| causes.raised & !device::CAUSES == 0), "a cause that there is not");
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let ram = Ram(RefCell::new(vec![0; SIZE]));
    let mut devices =
        Devices { net: Some(Net::new([2; 6])), block: Some(Block::default()), entropy: Some(Entropy::default()) };
    while !input.is_over() {
        let what = input.byte();
        let slot = [VIRTIO_NET, VIRTIO_BLOCK, VIRTIO_ENTROPY][usize::from(what) / 8 % 3].registers();
        match what % 8 {
            0 => {
                let (offset, value) = (word(&mut input) % slot.size, word(&mut input));
                if let Some((transport, offset)) = devices.at(slot.address + offset) {
                    transport.write(offset, 4, value);
                    transport.read(offset, what / 8);
                }
            }
            1 => set_up(&mut devices, slot.address, 1 << (input.byte() % 5)),
            2..=5 => {
                let (at, count) = (word(&mut input) % SIZE as u64, usize::from(input.byte()));
                let _ = ram.write(BASE + at, input.bytes(count));
            }
            6 => {
                let length = word(&mut input) as usize % 4096;
                if let Some(net) = &mut devices.net {
                    net.deliver(&ram, [0; HEADER], &[&vec![1; length]]);
                }
            }
            _ => turn(&mut devices, &ram),
        }
    }
});
