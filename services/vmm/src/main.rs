//! The monitor of a guest (VMM): deals with what the guest cannot do by itself.
//!
//! The kernel runs the guest's virtual CPUs like domains of a lower priority. When one leaves its
//! core ([`virtual_cpu`]), the monitor finds out why, does what the guest's machine would do
//! ([`culm_guest`]), carries bytes between its serial port and the console ([`console`]), frames,
//! blocks and random bytes between its devices and the system's own ([`devices`]), and lets it go
//! on. Other virtual CPUs may be in the guest meanwhile; it waits for none of them. A guest begins
//! with what the monitor puts into its memory ([`boot_files`]): at first, when it has reset itself,
//! or ended if it is to begin anew then, and when the monitor was restarted.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;
#[cfg(test)]
extern crate std;

mod boot_files;
mod console;
mod debugger;
mod devices;
mod exit_counters;
mod last_lines;
mod memory;
mod pause;
mod shared;
mod virtual_cpu;

use alloc::vec::Vec;
use boot_files::BootFiles;
use console::Console;
use culm::connection::GuestCpu;
use culm::guest::VIRTIO_CONSOLE;
use culm::time::{self, Duration, Instant};
use culm::{Channels, Component, ROUNDS, Region, run_rounds, start, supervision};
use culm_guest::controller::Offer;
use culm_guest::exit::Exit;
use culm_guest::{Machine, Outcome};
use debugger::Debugger;
use devices::Backends;
use memory::GuestMemory;
use pause::Pause;
use shared::Shared;
use virtual_cpu::{Left, VirtualCpu};

culm::component!(Monitor);

/// Exit status of a system that ends with its guest.
const STATUS_OFF: u32 = 0;

/// Time between the guest's end and the system's, for the last lines to reach the port.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Time from one beginning of the guest to the next. A guest that ends at once, again and again,
/// would fill the log with its ends and its monitor's time with copies of its kernel.
const SHORTEST_LIFE: Duration = Duration::from_secs(1);

/// The state of the guest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// It begins as soon as all of its virtual CPUs are this monitor's and have forgotten what they
    /// were sent in an earlier life.
    Begins,
    /// They are to forget that, all of them having left the guest.
    Forgets,
    /// It runs, or could, or waits for an interrupt.
    Runs,
    /// It has ended.
    Ended,
}

struct Monitor {
    halts: bool,
    begins_anew: bool,
    cpus: Vec<VirtualCpu>,
    shared: Shared,
    boot_files: BootFiles,
    console: Console,
    machine: Machine,
    memory: GuestMemory,
    backends: Backends,
    state: State,
    pause: Pause,
    debugger: Option<Debugger>,
    /// The time before which the guest does not begin anew.
    begins_at: Instant,
    /// The time at which the system ends with the guest.
    halt_at: Option<Instant>,
}

impl Component for Monitor {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let mut console = Console::new(&connections.console, start::text(connections.guest.name));
        if culm::restarts() > 0 {
            console.end_line();
            culm::error!("the monitor was restarted: its guest begins anew");
        }
        let cpus = start::list::<GuestCpu>(connections.guest.cpus);
        let shared = Shared::new(Region::new(cpus[0].page));
        let cpus: Vec<_> = cpus.iter().map(VirtualCpu::new).collect();
        let (backends, devices) = Backends::new(&connections);
        let mut monitor = Self {
            halts: config.halts,
            begins_anew: config.begins_anew,
            boot_files: BootFiles::new(&connections.guest),
            console,
            machine: Machine::new(cpus.len(), devices),
            cpus,
            shared,
            memory: GuestMemory::new(Region::new(connections.guest.memory)),
            backends,
            state: State::Begins,
            pause: Pause::new(&connections.console),
            debugger: connections.debug.as_ref().map(Debugger::new),
            begins_at: time::now(),
            halt_at: None,
        };
        monitor.pause.follow(Channels::NONE);
        monitor.work();
        monitor
    }

    fn notified(&mut self, channels: Channels) {
        self.pause.follow(channels);
        self.console.mark_notified(channels);
        self.backends.mark_notified(channels);
        self.work();
    }
}

