//! Random systems with all that takes time: budgets, periods, deadlines, passive domains,
//! supervision, two cores with IPIs between them, domains with two groups of channels. The clock
//! moves whenever it is read.
//!
//! Nothing here predicts who runs. After each step it checks what must hold of every system: the
//! highest domain runs that may; nobody uses more than its budget in any window; timers are set for
//! all that is due; signals and answers arrive, once, and nothing else does; all time adds up to
//! the clock. Each system runs by the fast paths and without them, and both do the same.
#![cfg(not(loom))]

mod checks;
#[path = "../common/mod.rs"]
mod common;
mod shapes;

use common::{Fake, Seen};
use culm_abi::accounting::DomainAccount;
use culm_abi::syscall::{BadCall, Event, GROUP, NEVER};
use culm_abi::system::{EndDescription, NONE, end_kind, end_rights};
use culm_kernel_core::domain::State;
use culm_kernel_core::system::Command;
use proptest::prelude::*;
use shapes::{Action, DOMAINS, ON_FIRST_CORE, Shape, build, shapes, shared_servers, steps};
use std::collections::BTreeSet;
use std::sync::atomic::Ordering;

/// Ticks that a look for an interrupt takes in a lifelike machine.
const TOLL: u64 = 4;

/// The state of a domain, as far as it is known from outside.
#[derive(Clone, Default)]
struct Known {
    /// Channels that were signalled and not delivered.
    pending: BTreeSet<u32>,
    /// Until when it waits.
    deadline: Option<u64>,
    /// The call that it is in: to whom, and the number in its message.
    calling: Option<(usize, u64)>,
    /// The call that it serves.
    serving: Option<(usize, u64)>,
    /// Passive: somebody calls it, or did when it began what it does.
    called: bool,
    /// When its own budget paid for somebody.
    paid: Vec<(u64, u64)>,
    /// A command that was left for its core.
    command: Option<Command>,
}

struct Run {
    shape: Shape,
    fake: Fake,
    known: Vec<Known>,
    calls: u64,
    /// By a call's number, from 1: at whose expense it is to be served.
    owed_by: Vec<Option<usize>>,
    /// Calls that were replied to, whether or not their callers have seen it.
    answered: BTreeSet<u64>,
    /// Calls whose callers were stopped or restarted meanwhile.
    withdrawn: BTreeSet<u64>,
    start: u64,
    /// Until when it is known for each core who paid.
    settled: [u64; 2],
    trace: Vec<(Option<u32>, Option<u32>, Option<Seen>)>,
}

impl Run {
    fn new(shape: &Shape, behaviour: Behaviour) -> Self {
        let mut fake = build(shape);
        fake.fast_path = behaviour.is_fast;
        fake.bench.pace.set(behaviour.is_lifelike.into());
        for core in &mut fake.cores {
            core.hardware().toll = if behaviour.is_lifelike { TOLL } else { 0 };
            core.hardware().comes_together = behaviour.comes_together;
        }
        let start = fake.bench.now.get();
        let known = vec![Known::default(); DOMAINS];
        Self {
            shape: shape.clone(),
            fake,
            known,
            calls: 0,
            owed_by: vec![],
            answered: BTreeSet::new(),
            withdrawn: BTreeSet::new(),
            start,
            settled: [start; 2],
            trace: vec![],
        }
    }

    fn now(&self) -> u64 {
        self.fake.bench.now.get()
    }

