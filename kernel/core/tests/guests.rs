//! Virtual CPUs: scenarios of exits, of interrupts for guests, and of a monitor's commands.
#![cfg(not(loom))]

mod common;

use common::{Builder, Fake, FakeContext, Seen, new_core};
use culm_abi::guest::exit;
use culm_abi::syscall::{FaultKind, FaultReport, RESTART, RESUME, STOP};
use culm_kernel_core::domain::State;
use culm_kernel_core::system::Command;
use culm_kernel_core::{Added, Entry, Interrupt, Trap};

/// An interrupt of the monitor's.
const DEVICE: u32 = 40;

/// A supervisor, its monitor, both of which wait, its virtual CPU, which runs, and a domain below
/// all of the virtual CPU's core.
struct Scene {
    fake: Fake,
    supervisor: u32,
    monitor_end: u32,
    monitor: u32,
    virtual_cpu: u32,
    end: u32,
    low: u32,
    /// The core of the virtual CPU.
    core: u32,
}

impl Scene {
    /// All on one core.
    fn new() -> Self {
        Self::on(0)
    }

    /// The virtual CPU is on this core, 0 or 1.
    fn on(core: u32) -> Self {
        let mut scene = Self::at_first(core);
        scene.fake.wait(scene.supervisor, 0);
        scene.monitor_is_told();
        assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::STOPPED)), "its monitor starts it");
        scene.resume();
        assert_eq!(scene.guest(), (State::Running, Seen::Entered));
        scene
    }

    /// The supervisor runs, and the others could, but the guest.
    fn at_first(core: u32) -> Self {
        let mut builder = Builder::default();
        let (supervisor, monitor) = (builder.domain(0, 30), builder.domain(0, 20));
        let low = builder.domain(core, 5);
        let monitor_end = builder.supervise(supervisor, monitor);
        builder.interrupt(monitor, DEVICE);
        let (virtual_cpu, end) = builder.virtual_cpu(monitor, core, 10);
        Self { fake: builder.build(), supervisor, monitor_end, monitor, virtual_cpu, end, low, core }
    }

    /// The state of the virtual CPU, and what it has seen last.
    fn guest(&mut self) -> (State, Seen) {
        (self.fake.domain_state(self.virtual_cpu), self.fake.seen(self.virtual_cpu))
    }

    /// Sets the virtual CPU's page and the outcome of the guest's next exception.
    fn page(&mut self) -> &mut FakeContext {
        let (core, local) = self.fake.core(self.virtual_cpu);
        &mut core.domain(local).context
    }

    /// The monitor, woken by a device if it waits, gives a command, which waits at the other core,
    /// if that is another.
    fn command(&mut self, command: Command, number: u16) {
        if self.fake.runs(0) != Some(self.monitor) {
            _ = self.fake.core(self.monitor).0.interrupt(DEVICE);
        }
        assert_eq!(self.fake.runs(0), Some(self.monitor));
        let end = self.end.into();
        _ = self.fake.core(self.monitor).0.supervise(end, command, number);
    }

    /// The monitor answers the last exit.
    fn answer(&mut self) {
        self.page().is_answered = true;
        self.command(Command::Resume, RESUME);
    }

    /// The monitor answers the last exit, and the guest goes on.
    fn resume(&mut self) {
        self.answer();
        self.deliver();
        self.fake.wait(self.monitor, 0);
        self.fake.enter_guest(self.virtual_cpu);
    }

    /// Inter-processor interrupts arrive, and the guest goes on.
    fn deliver(&mut self) {
        self.fake.deliver_ipis();
        self.fake.enter_guest(self.virtual_cpu);
    }

    fn interrupt(&mut self, interrupt: Interrupt) {
        let core = self.fake.core(self.virtual_cpu).0;
        core.hardware().guest = Some(interrupt);
        _ = core.take_interrupts();
    }

    /// The guest takes an exception.
    fn exit(&mut self) {
        _ = self.fake.core(self.virtual_cpu).0.guest_exit();
        self.fake.deliver_ipis();
    }

    /// The monitor runs, told of its virtual CPU; it waits again.
    fn monitor_is_told(&mut self) {
        assert_eq!(self.fake.runs(0), Some(self.monitor));
        if self.fake.seen(self.monitor) == Seen::Started {
            self.fake.wait(self.monitor, 0);
        }
        assert_eq!(self.fake.seen(self.monitor), Seen::Notified(0, 1 << self.end));
        self.fake.wait(self.monitor, 0);
    }

    /// Returns the domain that runs on the virtual CPU's core.
    fn runs(&mut self) -> Option<u32> {
        self.fake.runs(self.core)
    }
}

