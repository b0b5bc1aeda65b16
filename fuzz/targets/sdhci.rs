//! An SD host controller and a card that do anything: commands fail in any way, cards are pulled
//! and put in at any time, resets and clocks do not end, and registers read as the input says.
//!
//! The input is a program: a byte says what happens next, the bytes after it with what. Whatever
//! that is, the driver neither panics nor goes on for ever, gives the controller no memory but that
//! of requests and its own, and ends no request twice. At the end the controller and a new card are
//! as they should be: every request is answered then, and the disk is of use again.

#![no_main]

#[path = "../common/asker.rs"]
mod asker;
#[path = "../common/peers.rs"]
#[allow(dead_code, reason = "entries of the net class are none of this one's")]
mod peers;

use asker::{Asker, DATA};
use block_sdhci::testing::{Fake, FakeCard, Flaw};
use block_sdhci::{Options, Sdhci, Starting};
use culm::connection::BlockDriver;
use culm::time::{self, Duration};
use culm::{Region, testing};
use culm_block::{BLOCK, Port, Request, Segment};
use culm_mmio::{Registers, Width};
use libfuzzer_sys::fuzz_target;
use peers::Input;
use std::cell::Cell;
use std::rc::Rc;

/// Blocks of the memory of requests.
const MEMORY: u32 = 64;
/// Where the controller sees its table of descriptors.
const TABLE: u64 = 0x5000_0000;
/// Blocks of the card that is in at the end; no other has as many.
const LAST_CARD: u64 = 3 * 1024;
/// The register that says whether a reset is done, and others.
const RESET: usize = 0x2c;
/// The most requests that are under way.
const MOST: usize = 16;

/// Memory that the controller reaches, the same for each input.
struct Ground {
    data: Region,
    table: Region,
}

impl Ground {
    fn get() -> &'static Self {
        thread_local! {
            static GROUND: &'static Ground = Box::leak(Box::new(Ground {
                data: Region::new(testing::memory(MEMORY as usize * BLOCK, DATA)),
                table: Region::new(testing::memory(512, TABLE)),
            }));
        }
        GROUND.with(|ground| *ground)
    }
}

/// The fake controller, one register of which may read as something else.
#[derive(Clone)]
struct Liar {
    fake: Fake,
    lie: Rc<Cell<Option<(usize, u32)>>>,
}

impl Registers for Liar {
    fn load<W: Width>(&self, offset: usize) -> W {
        match self.lie.get() {
            Some((at, value)) if at == offset & !3 => W::truncate(value >> (8 * (offset & 3))),
            _ => self.fake.load(offset),
        }
    }

    fn store<W: Width>(&self, offset: usize, value: W) {
        self.fake.store(offset, value);
    }
}

/// A life of the driver. Between two states it is taken out.
enum Driver {
    Starting(Starting<Liar>),
    Running(Sdhci<Liar>),
}

struct World {
    ground: &'static Ground,
    queues: &'static BlockDriver,
    liar: Liar,
    is_pio: bool,
    /// The controller may have said of a reset that it is done, and it is not: its end takes the
    /// settings of a driver that does not know of it.
    has_lied_of_resets: bool,
    /// `None` if the controller said that it cannot be used.
    driver: Option<Driver>,
    asker: Asker,
}

impl World {
    fn new(setting: u8) -> Self {
        let (ground, queues) = (Ground::get(), asker::queues());
        let fake = Fake::new(vec![ground.data, ground.table]);
        fake.0.version.set(1 + u16::from(setting >> 1 & 1));
        fake.0.counts_blocks.set(setting & 4 != 0);
        fake.insert(card(setting >> 3));
        let liar = Liar { fake, lie: Rc::default() };
        let asker = Asker::new(queues, MOST);
        let mut world =
            Self { ground, queues, liar, is_pio: setting & 1 != 0, has_lied_of_resets: false, driver: None, asker };
        world.restart();
        world
    }

    /// Begins the driver's next life.
    fn restart(&mut self) {
        let memory = if self.is_pio { vec![self.ground.data] } else { Vec::new() };
        let starting = Starting::new(self.liar.clone(), &self.ground.table, memory, Options::default());
        self.driver = starting.ok().map(Driver::Starting);
    }

