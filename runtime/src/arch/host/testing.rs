//! The kernel's stand-in when a component runs in a host test. Each test thread has a world of its
//! own.
//!
//! A host test makes a component by its `init`, or directly, moves the time, takes turns by calling
//! `notified` and `called`, and looks at what would have reached the kernel: [`signalled`],
//! [`deadline`], [`take_log`]. Whoever is at the other end of its queues is a [`Peer`].
//!
//! ```
//! use culm::{testing, time::Duration};
//!
//! testing::set_time(culm::time::now() + Duration::from_secs(1));
//! culm::Channel::new(3).notify();
//! culm::wake_at(culm::time::now() + Duration::from_millis(10));
//! assert_eq!(testing::signalled(), [3]);
//! assert_eq!(testing::deadline(), Some(culm::time::now() + Duration::from_millis(10)));
//! ```

mod queues;

pub use queues::{Peer, ring};

use crate::start::StartBlock;
use crate::time::Instant;
use crate::{CalleeGone, Channel, Channels, Component, Message, turn};
use core::cell::{Cell, RefCell};
use core::sync::atomic::AtomicU64;
use culm_abi::connection::Counters;
use culm_abi::start::{MAGIC, Memory, StartHeader};
use culm_abi::syscall::{FaultReport, GROUP, NEVER};
use std::boxed::Box;
use std::collections::VecDeque;
use std::string::String;
use std::vec::Vec;
use zerocopy::{FromZeros, IntoBytes};

/// A callee, which answers a call in a test.
pub type Callee = Box<dyn FnMut(Channel, Message) -> Result<Message, CalleeGone>>;

/// An act of a supervisor on one of its children.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Act {
    /// [`crate::supervision::resume`].
    Resume(Channel),
    /// [`crate::supervision::restart`].
    Restart(Channel),
    /// [`crate::supervision::stop`].
    Stop(Channel),
}

#[derive(Default)]
pub(super) struct World {
    ticks: Cell<u64>,
    /// Signals sent by system calls of their own, and by turns that were taken.
    pub(super) sent: RefCell<Vec<(u32, u64)>>,
    deadline: Cell<Option<u64>>,
    log: RefCell<String>,
    pub(super) callee: RefCell<Option<Callee>>,
    pub(super) faults: RefCell<VecDeque<FaultReport>>,
    pub(super) acts: RefCell<Vec<Act>>,
    block: RefCell<Option<StartBlock>>,
}

std::thread_local! {
    pub(super) static WORLD: World = World::default();
}

/// Forgets all that tests of this thread have left in its world, but for its start block: the rest
/// is as for a thread's first test. A fuzz target begins each input so, and what an input finds it
/// finds again alone.
pub fn forget() {
    turn::take();
    WORLD.with(|world| {
        let World { ticks, sent, deadline, log, callee, faults, acts, block: _ } = world;
        ticks.set(0);
        deadline.set(None);
        drop((sent.take(), log.take(), callee.take(), faults.take(), acts.take()));
    });
}

/// Sets the time.
pub fn set_time(now: Instant) {
    WORLD.with(|world| world.ticks.set(now.ticks()));
}

/// The system counter: it stands still until a test moves it ([`set_time`]).
pub(crate) mod counter {
    pub(crate) fn now() -> u64 {
        super::WORLD.with(|world| world.ticks.get())
    }

    /// That of QEMU's `virt` machine.
    pub(crate) const fn frequency() -> u64 {
        62_500_000
    }
}

/// Ends the turn; see [`signalled`] and [`deadline`].
fn end_turn() {
    let leave = turn::take();
    WORLD.with(|world| {
        if leave.signals != 0 {
            world.sent.borrow_mut().push((0, leave.signals));
        }
        if leave.deadline != NEVER {
            world.deadline.set(Some(leave.deadline));
        }
    });
}

/// Ends the turn and takes the numbers of the channels that were notified since the last time, in
/// ascending order.
pub fn signalled() -> Vec<u32> {
    end_turn();
    let mut channels: Vec<u32> =
        sent().into_iter().flat_map(|(group, bits)| Channels::new(group, bits)).map(Channel::number).collect();
    channels.sort_unstable();
    channels.dedup();
    channels
}

