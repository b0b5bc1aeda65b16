//! A machine made of ordinary memory: systems of several cores, driven entry by entry.
#![allow(dead_code, reason = "each test binary uses its own part")]

mod context;

use culm_abi::accounting::{CoreAccount, DomainAccount};
use culm_abi::start::SEED_WORDS;
use culm_abi::syscall::{CallStatus, Event, FaultReport, GROUP, NEVER};
use culm_abi::system::{
    ASID_SHIFT, CoreDescription, DomainDescription, EndDescription, InterruptRoute, NONE, domain_flags, end_kind,
    end_rights,
};
use culm_kernel_core::domain::State;
use culm_kernel_core::notification::NotificationWord;
use culm_kernel_core::pending::PendingDomains;
use culm_kernel_core::system::Shared;
use culm_kernel_core::timer::{Slot, TimerQueue};
use culm_kernel_core::{Context, Core, Domain, Hardware, Interrupt, Next, SignalLeft, System};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

pub use context::*;

/// The state that all fake cores share.
#[derive(Debug, Default)]
pub struct Bench {
    pub now: Cell<u64>,
    /// How far the clock moves whenever it is read.
    pub pace: Cell<u64>,
    /// Cores that were sent an IPI which has not arrived yet, in order.
    pub ipis: RefCell<Vec<u32>>,
    pub enabled: RefCell<Vec<u32>>,
    /// Domains that stay stopped after a fault.
    pub given_up: RefCell<Vec<u32>>,
    /// How many seeds were given: each is made of its number.
    pub seeds: Cell<u64>,
}

impl Bench {
    /// Takes the IPIs that are under way to a core. Returns whether there was one.
    fn take_ipi(&self, core: u32) -> bool {
        let mut ipis = self.ipis.borrow_mut();
        let before = ipis.len();
        ipis.retain(|to| *to != core);
        ipis.len() < before
    }
}

#[derive(Debug, Default)]
pub struct FakeHardware {
    bench: Rc<Bench>,
    core: u32,
    pub alarm: u64,
    /// Devices that want an interrupt again as soon as they may have one.
    pub storming: BTreeSet<u32>,
    /// Lines that were delivered and not enabled again.
    masked: BTreeSet<u32>,
    /// Whether one entry finds all that is pending, IPIs too; else the look after a device's none.
    pub comes_together: bool,
    delivered: bool,
    /// Ticks that looking for an interrupt takes, and how often that was done.
    pub toll: u64,
    pub looks: u64,
    /// An interrupt for this core's guest, which the next look finds.
    pub guest: Option<Interrupt>,
}

impl FakeHardware {
    /// Whether a device or the timer interrupts as soon as it can.
    pub fn is_interrupted(&self) -> bool {
        self.alarm <= self.bench.now.get() || !self.wanting().is_empty()
    }

    /// Lines of devices that interrupt as soon as they can.
    pub fn wanting(&self) -> Vec<u32> {
        self.storming.difference(&self.masked).copied().collect()
    }

    /// Masks a line, as the controller does when it delivers. Returns whether it could deliver.
    pub fn mask(&mut self, number: u32) -> bool {
        self.masked.insert(number)
    }
}

