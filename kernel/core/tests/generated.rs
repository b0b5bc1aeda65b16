//! Interrupts that virtual CPUs of a guest send each other: scenarios, and random ones.
#![cfg(not(loom))]

mod common;

use common::{Builder, Fake, FakeContext, FakeCore, Seen};
use culm_abi::guest::exit;
use culm_abi::syscall::{RESUME, STOP};
use culm_kernel_core::domain::State;
use culm_kernel_core::system::Command;
use culm_kernel_core::{Added, Entry, Generated, Interrupt, Trap};
use proptest::prelude::*;
use std::sync::atomic::Ordering;

/// Virtual CPUs of one guest, each on the core after its number, with a domain above it and one
/// below. Their monitor is on the first core.
const CPUS: usize = 3;

/// An interrupt of each core's upper domain, and of the monitor.
const DEVICE: u32 = 40;
const OF_MONITOR: u32 = 50;

/// The core of a virtual CPU.
fn core_of(cpu: usize) -> u32 {
    cpu as u32 + 1
}

struct Scene {
    fake: Fake,
    monitor: u32,
    /// By virtual CPU.
    above: [u32; CPUS],
    cpus: [u32; CPUS],
    ends: [u32; CPUS],
    below: [u32; CPUS],
    /// The virtual CPU of another guest, on a core of its own, with its monitor.
    stranger: u32,
}

impl Scene {
    /// All virtual CPUs run, and all others wait that are above them.
    fn new() -> Self {
        let mut builder = Builder::default();
        let monitor = builder.domain(0, 20);
        builder.interrupt(monitor, OF_MONITOR);
        let (mut above, mut cpus, mut ends, mut below) = ([0; CPUS], [0; CPUS], [0; CPUS], [0; CPUS]);
        for cpu in 0..CPUS {
            above[cpu] = builder.domain(core_of(cpu), 30);
            builder.interrupt(above[cpu], DEVICE + cpu as u32);
            (cpus[cpu], ends[cpu]) = builder.virtual_cpu(monitor, core_of(cpu), 10);
            below[cpu] = builder.domain(core_of(cpu), 5);
        }
        let other_monitor = builder.domain(core_of(CPUS), 20);
        let (stranger, _) = builder.virtual_cpu(other_monitor, core_of(CPUS), 10);
        let mut scene = Self { fake: builder.build(), monitor, above, cpus, ends, below, stranger };
        for above in scene.above {
            scene.fake.wait(above, 0);
        }
        scene.fake.deliver_ipis();
        for cpu in 0..CPUS {
            scene.resume(cpu);
        }
        (0..CPUS).for_each(|cpu| assert_eq!(scene.state(cpu), State::Running));
        scene.deliver();
        scene
    }

    fn context(&mut self, cpu: usize) -> &mut FakeContext {
        let (core, local) = self.fake.core(self.cpus[cpu]);
        &mut core.domain(local).context
    }

    fn core(&mut self, cpu: usize) -> &mut FakeCore {
        &mut self.fake.cores[core_of(cpu) as usize]
    }

    /// What runs on a virtual CPU's core.
    fn runs(&mut self, cpu: usize) -> Option<u32> {
        self.fake.runs(core_of(cpu))
    }

    fn state(&mut self, cpu: usize) -> State {
        self.fake.domain_state(self.cpus[cpu])
    }

    /// Every virtual CPU that is on its core goes into the guest.
    fn enter(&mut self) {
        self.cpus.iter().for_each(|cpu| self.fake.enter_guest(*cpu));
    }

    /// The monitor, woken by a device if it waits, gives a command, and waits again.
    fn command(&mut self, cpu: usize, command: Command, number: u16) {
        // An exit may have woken the monitor, and its core not know yet.
        _ = self.fake.cores[0].ipi();
        if self.fake.runs(0) != Some(self.monitor) {
            _ = self.fake.cores[0].interrupt(OF_MONITOR);
        }
        let end = self.ends[cpu].into();
        _ = self.fake.core(self.monitor).0.supervise(end, command, number);
        while self.fake.runs(0) == Some(self.monitor) {
            self.fake.wait(self.monitor, 1 << 0);
        }
        self.fake.deliver_ipis();
    }

