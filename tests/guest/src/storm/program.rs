//! The program around the steps: lives, CPUs, and what brings a CPU back.

use crate::steps;
use core::panic::PanicInfo;
use core::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use culm_abi::guest::MAX_CPUS;
use culm_tests_guest::machine::{self, call, load, microsecond, now};
use culm_tests_guest::random::Random;
use culm_tests_guest::{controller, say};

/// What a CPU that another switches on is given, so that it knows that it is not the first.
pub const ANOTHER: u64 = 0x616e_6f74_6865_7221;

/// PSCI's `SYSTEM_RESET`.
const RESET: u64 = 0x8400_0009;

/// Microseconds after which a CPU that makes no step has got lost.
const PATIENCE: u64 = 500_000;

/// Steps of a CPU after which it looks at the others.
const STEPS_BETWEEN: u64 = 64;

/// The vector of interrupts, of the four of each level.
const INTERRUPT: u64 = 1;

/// A CPU, for itself and for the others.
struct Cpu {
    random: AtomicU64,
    /// When it made its last steps.
    seen: AtomicU64,
    /// Whether it is on, as far as it knows.
    is_on: AtomicBool,
}

static CPUS: [Cpu; MAX_CPUS] =
    [const { Cpu { random: AtomicU64::new(0), seen: AtomicU64::new(0), is_on: AtomicBool::new(false) } }; MAX_CPUS];

/// Lives that have begun, and steps of all of them. They outlive a life.
#[unsafe(link_section = ".kept")]
static LIVES: AtomicU64 = AtomicU64::new(0);
#[unsafe(link_section = ".kept")]
static STEPS: AtomicU64 = AtomicU64::new(0);

/// A CPU begins: the first with the address of the device tree, others with [`ANOTHER`].
#[unsafe(no_mangle)]
extern "C" fn guest_main(cpu: usize, argument: u64) -> ! {
    if argument != ANOTHER {
        let life = LIVES.fetch_add(1, Ordering::Relaxed);
        say!("storm: life {life} begins after {} steps", STEPS.load(Ordering::Relaxed));
        let seed = seed(argument).wrapping_add(life << 32);
        for (number, cpu) in (0..).zip(&CPUS) {
            cpu.random.store(Random::new(seed ^ number << 56).number(), Ordering::Relaxed);
        }
    }
    let own = &CPUS[cpu % MAX_CPUS];
    own.seen.store(now(), Ordering::Relaxed);
    own.is_on.store(true, Ordering::Relaxed);
    go_on(cpu)
}

/// A CPU comes back from an exception.
#[unsafe(no_mangle)]
extern "C" fn guest_recovers(cpu: usize, vector: u64, _syndrome: u64, _address: u64) -> ! {
    if vector % 4 == INTERRUPT {
        controller::end(controller::acknowledge());
    }
    go_on(cpu)
}

/// Makes steps for ever.
fn go_on(cpu: usize) -> ! {
    let own = &CPUS[cpu % MAX_CPUS];
    loop {
        let mut random = Random::new(own.random.load(Ordering::Relaxed));
        // Each step has numbers of its own: it may end in the middle.
        own.random.store(random.number(), Ordering::Relaxed);
        if STEPS.fetch_add(1, Ordering::Relaxed).is_multiple_of(STEPS_BETWEEN) {
            look_at_the_others(cpu);
        }
        own.seen.store(now(), Ordering::Relaxed);
        steps::step(cpu, &mut random);
    }
}

/// Resets the guest if another CPU has got lost.
fn look_at_the_others(cpu: usize) {
    let now = now();
    for (number, other) in CPUS.iter().enumerate() {
        let silence = now.saturating_sub(other.seen.load(Ordering::Relaxed));
        if number != cpu && other.is_on.load(Ordering::Relaxed) && silence > PATIENCE * microsecond() {
            call(true, [RESET, 0, 0, 0]);
        }
    }
}

/// Says that a CPU is about to switch itself off.
pub fn goes_off(cpu: usize) {
    CPUS[cpu % MAX_CPUS].is_on.store(false, Ordering::Relaxed);
}

/// The number behind `seed=` on the command line, which stands somewhere in the device tree.
fn seed(device_tree: u64) -> u64 {
    const KEY: &[u8] = b"seed=";
    let bytes = || (device_tree..device_tree + 0x1_0000).map(|address| load(address, 1) as u8);
    let is_there = |at: &u64| KEY.iter().zip(*at..).all(|(byte, address)| load(address, 1) == u64::from(*byte));
    let Some(at) = bytes().zip(device_tree..).map(|(_, address)| address).find(is_there) else { return 0 };
    let digits = (at + KEY.len() as u64..).map(|address| load(address, 1)).take_while(|byte| (48..58).contains(byte));
    digits.fold(0, |seed: u64, digit| seed.wrapping_mul(10).wrapping_add(digit - 48))
}

/// Nothing here is meant to panic, but what random instructions have left may: begin anew.
#[panic_handler]
fn panic(_: &PanicInfo) -> ! {
    call(true, [RESET, 0, 0, 0]);
    loop {
        machine::wait_for_interrupt();
    }
}
