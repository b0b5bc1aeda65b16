//! A hostile debugger: any bytes, packets among them, to a guest whose registers and tables are
//! whatever they are. Each is taken, and each answer has an end.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_guest::debug::packet::LENGTH;
use culm_guest::debug::{Guest, Session, Translation};
use input::Input;
use libfuzzer_sys::fuzz_target;

/// A guest whose memory is a few words, again and again.
struct Same {
    words: [u64; 8],
    cpus: usize,
}

impl Guest for Same {
    fn is_on(&self, cpu: usize) -> bool {
        cpu < self.cpus
    }
    fn register(&self, cpu: usize, number: usize) -> u64 {
        self.words[(cpu + number) % 8]
    }
    fn set_register(&mut self, cpu: usize, number: usize, value: u64) -> bool {
        self.words[(cpu + number) % 8] = value;
        value % 2 == 0
    }
    fn state(&self, cpu: usize) -> u32 {
        self.words[cpu % 8] as u32
    }
    fn translation(&self, _: usize) -> Translation {
        let [system_control, control, first, second, ..] = self.words;
        Translation { system_control, control, tables: [first, second] }
    }
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        for (place, byte) in bytes.iter_mut().enumerate() {
            let at = address.checked_add(place as u64)?;
            *byte = self.words[(at / 8 % 8) as usize].to_le_bytes()[(at % 8) as usize];
        }
        (self.words[7] & 1 == 0).then_some(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        self.words[(address / 8 % 8) as usize] ^= bytes.len() as u64;
        Some(())
    }
}

fn word(input: &mut Input<'_>) -> u64 {
    input.bytes(8).iter().fold(0, |word, byte| word << 8 | u64::from(*byte))
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let words = std::array::from_fn(|_| word(&mut input));
    let mut guest = Same { words, cpus: usize::from(input.byte()) % 6 };
    let mut session = Session::default();
    let mut say = |byte| {
        if !session.has_room() {
            session.work(&mut guest);
            let mut length = 0;
            while session.next().is_some() {
                session.pass();
                length += 1;
            }
            assert!(length <= LENGTH + 5, "an answer of {length} bytes");
        }
        assert!(session.has_room());
        session.take(byte);
    };
    while !input.is_over() {
        // Most packets of chance would have a wrong checksum.
        let length = usize::from(input.byte()) % 48;
        let data = input.bytes(length).to_vec();
        if input.byte() % 4 == 0 {
            data.into_iter().for_each(&mut say);
        } else {
            let sum = data.iter().fold(0_u8, |sum, byte| sum.wrapping_add(*byte));
            let end = format!("#{sum:02x}");
            [b'$'].into_iter().chain(data).chain(end.into_bytes()).for_each(&mut say);
        }
    }
});