    /// The monitor answers the last exit of a virtual CPU.
    fn resume(&mut self, cpu: usize) {
        self.context(cpu).is_answered = true;
        self.command(cpu, Command::Resume, RESUME);
        self.enter();
    }

    /// A virtual CPU, which is on its core, takes an exception.
    fn trap(&mut self, cpu: usize, trap: Option<Trap>) {
        assert_eq!(self.runs(cpu), Some(self.cpus[cpu]));
        self.context(cpu).trap = trap;
        _ = self.core(cpu).guest_exit();
        self.context(cpu).trap = None;
        self.fake.enter_guest(self.cpus[cpu]);
    }

    fn send(&mut self, from: usize, number: u32, cpus: u32) {
        self.trap(from, Some(Trap::Generates(Generated { number, cpus, to_others: false })));
    }

    /// Inter-processor interrupts arrive, and guests go on.
    fn deliver(&mut self) {
        self.fake.deliver_ipis();
        self.enter();
    }

    /// Takes what a virtual CPU was given.
    fn given(&mut self, cpu: usize) -> u32 {
        std::mem::take(&mut self.context(cpu).generated)
    }

    /// How often the monitor's core has interrupted others.
    fn interrupts_sent(&self) -> u64 {
        self.fake.system.core_accounts[0].ipis_sent.load(Ordering::Relaxed)
    }

    fn ipis(&self) -> Vec<u32> {
        self.fake.bench.ipis.borrow().clone()
    }

    /// The upper domain of a virtual CPU's core takes that, or gives it back.
    fn preempt(&mut self, cpu: usize) {
        _ = self.core(cpu).interrupt(DEVICE + cpu as u32);
        assert_eq!(self.runs(cpu), Some(self.above[cpu]));
    }

    fn give_back(&mut self, cpu: usize) {
        self.fake.wait(self.above[cpu], 1);
    }
}

#[test]
fn an_interrupt_reaches_a_guest_that_runs_without_its_monitor() {
    let mut scene = Scene::new();
    scene.send(0, 3, 0b100);
    assert_eq!(scene.ipis(), [core_of(2)]);
    scene.deliver();
    assert_eq!([0, 1, 2].map(|cpu| scene.given(cpu)), [0, 0, 1 << 3]);
    assert_eq!([0, 1, 2].map(|cpu| scene.state(cpu)), [State::Running; CPUS]);
}

#[test]
fn an_interrupt_wakes_a_guest_that_waits() {
    let mut scene = Scene::new();
    scene.trap(1, Some(Trap::Waits { is_told: false }));
    assert_eq!((scene.state(1), scene.runs(1)), (State::Idle, Some(scene.below[1])));
    scene.send(0, 3, 0b010);
    scene.deliver();
    assert_eq!((scene.state(1), scene.given(1)), (State::Running, 1 << 3));
}

#[test]
fn an_interrupt_that_comes_as_a_guest_begins_to_wait_ends_the_wait() {
    let mut scene = Scene::new();
    scene.send(0, 3, 0b010);
    scene.trap(1, Some(Trap::Waits { is_told: false }));
    scene.deliver();
    assert_eq!((scene.state(1), scene.given(1)), (State::Running, 1 << 3));
}

#[test]
fn an_interrupt_to_all_others_and_one_to_itself() {
    let mut scene = Scene::new();
    scene.trap(1, Some(Trap::Generates(Generated { number: 5, cpus: 0b10, to_others: true })));
    scene.deliver();
    assert_eq!([0, 1, 2].map(|cpu| scene.given(cpu)), [1 << 5, 0, 1 << 5]);
    scene.send(1, 7, 0b010);
    assert_eq!((scene.ipis(), scene.given(1)), (vec![], 1 << 7));
}

#[test]
fn a_guest_reaches_nobody_but_its_own_cpus() {
    let mut scene = Scene::new();
    scene.trap(0, Some(Trap::Generates(Generated { number: 0, cpus: u32::MAX, to_others: true })));
    scene.send(0, 1, u32::MAX);
    scene.deliver();
    assert_eq!([0, 1, 2].map(|cpu| scene.given(cpu)), [0b10, 0b11, 0b11]);
    assert!(!scene.fake.system.shared[scene.stranger as usize].generated.is_pending());
}