impl Hardware for FakeHardware {
    fn now(&self) -> u64 {
        let now = self.bench.now.get();
        self.bench.now.set(now + self.bench.pace.get());
        now
    }
    fn set_timer(&mut self, time: u64) {
        self.alarm = time;
    }
    fn send_ipi(&mut self, core: u32) {
        self.bench.ipis.borrow_mut().push(core);
    }
    fn take_interrupt(&mut self) -> Option<Interrupt> {
        self.bench.now.set(self.bench.now.get() + self.toll);
        self.looks += 1;
        assert!(self.looks < 1_000_000, "an entry without an end");
        if std::mem::take(&mut self.delivered) {
            return None;
        }
        if let Some(interrupt) = self.guest.take() {
            return Some(interrupt);
        }
        if self.comes_together && self.bench.take_ipi(self.core) {
            return Some(Interrupt::Ipi);
        }
        if let Some(number) = self.wanting().first() {
            self.mask(*number);
            self.delivered = !self.comes_together;
            return Some(Interrupt::Device(*number));
        }
        (self.alarm <= self.bench.now.get()).then_some(Interrupt::Timer)
    }
    fn enable_interrupt(&mut self, number: u32) {
        self.masked.remove(&number);
        self.bench.enabled.borrow_mut().push(number);
    }
    fn seed(&mut self) -> [u64; SEED_WORDS] {
        self.bench.seeds.set(self.bench.seeds.get() + 1);
        [self.bench.seeds.get(); SEED_WORDS]
    }
    fn given_up(&mut self, domain: u32, fault: &FaultReport) {
        assert_ne!(fault.kind, 0, "domain {domain} has not faulted");
        self.bench.given_up.borrow_mut().push(domain);
    }
    fn halt(&mut self, status: u64) -> ! {
        panic!("halted with status {status}");
    }
}

/// Nanoseconds of a tick: so many that periods of a few ticks are allowed.
const TICK: u64 = 100_000;

/// Builds the tables that the tool would write. Domains are to be added in the order of their
/// cores.
#[derive(Clone, Default)]
pub struct Builder {
    domains: Vec<(DomainDescription, Vec<EndDescription>)>,
    routes: Vec<(u32, u32, u32)>,
}

impl Builder {
    /// How many channel ends a domain has so far.
    pub fn ends(&self, domain: u32) -> u32 {
        self.domains[domain as usize].1.len() as u32
    }

    pub fn domain(&mut self, core: u32, priority: u32) -> u32 {
        let description = DomainDescription {
            table: 0,
            entry: 0,
            stack_top: 0,
            start_block: 0,
            virtual_cpu: 0,
            vectors: 0,
            budget: 0,
            period: 0,
            core,
            priority,
            flags: 0,
            first_end: 0,
            end_count: 0,
            first_word: 0,
            groups: 1,
            supervisor: NONE,
            supervisor_word: 0,
            supervisor_bit: 0,
        };
        self.domains.push((description, vec![]));
        self.domains.len() as u32 - 1
    }

    /// Both in ticks.
    pub fn budget(&mut self, domain: u32, budget: u64, period: u64) {
        let description = &mut self.domains[domain as usize].0;
        (description.budget, description.period) = (budget * TICK, period * TICK);
    }

    /// The domain may use vector registers.
    pub fn vectors(&mut self, domain: u32) {
        self.domains[domain as usize].0.vectors = 0x2000;
    }

    pub fn passive(&mut self, domain: u32) {
        self.domains[domain as usize].0.flags |= domain_flags::PASSIVE;
    }

    fn end(&mut self, owner: u32, kind: u32, rights: u32, target: u32, peer_end: u32) -> u32 {
        let ends = &mut self.domains[owner as usize].1;
        let event = if kind == end_kind::PEER { Event::called(peer_end).0 } else { 0 };
        ends.push(EndDescription { kind, rights, target, callee: NONE, event, word: 0, bit: 0 });
        ends.len() as u32 - 1
    }

    /// The right to notify a domain, if it has time to act on it.
    fn notify(&self, peer: u32) -> u32 {
        if self.domains[peer as usize].0.flags & domain_flags::PASSIVE == 0 { end_rights::NOTIFY } else { 0 }
    }

    /// A channel's two numbers; `a` may call `b` above it on the same core.
    pub fn channel(&mut self, a: u32, b: u32) -> (u32, u32) {
        let (at_a, at_b) = (self.domains[a as usize].1.len() as u32, self.domains[b as usize].1.len() as u32);
        let (caller, callee) = (&self.domains[a as usize].0, &self.domains[b as usize].0);
        let calls = caller.core == callee.core && caller.priority < callee.priority;
        let call = if calls { end_rights::CALL } else { 0 };
        self.end(a, end_kind::PEER, self.notify(b) | call, b, at_b);
        self.end(b, end_kind::PEER, self.notify(a), a, at_a);
        (at_a, at_b)
    }