    /// A turn of the driver, and one of its client's.
    fn turn(&mut self) {
        self.driver = self.driver.take().map(|driver| match driver {
            Driver::Starting(starting) => {
                let started = starting.finish(|| Port::connect(self.queues));
                started.map_or_else(Driver::Starting, Driver::Running)
            }
            Driver::Running(mut driver) => {
                if self.liar.fake.interrupts() {
                    driver.interrupted();
                }
                culm::run_rounds(8, || driver.round());
                Driver::Running(driver)
            }
        });
        self.asker.turn(|_, _, _| {});
    }

    fn run(&mut self) {
        asker::run(200, || self.turn());
    }

    /// Ends all that was wrong, and puts a new card in.
    fn mend(&mut self) {
        let Liar { fake, lie } = &self.liar;
        lie.set(None);
        for flag in [&fake.0.never_resets, &fake.0.keeps_lines, &fake.0.is_unstable, &fake.0.hold] {
            flag.set(false);
        }
        fake.0.capabilities.set(Fake::new(Vec::new()).0.capabilities.get());
        fake.0.reserved.set(0);
        fake.0.flaws.borrow_mut().clear();
        fake.end_reset();
        fake.let_go();
        fake.pull();
        fake.insert(FakeCard::new(3, 99));
    }
}

/// One of several cards.
fn card(which: u8) -> FakeCard {
    match which & 3 {
        0 => FakeCard::new(1, 7),
        1 => FakeCard::old(8),
        2 => FakeCard::new(1, 9).with(|card| card.discards = true),
        _ => FakeCard::new(1, 10).with(|card| card.is_protected = true),
    }
}

fn request(input: &mut Input<'_>) -> Option<Request> {
    let (block, first) = (u64::from(input.number() % 1024), u64::from(input.byte()) % u64::from(MEMORY));
    let blocks = (1 + u32::from(input.byte()) % 16).min(MEMORY - first as u32);
    let segment = Segment { place: DATA / BLOCK as u64 + first, blocks };
    Some(match input.byte() % 6 {
        0 | 1 => Request::read(block, &[segment])?,
        2 | 3 => Request::write(block, &[segment])?,
        4 if blocks & 1 == 0 => Request::discard(block, blocks),
        4 => Request::write_zeroes(block, blocks, true),
        _ => Request::flush(),
    })
}

fn flaw(input: &mut Input<'_>) -> Flaw {
    let (which, count) = (input.byte(), input.byte());
    match which % 12 {
        0 => Flaw::Silent,
        1 => Flaw::Reply,
        2 => Flaw::Data(u16::from(count) % 8),
        3 => Flaw::Stall(u16::from(count) % 8),
        4 => Flaw::Hang,
        5 => Flaw::Status(input.number()),
        6 => Flaw::Late,
        7 => Flaw::Events(input.number()),
        8 => Flaw::Pull,
        9 => Flaw::Busy(count.into()),
        10 => Flaw::Early,
        _ => Flaw::None,
    }
}

fuzz_target!(|bytes: &[u8]| {
    testing::forget();
    let mut input = Input::new(bytes);
    let mut world = World::new(input.byte());
    if input.byte() & 1 == 0 {
        world.run();
    }
    while !input.is_over() {
        let fake = world.liar.fake.clone();
        match input.byte() % 14 {
            0..3 => {
                if let Some(request) = request(&mut input) {
                    world.asker.send(&request);
                }
            }
            3 => fake.0.flaws.borrow_mut().push_back(flaw(&mut input)),
            4 => drop(fake.pull()),
            5 => fake.insert(card(input.byte())),
            6 => fake.let_go(),
            7 => {
                let flags = [&fake.0.never_resets, &fake.0.keeps_lines, &fake.0.is_unstable, &fake.0.hold];
                let byte = usize::from(input.byte());
                flags[byte & 3].set(byte & 4 != 0);
            }
            8 => fake.end_reset(),
            9 => fake.raise(input.number()),
            10 => {
                let at = usize::from(input.byte()) & !3;
                world.has_lied_of_resets |= at == RESET;
                world.liar.lie.set((at != 0).then(|| (at, input.number())));
            }
            11 => fake.0.capabilities.set(input.number()),
            12 => world.restart(),
            _ => {
                let passed = Duration::from_millis(u64::from(input.byte()) * 40);
                testing::set_time(time::now() + passed);
                world.run();
            }
        }
        world.turn();
    }
    world.mend();
    if world.driver.is_none() || world.has_lied_of_resets {
        world.restart();
    }
    for _ in 0..5 {
        testing::set_time(time::now() + Duration::from_secs(20));
        world.run();
    }
    world.asker.ask_at_the_end(LAST_CARD);
    world.run();
    world.asker.is_answered();
    let _ = testing::take_log();
});
