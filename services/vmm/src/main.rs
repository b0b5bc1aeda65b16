//! The monitor of a guest (VMM): deals with what the guest cannot do by itself.
//!
//! The kernel runs the guest's virtual CPU like a domain of a lower priority. When the guest leaves
//! its core ([`virtual_cpu`]), the monitor finds out why, does what the guest's machine would do
//! ([`culm_guest`]), carries bytes between its serial port and the console ([`console`]), frames,
//! blocks and random bytes between its devices and the system's own ([`devices`]), and lets it go
//! on. A guest begins with what the monitor puts into its memory ([`boot_files`]): at first, when
//! it has reset itself, and when the monitor was restarted.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod boot_files;
mod causes;
mod console;
mod devices;
mod last_lines;
mod memory;
mod virtual_cpu;

use boot_files::BootFiles;
use console::Console;
use culm::connection::GuestCpu;
use culm::time::{self, Duration, Instant};
use culm::{Channels, Component, Region, start, supervision};
use culm_guest::exit::Exit;
use culm_guest::{Machine, Outcome};
use devices::Backends;
use memory::GuestMemory;
use virtual_cpu::{Left, VirtualCpu};

culm::component!(Monitor);

/// Exit status of a system that ends with its guest.
const STATUS_OFF: u32 = 0;

/// Time between the guest's end and the system's, for the last lines to reach the port.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// The state of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It begins as soon as its virtual CPU is this monitor's.
    Begins,
    /// It runs, or could, or waits for an interrupt.
    Runs,
    /// It has ended.
    Ended,
}

struct Monitor {
    halts: bool,
    virtual_cpu: VirtualCpu,
    boot_files: BootFiles,
    console: Console,
    machine: Machine,
    memory: GuestMemory,
    backends: Backends,
    state: State,
    /// The time at which the system ends with the guest.
    halt_at: Option<Instant>,
}

impl Component for Monitor {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        if culm::restarts() > 0 {
            culm::error!("the monitor was restarted: its guest begins anew");
        }
        let cpus = start::list::<GuestCpu>(connections.guest.cpus);
        let (backends, devices) = Backends::new(&connections);
        let mut monitor = Self {
            halts: config.halts,
            virtual_cpu: VirtualCpu::new(&cpus[0]),
            boot_files: BootFiles::new(&connections.guest),
            console: Console::new(&connections.console, start::text(connections.guest.name)),
            machine: Machine { devices, ..Machine::default() },
            memory: GuestMemory::new(Region::new(connections.guest.memory)),
            backends,
            state: State::Begins,
            halt_at: None,
        };
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
        // A guest asks for its devices as it begins: that waits until they are known. This turn may
        // be the one that brings it, and no other need follow.
        if !self.backends.are_known() {
            self.carry();
        }
        let left = self.backends.are_known().then(|| self.virtual_cpu.left()).flatten();
        let left = left.filter(|_| self.state != State::Ended);
        if let Some(left) = left
            && self.state == State::Runs
        {
            counters::EXITS.add(1);
            self.machine.controller.collect(&self.virtual_cpu.interrupts());
            match left {
                Left::Exception { syndrome, address, page } => self.exit(syndrome, address, page),
                Left::Other => counters::EXITS_INTERRUPTS.add(1),
            }
        }
        self.carry();
        if self.state == State::Ended {
            return self.halt();
        }
        if left.is_none() {
            // It runs, or waits: an interrupt is offered as it is resumed.
            if self.machine.controller.has_pending() {
                self.virtual_cpu.stop();
            }
            return;
        }
        if self.state == State::Begins {
            self.begin();
        }
        self.virtual_cpu.resume(&self.machine.controller.offer());
    }

    /// Has the guest begin, as its virtual CPU is resumed.
    fn begin(&mut self) {
        // Devices first: they may still be writing into the memory that the files go to.
        self.machine.reset();
        let (entry, device_tree) = self.boot_files.load();
        self.virtual_cpu.reset(entry, device_tree);
        self.state = State::Runs;
    }

    /// Deals with an exception that the guest took.
    fn exit(&mut self, syndrome: u64, address: u64, page: u64) {
        let exit = Exit::decode(syndrome, address, page);
        causes::counter(&exit).add(1);
        match self.machine.exit(exit, &self.virtual_cpu) {
            Outcome::Goes => {}
            Outcome::Waits => self.virtual_cpu.wait(),
            Outcome::Off => {
                culm::info!("the guest has switched itself off");
                self.end();
            }
            Outcome::Reset => {
                culm::info!("the guest has reset itself: it begins anew");
                self.console.guest_resets();
                self.state = State::Begins;
            }
            Outcome::Stuck => {
                culm::error!(
                    "the guest did what its machine has not: syndrome {syndrome:#x}, address {address:#x}, \
                     physical page {page:#x}, pc {:#x}: it stays stopped",
                    self.virtual_cpu.pc()
                );
                self.console.guest_is_stopped();
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

    /// Carries bytes between the guest's serial port and the console, and what its devices have.
    fn carry(&mut self) {
        let carried = self.console.carry(&mut self.machine.serial);
        counters::SENT.add(carried.sent);
        counters::RECEIVED.add(carried.received);
        self.backends.carry(&mut self.machine.devices, &self.memory);
        self.machine.follow_lines();
    }
}