    /// A channel over which the lower may call the higher.
    pub fn both_ways(&mut self, a: u32, b: u32) {
        if self.domains[a as usize].0.priority < self.domains[b as usize].0.priority {
            self.channel(a, b);
        } else {
            self.channel(b, a);
        }
    }

    pub fn interrupt(&mut self, owner: u32, number: u32) -> u32 {
        let end = self.end(owner, end_kind::INTERRUPT, 0, number, 0);
        self.routes.push((number, owner, end));
        end
    }

    pub fn supervise(&mut self, supervisor: u32, child: u32) -> u32 {
        let end = self.end(supervisor, end_kind::CHILD, 0, child, 0);
        let description = &mut self.domains[child as usize].0;
        (description.supervisor, description.supervisor_bit) = (supervisor, end);
        end
    }

    /// A virtual CPU of the guest that `monitor` runs; answers it and the monitor's end for it.
    pub fn virtual_cpu(&mut self, monitor: u32, core: u32, priority: u32) -> (u32, u32) {
        let of_guest = |(other, _): &&(DomainDescription, _)| other.virtual_cpu != 0 && other.supervisor == monitor;
        let number = self.domains.iter().filter(of_guest).count() as u64;
        let virtual_cpu = self.domain(core, priority);
        let description = &mut self.domains[virtual_cpu as usize].0;
        (description.virtual_cpu, description.start_block, description.vectors) = (0x1000, number, 0x2000);
        description.table = u64::from(monitor + 1) << ASID_SHIFT;
        (virtual_cpu, self.supervise(monitor, virtual_cpu))
    }

    /// The tables, leaked.
    pub fn system(self) -> System<'static> {
        let (mut domains, mut ends, mut words) = (vec![], vec![], 0);
        for (mut description, own_ends) in self.domains {
            description.first_end = ends.len() as u32;
            description.end_count = own_ends.len() as u32;
            description.first_word = words;
            description.groups = (own_ends.len() as u32).div_ceil(GROUP).max(1);
            words += description.groups;
            ends.extend(own_ends);
            domains.push(description);
        }
        let place = |domain: u32, end: u32| (domains[domain as usize].first_word + end / GROUP, end % GROUP);
        for end in ends.iter_mut().filter(|end| end.kind == end_kind::PEER) {
            (end.word, end.bit) = place(end.target, Event(end.event).source());
        }
        let first = |core: u32| domains.iter().filter(|description| description.core < core).count() as u32;
        for owner in &domains {
            for end in &mut ends[owner.first_end as usize..][..owner.end_count as usize] {
                if end.rights & end_rights::CALL != 0 && domains[end.target as usize].core == owner.core {
                    end.callee = end.target - first(owner.core);
                }
            }
        }
        let mut routes = vec![InterruptRoute { domain: NONE, flags: 0, word: 0, bit: 0 }; 988];
        for (number, domain, end) in self.routes {
            let (word, bit) = place(domain, end);
            routes[number as usize - 32] = InterruptRoute { domain, flags: 0, word, bit };
        }
        let supervised: Vec<_> = domains
            .iter()
            .map(|description| {
                (description.supervisor != NONE).then(|| place(description.supervisor, description.supervisor_bit))
            })
            .collect();
        for (description, place) in domains.iter_mut().zip(supervised) {
            if let Some((word, bit)) = place {
                (description.supervisor_word, description.supervisor_bit) = (word, bit);
            }
        }
        let core_count = domains.iter().map(|description| description.core).max().unwrap_or(0) + 1;
        let (mut cores, mut first, mut first_pending_word) = (vec![], 0, 0);
        for core in 0..core_count {
            let count = domains.iter().filter(|description| description.core == core).count() as u32;
            let pending_words = count.div_ceil(64);
            cores.push(CoreDescription {
                mpidr: u64::from(core),
                stack_top: 0,
                first_domain: first,
                domain_count: count,
                first_pending_word,
                pending_words,
            });
            first += count;
            first_pending_word += pending_words;
        }
        fn table<T: Default>(count: u32) -> &'static [T] {
            Box::leak((0..count).map(|_| T::default()).collect())
        }
        let system = System {
            shared: table::<Shared>(domains.len() as u32),
            words: table::<NotificationWord>(words),
            pending_domains: table::<PendingDomains>(first_pending_word),
            core_accounts: table::<CoreAccount>(core_count),
            domain_accounts: table::<DomainAccount>(domains.len() as u32),
            cores: Box::leak(cores.into()),
            domains: Box::leak(domains.into()),
            ends: Box::leak(ends.into()),
            routes: Box::leak(routes.into()),
        };
        system.check().expect("the builder makes sound tables");
        system
    }

    /// Cores over these tables, each with its first domain chosen.
    pub fn build(self) -> Fake {
        let system = self.system();
        let bench = Rc::new(Bench::default());
        let cores = (0..system.cores.len() as u32).map(|index| new_core(&system, &bench, index)).collect();
        let mut fake = Fake { fast_path: true, cores, bench, system };
        for core in &mut fake.cores {
            _ = core.what_next();
        }
        fake
    }
}

