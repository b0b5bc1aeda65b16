//! From the start to the first turn. The first instructions are in `arch`.

use crate::arch::domain_static;
use crate::start::{self, FromStart as _};
use crate::{Component, Interrupt, counters, log, random, trouble, turn};
use core::cell::Cell;
use culm_abi::start::SEED_WORDS;

/// Starts the component; `culm::component!` generates the call.
pub fn run<C: Component>(restarts: u64, seed: [u64; SEED_WORDS]) -> ! {
    let block = start::current();
    let header = block.header();
    RESTARTS.with(|cell| cell.set(restarts));
    random::seed(seed);
    log::open(header.log_level, start::name(), block.log());
    counters::set_page(start::counters(&block));
    trouble::clear();
    let mut component = C::init(C::Config::read(&block), C::Connections::read(&block));
    // A previous life may have left them masked, and at the first start they are.
    block.interrupts().for_each(Interrupt::enable);
    turn::run(&mut component)
}

domain_static! {
    RESTARTS: Cell<u64> = Cell::new(0);
}

/// Returns how often this component was restarted since the system started.
pub fn restarts() -> u64 {
    RESTARTS.with(Cell::get)
}