#[test]
fn an_exit_runs_the_monitor_and_a_resume_the_guest() {
    for core in [0, 1] {
        let mut scene = Scene::on(core);
        scene.exit();
        assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::EXCEPTION)));
        scene.monitor_is_told();
        assert_eq!(scene.runs(), Some(scene.low), "it leaves the core to others");
        scene.resume();
        assert_eq!(scene.guest(), (State::Running, Seen::Entered));
        assert_eq!(scene.runs(), Some(scene.virtual_cpu));
    }
}

#[test]
fn a_monitor_that_signals_its_guest_as_it_waits_resumes_it() {
    for core in [0, 1] {
        let mut scene = Scene::on(core);
        scene.exit();
        assert_eq!(scene.fake.runs(0), Some(scene.monitor));
        scene.fake.wait(scene.monitor, 1 << scene.end);
        scene.deliver();
        assert_eq!(scene.guest().0, State::Exited, "that exit was not answered");
        scene.page().is_answered = true;
        _ = scene.fake.core(scene.monitor).0.interrupt(DEVICE);
        scene.fake.wait(scene.monitor, 1 << scene.end);
        scene.deliver();
        assert_eq!(scene.guest(), (State::Running, Seen::Entered));
        assert_eq!(scene.runs(), Some(scene.virtual_cpu));
    }
}

#[test]
fn a_supervisor_cannot_signal_a_child_that_is_no_virtual_cpu() {
    let mut scene = Scene::new();
    let mut builder = Builder::default();
    let (top, middle, low) = (builder.domain(0, 30), builder.domain(0, 20), builder.domain(0, 10));
    builder.supervise(top, middle);
    let end = builder.supervise(middle, low);
    scene.fake = builder.build();
    scene.fake.wait(top, 0);
    scene.fake.wait(middle, 1 << end);
    assert_eq!(scene.fake.domain_state(middle), State::Faulted);
}

/// No inter-processor interrupt arrives at a core whose interrupt controller is not set up.
#[test]
fn a_command_from_before_its_core_has_begun_does_not_hide_the_next() {
    let mut scene = Scene::at_first(1);
    scene.fake.wait(scene.supervisor, 0);
    scene.command(Command::Stop, STOP);
    assert_eq!(scene.fake.bench.ipis.take(), [1], "this one is lost");
    scene.fake.cores[1] = new_core(&scene.fake.system, &scene.fake.bench, 1);
    scene.resume();
    assert_eq!(scene.guest(), (State::Running, Seen::Entered));
}

#[test]
fn a_guest_that_waits_goes_on_at_its_timer_without_its_monitor() {
    let mut scene = Scene::new();
    scene.page().trap = Some(Trap::Passed);
    scene.exit();
    assert_eq!(scene.runs(), Some(scene.virtual_cpu));
    scene.page().trap = Some(Trap::Waits { is_told: false });
    scene.exit();
    assert_eq!((scene.guest().0, scene.runs()), (State::Idle, Some(scene.low)));
    scene.interrupt(Interrupt::GuestTimer);
    assert_eq!((scene.guest().0, scene.runs()), (State::Running, Some(scene.virtual_cpu)));
    scene.interrupt(Interrupt::GuestTimer);
    assert_eq!(scene.runs(), Some(scene.virtual_cpu), "the processor delivers it");
}

#[test]
fn a_doorbell_runs_the_monitor_and_the_guest_goes_on_without_an_answer() {
    for core in [0, 1] {
        let mut scene = Scene::on(core);
        scene.page().trap = Some(Trap::Rings);
        scene.exit();
        let state = if core == 0 { State::Ready } else { State::Running };
        assert_eq!(scene.guest(), (state, Seen::Entered), "it has not exited");
        scene.monitor_is_told();
        assert_eq!((scene.guest().0, scene.runs()), (State::Running, Some(scene.virtual_cpu)));
        // While the monitor runs, or is told already, it is told in its next turn.
        scene.exit();
        assert_eq!(scene.fake.runs(0), Some(scene.monitor));
        if core == 1 {
            scene.exit();
            scene.fake.wait(scene.monitor, 0);
        }
        scene.monitor_is_told();
        assert_eq!(scene.runs(), Some(scene.virtual_cpu));
    }
}

