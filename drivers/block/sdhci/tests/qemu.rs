//! The driver against QEMU's own controller and card (`sdhci-pci`, `sd-card`), whose registers and
//! memory QEMU's test protocol reads and writes. No processor runs.
//!
//! Without QEMU these tests say so and pass.

use block_sdhci::{Options, Sdhci, Starting};
use culm::connection::BlockDriver;
use culm::{Region, testing, time};
use culm_block::testing::ring;
use culm_block::{BLOCK, Client, Completion, Disk, Error, MAX_DISK, Port, Request, Segment};
use culm_mmio::{Registers, Width};
use std::cell::RefCell;
use std::fmt::Write as _;
use std::io::{BufRead, BufReader, Write as _};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::rc::Rc;

/// Where the controller's registers are put, and where memory is.
const BAR: u64 = 0x1000_0000;
const DATA: u64 = 0x4000_0000;
const TABLE: u64 = 0x4100_0000;

/// Bytes of the client's memory.
const MEMORY: usize = 32 * BLOCK;

/// The configuration space of PCI devices, with `highmem=off`.
const CONFIGURATION: u64 = 0x3f00_0000;

/// A machine without a processor that runs.
struct Machine {
    process: Child,
    answers: BufReader<std::process::ChildStdout>,
    image: PathBuf,
    /// The controller's configuration.
    function: u64,
}

impl Machine {
    /// Starts QEMU with a card of so many MiB; `None` if there is no QEMU.
    fn start(name: &str, mebibytes: u64, device: &str) -> Option<Self> {
        let image = std::env::temp_dir().join(format!("culm-sdhci-{}-{name}.img", std::process::id()));
        let file = std::fs::File::create(&image).expect("a temporary file");
        file.set_len(mebibytes << 20).expect("a sparse file");
        let drive = format!("if=none,id=card,format=raw,file={}", image.display());
        let arguments = ["-M", "virt,highmem=off", "-m", "64M", "-qtest", "stdio", "-display", "none"];
        // The processor is off: nothing but these tests touches anything.
        let devices = [
            "-cpu",
            "cortex-a57,start-powered-off=on",
            "-nodefaults",
            "-device",
            device,
            "-drive",
            &drive,
            "-device",
            "sd-card,drive=card",
        ];
        let started = Command::new("qemu-system-aarch64")
            .args(arguments)
            .args(devices)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
            .spawn();
        let Ok(mut process) = started else {
            eprintln!("skipped: there is no qemu-system-aarch64");
            let _ = std::fs::remove_file(&image);
            return None;
        };
        let answers = BufReader::new(process.stdout.take().expect("a pipe"));
        let mut machine = Self { process, answers, image, function: 0 };
        machine.map_controller();
        Some(machine)
    }

    fn ask(&mut self, question: &str) -> String {
        let input = self.process.stdin.as_mut().expect("a pipe");
        writeln!(input, "{question}").expect("QEMU listens");
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("QEMU answers");
        line.trim().strip_prefix("OK").unwrap_or_else(|| panic!("{question}: {line}")).trim().to_string()
    }

    fn load(&mut self, letter: char, address: u64) -> u32 {
        let answer = self.ask(&format!("read{letter} {address:#x}"));
        u64::from_str_radix(answer.trim_start_matches("0x"), 16).expect("a number") as u32
    }

    fn store(&mut self, letter: char, address: u64, value: u32) {
        self.ask(&format!("write{letter} {address:#x} {value:#x}"));
    }

    /// Finds the controller and has its registers appear.
    fn map_controller(&mut self) {
        let functions = (0..32).map(|device| CONFIGURATION + (device << 15));
        let found = functions.into_iter().find(|function| self.load('l', function + 8) >> 16 == 0x0805);
        let function = found.expect("a controller");
        self.function = function;
        self.store('l', function + 0x10, BAR as u32);
        self.store('w', function + 4, 0b110);
    }

    /// Copies a region to the machine's memory.
    fn give(&mut self, region: &Region) {
        let mut bytes = vec![0; region.len()];
        region.read(0, &mut bytes).expect("inside");
        let digits = bytes.iter().fold(String::new(), |mut digits, byte| {
            let _ = write!(digits, "{byte:02x}");
            digits
        });
        self.ask(&format!("write {:#x} {:#x} 0x{digits}", region.dma(), bytes.len()));
    }

    /// Copies the machine's memory to a region.
    fn take(&mut self, region: &Region) {
        let answer = self.ask(&format!("read {:#x} {:#x}", region.dma(), region.len()));
        let digits = answer.trim_start_matches("0x").as_bytes();
        let digit = |digit: u8| char::from(digit).to_digit(16).expect("a digit") as u8;
        let bytes: Vec<u8> =
            digits.as_chunks::<2>().0.iter().map(|[high, low]| digit(*high) << 4 | digit(*low)).collect();
        region.write(0, &bytes).expect("inside");
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_file(&self.image);
    }
}

/// The registers of QEMU's controller. Memory is brought over around each command.
#[derive(Clone)]
struct Controller {
    machine: Rc<RefCell<Machine>>,
    data: Region,
    table: Region,
}

impl Controller {
    /// Returns whether the controller asserts its interrupt, as the status of its function says
    /// (PCI Local Bus Specification 3.0, 6.2.3).
    fn interrupts(&self) -> bool {
        let mut machine = self.machine.borrow_mut();
        let function = machine.function;
        machine.load('l', function + 4) >> 19 & 1 != 0
    }
}

fn letter<W>() -> char {
    match size_of::<W>() {
        1 => 'b',
        2 => 'w',
        _ => 'l',
    }
}