    fn ends(&self, domain: usize) -> &'static [EndDescription] {
        let description = &self.fake.system.domains[domain];
        &self.fake.system.ends[description.first_end as usize..][..description.end_count as usize]
    }

    fn running(&mut self, core: u32) -> Option<usize> {
        self.fake.runs(core).map(|domain| domain as usize)
    }

    fn account(&self, domain: usize) -> &DomainAccount {
        &self.fake.system.domain_accounts[domain]
    }

    /// All that is counted of a domain, by name.
    fn counts(&self, domain: usize) -> [(&'static str, u64); 7] {
        let account = self.account(domain);
        [
            ("ticks", account.ticks.load(Ordering::Relaxed)),
            ("system calls", account.system_calls()),
            ("switches", account.switches()),
            ("preemptions", account.preemptions.load(Ordering::Relaxed)),
            ("throttles", account.throttles.load(Ordering::Relaxed)),
            ("faults", account.faults.load(Ordering::Relaxed).into()),
            ("restarts", account.restarts.load(Ordering::Relaxed).into()),
        ]
    }

    /// All that is counted of a core but its sleeps, which the logic is told of, by name.
    fn core_counts(&self, core: usize) -> [(&'static str, u64); 4] {
        let account = &self.fake.system.core_accounts[core];
        [
            ("idle", account.idle.load(Ordering::Relaxed)),
            ("interrupts", account.interrupts.load(Ordering::Relaxed)),
            ("IPIs sent", account.ipis_sent.load(Ordering::Relaxed)),
            ("timer expiries", account.timer.load(Ordering::Relaxed)),
        ]
    }

    /// Records who paid for what a core did since it was entered last.
    fn record_payer(&mut self, core: u32) {
        let (from, to) = (self.settled[core as usize], self.now());
        let first = self.fake.system.cores[core as usize].first_domain;
        if let Some(payer) = self.fake.cores[core as usize].paid_by()
            && from < to
        {
            self.known[(first + payer) as usize].paid.push((from, to));
        }
        self.settled[core as usize] = to;
    }

    /// Chooses signals that a domain may send: a set, and its group.
    fn signals(&self, domain: usize, choices: &[u8]) -> (u64, u32) {
        let allowed: Vec<u32> = (0..)
            .zip(self.ends(domain))
            .filter(|(_, end)| end.rights & end_rights::NOTIFY != 0 || end.kind == end_kind::INTERRUPT)
            .map(|(number, _)| number)
            .collect();
        let chosen: Vec<u32> = choices
            .iter()
            .filter(|_| !allowed.is_empty())
            // Mostly the last ones, which lead to everybody.
            .map(|choice| allowed[allowed.len() - 1 - *choice as usize % allowed.len()])
            .collect();
        let group = chosen.first().map_or(0, |number| number / GROUP);
        let in_group = chosen.iter().filter(|number| *number / GROUP == group);
        (in_group.fold(0, |set, number| set | 1 << (number % GROUP)), group)
    }

    fn note_signals(&mut self, domain: usize, (set, group): (u64, u32)) {
        for bit in (0..GROUP).filter(|bit| set >> bit & 1 == 1) {
            let end = self.ends(domain)[(group * GROUP + bit) as usize];
            if end.kind == end_kind::PEER {
                self.known[end.target as usize].pending.insert(Event(end.event).source());
            }
        }
    }

    /// A supervisor's command takes effect.
    fn note_command(&mut self, domain: usize, command: Command) {
        if command == Command::Resume {
            return;
        }
        let known = std::mem::take(&mut self.known[domain]);
        self.known[domain].paid = known.paid;
        self.withdrawn.extend(known.calling.map(|(_, number)| number));
        // Its own call is over; what serves it goes on.
        self.known[domain].called = command == Command::Restart && self.is_called(domain, known.serving);
    }

    /// Whether a call to `domain` is open, other than the one that it serves. The number tells, not
    /// the client: one that was restarted while it was served may have called again.
    fn is_called(&self, domain: usize, serving: Option<(usize, u64)>) -> bool {
        let served = serving.map(|(_, number)| number);
        let mut calls = self.known.iter().filter_map(|known| known.calling);
        calls.any(|(callee, number)| callee == domain && Some(number) != served)
    }

    /// At whose expense a domain acts: its own, or that of the call which it serves. None where
    /// nobody has to be asked: a passive domain that is still at its start.
    fn client_in_the_end(&self, domain: usize) -> Option<usize> {
        if !self.shape.passive[domain] {
            return Some(domain);
        }
        self.known[domain].serving.and_then(|(_, number)| self.owed_by[number as usize - 1])
    }

    /// Whether a domain is in a call that cannot end before `server` goes on.
    fn waits_for(&self, domain: usize, server: usize) -> bool {
        let open = self.known[domain].calling.filter(|(_, number)| !self.answered.contains(number));
        open.is_some_and(|(callee, _)| callee == server || self.waits_for(callee, server))
    }

    fn act(&mut self, core: u32, action: &Action) -> Result<(), TestCaseError> {
        let running = self.running(core);
        match (action, running) {
            (Action::Turn { signals, deadline }, Some(domain)) => self.turn(domain, signals, *deadline),
            (Action::Signal { signals }, Some(domain)) => {
                let (set, group) = self.signals(domain, signals);
                self.begin(domain);
                self.fake.signal_with(domain as u32, set, u64::from(group) << 32);
                self.note_signals(domain, (set, group));
            }
            (Action::Work { .. }, Some(domain)) if self.shape.passive[domain] => self.turn(domain, &[], None),
            (Action::Call { choice } | Action::Work { choice }, Some(domain)) => {
                let any = matches!(action, Action::Call { .. });
                let callable: Vec<_> = (0..)
                    .zip(self.ends(domain))
                    .filter(|(_, end)| end.callee != NONE && (any || self.shape.passive[end.target as usize]))
                    .collect();
                let Some((channel, end)) = callable.get(*choice as usize % callable.len().max(1)) else {
                    return Ok(());
                };
                self.calls += 1;
                self.owed_by.push(self.client_in_the_end(domain));
                self.begin(domain);
                self.known[domain].calling = Some((end.target as usize, self.calls));
                self.known[end.target as usize].called = true;
                self.fake.call(domain as u32, *channel, &[self.calls]);
            }
            (Action::Fault, Some(domain)) if domain != 0 => {
                self.begin(domain);
                self.known[0].pending.insert(domain as u32 - 1);
                _ = self.fake.cores[core as usize].refuse(BadCall::Number, 99);
            }
            (Action::Supervise { child, command }, Some(0)) => {
                let child = 1 + *child as usize % (DOMAINS - 1);
                self.begin(0);
                if child < ON_FIRST_CORE {
                    self.note_command(child, *command);
                } else {
                    self.known[child].command = Some(*command);
                }
                _ = self.fake.cores[0].supervise(child as u64 - 1, *command, 0);
            }
            (Action::Interrupt { domain }, _) => {
                let domain = *domain as usize % DOMAINS;
                let number = 40 + domain as u32;
                // The route of an interrupt leads to the core of its domain.
                let end = self.interrupt_end(domain);
                let core = &mut self.fake.cores[usize::from(domain >= ON_FIRST_CORE)];
                // A line that nobody can enable again has no owner, and is heard each time.
                if end.is_none() || core.hardware().mask(number) {
                    _ = core.interrupt(number);
                    self.known[domain].pending.extend(end);
                }
            }
            (Action::Storm { domain }, _) => {
                let domain = *domain as usize % DOMAINS;
                let number = 40 + domain as u32;
                if self.interrupt_end(domain).is_some() {
                    let storming = &mut self.fake.core(domain as u32).0.hardware().storming;
                    if !storming.remove(&number) {
                        storming.insert(number);
                    }
                }
            }
            (Action::Timer, _) => _ = self.fake.cores[core as usize].timer(),
            (Action::Ipi, _) => self.deliver_ipis(),
            _ => {}
        }
        Ok(())
    }

    /// The end of a domain's turn, as its runtime would have it: by a reply where it serves a call.
    fn turn(&mut self, domain: usize, signals: &[u8], deadline: Option<u64>) {
        let (set, group) = self.signals(domain, signals);
        let deadline = deadline.map(|ticks| if ticks < 60 { 0 } else { self.now() + ticks });
        let serving = self.known[domain].serving.take();
        self.begin(domain);
        let (until, options) = (deadline.unwrap_or(NEVER), u64::from(group) << 32);
        if self.shape.passive[domain] && deadline.is_some() {
            self.known[0].pending.insert(domain as u32 - 1);
            self.known[domain].serving = serving;
        } else {
            self.note_signals(domain, (set, group));
            self.known[domain].deadline = deadline;
            self.known[domain].called = self.is_called(domain, serving);
            self.answered.extend(serving.map(|(_, number)| number));
        }
        match serving {
            Some((_, number)) => self.fake.reply_wait_with(domain as u32, &[number], set, until, options),
            None => self.fake.wait_with(domain as u32, set, until, options),
        }
    }

    /// A domain does something: what it saw before is past.
    fn begin(&mut self, domain: usize) {
        let (core, local) = self.fake.core(domain as u32);
        core.domain(local).context.seen = Seen::Nothing;
    }

    /// Delivers the inter-processor interrupts that are under way.
    fn deliver_ipis(&mut self) {
        let interrupted = self.fake.bench.ipis.borrow().clone();
        for core in interrupted {
            self.note_ipi(core);
        }
        self.fake.deliver_ipis();
    }

    /// An IPI reaches a core: commands for its domains take effect.
    fn note_ipi(&mut self, core: u32) {
        for domain in self.domains_of(core) {
            if let Some(command) = self.known[domain].command.take() {
                self.note_command(domain, command);
            }
        }
    }

    /// Timers that are due go off.
    fn timers(&mut self) -> Result<(), TestCaseError> {
        for _ in 0..1000 {
            let due = (0..2_u32).find(|core| self.fake.cores[*core as usize].hardware().alarm <= self.now());
            let Some(core) = due else { return Ok(()) };
            self.record_payer(core);
            _ = self.fake.cores[core as usize].timer();
            self.look(core)?;
        }
        Err(TestCaseError::fail("a core does nothing but look at its timer"))
    }

    /// The end by which a domain hears of its device.
    fn interrupt_end(&self, domain: usize) -> Option<u32> {
        let end = self.ends(domain).iter().position(|end| end.kind == end_kind::INTERRUPT);
        end.map(|end| end as u32)
    }

    /// Devices that may interrupt do, once each: nobody asks for the next within this step. Where
    /// interrupts come together, one entry takes those of all devices, and an IPI with them.
    fn storms(&mut self) -> Result<(), TestCaseError> {
        for core in 0..2 {
            loop {
                let comes_together = self.fake.cores[core as usize].hardware().comes_together;
                let mut wanting = self.fake.cores[core as usize].hardware().wanting();
                if wanting.is_empty() {
                    break;
                }
                if comes_together && self.fake.bench.ipis.borrow().contains(&core) {
                    self.note_ipi(core);
                }
                wanting.truncate(if comes_together { wanting.len() } else { 1 });
                for number in wanting {
                    let domain = number as usize - 40;
                    let end = self.interrupt_end(domain);
                    self.known[domain].pending.extend(end);
                }
                self.record_payer(core);
                self.fake.take_interrupts(core);
                if comes_together {
                    self.look_at_notified(core)?;
                }
                self.look(core)?;
            }
            let left = self.fake.cores[core as usize].hardware().wanting();
            prop_assert!(left.is_empty(), "{:?} may interrupt again, and nobody has asked for it", left);
        }
        Ok(())
    }

    fn step(&mut self, core: u32, action: &Action) -> Result<(), TestCaseError> {
        if let Action::Pass { ticks } = action {
            let end = self.now() + ticks;
            loop {
                self.timers()?;
                let next = (0..2).map(|core: usize| self.fake.cores[core].hardware().alarm).min().unwrap_or(NEVER);
                if next > end {
                    break;
                }
                self.fake.bench.now.set(next.max(self.now()));
            }
            self.fake.bench.now.set(end.max(self.now()));
        } else {
            self.record_payer(0);
            self.record_payer(1);
            self.act(core, action)?;
            self.look(0)?;
            self.look(1)?;
        }
        self.storms()?;
        self.timers()?;
        self.check_all()
    }

    /// Looks at what the running domain of a core found in its registers, if it has not looked yet.
    fn look(&mut self, core: u32) -> Result<(), TestCaseError> {
        let running = self.running(core);
        let paid = self.fake.cores[core as usize].paid_by();
        let seen = running.map(|domain| self.fake.seen(domain as u32));
        self.trace.push((running.map(|domain| domain as u32), paid, seen));
        running.map_or(Ok(()), |domain| self.look_at(domain, false))
    }

    /// Looks at the notifications of each domain of a core after an entry that took several
    /// interrupts: the first of them may have set a domain going that a later one preempted.
    fn look_at_notified(&mut self, core: u32) -> Result<(), TestCaseError> {
        for domain in self.domains_of(core) {
            let state = self.fake.domain_state(domain as u32);
            let is_notified = matches!(self.fake.seen(domain as u32), Seen::Notified(..));
            if is_notified && matches!(state, State::Ready | State::Running) {
                self.look_at(domain, true)?;
            }
        }
        Ok(())
    }

    /// Looks at what a domain found in its registers, if it has not looked yet.
    fn look_at(&mut self, domain: usize, may_be_first: bool) -> Result<(), TestCaseError> {
        match self.fake.seen(domain as u32) {
            Seen::Notified(group, set) => {
                let got = (0..GROUP).filter(|bit| set >> bit & 1 == 1).map(|bit| group * GROUP + bit);
                let got: BTreeSet<u32> = got.collect();
                let pending = &self.known[domain].pending;
                let sent: BTreeSet<u32> = pending.iter().copied().filter(|number| number / GROUP == group).collect();
                // The first of several interrupts may have woken it: the others are left for its
                // next wait, which `check_schedule` does not let it sleep through.
                let is_first = may_be_first && !got.is_empty() && got.is_subset(&sent);
                prop_assert!(got == sent || is_first, "domain {} gets {:?} of {:?}", domain, got, sent);
                if set == 0 {
                    let passed = self.known[domain].deadline.is_some_and(|deadline| deadline <= self.now());
                    prop_assert!(passed, "the wait of domain {} ends with nothing", domain);
                    prop_assert!(pending.is_empty(), "although something was sent");
                }
                prop_assert!(!self.shape.passive[domain], "passive domain {} was woken", domain);
                self.known[domain].pending.retain(|number| !got.contains(number));
                self.known[domain].deadline = None;
            }
            Seen::Called(channel, words) => {
                let client = self.ends(domain)[channel as usize].target as usize;
                let call = Some((domain, words[0]));
                let gone = self.withdrawn.contains(&words[0]);
                prop_assert!(gone || self.known[client].calling == call, "{} gets {:?} of {}", domain, words, client);
                self.known[domain].serving = Some((client, words[0]));
                self.known[domain].deadline = None;
            }
            Seen::Replied(words) => {
                let call = self.known[domain].calling.take();
                prop_assert_eq!(call.map(|(_, number)| number), Some(words[0]), "domain {}", domain);
            }
            Seen::CalleeGone => prop_assert!(self.known[domain].calling.take().is_some()),
            Seen::Nothing | Seen::Started | Seen::Fault(_) | Seen::Exited(_) | Seen::Entered => {
                return Ok(());
            }
        }
        self.begin(domain);
        Ok(())
    }
}

/// The behaviour of the machine that a system runs on.
#[derive(Clone, Copy)]
struct Behaviour {
    /// Entries go by the fast paths where they can.
    is_fast: bool,
    /// The clock moves whenever it is read, and IPIs come when the steps say so; else the clock
    /// stands still within a step, and IPIs come at its end.
    is_lifelike: bool,
    /// All devices that may interrupt do so before one entry, which takes IPIs too.
    comes_together: bool,
}

/// Runs a system.
fn play(shape: &Shape, steps: &[(u32, Action)], behaviour: Behaviour) -> Result<Run, TestCaseError> {
    let mut run = Run::new(shape, behaviour);
    run.timers()?;
    for (core, action) in steps {
        run.step(*core, action).map_err(|error| TestCaseError::fail(format!("after {action:?} on {core}: {error}")))?;
        if !behaviour.is_lifelike {
            run.step(*core, &Action::Ipi)?;
        }
    }
    // The timer books all that is not booked yet.
    for core in 0..2 {
        let before = run.now();
        _ = run.fake.cores[core as usize].timer();
        let (booked, all) = (run.booked(core), before - run.start);
        prop_assert!((all..=run.now() - run.start).contains(&booked), "core {core} booked {booked} of {all} ticks");
    }
    Ok(run)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_must_hold_holds_in_every_system(shape in shapes(), steps in steps(), comes_together in any::<bool>()) {
        let play = |is_fast, is_lifelike| play(&shape, &steps, Behaviour { is_fast, is_lifelike, comes_together });
        play(true, true)?;
        play(false, true)?;
        // The fast paths read the clock at other times than the general ones, and take a signal
        // whose IPI is still under way, where the general ones leave it to the IPI. So neither may
        // happen where the two are compared.
        let fast = play(true, false)?;
        let general = play(false, false)?;
        prop_assert_eq!(&fast.trace, &general.trace);
        let lines = |run: &Run| run.fake.bench.enabled.borrow().clone();
        prop_assert_eq!(lines(&fast), lines(&general), "the interrupt lines that were enabled, in order");
        for domain in 0..DOMAINS {
            prop_assert_eq!(fast.counts(domain), general.counts(domain), "the account of domain {}", domain);
        }
        for core in 0..2 {
            prop_assert_eq!(fast.core_counts(core), general.core_counts(core), "the account of core {}", core);
        }
    }

    #[test]
    fn who_shares_a_server_pays_for_its_own_calls((shape, steps) in shared_servers()) {
        play(&shape, &steps, Behaviour { is_fast: true, is_lifelike: true, comes_together: false })?;
    }
}