#[test]
fn a_monitor_that_asked_is_told_that_its_guest_waits() {
    for core in [0, 1] {
        let mut scene = Scene::on(core);
        scene.page().trap = Some(Trap::Waits { is_told: true });
        scene.exit();
        assert_eq!(scene.guest(), (State::Idle, Seen::Entered), "it has not exited");
        scene.monitor_is_told();
        assert_eq!((scene.guest().0, scene.runs()), (State::Idle, Some(scene.low)));
        scene.interrupt(Interrupt::GuestTimer);
        assert_eq!(scene.guest().0, State::Running);
    }
}

#[test]
fn an_interrupt_that_is_added_reaches_a_guest_without_an_exit() {
    for core in [0, 1] {
        let mut scene = Scene::on(core);
        scene.page().added = Some(Added::Taken);
        scene.resume();
        assert_eq!((scene.guest(), scene.page().added), ((State::Running, Seen::Entered), None));
        scene.page().trap = Some(Trap::Waits { is_told: false });
        scene.exit();
        assert_eq!((scene.guest().0, scene.runs()), (State::Idle, Some(scene.low)));
        scene.resume();
        assert_eq!(scene.guest().0, State::Idle, "there was none");
        scene.page().added = Some(Added::Taken);
        scene.resume();
        assert_eq!((scene.guest().0, scene.runs()), (State::Running, Some(scene.virtual_cpu)));
    }
}

#[test]
fn an_interrupt_without_a_place_stops_a_guest_and_one_that_has_exited_takes_none() {
    for core in [0, 1] {
        for waits in [false, true] {
            let mut scene = Scene::on(core);
            if waits {
                scene.page().trap = Some(Trap::Waits { is_told: false });
                scene.exit();
            }
            scene.page().added = Some(Added::NoPlace);
            scene.command(Command::Resume, RESUME);
            scene.deliver();
            assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::STOPPED)));
            scene.page().added = Some(Added::Taken);
            scene.command(Command::Resume, RESUME);
            scene.deliver();
            assert_eq!((scene.guest().0, scene.page().added), (State::Exited, Some(Added::Taken)), "not answered");
            scene.fake.wait(scene.monitor, 0);
            scene.monitor_is_told();
            // One that is answered takes it with the rest, even if it was to wait.
            scene.page().entry = Entry::Waits;
            scene.resume();
            assert_eq!((scene.guest().0, scene.page().added), (State::Running, None));
        }
    }
}

#[test]
fn a_guest_is_resumed_to_wait() {
    let mut scene = Scene::new();
    scene.exit();
    scene.interrupt(Interrupt::GuestTimer);
    assert_eq!(scene.guest().0, State::Exited, "it has not begun to wait");
    scene.monitor_is_told();
    scene.page().entry = Entry::Waits;
    scene.resume();
    assert_eq!((scene.guest(), scene.runs()), ((State::Idle, Seen::Entered), Some(scene.low)));
    scene.command(Command::Stop, STOP);
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::STOPPED)));
}

#[test]
fn maintenance_stops_a_guest_that_runs_or_could() {
    let mut scene = Scene::new();
    scene.interrupt(Interrupt::GuestMaintenance);
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::MAINTENANCE)));
    assert_eq!(scene.fake.runs(0), Some(scene.monitor));
    scene.answer();
    scene.interrupt(Interrupt::GuestMaintenance);
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::MAINTENANCE)));
    scene.fake.wait(scene.monitor, 0);
    scene.monitor_is_told();
    scene.interrupt(Interrupt::GuestMaintenance);
    assert_eq!(scene.fake.runs(0), Some(scene.low), "it has exited already");
}