impl Monitor {
    /// Does everything there is to do; every turn ends by this.
    fn work(&mut self) {
        for cpu in 0..self.cpus.len() {
            if let Some(left) = self.cpus[cpu].left() {
                self.left(cpu, left);
            }
        }
        self.carry();
        if self.debugger.is_some() {
            self.serve_debugger();
        }
        match self.state {
            State::Begins => {
                // A guest asks for its devices as it begins: that waits until they are known.
                if self.stop_all() && self.backends.are_known() && self.may_begin() {
                    self.cpus.iter().for_each(VirtualCpu::forget);
                    self.state = State::Forgets;
                    self.forget();
                }
            }
            State::Forgets => self.forget(),
            State::Runs => self.resume(),
            State::Ended => {
                self.stop_all();
                self.halt();
            }
        }
        self.cpus.iter_mut().for_each(VirtualCpu::end_turn);
    }

    /// Deals with a virtual CPU that has left its core.
    #[inline(never)]
    fn left(&mut self, cpu: usize, left: Left) {
        let virtual_cpu = &self.cpus[cpu];
        self.backends.mark_all();
        self.console.ring();
        virtual_cpu.not_taken().for_each(|register| self.machine.controller.take_back(cpu, register));
        if self.state != State::Runs {
            return;
        }
        counters::EXITS.add(1);
        self.machine.controller.collect(cpu, &virtual_cpu.interrupts(), virtual_cpu.generated());
        match left {
            Left::Exception { syndrome, address, page } => self.exit(cpu, syndrome, address, page),
            Left::Other => counters::EXITS_INTERRUPTS.add(1),
        }
    }

    /// Resumes the virtual CPUs that are here and on. Gives the others the interrupts that there
    /// are for them, and stops those that must leave, and all of them while the guest is paused.
    #[inline(always)]
    fn resume(&mut self) {
        if self.pause.is_on() || self.is_held() {
            self.stop_all();
            return;
        }
        for (cpu, virtual_cpu) in self.cpus.iter_mut().enumerate() {
            if virtual_cpu.is_here() && self.machine.power.is_on(cpu) {
                virtual_cpu.resume(&self.machine.controller.offer(cpu));
            }
        }
        for (cpu, virtual_cpu) in self.cpus.iter_mut().enumerate() {
            if self.machine.controller.is_settled(cpu) {
                continue;
            }
            let mut has_more = false;
            while virtual_cpu.has_room()
                && let Some(register) = self.machine.controller.add(cpu)
            {
                virtual_cpu.add(register);
                has_more = true;
            }
            if self.machine.controller.must_leave(cpu) {
                virtual_cpu.stop();
            } else if has_more {
                virtual_cpu.take_added();
            }
        }
    }

    /// Stops all virtual CPUs. Returns whether all are here already: none is in the guest.
    fn stop_all(&mut self) -> bool {
        self.cpus.iter_mut().for_each(VirtualCpu::stop);
        self.cpus.iter().all(VirtualCpu::is_here)
    }

    /// Returns whether the time has come for the guest to begin. If not, asks for a turn then.
    fn may_begin(&self) -> bool {
        let is_time = self.begins_at <= time::now();
        if !is_time {
            culm::wake_at(self.begins_at);
        }
        is_time
    }

    /// Has the virtual CPUs forget that have not yet. When all have, the guest begins.
    fn forget(&mut self) {
        for virtual_cpu in self.cpus.iter_mut().filter(|cpu| cpu.is_here() && cpu.is_to_forget()) {
            virtual_cpu.resume(&Offer::default());
        }
        if self.cpus.iter().all(VirtualCpu::is_here) {
            self.begin();
        }
    }

    /// Has the guest begin, with its first virtual CPU.
    #[inline(never)]
    fn begin(&mut self) {
        // Devices first: they may still be writing into the memory that the files go to.
        self.machine.reset();
        self.follow_devices();
        self.console.guest_begins();
        let (entry, device_tree) = self.boot_files.load();
        self.cpus[0].reset(entry, device_tree);
        self.begins_at = time::now() + SHORTEST_LIFE;
        self.state = State::Runs;
        self.resume();
    }

