//! One processor core: which domain runs, and how each kernel entry changes that.
//!
//! Each entry point takes the arguments of a kernel entry and returns which domain runs next.
//! Between entries at most one domain is `Running`. The order of a turn is always the same: signals
//! go out, a reply goes out, then the domain waits; notifications come before calls.

use crate::counter::add;
use crate::domain::{CLIENT_GONE, Context, Domain, NO_DOMAIN, State};
use crate::guest::siblings;
use crate::meter::Meter;
use crate::notification::Receiver;
use crate::pending::Posted;
use crate::ready::ReadyQueue;
use crate::system::{Hardware, System};
use crate::timer::TimerQueue;
use ::core::sync::atomic::Ordering;
use culm_abi::accounting::{CoreAccount, DomainState};
use culm_abi::guest::MAX_CPUS;
use culm_abi::syscall::{BadCall, CallStatus, Event, FaultKind, FaultReport, GROUP, MESSAGE_WORDS, NEVER, TurnOptions};
use culm_abi::system::{DomainDescription, domain_flags, end_kind, end_rights};

/// Index, on this core, of the domain that runs next; `None` if the core has nothing to do.
pub type Next = Option<u32>;

/// The outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "a wait that is over is followed by the domain's next turn"]
enum Wait {
    /// It is over at once: [`Core::next_turn`] must follow.
    Over,
    /// The domain sleeps.
    Begun,
}

/// The state of one core.
#[derive(Debug)]
pub struct Core<'s, C: Context, H: Hardware> {
    pub(crate) hardware: H,
    pub(crate) system: System<'s>,
    pub(crate) domains: &'s mut [Domain<'s, C>],
    pub(crate) ready: ReadyQueue,
    pub(crate) timers: TimerQueue<'s>,
    /// This core's index and the index of its first domain.
    pub(crate) index: u32,
    pub(crate) first: u32,
    /// This core's account.
    pub(crate) account: &'s CoreAccount,
    /// The meter: which domain has the core, and whose budget pays.
    pub(crate) meter: Meter<'s>,
    /// Whether any domain of this core has a budget.
    pub(crate) budgets: bool,
    /// This core's virtual CPU.
    pub(crate) guest: Option<u32>,
    /// The virtual CPUs of its guest, by their numbers, each by its index in the image.
    pub(crate) siblings: [u32; MAX_CPUS],
    /// The domain or virtual CPU whose content the vector registers have.
    pub(crate) vectors: u32,
}

