//! Work and system calls with all vector registers filled before and looked at after, and the two
//! roles.

use crate::content::Content;
use crate::{Config, Connections, counters};
use core::arch::global_asm;
use culm::Channel;
use culm::time::{self, Duration};
use culm_abi::syscall::{Event, NEVER};

global_asm!(include_str!("registers.s"));

unsafe extern "C" {
    /// Fills the registers, does one thing, stores the registers. The arguments are what it has in
    /// `x8` and `x9`; returns what `x8` holds afterwards. Keeps what a function keeps.
    fn vectors_wait(content: *mut Content, signals: u64, deadline: u64) -> u64;
    fn vectors_reply_wait(content: *mut Content, signals: u64, deadline: u64) -> u64;
    fn vectors_signal(content: *mut Content, signals: u64, unused: u64) -> u64;
    fn vectors_call(content: *mut Content, channel: u64, unused: u64) -> u64;
    /// Counts `x8` down to 0, so that a preemption finds the registers filled.
    fn vectors_work(content: *mut Content, rounds: u64, unused: u64) -> u64;
    /// Returns `FPCR`.
    fn vectors_control() -> u64;
}

type Work = unsafe extern "C" fn(*mut Content, u64, u64) -> u64;

/// One that looks: who it is, and how often it has.
struct Looker<'c> {
    config: &'c Config,
    owner: u64,
}

impl<'c> Looker<'c> {
    fn new(config: &'c Config, owner: u64) -> Self {
        // SAFETY: it reads a register.
        let control = unsafe { vectors_control() };
        // A life before this one has left something else there.
        match control {
            0 => culm::info!("begins in life {} with nothing of another", culm::restarts()),
            control => culm::error!("lost: a life begins with FPCR {control:#x}"),
        }
        Self { config, owner }
    }

    /// Does `work` with all registers filled, and looks at them. Returns its result.
    fn look(&self, when: &str, work: Work, (first, second): (u64, u64)) -> u64 {
        let before = Content::of(self.owner, counters::LOOKS.get());
        let mut after = before.clone();
        // SAFETY: the function reads and writes the content that it is given, and keeps what a
        // function keeps.
        let result = unsafe { work(&mut after, first, second) };
        before.compare(&after, when);
        self.report();
        result
    }

    fn report(&self) {
        let looks = counters::LOOKS.get();
        if looks == self.config.dies_after && culm::restarts() == 0 {
            let mut content = Content::of(self.owner, 1);
            // SAFETY: as in `look`. The registers stay filled.
            unsafe { vectors_work(&mut content, 1, 0) };
            panic!("as it was told");
        }
        if looks.is_multiple_of(self.config.report) && (looks / self.config.report).is_power_of_two() {
            match counters::FINDINGS.get() {
                0 => culm::info!("nothing lost in {looks} looks"),
                findings => culm::error!("{findings} registers lost in {looks} looks"),
            }
            culm::log::flush();
        }
    }
}

/// Of lower priority: calls its peers, notifies one with and without a turn's end, and works until
/// deadlines of others preempt it.
pub fn low(config: &Config, connections: &Connections) -> ! {
    let looker = Looker::new(config, 100);
    let bit = |channel: Channel| 1 << channel.number();
    loop {
        for channel in [connections.peer, connections.plain].into_iter().flatten() {
            looker.look("a call", vectors_call, (channel.number().into(), 0));
        }
        if let Some(peer) = connections.peer {
            looker.look("a signal", vectors_signal, (bit(peer), 0));
            let soon = time::now() + Duration::from_micros(100);
            looker.look("a wait", vectors_wait, (bit(peer), soon.ticks()));
        }
        looker.look("work", vectors_work, (20_000, 0));
    }
}

/// Of higher priority: replies to calls, and wakes up by itself. Every other time it waits without
/// a deadline if it has been called, so that the kernel's fast paths are taken as well.
pub fn high(config: &Config) -> ! {
    let looker = Looker::new(config, 110);
    let (mut called, mut fast) = (false, false);
    loop {
        let deadline = if fast { NEVER } else { (time::now() + looker.config.every).ticks() };
        let (when, work): (_, Work) = if called { ("a reply", vectors_reply_wait) } else { ("a wait", vectors_wait) };
        called = Event(looker.look(when, work, (0, deadline))).is_call();
        fast = called && !fast;
    }
}
