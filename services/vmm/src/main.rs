//! The monitor of a guest (VMM): deals with what the guest cannot do by itself.
//!
//! The kernel runs the guest's virtual CPU like a domain of a lower priority on this core. When the
//! guest leaves the core ([`virtual_cpu`]), the monitor finds out why, does what the guest's
//! machine would do ([`culm_guest`]), carries bytes between its serial port and the console
//! ([`console`]), and lets it go on; or waits until there is an interrupt for it.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

mod console;
mod virtual_cpu;

use console::Console;
use culm::time::{self, Duration, Instant};
use culm::{Channels, Component, supervision};
use culm_guest::exit::Exit;
use culm_guest::{Machine, Outcome};
use virtual_cpu::{Left, VirtualCpu};

culm::component!(Monitor);

/// Exit status of a system that ends with its guest.
const STATUS_OFF: u32 = 0;

/// Time between the guest's end and the system's, for the last lines to reach the port.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// What the guest does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It runs, or could.
    Runs,
    /// It has exited and waits for an interrupt.
    Waits,
    /// It has ended.
    Ended,
}

struct Monitor {
    halts: bool,
    virtual_cpu: VirtualCpu,
    console: Console,
    machine: Machine,
    state: State,
    /// The time at which the system ends with the guest.
    halt_at: Option<Instant>,
}

impl Component for Monitor {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let virtual_cpu = VirtualCpu::new(&connections.guest);
        if culm::restarts() > 0 {
            // The devices that the guest knew went with the previous life, and its memory is not
            // what it was: it cannot go on, nor begin again.
            culm::error!("the monitor was restarted: its guest stays stopped");
            virtual_cpu.stop();
        }
        let state = if culm::restarts() > 0 { State::Ended } else { State::Runs };
        let console = Console::new(&connections.console);
        let mut monitor =
            Self { halts: config.halts, virtual_cpu, console, machine: Machine::default(), state, halt_at: None };
        monitor.work();
        monitor
    }

    fn notified(&mut self, _: Channels) {
        self.work();
    }
}

impl Monitor {
    /// Does everything there is to do; every turn ends by this.
    fn work(&mut self) {
        let left = self.virtual_cpu.left().filter(|_| self.state != State::Ended);
        if let Some(left) = left {
            counters::EXITS.add(1);
            self.machine.controller.collect(&self.virtual_cpu.interrupts());
            match left {
                Left::Exception { syndrome, address, page } => self.exit(syndrome, address, page),
                Left::Other => {}
            }
        }
        self.carry();
        if self.state == State::Ended {
            return self.halt();
        }
        let has_exited = left.is_some() || self.state == State::Waits;
        let is_due = self.machine.controller.has_pending();
        if !has_exited {
            // It runs, below this priority: an interrupt is offered as it is resumed.
            if is_due {
                self.virtual_cpu.stop();
            }
        } else if self.state == State::Runs || is_due || self.virtual_cpu.timer_has_gone_off() {
            self.state = State::Runs;
            self.virtual_cpu.resume(&self.machine.controller.offer());
        }
    }

    /// Deals with an exception that the guest took.
    fn exit(&mut self, syndrome: u64, address: u64, page: u64) {
        let exit = Exit::decode(syndrome, address, page);
        match self.machine.exit(exit, &self.virtual_cpu) {
            Outcome::Goes => {}
            Outcome::Waits => {
                counters::WAITS.add(1);
                self.state = State::Waits;
            }
            Outcome::Off => {
                culm::info!("the guest has switched itself off");
                self.end();
            }
            Outcome::Reset => {
                culm::info!("the guest has reset itself: it stays stopped, since nothing loads it anew");
                self.end();
            }
            Outcome::Stuck => {
                culm::error!(
                    "the guest did what its machine has not: syndrome {syndrome:#x}, address {address:#x}, \
                     physical page {page:#x}, pc {:#x}: it stays stopped",
                    self.virtual_cpu.pc()
                );
                self.state = State::Ended;
            }
        }
    }

    fn end(&mut self) {
        self.state = State::Ended;
        self.halt_at = self.halts.then(|| time::now() + LAST_WORDS);
    }

    /// Ends the system if it is to end with the guest and the time has come.
    fn halt(&self) {
        match self.halt_at {
            Some(time) if time <= time::now() => supervision::halt(STATUS_OFF),
            Some(time) => culm::wake_at(time),
            None => {}
        }
    }

    /// Carries bytes between the guest's serial port and the console.
    fn carry(&mut self) {
        let carried = self.console.carry(&mut self.machine.serial);
        counters::SENT.add(carried.sent);
        counters::RECEIVED.add(carried.received);
        self.machine.follow_lines();
    }
}