    /// Deals with an exception that the guest took.
    fn exit(&mut self, cpu: usize, syndrome: u64, address: u64, page: u64) {
        let exit = Exit::decode(syndrome, address, page);
        exit_counters::counter(&exit).add(1);
        match self.machine.exit(cpu, exit, &self.cpus[cpu]) {
            Outcome::Goes | Outcome::CpuOff => {}
            Outcome::Waits => {
                self.cpus[cpu].wait();
                self.shared.suspend();
            }
            Outcome::Starts(start) => self.cpus[start.cpu].reset(start.entry, start.argument),
            Outcome::Off => {
                self.console.end_line();
                culm::info!("the guest has switched itself off");
                self.end();
            }
            Outcome::Reset => {
                self.console.end_line();
                culm::info!("the guest has reset itself: it begins anew");
                self.console.guest_resets();
                self.state = State::Begins;
            }
            Outcome::Stuck => {
                self.console.end_line();
                culm::error!(
                    "the guest did what its machine has not: syndrome {syndrome:#x}, address {address:#x}, \
                     physical page {page:#x}, pc {:#x} of CPU {cpu}: it {}",
                    self.cpus[cpu].pc(),
                    if self.begins_anew { "begins anew" } else { "stays stopped" }
                );
                self.console.guest_is_stopped();
                self.state = self.after_the_end();
            }
        }
    }

    fn end(&mut self) {
        self.state = self.after_the_end();
        self.halt_at = (self.halts && !self.begins_anew).then(|| time::now() + LAST_WORDS);
    }

    /// Returns what becomes of a guest that does not go on.
    fn after_the_end(&self) -> State {
        if self.begins_anew { State::Begins } else { State::Ended }
    }

    /// Ends the system if it is to end with the guest and the time has come.
    fn halt(&self) {
        match self.halt_at {
            Some(time) if time <= time::now() => supervision::halt(STATUS_OFF),
            Some(time) => culm::wake_at(time),
            None => {}
        }
    }

    /// Returns whether a debugger wants the guest to stand still.
    fn is_held(&self) -> bool {
        self.debugger.as_ref().is_some_and(Debugger::holds)
    }

    /// Answers the debugger, if there is one, as soon as the guest stands still and all is shown.
    #[inline(never)]
    fn serve_debugger(&mut self) {
        let Some(mut debugger) = self.debugger.take() else { return };
        run_rounds(ROUNDS, || {
            let progress = debugger.carry();
            if progress.is_asleep() && debugger.holds() && self.show_all() {
                debugger.work(&self.cpus, &self.machine, &self.memory);
                return debugger.carry();
            }
            progress
        });
        self.debugger = Some(debugger);
    }

    /// Stops all virtual CPUs, and shows a debugger those that are on. Returns whether all are
    /// shown already.
    fn show_all(&mut self) -> bool {
        if !self.stop_all() {
            return false;
        }
        let mut are_shown = true;
        for (cpu, virtual_cpu) in self.cpus.iter_mut().enumerate() {
            if self.machine.power.is_on(cpu) && !virtual_cpu.is_shown() {
                virtual_cpu.show(&self.machine.controller.offer(cpu));
                are_shown = false;
            }
        }
        are_shown
    }

    /// Carries bytes between the guest's consoles and the system's, and what its devices have.
    fn carry(&mut self) {
        if self.shared.take_ring(VIRTIO_CONSOLE) {
            counters::DOORBELLS.add(1);
            self.console.ring();
        }
        if self.console.is_due() {
            self.carry_console();
        }
        let waits = self.shared.has_waited();
        self.shared.note_wait();
        let Self { backends, machine, shared, .. } = self;
        backends.take_rings(&mut machine.devices, |slot| {
            let is_rung = shared.take_ring(slot);
            counters::DOORBELLS.add(is_rung.into());
            is_rung
        });
        if waits {
            counters::WAITS.add(1);
            self.backends.guest_waits(&mut self.machine.devices);
        }
        self.backends.carry(&mut self.machine.devices, &self.memory);
        if Backends::want_wait(&self.machine.devices) && self.shared.ask_wait() {
            self.backends.guest_waits(&mut self.machine.devices);
            self.backends.carry(&mut self.machine.devices, &self.memory);
        }
        self.follow_devices();
    }

    /// Carries bytes between the guest's two consoles and the system's.
    #[inline(never)]
    fn carry_console(&mut self) {
        let Self { console, machine, memory, .. } = self;
        let carried = console.carry(&mut machine.serial, machine.devices.console.as_mut(), memory);
        counters::SENT.add(carried.sent);
        counters::RECEIVED.add(carried.received);
    }

    /// Shows the guest what its devices have done, and has it interrupted for that.
    fn follow_devices(&mut self) {
        let Self { machine, shared, .. } = self;
        machine.follow_devices(|slot, causes| shared.show(slot, causes));
    }
}
