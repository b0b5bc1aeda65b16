//! A debugger's conversation with a guest, packet by packet, and with whoever says anything.

use culm_guest::debug::packet::{Received, Receiver};
use culm_guest::debug::{Guest, PC, Session, Translation};
use proptest::prelude::*;

/// Where the guest's memory is, physically; it is the first page of the upper half too.
const MEMORY: u64 = 0x4000_0000;
const UPPER: u64 = 0xffff_0000_0000_0000;

/// Where the tables are in it: four, one behind the other.
const TABLES: u64 = MEMORY + 0x2000;

/// A guest with two CPUs of four on, whose registers are their numbers.
struct Still {
    registers: [[u64; PC + 1]; 2],
    memory: Vec<u8>,
}

impl Still {
    fn new() -> Self {
        let mut still = Self {
            registers: [0, 100].map(|first| std::array::from_fn(|number| first + number as u64)),
            memory: vec![0; 0x6000],
        };
        let levels = (0..4).map(|level| TABLES + 0x1000 * level);
        for (table, next) in levels.zip([TABLES + 0x1000, TABLES + 0x2000, TABLES + 0x3000, MEMORY]) {
            still.write(table, &(next | 3).to_le_bytes()).expect("it is there");
        }
        still
    }

    fn range(&self, address: u64, length: usize) -> Option<std::ops::Range<usize>> {
        let begin = usize::try_from(address.checked_sub(MEMORY)?).ok()?;
        let end = begin.checked_add(length).filter(|end| *end <= self.memory.len())?;
        Some(begin..end)
    }
}

impl Guest for Still {
    fn is_on(&self, cpu: usize) -> bool {
        cpu < 2
    }
    fn register(&self, cpu: usize, number: usize) -> u64 {
        self.registers[cpu][number]
    }
    fn set_register(&mut self, cpu: usize, number: usize, value: u64) -> bool {
        self.registers[cpu][number] = value;
        number != 31
    }
    fn state(&self, _: usize) -> u32 {
        0x3c5
    }
    fn translation(&self, _: usize) -> Translation {
        Translation { system_control: 1, control: 0b10 << 30 | 16 << 16 | 1 << 7, tables: [0, TABLES] }
    }
    fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
        bytes.copy_from_slice(&self.memory[self.range(address, bytes.len())?]);
        Some(())
    }
    fn write(&mut self, address: u64, bytes: &[u8]) -> Option<()> {
        let range = self.range(address, bytes.len())?;
        self.memory[range].copy_from_slice(bytes);
        Some(())
    }
}

fn packet(text: &str) -> String {
    format!("${text}#{:02x}", text.bytes().fold(0_u8, u8::wrapping_add))
}

fn out(session: &mut Session) -> String {
    let bytes = std::iter::from_fn(|| session.next().inspect(|_| session.pass()));
    bytes.map(char::from).collect()
}

/// A debugger and a guest that stands still as soon as it is to.
struct Bench {
    session: Session,
    guest: Still,
}

impl Bench {
    fn new() -> Self {
        Self { session: Session::default(), guest: Still::new() }
    }

    fn say(&mut self, bytes: &str) -> String {
        let mut said = String::new();
        for byte in bytes.bytes() {
            assert!(self.session.has_room());
            self.session.take(byte);
            if self.session.holds() {
                self.session.work(&mut self.guest);
            }
            said += &out(&mut self.session);
        }
        said
    }

    /// Asks, and returns the data of the answer.
    fn ask(&mut self, text: &str) -> String {
        let said = self.say(&packet(text));
        let mut receiver = Receiver::default();
        let last = said.bytes().filter_map(|byte| receiver.take(byte)).last();
        assert_eq!(last, Some(Received::Packet), "{text} has an answer: {said}");
        String::from_utf8(receiver.data().to_vec()).expect("ASCII")
    }
}

#[test]
fn a_debugger_attaches_stops_the_guest_and_lets_it_go_on() {
    let mut bench = Bench::new();
    assert!(!bench.session.holds());
    let features = bench.ask("qSupported:multiprocess+;swbreak+");
    assert!(features.contains("PacketSize=f0") && features.contains("QStartNoAckMode+"), "{features}");
    assert!(bench.session.holds(), "from its first word on");
    assert!(bench.say(&packet("QStartNoAckMode")).starts_with("+$OK"));
    assert_eq!(bench.say(&packet("?")), packet("T02thread:1;"), "without acknowledgement");
    assert_eq!(bench.say(&packet("c")), "");
    assert!(!bench.session.holds());
    assert_eq!(bench.say("\x03"), packet("T02thread:1;"));
    assert!(bench.session.holds());
    assert_eq!(bench.say(&packet("D")), packet("OK"));
    assert!(!bench.session.holds());
    assert_eq!(bench.say(&packet("?")), format!("+{}", packet("T02thread:1;")), "another debugger");
    assert_eq!(bench.say(&packet("k")), "+");
    assert!(!bench.session.holds());
}

#[test]
fn a_stop_is_told_when_the_guest_stands_still_and_not_before() {
    let mut bench = Bench::new();
    bench.ask("?");
    bench.say(&packet("c"));
    bench.session.take(3);
    assert!(bench.session.holds() && !bench.session.has_room());
    assert_eq!(out(&mut bench.session), "");
    bench.session.work(&mut bench.guest);
    assert_eq!(out(&mut bench.session), packet("T02thread:1;"));
    // Of a packet, only that it has come.
    packet("g").bytes().for_each(|byte| bench.session.take(byte));
    assert_eq!(out(&mut bench.session), "+");
    assert!(!bench.session.has_room());
}