impl Registers for Controller {
    fn load<W: Width>(&self, offset: usize) -> W {
        W::truncate(self.machine.borrow_mut().load(letter::<W>(), BAR + offset as u64))
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        let mut machine = self.machine.borrow_mut();
        // A command with DMA.
        let is_dma = offset == 0x0c && size_of::<W>() == 4 && value.extend() & 1 != 0;
        if is_dma {
            machine.give(&self.data);
            machine.give(&self.table);
        }
        machine.store(letter::<W>(), BAR + offset as u64, value.extend());
        if is_dma {
            // Its DMA takes a while after some descriptors.
            std::thread::sleep(time::Duration::from_millis(1));
            machine.take(&self.data);
        }
    }
}

struct World {
    driver: Sdhci<Controller>,
    controller: Controller,
    client: Client<u64>,
    data: Region,
}

impl World {
    fn new(machine: Machine, is_pio: bool) -> Self {
        testing::set_time(time::Instant::default() + time::Duration::from_secs(1));
        let data = Region::new(testing::memory(MEMORY, DATA));
        let table = Region::new(testing::memory(512, TABLE));
        let controller = Controller { machine: Rc::new(RefCell::new(machine)), data, table };
        let connection = BlockDriver { requests: ring(64), answers: ring(64), channel: 1 };
        let memory = if is_pio { vec![data] } else { Vec::new() };
        let starting = Starting::new(controller.clone(), &table, memory, Options::default()).expect("it is of use");
        let driver = starting.finish(|| Port::connect(&connection)).ok().expect("QEMU's controller is reset at once");
        let client = Client::new(connection.requests, connection.answers, 2, MAX_DISK);
        let mut world = Self { driver, controller, client, data };
        world.run();
        world
    }

    /// Client and driver take turns, and time passes to each of the driver's deadlines.
    fn run(&mut self) -> Vec<Result<(), Error>> {
        let mut done = Vec::new();
        for _ in 0..300 {
            for _ in 0..4 {
                self.client.begin();
                let complete = core::iter::from_fn(|| self.client.next_completion());
                done.extend(complete.map(|Completion { result, .. }| result));
                let _ = self.client.end_round();
                if self.controller.interrupts() {
                    self.driver.interrupted();
                }
                culm::run_rounds(8, || self.driver.round());
            }
            let Some(deadline) = testing::deadline() else { return done };
            std::thread::sleep(deadline.since(time::now()).min(time::Duration::from_millis(50)));
            testing::set_time(deadline.max(time::now()));
        }
        panic!("there is no end to it: {}", testing::take_log());
    }

    fn disk(&self) -> Disk {
        *self.client.disk().expect("it is known")
    }

    fn ask(&mut self, request: &Request) -> Result<(), Error> {
        self.client.send(request, 0).expect("the disk takes it");
        let done = self.run();
        assert_eq!(done.len(), 1, "{done:?} {}", testing::take_log());
        done[0]
    }

    fn byte(&self, block: usize) -> u8 {
        self.data.load(block * BLOCK + 100).expect("inside")
    }
}

fn segment(block: u64, blocks: u32) -> Segment {
    Segment { place: DATA / BLOCK as u64 + block, blocks }
}

/// Writes, reads, erases; with cards of standard and of high capacity.
fn exercise(name: &str, mebibytes: u64, device: &str, is_pio: bool) {
    let Some(machine) = Machine::start(name, mebibytes, device) else { return };
    let mut world = World::new(machine, is_pio);
    let disk = world.disk();
    let log = testing::take_log();
    assert_eq!(disk.blocks, mebibytes << 11, "{log}");
    let last = disk.blocks - 8;
    for block in 0..8 {
        world.data.write(block * BLOCK, &[block as u8 + 1; BLOCK]).expect("inside");
    }
    let write = Request::write(last, &[segment(0, 3), segment(6, 2), segment(3, 3)]).expect("three");
    assert_eq!(world.ask(&write), Ok(()));
    assert_eq!(world.ask(&Request::write(3, &[segment(7, 1)]).expect("one")), Ok(()));
    let read = Request::read(last, &[segment(16, 1), segment(18, 7)]).expect("two");
    assert_eq!(world.ask(&read), Ok(()));
    let found: Vec<u8> = [16, 18, 19, 20, 21, 22, 23, 24].map(|block| world.byte(block)).to_vec();
    assert_eq!(found, [1, 2, 3, 7, 8, 4, 5, 6]);
    assert_eq!(world.ask(&Request::read(3, &[segment(30, 1)]).expect("one")), Ok(()));
    assert_eq!(world.byte(30), 8);
    assert_eq!(world.ask(&Request::flush()), Ok(()));
    // The card says that erased blocks read as zeroes, which is not so.
    assert!(disk.discards && !disk.writes_zeroes);
    assert_eq!(world.ask(&Request::discard(last + 1, 2)), Ok(()));
    assert_eq!(world.ask(&read), Ok(()));
    assert_eq!([world.byte(16), world.byte(18), world.byte(19), world.byte(20)], [1, 0xff, 0xff, 7]);
    assert_eq!(world.driver.counts().faults, 0, "{log}{}", testing::take_log());
}

#[test]
fn a_card_of_standard_capacity_by_dma() {
    exercise("standard-dma", 64, "sdhci-pci", false);
}

#[test]
fn a_card_of_standard_capacity_by_hand() {
    exercise("standard-pio", 64, "sdhci-pci", true);
}

#[test]
fn a_card_of_high_capacity_by_dma() {
    exercise("high-dma", 4096, "sdhci-pci", false);
}

#[test]
fn a_card_behind_a_controller_of_version_3() {
    exercise("version-3", 4096, "sdhci-pci,sd-spec-version=3,capareg=0x57834b4", false);
}
