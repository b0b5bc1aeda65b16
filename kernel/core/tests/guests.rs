//! Virtual CPUs: scenarios of exits, of interrupts for guests, and of a monitor's commands.
#![cfg(not(loom))]

mod common;

use common::{Builder, Fake, Seen};
use culm_abi::guest::exit;
use culm_abi::syscall::{FaultKind, FaultReport, RESTART, RESUME, STOP};
use culm_kernel_core::Interrupt;
use culm_kernel_core::domain::State;
use culm_kernel_core::system::Command;

/// A supervisor, its monitor, both of which wait, its virtual CPU, which runs, and a domain below
/// all.
struct Scene {
    fake: Fake,
    supervisor: u32,
    monitor_end: u32,
    monitor: u32,
    virtual_cpu: u32,
    end: u32,
    low: u32,
}

impl Scene {
    fn new() -> Self {
        let mut scene = Self::at_first();
        scene.fake.wait(scene.supervisor, 0);
        scene.fake.wait(scene.monitor, 0);
        assert_eq!(scene.guest(), (State::Running, Seen::Started));
        scene
    }

    /// The supervisor runs, and the others could.
    fn at_first() -> Self {
        let mut builder = Builder::default();
        let (supervisor, monitor, low) = (builder.domain(0, 30), builder.domain(0, 20), builder.domain(0, 5));
        let monitor_end = builder.supervise(supervisor, monitor);
        let (virtual_cpu, end) = builder.virtual_cpu(monitor, 10);
        Self { fake: builder.build(), supervisor, monitor_end, monitor, virtual_cpu, end, low }
    }

    /// The state of the virtual CPU, and what it has seen last.
    fn guest(&mut self) -> (State, Seen) {
        (self.fake.domain_state(self.virtual_cpu), self.fake.seen(self.virtual_cpu))
    }

    fn command(&mut self, command: Command, number: u16) {
        let end = self.end.into();
        _ = self.fake.core(self.monitor).0.supervise(end, command, number);
    }

    fn interrupt(&mut self, interrupt: Interrupt) {
        let core = self.fake.core(self.monitor).0;
        core.hardware().guest = Some(interrupt);
        _ = core.take_interrupts();
    }

    fn exit(&mut self) {
        _ = self.fake.core(self.virtual_cpu).0.guest_exit();
    }

    /// The monitor runs, told of its virtual CPU; it waits again.
    fn monitor_is_told(&mut self) {
        assert_eq!(self.fake.runs(0), Some(self.monitor));
        assert_eq!(self.fake.seen(self.monitor), Seen::Notified(0, 1 << self.end));
        self.fake.wait(self.monitor, 0);
    }
}

#[test]
fn an_exit_runs_the_monitor_and_a_resume_the_guest() {
    let mut scene = Scene::new();
    scene.exit();
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::EXCEPTION)));
    assert_eq!(scene.fake.runs(0), Some(scene.monitor));
    assert_eq!(scene.fake.seen(scene.monitor), Seen::Notified(0, 1 << scene.end));
    scene.command(Command::Resume, RESUME);
    assert_eq!(scene.guest(), (State::Ready, Seen::Entered));
    scene.fake.wait(scene.monitor, 0);
    assert_eq!(scene.fake.runs(0), Some(scene.virtual_cpu));
}

#[test]
fn a_guest_that_has_exited_leaves_the_core_to_others() {
    let mut scene = Scene::new();
    scene.exit();
    scene.monitor_is_told();
    assert_eq!(scene.fake.runs(0), Some(scene.low));
}

#[test]
fn the_guests_timer_wakes_the_monitor_of_one_that_has_exited() {
    let mut scene = Scene::new();
    scene.interrupt(Interrupt::GuestTimer);
    assert_eq!(scene.fake.runs(0), Some(scene.virtual_cpu), "the processor delivers it");
    scene.exit();
    scene.monitor_is_told();
    scene.interrupt(Interrupt::GuestTimer);
    scene.monitor_is_told();
    assert_eq!(scene.guest(), (State::Exited, Seen::Timer));
}

#[test]
fn maintenance_stops_a_guest_that_runs_or_could() {
    let mut scene = Scene::new();
    scene.interrupt(Interrupt::GuestMaintenance);
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::MAINTENANCE)));
    assert_eq!(scene.fake.runs(0), Some(scene.monitor));
    scene.command(Command::Resume, RESUME);
    scene.interrupt(Interrupt::GuestMaintenance);
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::MAINTENANCE)));
    scene.fake.wait(scene.monitor, 0);
    scene.monitor_is_told();
    scene.interrupt(Interrupt::GuestMaintenance);
    assert_eq!(scene.fake.runs(0), Some(scene.low), "it has exited already");
}

#[test]
fn a_monitor_stops_and_restarts_its_guest() {
    let mut scene = Scene::new();
    scene.exit();
    scene.command(Command::Stop, STOP);
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::EXCEPTION)), "it had exited before");
    scene.command(Command::Resume, RESUME);
    scene.command(Command::Resume, RESUME);
    scene.command(Command::Stop, STOP);
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::STOPPED)));
    scene.command(Command::Restart, RESTART);
    assert_eq!(scene.guest(), (State::Ready, Seen::Started));
    scene.fake.wait(scene.monitor, 0);
    scene.monitor_is_told();
    assert_eq!(scene.fake.runs(0), Some(scene.virtual_cpu));
}

#[test]
fn a_guest_whose_monitor_faults_stops_until_the_monitor_goes_on() {
    let mut scene = Scene::new();
    scene.exit();
    scene.command(Command::Resume, RESUME);
    assert_eq!(scene.guest(), (State::Ready, Seen::Entered));
    let report = FaultReport { kind: FaultKind::Panic as u64, ..FaultReport::default() };
    _ = scene.fake.core(scene.monitor).0.fault(report);
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::STOPPED)));
    assert_eq!(scene.fake.runs(0), Some(scene.supervisor));
    let end = scene.monitor_end.into();
    _ = scene.fake.core(scene.supervisor).0.supervise(end, Command::Resume, RESUME);
    scene.fake.wait(scene.supervisor, 0);
    scene.fake.wait(scene.monitor, 0);
    scene.monitor_is_told();
    assert_eq!(scene.fake.runs(0), Some(scene.low), "nothing resumes the guest but its monitor");
}

#[test]
fn a_guest_whose_monitor_is_stopped_stops() {
    let mut scene = Scene::at_first();
    let end = scene.monitor_end.into();
    _ = scene.fake.core(scene.supervisor).0.supervise(end, Command::Stop, STOP);
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::STOPPED)));
    scene.fake.wait(scene.supervisor, 0);
    assert_eq!(scene.fake.domain_state(scene.monitor), State::Stopped);
    assert_eq!(scene.fake.runs(0), Some(scene.low));
}

#[test]
fn a_guest_whose_monitor_is_restarted_stops_for_the_new_life() {
    let mut scene = Scene::at_first();
    let end = scene.monitor_end.into();
    _ = scene.fake.core(scene.supervisor).0.supervise(end, Command::Restart, RESTART);
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::STOPPED)));
    scene.fake.wait(scene.supervisor, 0);
    assert_eq!(scene.fake.runs(0), Some(scene.monitor));
    scene.fake.wait(scene.monitor, 0);
    assert_eq!(scene.fake.runs(0), Some(scene.low));
    scene.interrupt(Interrupt::GuestTimer);
    scene.monitor_is_told();
    assert_eq!(scene.guest(), (State::Exited, Seen::Timer));
}
