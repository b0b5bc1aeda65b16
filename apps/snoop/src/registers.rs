//! System calls with every register filled before and looked at after, and the two roles.

use crate::verdict::{HIGH, LOW, Registers, Result, THREAD, check, marked};
use crate::{Config, counters};
use core::arch::global_asm;
use culm::Channel;
use culm::time::{self, Duration, Instant};
use culm_abi::syscall::{Event, TurnOptions};

global_asm!(include_str!("registers.s"));

unsafe extern "C" {
    /// Fills the registers, makes the system call, stores the registers; keeps what a function keeps.
    fn snoop_wait(registers: *mut Registers);
    fn snoop_reply_wait(registers: *mut Registers);
    fn snoop_call(registers: *mut Registers);
    /// Fills the registers and counts `x0` down to 0, so that a preemption finds them filled.
    fn snoop_work(registers: *mut Registers);
}

/// Makes a system call with `registers` and leaves there what the registers hold afterwards.
fn with_registers(call: unsafe extern "C" fn(*mut Registers), registers: &mut Registers) {
    // SAFETY: the function reads and writes the array that it is given, and keeps what a function keeps.
    unsafe { call(registers) };
}

/// Of lower priority: calls its peer, then works until the peer's deadlines preempt it.
pub fn low(config: &Config, peer: Channel) -> ! {
    let before = call_registers(peer);
    loop {
        let mut after = before;
        with_registers(snoop_call, &mut after);
        check(&Result::Reply, &before, &after);
        let mut work = marked(LOW);
        work[0] = 20_000;
        let kept = work;
        with_registers(snoop_work, &mut work);
        check_preemption(&kept, &work);
        report(config);
    }
}

/// Of higher priority: replies to calls, and looks at its registers after each deadline.
pub fn high(config: &Config) -> ! {
    let mut called = false;
    loop {
        let before = wait_registers(time::now() + Duration::from_micros(200));
        let mut after = before;
        with_registers(if called { snoop_reply_wait } else { snoop_wait }, &mut after);
        check(&Result::Event, &before, &after);
        called = Event(after[8]).is_call();
        report(config);
    }
}

/// A call; everything but the channel is marked.
fn call_registers(peer: Channel) -> Registers {
    let mut registers = marked(LOW);
    registers[8] = u64::from(peer.number());
    registers
}

/// A wait without signals; everything that it does not read is marked, and so is the reply where there is one.
fn wait_registers(deadline: Instant) -> Registers {
    let mut registers = marked(HIGH);
    registers[8] = 0;
    registers[9] = deadline.ticks();
    registers[10] = TurnOptions::new(0).0;
    registers
}

/// A preemption must be invisible: all registers but the counted-down one are as they were. The thread register is not
/// kept, but must not hold anything else.
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
