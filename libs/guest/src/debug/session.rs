//! What is asked and answered (GDB manual, appendix E.2, "Packets").

use super::packet::{Answer, LENGTH, Received, Receiver, digit};
use super::{Guest, PC, REGISTERS};
use culm_abi::guest::MAX_CPUS;

/// Bytes of memory in one packet: two digits each.
const CHUNK: usize = LENGTH / 2;

/// A page of the least size: what is within it lies together in physical memory.
const PAGE: u64 = 4096;

/// Answers: done; not possible; nobody has this address; nothing that is known here.
const DONE: &[u8] = b"OK";
const REFUSED: &[u8] = b"E01";
const NO_ADDRESS: &[u8] = b"E14";
const UNKNOWN: &[u8] = b"";

/// Told to gdb before it asks: how long its packets may be (in hexadecimal), which is less than a
/// serial port keeps of what comes at once, and what else there is.
const FEATURES: &[u8] = b"PacketSize=f0;QStartNoAckMode+;qXfer:features:read+";

/// The registers, in the order of their numbers, of the feature that gdb demands (GDB manual,
/// appendix G.5.1).
const HEAD: &str = "<?xml version=\"1.0\"?><!DOCTYPE target SYSTEM \"gdb-target.dtd\"><target version=\"1.0\">\
     <architecture>aarch64</architecture><feature name=\"org.gnu.gdb.aarch64.core\">";
const TAIL: &str = "<reg name=\"sp\" bitsize=\"64\" type=\"data_ptr\"/><reg name=\"pc\" bitsize=\"64\" type=\"code_ptr\"/>\
     <reg name=\"cpsr\" bitsize=\"32\"/></feature></target>";

/// The guest, as far as the debugger decides on it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    /// Nobody is attached.
    Away,
    /// It stands still.
    Held,
    /// The debugger has let it go on.
    Goes,
    /// The debugger wants it to stand still, and to be told when it does.
    Stops,
}

/// A conversation with a debugger.
#[derive(Debug)]
pub struct Session {
    receiver: Receiver,
    answer: Answer,
    mode: Mode,
    /// A packet has come that was not answered.
    is_asked: bool,
    /// `+` or `-` for the packet that has come.
    acknowledgement: Option<u8>,
    acknowledges: bool,
    /// The CPU whose registers and addresses are meant.
    cpu: usize,
    /// Addresses are guest-physical.
    is_physical: bool,
}

impl Default for Session {
    fn default() -> Self {
        Self {
            receiver: Receiver::default(),
            answer: Answer::default(),
            mode: Mode::Away,
            is_asked: false,
            acknowledgement: None,
            acknowledges: true,
            cpu: 0,
            is_physical: false,
        }
    }
}

impl Session {
    /// Returns whether the guest is to stand still.
    pub fn holds(&self) -> bool {
        matches!(self.mode, Mode::Held | Mode::Stops)
    }

    /// Returns whether bytes can be taken: one packet is answered after the other.
    pub fn has_room(&self) -> bool {
        !self.is_asked && self.mode != Mode::Stops && self.next().is_none()
    }

    /// Takes a byte from the debugger, while there [is room](Self::has_room).
    pub fn take(&mut self, byte: u8) {
        match self.receiver.take(byte) {
            None => {}
            Some(Received::Packet) => {
                // A new debugger may speak where another one has gone without a word.
                self.mode = Mode::Held;
                self.is_asked = true;
                self.acknowledgement = self.acknowledges.then_some(b'+');
            }
            Some(Received::Broken) => self.acknowledgement = self.acknowledges.then_some(b'-'),
            Some(Received::Again) if self.acknowledges => self.answer.again(),
            Some(Received::Interrupt) if self.mode == Mode::Goes => self.mode = Mode::Stops,
            Some(Received::Again | Received::Interrupt) => {}
        }
    }

    /// Returns the next byte to the debugger.
    pub fn next(&self) -> Option<u8> {
        self.acknowledgement.or_else(|| self.answer.next())
    }

    /// Notes that this byte has gone out.
    pub fn pass(&mut self) {
        if self.acknowledgement.take().is_none() {
            self.answer.pass();
        }
    }

    /// Answers what was asked. Call it when the guest stands still.
    pub fn work(&mut self, guest: &mut impl Guest) {
        if !guest.is_on(self.cpu) {
            self.cpu = first_on(guest);
        }
        if self.mode == Mode::Stops {
            self.mode = Mode::Held;
            self.tell_stop();
        }
        if core::mem::take(&mut self.is_asked) {
            // The answer is made from the packet, and a small copy lends nothing.
            let mut data = [0; LENGTH];
            let length = self.receiver.data().len();
            data[..length].copy_from_slice(self.receiver.data());
            self.follow(&data[..length], guest);
        }
    }