impl<'s, C: Context, H: Hardware> Core<'s, C, H> {
    /// Creates a core with its domains ready to start, none running.
    ///
    /// `domains` are all of core `index`, fresh; the timer's table has a slot for each; `system`
    /// was checked; `hardware` listens for inter-processor interrupts.
    pub fn new(
        index: u32,
        system: System<'s>,
        domains: &'s mut [Domain<'s, C>],
        timers: TimerQueue<'s>,
        hardware: H,
    ) -> Self {
        let first = system.cores[index as usize].first_domain;
        let account = &system.core_accounts[index as usize];
        let meter = Meter::new(&account.idle, &hardware);
        let budgets = domains.iter().any(|domain| domain.budget.is_some());
        let guest = domains.iter().position(|domain| domain.virtual_cpu).map(|local| local as u32);
        let siblings = guest.map_or([NO_DOMAIN; MAX_CPUS], |local| siblings(&system, first + local));
        let (ready, vectors) = (ReadyQueue::new(), guest.unwrap_or(NO_DOMAIN));
        let mut core = Self {
            hardware,
            system,
            domains,
            ready,
            timers,
            index,
            first,
            account,
            meter,
            budgets,
            guest,
            siblings,
            vectors,
        };
        for local in 0..core.domains.len() as u32 {
            core.callers_changed(local);
            core.start(local);
        }
        // No inter-processor interrupt has told of what others posted before this core listened,
        // and none would tell of what they post as long as that is there.
        core.take_pending();
        core
    }

    /// Sends the domain to its first instruction. A passive domain starts when its first caller
    /// pays for it.
    pub(crate) fn start(&mut self, local: u32) {
        let description = self.description(local);
        if self.domains[local as usize].virtual_cpu {
            return self.start_guest(local);
        }
        self.forget_vectors(local);
        let seed = self.hardware.seed();
        let domain = &mut self.domains[local as usize];
        let arguments = [description.start_block, u64::from(domain.restarts)];
        domain.context.start(description.entry, description.stack_top, arguments, seed);
        self.publish_state(local, DomainState::Alive);
        let domain = &mut self.domains[local as usize];
        if !domain.passive {
            return self.make_ready(local);
        }
        domain.state = State::Dormant;
        let caller = domain.callers.0;
        if caller != NO_DOMAIN {
            self.domains[local as usize].payer = self.domains[caller as usize].payer;
            self.make_ready(local);
        }
    }

    pub(crate) fn description(&self, local: u32) -> &'s DomainDescription {
        &self.system.domains[(self.first + local) as usize]
    }

    pub(crate) fn publish_state(&self, local: u32, state: DomainState) {
        self.domains[local as usize].account.state.store(state as u32, Ordering::Relaxed);
    }

    /// Returns the state of a domain of this core.
    pub fn domain(&mut self, local: u32) -> &mut Domain<'s, C> {
        &mut self.domains[local as usize]
    }

    /// The machine.
    pub fn hardware(&mut self) -> &mut H {
        &mut self.hardware
    }

    /// Returns the domain of this core whose budget pays for what runs, if a budget does.
    pub fn paid_by(&self) -> Option<u32> {
        Some(self.meter.payer()).filter(|payer| *payer != NO_DOMAIN)
    }

    /// Returns what runs next if nothing has happened since that was last decided.
    pub fn what_next(&mut self) -> Next {
        let current = self.meter.current();
        if current == NO_DOMAIN { self.pick() } else { Some(current) }
    }

    // ---- system calls ---------------------------------------------------------------------------
    //
    // The system calls are inlined into the architecture's entry functions, which do not return, so
    // no register need be preserved.

    /// Does a `signal` of any set of channels.
    #[inline(always)]
    pub fn signal(&mut self, signals: u64, options: u64) -> Next {
        self.count_system_call();
        if let Err(reason) = self.send(signals, TurnOptions(options)) {
            return self.refuse(reason, u64::from(culm_abi::syscall::SIGNAL));
        }
        self.domains[self.meter.current() as usize].context.done();
        self.go_on()
    }

    /// Ends a `signal` that found the domain with the global index `target` asleep: wakes it.
    #[inline(always)]
    pub fn signal_wake(&mut self, target: u32) -> Next {
        self.wake_any(target);
        self.domains[self.meter.current() as usize].context.done();
        self.go_on()
    }

    /// Does a `wait`.
    #[inline(always)]
    pub fn wait(&mut self, signals: u64, deadline: u64, options: u64) -> Next {
        let domain = &self.domains[self.meter.current() as usize];
        add(&domain.account.other_calls, 1);
        let call = u64::from(culm_abi::syscall::WAIT);
        // The next call would overwrite `client`; this caller would wait for ever.
        if domain.client != NO_DOMAIN {
            return self.refuse(BadCall::Owed, call);
        }
        if domain.passive && deadline != NEVER {
            return self.refuse(BadCall::Deadline, call);
        }
        if signals | options != 0
            && let Err(reason) = self.send(signals, TurnOptions(options))
        {
            return self.refuse(reason, call);
        }
        match self.receive(deadline) {
            Wait::Over => self.next_turn(),
            Wait::Begun => self.pick(),
        }
    }

    /// Does a `reply_wait`.
    #[inline(always)]
    pub fn reply_wait(&mut self, message: &[u64; MESSAGE_WORDS], signals: u64, deadline: u64, options: u64) -> Next {
        let call = u64::from(culm_abi::syscall::REPLY_WAIT);
        let current = self.meter.current();
        let domain = &self.domains[current as usize];
        add(&domain.account.other_calls, 1);
        let client = domain.client;
        if client == NO_DOMAIN {
            return self.refuse(BadCall::Reply, call);
        }
        if domain.passive && deadline != NEVER {
            return self.refuse(BadCall::Deadline, call);
        }
        if signals | options != 0
            && let Err(reason) = self.send(signals, TurnOptions(options))
        {
            return self.refuse(reason, call);
        }
        self.domains[current as usize].client = NO_DOMAIN;
        if client == CLIENT_GONE {
            return match self.receive(deadline) {
                Wait::Over => self.next_turn(),
                Wait::Begun => self.pick(),
            };
        }
        self.domains[client as usize].context.replied(CallStatus::Replied, message);
        if self.receive(deadline) == Wait::Over {
            self.make_ready(client);
            return self.next_turn();
        }
        // The usual case: the callee sleeps again and its caller continues at once, without
        // entering the ready queue.
        if i32::from(self.domains[client as usize].priority) >= self.ready.highest() {
            return self.run(client);
        }
        self.make_ready(client);
        self.pick()
    }

    /// Does a `call`.
    #[inline(always)]
    pub fn call(&mut self, message: &[u64; MESSAGE_WORDS], channel: u64) -> Next {
        self.count_system_call();
        let current = self.meter.current();
        let end = self.domains[current as usize].ends.get(channel as usize);
        let Some(end) = end.filter(|end| (end.callee as usize) < self.domains.len()) else {
            return self.refuse(BadCall::Channel, u64::from(culm_abi::syscall::CALL));
        };
        let callee = end.callee;
        let caller = &mut self.domains[current as usize];
        caller.state = State::Calling;
        caller.callee = callee;
        match self.domains[callee as usize].state {
            State::Waiting | State::WaitingFast => {
                self.accept(callee, current, Event(end.event), message);
                self.run(callee)
            }
            State::Stopped => {
                let caller = &mut self.domains[current as usize];
                caller.state = State::Running;
                caller.context.replied(CallStatus::CalleeGone, &[0; MESSAGE_WORDS]);
                self.go_on()
            }
            state => {
                let caller = &mut self.domains[current as usize];
                caller.call = Event(end.event);
                caller.context.keep(message);
                let payer = caller.payer;
                self.queue_caller(callee, current);
                if state == State::Dormant {
                    self.domains[callee as usize].payer = payer;
                    return self.run(callee);
                }
                if self.budgets {
                    self.unthrottle_callee(callee);
                }
                self.pick()
            }
        }
    }

    /// Does a `halt`.
    pub fn halt(&mut self, status: u64) -> Next {
        if self.description(self.meter.current()).flags & domain_flags::MAY_HALT == 0 {
            return self.refuse(BadCall::Right, u64::from(culm_abi::syscall::HALT));
        }
        self.hardware.halt(status)
    }

    /// Turns a system call that breaks a rule into a fault of its caller.
    #[cold]
    #[inline(never)]
    pub fn refuse(&mut self, reason: BadCall, number: u64) -> Next {
        // If the supervisor resumes the domain, it continues as if the call had done nothing.
        self.domains[self.meter.current() as usize].context.done();
        self.fault(FaultReport {
            kind: FaultKind::SystemCall as u64,
            syndrome: number,
            address: reason as u64,
            ..FaultReport::default()
        })
    }

    // ---- signals --------------------------------------------------------------------------------

    #[inline(always)]
    fn send(&mut self, mut signals: u64, options: TurnOptions) -> Result<(), BadCall> {
        let group = options.group().ok_or(BadCall::Options)?;
        let ends = self.domains[self.meter.current() as usize].ends;
        while signals != 0 {
            let end = channel_number(group, signals.trailing_zeros()).and_then(|number| ends.get(number));
            let Some(end) = end else { return Err(BadCall::Channel) };
            signals &= signals - 1;
            if end.rights & end_rights::NOTIFY != 0 {
                if self.system.words[end.word as usize].signal(end.bit) == Receiver::Asleep {
                    self.wake_any(end.target);
                }
            } else if end.kind == end_kind::INTERRUPT {
                self.hardware.enable_interrupt(end.target);
            } else {
                self.signal_child(end)?;
            }
        }
        Ok(())
    }

    /// Wakes a domain of any core that its signaller found asleep.
    #[inline(always)]
    pub(crate) fn wake_any(&mut self, target: u32) {
        let local = target.wrapping_sub(self.first);
        if (local as usize) < self.domains.len() { self.wake(local) } else { self.post(target) }
    }

    /// Adds one of another core's domains to that core's pending domains: to be woken, or to obey a
    /// command.
    #[cold]
    #[inline(never)]
    pub(crate) fn post(&mut self, target: u32) {
        let index = self.system.domains[target as usize].core;
        let core = &self.system.cores[index as usize];
        let local = target - core.first_domain;
        if self.system.pending_domains[(core.first_pending_word + local / 64) as usize].post(local % 64)
            == Posted::First
        {
            add(&self.account.ipis_sent, 1);
            self.hardware.send_ipi(index);
        }
    }

    #[inline(always)]
    pub(crate) fn wake(&mut self, local: u32) {
        let domain = &mut self.domains[local as usize];
        if !domain.state.waits() {
            return;
        }
        domain.woken = true;
        domain.deadline = NEVER;
        self.make_ready(local);
    }

    // ---- waiting --------------------------------------------------------------------------------

    /// Takes an event for the running domain, or lets it sleep.
    #[inline(always)]
    fn receive(&mut self, deadline: u64) -> Wait {
        let local = self.meter.current();
        let domain = &mut self.domains[local as usize];
        let asleep = match domain.words {
            [word] => word.sleep(),
            words => words.iter().fold(true, |asleep, word| asleep & word.sleep()),
        };
        if !asleep {
            domain.woken = true;
            return Wait::Over;
        }
        let caller = domain.callers.0;
        if caller != NO_DOMAIN {
            self.unqueue_caller(local);
            let from = &self.domains[caller as usize];
            let (event, message) = (from.call, from.context.kept());
            self.accept(local, caller, event, &message);
            return Wait::Over;
        }
        if deadline != NEVER {
            return self.pause(deadline);
        }
        domain.state = if self.budgets { State::Waiting } else { State::WaitingFast };
        Wait::Begun
    }

    /// Lets the running domain sleep until `deadline` at most, unless that has passed already.
    fn pause(&mut self, deadline: u64) -> Wait {
        let local = self.meter.current();
        let now = self.meter.time(&self.hardware);
        let domain = &mut self.domains[local as usize];
        if deadline <= now {
            domain.woken = true;
            return Wait::Over;
        }
        domain.state = State::Waiting;
        domain.deadline = deadline;
        self.timers.set(local, deadline);
        Wait::Begun
    }

    /// Continues a domain whose wait ended at once. Ready domains of the same priority run first;
    /// otherwise a domain that never sleeps would starve them although it ends its turns.
    #[inline(always)]
    fn next_turn(&mut self) -> Next {
        let current = self.meter.current();
        let domain = &mut self.domains[current as usize];
        if self.ready.highest() >= i32::from(domain.priority) {
            self.make_ready(current);
            return self.pick();
        }
        // If the wait of a passive domain ended with a call, the caller's budget pays from now on:
        // find the payer again.
        if self.budgets {
            return self.run(current);
        }
        if domain.woken {
            collect(domain);
        }
        self.meter.leave();
        Some(current)
    }

    // ---- calls ----------------------------------------------------------------------------------

    /// Ends the callee's wait with this caller's call.
    #[inline(always)]
    fn accept(&mut self, callee: u32, caller: u32, event: Event, message: &[u64; MESSAGE_WORDS]) {
        let payer = self.domains[caller as usize].payer;
        let to = &mut self.domains[callee as usize];
        to.context.called(event, message);
        to.client = caller;
        to.deadline = NEVER;
        if to.passive {
            to.payer = payer;
        }
    }

    fn queue_caller(&mut self, callee: u32, caller: u32) {
        self.domains[caller as usize].next_caller = NO_DOMAIN;
        let (head, tail) = self.domains[callee as usize].callers;
        if head == NO_DOMAIN {
            self.domains[callee as usize].callers = (caller, caller);
        } else {
            self.domains[tail as usize].next_caller = caller;
            self.domains[callee as usize].callers.1 = caller;
        }
        self.callers_changed(callee);
    }

    fn unqueue_caller(&mut self, callee: u32) {
        let (head, tail) = self.domains[callee as usize].callers;
        let next = self.domains[head as usize].next_caller;
        self.domains[callee as usize].callers = (next, if next == NO_DOMAIN { NO_DOMAIN } else { tail });
        self.callers_changed(callee);
    }

    /// Decides again whether the fast paths may end a turn of this domain. Call it after every
    /// change of its queue of callers.
    pub(crate) fn callers_changed(&mut self, local: u32) {
        let domain = &mut self.domains[local as usize];
        let free = !self.budgets && domain.callers.0 == NO_DOMAIN;
        domain.fast_word = if let ([word], true) = (domain.words, free) { Some(word) } else { None };
    }

    // ---- schedule -------------------------------------------------------------------------------

    /// Puts a domain that could run at the end of the ready queue of its priority. Its payer is
    /// looked for when its turn comes ([`Self::pick`]).
    #[inline(always)]
    pub(crate) fn make_ready(&mut self, local: u32) {
        self.domains[local as usize].state = State::Ready;
        self.ready.push_back(self.domains, local);
    }

    /// Returns whether the domain that has the core is still `Running` and no domain of a higher
    /// priority is ready.
    #[inline(always)]
    fn may_keep_core(&self) -> bool {
        self.domains.get(self.meter.current() as usize).is_some_and(|domain| {
            // A supervisor on another core may have stopped or restarted the domain during this
            // entry.
            domain.state == State::Running && self.ready.highest() <= i32::from(domain.priority)
        })
    }

    /// Continues the running domain, unless one of a higher priority has become ready.
    #[inline(always)]
    pub(crate) fn go_on(&mut self) -> Next {
        if !self.may_keep_core() {
            return self.preempt();
        }
        self.meter.leave();
        Some(self.meter.current())
    }

    /// Does what [`Self::go_on`] does after an entry that may also have changed who pays, or the
    /// timer.
    pub(crate) fn choose(&mut self) -> Next {
        if self.may_keep_core() { self.run(self.meter.current()) } else { self.preempt() }
    }

    /// Preempts the running domain, if there still is one: puts it at the front of its priority and
    /// picks the next.
    #[inline(never)]
    fn preempt(&mut self) -> Next {
        let current = self.meter.current();
        let running = self.domains.get_mut(current as usize).filter(|domain| domain.state == State::Running);
        let Some(domain) = running else { return self.pick() };
        domain.state = State::Ready;
        self.ready.push_front(self.domains, current);
        let next = self.pick();
        if next != Some(current) {
            add(&self.domains[current as usize].account.preemptions, 1);
        }
        next
    }

    /// Takes the first domain from the ready queue for which a budget pays; the running domain does
    /// not continue.
    #[inline(always)]
    pub(crate) fn pick(&mut self) -> Next {
        while let Some(next) = self.ready.pop(self.domains) {
            if let Some(payer) = self.payer(next) {
                return self.pass(next, payer);
            }
        }
        self.idle()
    }

    #[inline(never)]
    pub(crate) fn idle(&mut self) -> Next {
        self.meter.pass((NO_DOMAIN, NO_DOMAIN), self.domains, self.timers.earliest(), &mut self.hardware);
        None
    }

    /// Switches to `next`, which is in no queue, if a budget pays for it; else picks another
    /// domain.
    #[inline(always)]
    pub(crate) fn run(&mut self, next: u32) -> Next {
        match self.payer(next) {
            Some(payer) => self.pass(next, payer),
            None => self.run_another(),
        }
    }

    #[cold]
    #[inline(never)]
    fn run_another(&mut self) -> Next {
        self.pick()
    }

    #[inline(always)]
    fn pass(&mut self, next: u32, payer: u32) -> Next {
        let domain = &mut self.domains[next as usize];
        domain.state = State::Running;
        if domain.woken {
            collect(domain);
        }
        self.meter.pass((next, payer), self.domains, self.timers.earliest(), &mut self.hardware);
        Some(next)
    }
}

/// Returns the number of the channel that `bit` of a set of signals of `group` names, if it names
/// one.
#[inline(always)]
fn channel_number(group: u32, bit: u32) -> Option<usize> {
    if bit < GROUP { usize::try_from(u64::from(group) * u64::from(GROUP) + u64::from(bit)).ok() } else { None }
}

/// Ends a domain's wait with the pending notifications of one group.
#[inline(always)]
fn collect<C: Context>(domain: &mut Domain<'_, C>) {
    domain.woken = false;
    if let [word] = domain.words {
        let set = word.take();
        domain.context.notified(Event::notified(0), set);
    } else {
        collect_group(domain);
    }
}

/// Does what [`collect`] does for a domain with several groups: they take turns.
#[inline(never)]
fn collect_group<C: Context>(domain: &mut Domain<'_, C>) {
    let groups = domain.words.len() as u32;
    let mut found = (0, 0);
    for step in 1..=groups {
        let group = (domain.last_group + step) % groups;
        let word = &domain.words[group as usize];
        if found.1 == 0 {
            found = (group, word.take());
        } else {
            word.awake();
        }
    }
    domain.last_group = found.0;
    domain.context.notified(Event::notified(found.0), found.1);
}