/// Takes the signals that system calls carried so far: group and bits of each.
pub(crate) fn sent() -> Vec<(u32, u64)> {
    WORLD.with(|world| world.sent.take())
}

/// Ends the turn and takes the deadline that it asked for.
pub fn deadline() -> Option<Instant> {
    end_turn();
    WORLD.with(|world| world.deadline.take()).map(Instant::from_ticks)
}

/// The notification of these channels, for [`Component::notified`].
pub fn channels(numbers: &[u32]) -> Channels {
    let group = numbers.first().map_or(0, |number| number / GROUP);
    assert!(numbers.iter().all(|number| number / GROUP == group), "one turn has channels of one group");
    Channels::new(group, numbers.iter().fold(0, |bits, number| bits | 1 << (number % GROUP)))
}

/// A cache line.
#[repr(align(64))]
struct Line([AtomicU64; 8]);

/// Returns zeroed memory of `size` bytes that devices see at `dma`, for as long as the test runs.
pub fn memory(size: usize, dma: u64) -> Memory {
    let lines: Vec<Line> = (0..size.div_ceil(64)).map(|_| Line([const { AtomicU64::new(0) }; 8])).collect();
    let lines = Box::leak(lines.into_boxed_slice());
    debug_assert!(lines.first().is_none_or(|line| line.0.len() == 8));
    Memory { address: lines.as_ptr().addr() as u64, size: size as u64, dma }
}

/// Gives this test's random numbers a seed, as the kernel does at each start; all zero is no
/// source, as at first.
pub fn set_seed(seed: [u64; culm_abi::start::SEED_WORDS]) {
    crate::random::seed(seed);
}

pub(crate) fn log(line: &[u8]) {
    WORLD.with(|world| world.log.borrow_mut().push_str(&String::from_utf8_lossy(line)));
}

/// Takes what was logged since the last time.
pub fn take_log() -> String {
    WORLD.with(|world| world.log.take())
}

/// Has somebody observe the components of this test from now on, who sees [`trouble`].
pub fn observe() {
    crate::counters::set_page(Some(Box::leak(Box::new(Counters::new()))));
}

/// Returns what the test's component says is wrong; `""` if nothing is, or nobody observes.
pub fn trouble() -> String {
    let mut text = [0; crate::trouble::LENGTH];
    crate::trouble::read(crate::counters::page(), &mut text).unwrap_or_default().into()
}

/// Lets `callee` answer all calls of this test.
pub fn answer_calls(callee: impl FnMut(Channel, Message) -> Result<Message, CalleeGone> + 'static) {
    WORLD.with(|world| world.callee.replace(Some(Box::new(callee))));
}

/// Adds a fault that the next [`crate::supervision::fault`] reads.
pub fn add_fault(report: FaultReport) {
    WORLD.with(|world| world.faults.borrow_mut().push_back(report));
}

/// Takes what a supervisor did since the last time.
pub fn acts() -> Vec<Act> {
    WORLD.with(|world| world.acts.take())
}

/// Uses `bytes` as this test's start block.
///
/// # Panics
///
/// Where they are none.
pub fn set_start_block(bytes: &[u8]) {
    let mut words = std::vec![0_u64; bytes.len().div_ceil(8)];
    words.as_mut_bytes()[..bytes.len()].copy_from_slice(bytes);
    let block = StartBlock::new(&words.leak().as_bytes()[..bytes.len()]);
    WORLD.with(|world| world.block.replace(Some(block)));
}

/// This test's start block; one without anything where none was set.
pub fn start_block() -> StartBlock {
    if WORLD.with(|world| world.block.borrow().is_none()) {
        let mut header = StartHeader::new_zeroed();
        header.magic = MAGIC;
        header.version = culm_abi::VERSION;
        header.size = size_of::<StartHeader>() as u32;
        set_start_block(header.as_bytes());
    }
    WORLD.with(|world| world.block.borrow().expect("just set"))
}

/// A component's `main` on the host: says where components run.
pub fn refuse_to_run<C: Component>() -> std::process::ExitCode {
    std::eprintln!("{} is a component of a Culm system: `./culm run SYSTEM` runs it", core::any::type_name::<C>());
    std::process::ExitCode::FAILURE
}