#[test]
fn a_packet_that_did_not_arrive_comes_again() {
    let mut bench = Bench::new();
    assert_eq!(bench.say("$?#00"), "-");
    assert!(!bench.session.holds());
    let answer = packet("T02thread:1;");
    assert_eq!(bench.say(&packet("?")), format!("+{answer}"));
    assert_eq!(bench.say("-"), answer);
    assert_eq!(bench.say("+"), "");
}

#[test]
fn cpus_are_threads_with_registers() {
    let mut bench = Bench::new();
    assert_eq!(bench.ask("qfThreadInfo"), "m1,2");
    assert_eq!(bench.ask("qsThreadInfo"), "l");
    assert_eq!((bench.ask("T2"), bench.ask("T3"), bench.ask("T0")), ("OK".into(), "E01".into(), "E01".into()));
    assert_eq!(bench.ask("qThreadExtraInfo,2"), "4350552031");
    assert_eq!(bench.ask("Hg2"), "OK");
    assert_eq!(bench.ask("qC"), "QC2");
    let all = bench.ask("g");
    assert_eq!(all.len(), 33 * 16 + 8);
    assert!(all.starts_with("6400000000000000") && all.ends_with("8400000000000000c5030000"), "{all}");
    assert_eq!(bench.ask("p1e"), "8200000000000000");
    assert_eq!((bench.ask("p21"), bench.ask("p22")), ("c5030000".into(), "E01".into()));
    assert_eq!(bench.ask("P0=8877665544332211"), "OK");
    assert_eq!(bench.guest.registers[1][0], 0x1122_3344_5566_7788);
    assert_eq!(bench.ask("P20=0400000000000000"), "OK");
    for refused in ["P20=0500000000000000", "P1f=0000000000000000", "P21=00000000", "P0=88", "P0=88776655443322xx", "P"]
    {
        assert_eq!(bench.ask(refused), "E01", "{refused}");
    }
    assert_eq!(bench.ask("Hg0"), "OK");
    assert_eq!(bench.ask("p0"), "0000000000000000");
}

#[test]
fn the_registers_are_described_in_parts() {
    let mut bench = Bench::new();
    let mut text = String::new();
    loop {
        let part = bench.ask(&format!("qXfer:features:read:target.xml:{:x},100", text.len()));
        text += &part[1..];
        if part.starts_with('l') {
            break;
        }
        assert_eq!(part.len(), 0x101);
    }
    for name in ["x0", "x9", "x10", "x30", "sp", "pc", "cpsr"] {
        assert!(text.contains(&format!("<reg name=\"{name}\" ")), "{name}: {text}");
    }
    assert!(!text.contains("x31") && text.ends_with("</target>"));
    assert_eq!(bench.ask("qXfer:features:read:target.xml:ffffffffffffffff,ffffffffffffffff"), "l");
    assert_eq!(bench.ask("qXfer:features:read:target.xml:0"), "E01");
}

#[test]
fn memory_is_read_and_written_as_the_guest_sees_it() {
    let mut bench = Bench::new();
    bench.guest.write(MEMORY + 0xffe, b"abcd").expect("it is there");
    assert_eq!(bench.ask(&format!("m{:x},2", UPPER + 0xffe)), "6162");
    assert_eq!(bench.ask(&format!("m{:x},4", UPPER + 0xffe)), "6162", "as far as it goes");
    assert_eq!(bench.ask(&format!("m{:x},4", UPPER + 0x1000)), "E14");
    assert_eq!(bench.ask("m0,4"), "E14", "the lower half is off");
    assert_eq!(bench.ask(&format!("M{:x},3:78797a", UPPER + 0x10)), "OK");
    assert_eq!(bench.guest.memory[0x10..0x14], *b"xyz\0");
    assert_eq!(bench.ask(&format!("M{:x},4:31323334", UPPER + 0xffe)), "E14", "all or none");
    assert_eq!(bench.guest.memory[0xffe..0x1002], *b"abcd");
    for refused in ["M40000000,2:78", "M40000000,201:", "M40000000,1:7x", "M40000000,1", "m40000000", "m,1", "mx,1"] {
        assert_eq!(bench.ask(refused), "E01", "{refused}");
    }
    assert_eq!(bench.ask("Qqemu.PhyMemMode:1"), "OK");
    assert_eq!(bench.ask(&format!("m{:x},4", MEMORY + 0xffe)), "61626364");
    assert_eq!(bench.ask(&format!("m{MEMORY:x},ffffffff")).len(), 1024, "no more than a packet holds");
    assert_eq!(bench.ask("mffffffffffffffff,2"), "E14");
}

#[test]
fn breakpoints_and_steps_are_refused_so_that_gdb_writes_none() {
    let mut bench = Bench::new();
    for refused in ["Z0,ffff000000000000,4", "z0,ffff000000000000,4", "s", "S05", "C05"] {
        assert_eq!(bench.ask(refused), "E01", "{refused}");
    }
    for unknown in ["vCont?", "vMustReplyEmpty", "X0,0:", "!", "qOffsets", ""] {
        assert_eq!(bench.ask(unknown), "", "{unknown}");
    }
}

proptest! {
    /// Whatever comes is taken, and what is held comes to rest.
    #[test]
    fn nothing_that_is_said_is_a_panic(
        said in prop::collection::vec("[ -~]{0,40}|[gmMpPHTqQZ?cD][0-9a-f]{0,17}[,:=]{0,1}[0-9a-f]{0,17}", 0..40),
        noise: Vec<u8>,
    ) {
        let mut bench = Bench::new();
        let packets = said.iter().flat_map(|text| packet(text).into_bytes());
        for byte in packets.chain(noise) {
            if !bench.session.has_room() {
                bench.session.work(&mut bench.guest);
                out(&mut bench.session);
            }
            prop_assert!(bench.session.has_room());
            bench.session.take(byte);
        }
    }
}