    /// Tells that the guest stands still because it was interrupted (SIGINT, in gdb's numbers).
    fn tell_stop(&mut self) {
        self.answer.begin();
        self.answer.add(b"T02thread:");
        self.answer.add_number(self.cpu + 1);
        self.answer.add(b";");
        self.answer.end();
    }

    fn say(&mut self, text: &[u8]) {
        self.answer.begin();
        self.answer.add(text);
        self.answer.end();
    }

    /// Does what one packet asks for.
    fn follow(&mut self, data: &[u8], guest: &mut impl Guest) {
        let Some((first, rest)) = data.split_first() else { return self.say(UNKNOWN) };
        match first {
            b'?' => self.tell_stop(),
            b'c' if rest.is_empty() => self.mode = Mode::Goes,
            b'D' => {
                self.say(DONE);
                self.forget();
            }
            b'k' => self.forget(),
            b'g' => self.tell_registers(guest),
            b'p' => self.tell_register(rest, guest),
            b'P' => {
                let is_done = self.set_register(rest, guest).is_some();
                self.say(if is_done { DONE } else { REFUSED });
            }
            b'm' => self.tell_memory(rest, guest),
            b'M' => {
                let answer = self.set_memory(rest, guest).map_or_else(|refused| refused, |()| DONE);
                self.say(answer);
            }
            b'H' => self.choose(rest, guest),
            b'T' => {
                let is_on = thread(rest).is_some_and(|cpu| guest.is_on(cpu));
                self.say(if is_on { DONE } else { REFUSED });
            }
            // To say that they are not known would have gdb write instructions of its own, at which
            // the guest would find a breakpoint that nobody has told it of.
            b'Z' | b'z' | b's' | b'S' | b'C' => self.say(REFUSED),
            b'q' | b'Q' => self.ask(data, guest),
            _ => self.say(UNKNOWN),
        }
    }

    /// Begins anew with whoever comes next, and lets the guest go on.
    fn forget(&mut self) {
        (self.mode, self.acknowledges, self.cpu, self.is_physical) = (Mode::Away, true, 0, false);
    }

    /// Answers questions of many letters.
    fn ask(&mut self, data: &[u8], guest: &impl Guest) {
        if data.starts_with(b"qSupported") {
            // Whoever asks this has just begun.
            (self.acknowledges, self.is_physical) = (true, false);
            return self.say(FEATURES);
        }
        match data {
            b"QStartNoAckMode" => {
                self.acknowledges = false;
                self.say(DONE);
            }
            b"qAttached" => self.say(b"1"),
            b"qC" => {
                self.answer.begin();
                self.answer.add(b"QC");
                self.answer.add_number(self.cpu + 1);
                self.answer.end();
            }
            b"qfThreadInfo" => self.tell_threads(guest),
            b"qsThreadInfo" => self.say(b"l"),
            // As QEMU has it ("GDB usage"), which gdb sends by `maintenance packet`.
            b"qqemu.PhyMemMode" => self.say(if self.is_physical { b"1" } else { b"0" }),
            b"Qqemu.PhyMemMode:0" | b"Qqemu.PhyMemMode:1" => {
                self.is_physical = data.ends_with(b"1");
                self.say(DONE);
            }
            _ if data.starts_with(b"qThreadExtraInfo,") => {
                let cpu = thread(&data[b"qThreadExtraInfo,".len()..]).filter(|cpu| guest.is_on(*cpu));
                self.tell_cpu(cpu);
            }
            _ if data.starts_with(b"qXfer:features:read:target.xml:") => {
                self.tell_description(&data[b"qXfer:features:read:target.xml:".len()..]);
            }
            _ => self.say(UNKNOWN),
        }
    }

    fn tell_threads(&mut self, guest: &impl Guest) {
        self.answer.begin();
        let mut before: &[u8] = b"m";
        for cpu in (0..MAX_CPUS).filter(|cpu| guest.is_on(*cpu)) {
            self.answer.add(before);
            self.answer.add_number(cpu + 1);
            before = b",";
        }
        // With no CPU on there is no thread, and the list is at its end.
        if before == b"m" {
            self.answer.add(b"l");
        }
        self.answer.end();
    }