#[test]
fn an_exit_that_is_not_answered_is_not_lost_to_any_command() {
    for core in [0, 1] {
        let mut scene = Scene::on(core);
        scene.exit();
        for (command, number) in [(Command::Stop, STOP), (Command::Resume, RESUME), (Command::Restart, RESTART)] {
            scene.command(command, number);
            scene.deliver();
            assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::EXCEPTION)), "{command:?}");
        }
    }
}

#[test]
fn a_guest_that_runs_is_stopped_and_resumed_once() {
    for core in [0, 1] {
        let mut scene = Scene::on(core);
        scene.command(Command::Resume, RESUME);
        scene.deliver();
        assert_ne!(scene.guest().0, State::Exited);
        scene.command(Command::Stop, STOP);
        scene.deliver();
        assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::STOPPED)));
        scene.fake.wait(scene.monitor, 0);
        scene.monitor_is_told();
        assert_eq!(scene.runs(), Some(scene.low));
    }
}

#[test]
fn a_stop_that_replaces_a_resume_is_told() {
    let mut scene = Scene::on(1);
    scene.exit();
    scene.monitor_is_told();
    scene.answer();
    scene.command(Command::Stop, STOP);
    scene.deliver();
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::RETURNED)));
    scene.fake.wait(scene.monitor, 0);
    scene.monitor_is_told();
}

#[test]
fn a_resume_whose_answer_a_stop_has_overtaken_waits_for_the_next() {
    let mut scene = Scene::on(1);
    scene.exit();
    scene.monitor_is_told();
    // The command is taken between the monitor's answer and its next command.
    scene.command(Command::Stop, STOP);
    scene.page().is_answered = true;
    scene.deliver();
    assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::RETURNED)));
    scene.command(Command::Resume, RESUME);
    scene.deliver();
    assert_eq!(scene.guest().0, State::Exited, "this exit is not answered");
    scene.fake.wait(scene.monitor, 0);
    scene.monitor_is_told();
    scene.resume();
    assert_eq!(scene.guest(), (State::Running, Seen::Entered));
}

#[test]
fn a_guest_whose_monitor_faults_stops_until_the_monitor_goes_on() {
    for core in [0, 1] {
        let mut scene = Scene::on(core);
        scene.exit();
        assert_eq!(scene.fake.runs(0), Some(scene.monitor));
        scene.answer();
        let report = FaultReport { kind: FaultKind::Panic as u64, ..FaultReport::default() };
        _ = scene.fake.core(scene.monitor).0.fault(report);
        scene.deliver();
        let reason = if core == 0 { exit::STOPPED } else { exit::RETURNED };
        assert_eq!(scene.guest(), (State::Exited, Seen::Exited(reason)));
        assert_eq!(scene.fake.runs(0), Some(scene.supervisor));
        let end = scene.monitor_end.into();
        _ = scene.fake.core(scene.supervisor).0.supervise(end, Command::Resume, RESUME);
        scene.fake.wait(scene.supervisor, 0);
        scene.fake.wait(scene.monitor, 0);
        scene.monitor_is_told();
        assert_eq!(scene.runs(), Some(scene.low), "nothing resumes the guest but its monitor");
    }
}

#[test]
fn a_guest_whose_monitor_is_stopped_or_restarted_stops() {
    for core in [0, 1] {
        for (command, number) in [(Command::Stop, STOP), (Command::Restart, RESTART)] {
            let mut scene = Scene::on(core);
            let report = FaultReport { kind: FaultKind::Panic as u64, ..FaultReport::default() };
            // The monitor faults when it has been told, which wakes the supervisor.
            scene.exit();
            _ = scene.fake.core(scene.monitor).0.fault(report);
            let end = scene.monitor_end.into();
            _ = scene.fake.core(scene.supervisor).0.supervise(end, command, number);
            scene.deliver();
            assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::EXCEPTION)), "it had exited");
            scene.page().is_answered = true;
            _ = scene.fake.core(scene.supervisor).0.supervise(end, command, number);
            scene.deliver();
            assert_eq!(scene.guest(), (State::Exited, Seen::Exited(exit::RETURNED)), "it would have gone on");
            scene.fake.wait(scene.supervisor, 0);
            let runs_anew = core == 0 && command == Command::Restart;
            assert_eq!(scene.runs(), Some(if runs_anew { scene.monitor } else { scene.low }));
        }
    }
}