#[test]
fn a_core_that_does_not_run_the_guest_is_interrupted_once_at_most() {
    let mut scene = Scene::new();
    scene.preempt(1);
    for number in 0..16 {
        scene.send(0, number, 0b010);
        assert_eq!(scene.ipis(), if number == 0 { vec![core_of(1)] } else { vec![] }, "interrupt {number}");
        scene.deliver();
    }
    assert_eq!(scene.given(1), 0, "it is not on its core");
    scene.give_back(1);
    scene.enter();
    assert_eq!(scene.given(1), 0xffff);
    // So while the guest has exited.
    scene.trap(1, None);
    assert_eq!(scene.state(1), State::Exited);
    scene.deliver();
    scene.send(0, 1, 0b010);
    scene.deliver();
    scene.send(0, 2, 0b010);
    assert_eq!(scene.ipis(), [] as [u32; 0]);
    scene.resume(1);
    assert_eq!(scene.given(1), 0b110);
}

#[test]
fn a_core_that_does_not_run_the_guest_is_interrupted_once_by_its_monitors_commands() {
    let mut scene = Scene::new();
    scene.preempt(1);
    let before = scene.interrupts_sent();
    for _ in 0..16 {
        scene.context(1).added = Some(Added::Taken);
        scene.command(1, Command::Resume, RESUME);
    }
    assert_eq!((scene.interrupts_sent() - before, scene.state(1)), (1, State::Ready));
    assert_eq!(scene.context(1).added, Some(Added::Taken), "all but the first wait for the guest");
    scene.give_back(1);
    scene.enter();
    assert_eq!((scene.context(1).added, scene.state(1)), (None, State::Running));
    // So a stop, which the guest obeys before its next instruction, and the answer once it has
    // exited is never held back.
    scene.preempt(1);
    scene.command(1, Command::Stop, STOP);
    assert_eq!(scene.state(1), State::Exited);
    scene.resume(1);
    for _ in 0..16 {
        scene.command(1, Command::Stop, STOP);
    }
    assert_eq!((scene.interrupts_sent() - before, scene.state(1)), (3, State::Ready));
    scene.give_back(1);
    scene.enter();
    assert_eq!((scene.state(1), scene.runs(1)), (State::Exited, Some(scene.below[1])));
}

#[test]
fn a_guest_that_waits_is_told_of_a_command_at_once() {
    let mut scene = Scene::new();
    scene.trap(1, None);
    scene.context(1).entry = Entry::Waits;
    scene.preempt(1);
    scene.resume(1);
    assert_eq!(scene.state(1), State::Idle);
    scene.context(1).added = Some(Added::Taken);
    scene.command(1, Command::Resume, RESUME);
    assert_eq!((scene.state(1), scene.context(1).added), (State::Ready, None));
}

#[test]
fn a_guest_that_is_resumed_to_wait_goes_on_if_an_interrupt_has_come_meanwhile() {
    let mut scene = Scene::new();
    scene.trap(1, None);
    scene.context(1).entry = Entry::Waits;
    scene.send(0, 4, 0b010);
    scene.deliver();
    scene.resume(1);
    assert_eq!((scene.state(1), scene.given(1)), (State::Running, 1 << 4));
    scene.trap(1, None);
    scene.context(1).entry = Entry::Waits;
    scene.resume(1);
    assert_eq!(scene.state(1), State::Idle);
    scene.send(0, 4, 0b010);
    scene.deliver();
    assert_eq!((scene.state(1), scene.given(1)), (State::Running, 1 << 4));
}

#[test]
fn a_guest_that_forgets_exits_again_without_what_was_sent() {
    let mut scene = Scene::new();
    scene.trap(1, None);
    scene.send(0, 4, 0b010);
    scene.deliver();
    scene.context(1).entry = Entry::Forgets;
    scene.resume(1);
    assert_eq!((scene.state(1), &scene.context(1).seen), (State::Exited, &Seen::Exited(exit::RETURNED)));
    // What is sent after that arrives.
    scene.send(0, 5, 0b010);
    scene.context(1).entry = Entry::Goes;
    scene.resume(1);
    assert_eq!((scene.state(1), scene.given(1)), (State::Running, 1 << 5));
}

#[test]
fn the_end_of_an_interrupt_that_is_not_its_monitors_does_not_stop_a_guest() {
    let mut scene = Scene::new();
    scene.context(1).maintains_itself = true;
    scene.core(1).hardware().guest = Some(Interrupt::GuestMaintenance);
    _ = scene.core(1).take_interrupts();
    assert_eq!((scene.state(1), scene.runs(1)), (State::Running, Some(scene.cpus[1])));
}