    fn tell_cpu(&mut self, cpu: Option<usize>) {
        let Some(cpu) = cpu else { return self.say(REFUSED) };
        self.answer.begin();
        self.answer.add_bytes(b"CPU ");
        self.answer.add_bytes(&[b'0' + cpu as u8]);
        self.answer.end();
    }

    /// Tells a part of the description of the registers: `OFFSET,LENGTH`.
    fn tell_description(&mut self, rest: &[u8]) {
        let Some((offset, length, [])) = pair(rest) else { return self.say(REFUSED) };
        let mut part = Part { skip: offset, left: length.min(LENGTH as u64 - 1), is_cut: false };
        self.answer.begin();
        // The mark whether this is the end comes first, and is known last.
        let mut count = part;
        describe(|piece| _ = count.cut(piece));
        self.answer.add(if count.is_cut { b"m" } else { b"l" });
        let answer = &mut self.answer;
        describe(|piece| answer.add(part.cut(piece)));
        self.answer.end();
    }

    fn tell_registers(&mut self, guest: &impl Guest) {
        self.answer.begin();
        for number in 0..REGISTERS {
            self.answer.add_bytes(&guest.register(self.cpu, number).to_le_bytes());
        }
        self.answer.add_bytes(&guest.state(self.cpu).to_le_bytes());
        self.answer.end();
    }

    fn tell_register(&mut self, rest: &[u8], guest: &impl Guest) {
        let Some((number, [])) = number(rest) else { return self.say(REFUSED) };
        self.answer.begin();
        match number as usize {
            number if number < REGISTERS => {
                self.answer.add_bytes(&guest.register(self.cpu, number).to_le_bytes());
            }
            REGISTERS => self.answer.add_bytes(&guest.state(self.cpu).to_le_bytes()),
            _ => self.answer.add(REFUSED),
        }
        self.answer.end();
    }

    /// Changes a register: `NUMBER=BYTES`.
    fn set_register(&mut self, rest: &[u8], guest: &mut impl Guest) -> Option<()> {
        let (number, rest) = number(rest)?;
        let number = usize::try_from(number).ok().filter(|number| *number < REGISTERS)?;
        let mut value = [0; 8];
        let digits = rest.strip_prefix(b"=").filter(|digits| digits.len() == 2 * value.len())?;
        decode(digits, &mut value)?;
        let value = u64::from_le_bytes(value);
        // The processor takes an address of an instruction only.
        let is_possible = number != PC || value.is_multiple_of(4);
        (is_possible && guest.set_register(self.cpu, number, value)).then_some(())
    }

    /// Tells memory: `ADDRESS,LENGTH`. Where less can be read, that is told.
    fn tell_memory(&mut self, rest: &[u8], guest: &impl Guest) {
        let Some((address, length, [])) = pair(rest) else { return self.say(REFUSED) };
        let mut bytes = [0; CHUNK];
        let length = usize::try_from(length).unwrap_or(usize::MAX).min(CHUNK);
        let mut done = 0;
        for (address, range) in pieces(address, length) {
            let physical = self.physical(address, guest);
            if physical.and_then(|physical| guest.read(physical, &mut bytes[range.clone()])).is_none() {
                break;
            }
            done = range.end;
        }
        if done == 0 && length > 0 {
            return self.say(NO_ADDRESS);
        }
        self.answer.begin();
        self.answer.add_bytes(&bytes[..done]);
        self.answer.end();
    }

