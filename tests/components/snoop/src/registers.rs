//! System calls with every register filled before and looked at after, and the two roles.

use crate::verdict::{HIGH, LOW, Registers, Result, THREAD, check, marked};
use crate::{Config, counters};
use core::arch::global_asm;
use culm::Channel;
use culm::time::{self, Duration, Instant};
use culm_abi::syscall::{Event, NEVER, TurnOptions};

global_asm!(include_str!("registers.s"));

unsafe extern "C" {
    /// Fills the registers, makes the system call, stores the registers; keeps what a function
    /// keeps.
    fn snoop_wait(registers: *mut Registers);
    fn snoop_reply_wait(registers: *mut Registers);
    fn snoop_call(registers: *mut Registers);
    /// Fills the registers and counts `x0` down to 0, so that a preemption finds them filled.
    fn snoop_work(registers: *mut Registers);
}

/// Makes a system call with `registers` and leaves there what the registers hold afterwards.
fn with_registers(call: unsafe extern "C" fn(*mut Registers), registers: &mut Registers) {
    // SAFETY: the function reads and writes the array that it is given, and keeps what a function
    // keeps.
    unsafe { call(registers) };
}

/// Of lower priority: calls its peer, exchanges notifications with it, then works until the peer's
/// deadlines preempt it.
pub fn low(config: &Config, peer: Channel) -> ! {
    let before = call_registers(peer);
    let exchange = wait_registers(LOW, Some(peer), None);
    loop {
        let mut after = before;
        with_registers(snoop_call, &mut after);
        check(&Result::Reply, &before, &after);
        let mut after = exchange;
        with_registers(snoop_wait, &mut after);
        check(&Result::Event, &exchange, &after);
        let mut work = marked(LOW);
        work[0] = 20_000;
        let kept = work;
        with_registers(snoop_work, &mut work);
        check_preemption(&kept, &work);
        report(config);
    }
}

/// Of higher priority: replies to calls, answers notifications, and looks at its registers after
/// each event. Every other time it waits without a deadline, so that the kernel's fast paths are
/// taken as well as the others.
pub fn high(config: &Config, peer: Channel) -> ! {
    let (mut called, mut notified, mut fast) = (false, false, false);
    loop {
        let deadline = (!fast).then(|| time::now() + Duration::from_micros(200));
        let before = wait_registers(HIGH, notified.then_some(peer), deadline);
        let mut after = before;
        with_registers(if called { snoop_reply_wait } else { snoop_wait }, &mut after);
        check(&Result::Event, &before, &after);
        called = Event(after[8]).is_call();
        notified = !called && after[9] != 0;
        fast = !fast;
        report(config);
    }
}

/// A call; everything but the channel is marked.
fn call_registers(peer: Channel) -> Registers {
    let mut registers = marked(LOW);
    registers[8] = u64::from(peer.number());
    registers
}

/// A wait that notifies `signal`; everything that it does not read is marked, and so is the reply
/// where there is one.
fn wait_registers(role: u64, signal: Option<Channel>, deadline: Option<Instant>) -> Registers {
    let mut registers = marked(role);
    registers[8] = signal.map_or(0, |channel| 1 << channel.number());
    registers[9] = deadline.map_or(NEVER, Instant::ticks);
    registers[10] = TurnOptions::new(0).0;
    registers
}

/// A preemption must be invisible: all registers but the counted-down one are as they were. The
/// thread register is not kept, but must not hold anything else.
fn check_preemption(before: &Registers, after: &Registers) {
    for register in 1..after.len() {
        let cleared = register == THREAD && after[register] == 0;
        if after[register] != before[register] && !cleared {
            counters::FINDINGS.add(1);
            culm::error!("leak: a preemption changed register {register} to {:#x}", after[register]);
        }
    }
}

fn report(config: &Config) {
    let looks = counters::LOOKS.get();
    if looks.is_multiple_of(config.report) {
        match counters::FINDINGS.get() {
            0 => culm::info!("nothing leaked in {looks} looks"),
            findings => culm::error!("{findings} leaks in {looks} looks"),
        }
        culm::log::flush();
    }
}