/// What happens to a random system.
#[derive(Clone, Copy, Debug)]
enum Step {
    Send { number: u32, cpus: u32 },
    Wait,
    Exit,
    Preempt,
    GiveBack,
    Deliver,
    Resume { entry: Entry },
    Stop,
    Timer,
    Add { has_place: bool },
}

fn steps() -> impl Strategy<Value = Vec<(usize, Step)>> {
    let step = prop_oneof![
        6 => (0..16_u32, 0..1_u32 << CPUS).prop_map(|(number, cpus)| Step::Send { number, cpus }),
        2 => Just(Step::Wait),
        1 => Just(Step::Exit),
        1 => Just(Step::Preempt),
        1 => Just(Step::GiveBack),
        3 => Just(Step::Deliver),
        2 => any::<bool>().prop_map(|waits| Step::Resume { entry: if waits { Entry::Waits } else { Entry::Goes } }),
        1 => Just(Step::Resume { entry: Entry::Forgets }),
        1 => Just(Step::Stop),
        1 => Just(Step::Timer),
        2 => any::<bool>().prop_map(|has_place| Step::Add { has_place }),
    ];
    prop::collection::vec((0..CPUS, step), 0..120)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever happens in between, each interrupt arrives, once the guest runs where it is to, be
    /// it another CPU's or its monitor's.
    #[test]
    fn no_interrupt_is_lost(steps in steps()) {
        let mut scene = Scene::new();
        let mut sent = [0; CPUS];
        let mut given = [0; CPUS];
        for (cpu, step) in steps {
            let runs = scene.runs(cpu);
            let (is_on, is_below) = (runs == Some(scene.cpus[cpu]), runs != Some(scene.above[cpu]));
            match step {
                Step::Send { number, cpus } if is_on => {
                    // One that is sent anew before it was taken is one; do not count it as taken.
                    (0..CPUS).for_each(|cpu| given[cpu] |= scene.given(cpu));
                    (0..CPUS).filter(|cpu| cpus >> cpu & 1 != 0).for_each(|cpu| {
                        sent[cpu] |= 1 << number;
                        given[cpu] &= !(1 << number);
                    });
                    scene.send(cpu, number, cpus);
                }
                Step::Wait if is_on => {
                    scene.trap(cpu, Some(Trap::Waits { is_told: false }));
                }
                Step::Exit if is_on => scene.trap(cpu, None),
                Step::Preempt if is_below => scene.preempt(cpu),
                Step::GiveBack if !is_below => scene.give_back(cpu),
                Step::Resume { entry } => {
                    scene.context(cpu).entry = entry;
                    if scene.state(cpu) == State::Exited {
                        scene.context(cpu).is_answered = true;
                        if entry == Entry::Forgets {
                            given[cpu] |= scene.given(cpu);
                            sent[cpu] = given[cpu];
                        }
                    }
                    scene.command(cpu, Command::Resume, RESUME);
                }
                Step::Stop => scene.command(cpu, Command::Stop, STOP),
                Step::Timer => {
                    scene.core(cpu).hardware().guest = Some(Interrupt::GuestTimer);
                    _ = scene.core(cpu).take_interrupts();
                }
                Step::Add { has_place } => {
                    scene.context(cpu).added = Some(if has_place { Added::Taken } else { Added::NoPlace });
                    scene.command(cpu, Command::Resume, RESUME);
                }
                Step::Deliver => scene.fake.deliver_ipis(),
                _ => {}
            }
            scene.enter();
        }
        for cpu in 0..CPUS {
            if scene.runs(cpu) == Some(scene.above[cpu]) {
                scene.give_back(cpu);
            }
        }
        scene.deliver();
        scene.deliver();
        for cpu in 0..CPUS {
            if scene.state(cpu) == State::Exited {
                scene.context(cpu).entry = Entry::Goes;
                scene.resume(cpu);
            }
            given[cpu] |= scene.given(cpu);
            prop_assert_eq!(given[cpu], sent[cpu], "virtual CPU {} in {:?}", cpu, scene.state(cpu));
            prop_assert_eq!(scene.context(cpu).added, None, "what its monitor has added is taken");
        }
    }
}