    /// Changes memory: `ADDRESS,LENGTH:BYTES`; all or none, as far as the guest's tables tell.
    fn set_memory(&mut self, rest: &[u8], guest: &mut impl Guest) -> Result<(), &'static [u8]> {
        let (address, length, rest) = pair(rest).ok_or(REFUSED)?;
        let mut bytes = [0; CHUNK];
        let digits = rest.strip_prefix(b":").ok_or(REFUSED)?;
        let length = usize::try_from(length).ok().filter(|length| *length <= CHUNK).ok_or(REFUSED)?;
        if digits.len() != 2 * length {
            return Err(REFUSED);
        }
        decode(digits, &mut bytes[..length]).ok_or(REFUSED)?;
        let mut old = [0; CHUNK];
        for (address, range) in pieces(address, length) {
            let physical = self.physical(address, guest).ok_or(NO_ADDRESS)?;
            guest.read(physical, &mut old[range]).ok_or(NO_ADDRESS)?;
        }
        for (address, range) in pieces(address, length) {
            let physical = self.physical(address, guest).ok_or(NO_ADDRESS)?;
            guest.write(physical, &bytes[range]).ok_or(NO_ADDRESS)?;
        }
        Ok(())
    }

    /// Returns the guest-physical address that an address of the debugger's is.
    fn physical(&self, address: u64, guest: &impl Guest) -> Option<u64> {
        if self.is_physical {
            return Some(address);
        }
        guest.translation(self.cpu).walk(address, |at| {
            let mut word = [0; 8];
            guest.read(at, &mut word).map(|()| u64::from_le_bytes(word))
        })
    }

    /// Chooses the CPU that further packets mean: `gTHREAD`; for which one the guest goes on is not
    /// to be chosen, all of them do.
    fn choose(&mut self, rest: &[u8], guest: &impl Guest) {
        match rest.split_first() {
            Some((b'g', b"0" | b"-1")) => self.cpu = first_on(guest),
            Some((b'g', name)) => match thread(name).filter(|cpu| guest.is_on(*cpu)) {
                Some(cpu) => self.cpu = cpu,
                None => return self.say(REFUSED),
            },
            Some((b'c', _)) => {}
            _ => return self.say(REFUSED),
        }
        self.say(DONE);
    }
}

/// Returns the first CPU that is on, or the first.
fn first_on(guest: &impl Guest) -> usize {
    (0..MAX_CPUS).find(|cpu| guest.is_on(*cpu)).unwrap_or(0)
}

/// A part of a text that comes in pieces.
#[derive(Clone, Copy, Debug)]
struct Part {
    /// Bytes before it.
    skip: u64,
    /// Bytes of it that have not come.
    left: u64,
    /// There are bytes behind it.
    is_cut: bool,
}

impl Part {
    /// Returns what of a piece is in it.
    fn cut<'a>(&mut self, piece: &'a [u8]) -> &'a [u8] {
        let skip = self.skip.min(piece.len() as u64);
        self.skip -= skip;
        let rest = &piece[skip as usize..];
        let length = self.left.min(rest.len() as u64);
        self.left -= length;
        self.is_cut |= length < rest.len() as u64;
        &rest[..length as usize]
    }
}

/// Passes the description of the registers on, piece by piece.
fn describe(mut pass: impl FnMut(&[u8])) {
    pass(HEAD.as_bytes());
    for number in 0..PC as u8 - 1 {
        let digits = [b'0' + number / 10, b'0' + number % 10];
        let digits = if number < 10 { &digits[1..] } else { &digits[..] };
        for piece in [b"<reg name=\"x", digits, b"\" bitsize=\"64\"/>"] as [&[u8]; 3] {
            pass(piece);
        }
    }
    pass(TAIL.as_bytes());
}

/// Returns the parts of a range of addresses that are each within a page, with their places in the
/// range. It ends where addresses do.
fn pieces(address: u64, length: usize) -> impl Iterator<Item = (u64, core::ops::Range<usize>)> {
    let mut done = 0;
    core::iter::from_fn(move || {
        let at = address.checked_add(done as u64).filter(|_| done < length)?;
        let (begin, in_page) = (done, (PAGE - at % PAGE) as usize);
        done = length.min(begin + in_page);
        Some((at, begin..done))
    })
}

/// Reads a number, of 16 digits at most; returns what is behind it.
fn number(text: &[u8]) -> Option<(u64, &[u8])> {
    let length = text.iter().take_while(|byte| digit(**byte).is_some()).count();
    let (digits, rest) = text.split_at(length);
    let value = digits.iter().fold(0, |value, byte| value << 4 | u64::from(digit(*byte).unwrap_or(0)));
    (1..=16).contains(&length).then_some((value, rest))
}

/// Reads two numbers with a comma between them.
fn pair(text: &[u8]) -> Option<(u64, u64, &[u8])> {
    let (first, rest) = number(text)?;
    let (second, rest) = number(rest.strip_prefix(b",")?)?;
    Some((first, second, rest))
}

/// Reads the name of a thread: the number of its CPU, which counts from 1 there.
fn thread(text: &[u8]) -> Option<usize> {
    let (number, []) = number(text)? else { return None };
    usize::try_from(number.checked_sub(1)?).ok().filter(|cpu| *cpu < MAX_CPUS)
}

/// Reads bytes, two digits each; there are as many as there is room for.
fn decode(digits: &[u8], bytes: &mut [u8]) -> Option<()> {
    for (pair, byte) in digits.chunks_exact(2).zip(bytes) {
        *byte = digit(pair[0])? << 4 | digit(pair[1])?;
    }
    Some(())
}