/// Makes a core over these tables, as it does itself when it begins.
pub fn new_core(system: &System<'static>, bench: &Rc<Bench>, index: u32) -> FakeCore {
    let core = &system.cores[index as usize];
    let new = |local| Domain::new(system, core.first_domain + local, 1_000_000_000 / TICK);
    let domains = Box::leak((0..core.domain_count).map(new).collect());
    let slots = Box::leak((0..core.domain_count).map(|_| Slot::default()).collect());
    let hardware = FakeHardware { bench: bench.clone(), core: index, alarm: NEVER, ..FakeHardware::default() };
    Core::new(index, *system, domains, TimerQueue::new(slots), hardware)
}

pub type FakeCore = Core<'static, FakeContext, FakeHardware>;

pub struct Fake {
    /// Whether entries go by the fast paths where they can, as in the kernel.
    pub fast_path: bool,
    pub cores: Vec<FakeCore>,
    pub bench: Rc<Bench>,
    pub system: System<'static>,
}

impl Fake {
    /// Global index of what runs on a core.
    pub fn runs(&mut self, core: u32) -> Next {
        self.cores[core as usize].what_next().map(|local| local + self.system.cores[core as usize].first_domain)
    }

    pub fn core(&mut self, domain: u32) -> (&mut FakeCore, u32) {
        let core = self.system.domains[domain as usize].core;
        let local = domain - self.system.cores[core as usize].first_domain;
        (&mut self.cores[core as usize], local)
    }

    pub fn seen(&mut self, domain: u32) -> Seen {
        let (core, local) = self.core(domain);
        core.domain(local).context.seen.clone()
    }

    fn running(&mut self, domain: u32) -> &mut FakeCore {
        let core = self.system.domains[domain as usize].core;
        assert_eq!(self.runs(core), Some(domain), "domain {domain} is not running");
        &mut self.cores[core as usize]
    }

    pub fn wait(&mut self, domain: u32, signals: u64) {
        self.wait_with(domain, signals, NEVER, 0);
    }

    /// `wait` with all its registers.
    pub fn wait_with(&mut self, domain: u32, signals: u64, deadline: u64, options: u64) {
        let fast = self.fast_path;
        let core = self.running(domain);
        if let Some(switch) = fast.then(|| core.fast_wait(signals, deadline, options)).flatten() {
            switch.domain.context.notified(Event::notified(0), switch.result);
            return;
        }
        if fast && core.fast_idle(signals, deadline, options) {
            return;
        }
        if let Some(switch) = fast.then(|| core.fast_wait_until(signals, deadline, options)).flatten() {
            switch.domain.context.notified(Event::notified(0), switch.result);
            return;
        }
        _ = core.wait(signals, deadline, options);
    }

    /// Takes the interrupts that are pending, as a core does that runs a domain or sleeps.
    pub fn take_interrupts(&mut self, core: u32) {
        let sleeps = self.runs(core).is_none();
        let core = &mut self.cores[core as usize];
        if !sleeps || !self.fast_path {
            _ = core.take_interrupts();
            return;
        }
        match core.fast_interrupt() {
            Ok((local, set)) => core.domain(local).context.notified(Event::notified(0), set),
            Err(taken) => _ = core.handle_interrupts(taken),
        }
    }

    pub fn wait_until(&mut self, domain: u32, deadline: u64) {
        self.wait_with(domain, 0, deadline, 0);
    }

    /// An empty reply, and a wait with a deadline.
    pub fn reply_wait_until(&mut self, domain: u32, deadline: u64) {
        _ = self.running(domain).reply_wait(&message(&[]), 0, deadline, 0);
    }

    pub fn domain_state(&mut self, domain: u32) -> State {
        let (core, local) = self.core(domain);
        core.domain(local).state
    }

    pub fn signal(&mut self, domain: u32, signals: u64) {
        self.signal_with(domain, signals, 0);
    }

    /// `signal` with all its registers.
    pub fn signal_with(&mut self, domain: u32, signals: u64, options: u64) {
        let fast = self.fast_path;
        let core = self.running(domain);
        let left = if fast { core.fast_signal(signals, options) } else { SignalLeft::All };
        _ = match left {
            SignalLeft::Nothing => core.what_next(),
            SignalLeft::Wake(target) => core.signal_wake(target),
            SignalLeft::All => core.signal(signals, options),
        };
    }

    pub fn call(&mut self, domain: u32, channel: u32, words: &[u64]) {
        let fast = self.fast_path;
        let core = self.running(domain);
        if let Some(switch) = fast.then(|| core.fast_call(channel.into())).flatten() {
            switch.domain.context.called(Event(switch.result), &message(words));
            return;
        }
        _ = core.call(&message(words), channel.into());
    }

    pub fn reply_wait(&mut self, domain: u32, words: &[u64]) {
        self.reply_wait_with(domain, words, 0, NEVER, 0);
    }

    /// `reply_wait` with all its registers.
    pub fn reply_wait_with(&mut self, domain: u32, words: &[u64], signals: u64, deadline: u64, options: u64) {
        let fast = self.fast_path;
        let core = self.running(domain);
        if let Some(switch) = fast.then(|| core.fast_reply(signals, deadline, options)).flatten() {
            assert_eq!(switch.result, CallStatus::Replied as u64);
            switch.domain.context.replied(CallStatus::Replied, &message(words));
            return;
        }
        _ = core.reply_wait(&message(words), signals, deadline, options);
    }

    /// Time passes on all cores; timers go off when they are due.
    pub fn pass(&mut self, ticks: u64) {
        let end = self.bench.now.get() + ticks;
        loop {
            let next = self.cores.iter_mut().map(|core| core.hardware().alarm).min().unwrap_or(NEVER);
            if next > end {
                break;
            }
            self.bench.now.set(next.max(self.bench.now.get()));
            for core in &mut self.cores {
                if core.hardware().alarm <= self.bench.now.get() {
                    _ = core.timer();
                }
            }
        }
        self.bench.now.set(end.max(self.bench.now.get()));
    }

    /// A virtual CPU's way in, if it is on its core: it takes what was generated for it, and its
    /// monitor's command, by which it may exit.
    pub fn enter_guest(&mut self, virtual_cpu: u32) {
        let core = self.system.domains[virtual_cpu as usize].core;
        if self.runs(core) == Some(virtual_cpu) && !self.system.shared[virtual_cpu as usize].generated.listens() {
            let goes_on = self.core(virtual_cpu).0.guest_enters() == Some(self.core(virtual_cpu).1);
            assert_eq!(goes_on, self.domain_state(virtual_cpu) == State::Running);
        }
    }

    /// Delivers the inter-processor interrupts that are under way.
    pub fn deliver_ipis(&mut self) {
        let interrupted = std::mem::take(&mut *self.bench.ipis.borrow_mut());
        for core in interrupted {
            _ = self.cores[core as usize].ipi();
        }
    }
}
