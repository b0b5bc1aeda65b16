//! One processor core: what runs, and what every kernel entry does to that.
//!
//! Each entry point takes what the entry brought and ends by saying what runs next. Between entries exactly one
//! domain is `Running`, or none. The order of a turn is always the same: signals go out, a reply goes out, then the
//! domain waits; notifications come before calls.

use crate::account::add;
use crate::domain::{Context, Domain, GONE, NO_DOMAIN, State};
use crate::ready::ReadyQueue;
use crate::system::{Hardware, System};
use crate::timer::TimerQueue;
use ::core::sync::atomic::Ordering;
use culm_abi::accounting::DomainState;
use culm_abi::syscall::{BadCall, CallStatus, Event, FaultKind, FaultReport, GROUP, MESSAGE_WORDS, NEVER, TurnOptions};
use culm_abi::system::{DomainDescription, FIRST_INTERRUPT, NONE, domain_flags, end_kind, end_rights};

/// Index of the domain that runs next, counted on this core; none where the core has nothing to do.
pub type Next = Option<u32>;

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
    /// The running domain, or [`NO_DOMAIN`].
    pub(crate) current: u32,
    /// Whether any domain of this core has a budget.
    pub(crate) budgets: bool,
    /// Whether the running domain runs on one.
    pub(crate) charged: bool,
    /// Since when the running domain runs (or the core idles), not yet accounted.
    pub(crate) since: u64,
    /// What the hardware timer is set to.
    alarm: u64,
}

impl<'s, C: Context, H: Hardware> Core<'s, C, H> {
    /// A core with its domains ready to start, none running.
    ///
    /// `domains` are all of core `index`, fresh; the timer's table has a slot for each; `system` was checked.
    pub fn new(
        index: u32,
        system: System<'s>,
        domains: &'s mut [Domain<'s, C>],
        timers: TimerQueue<'s>,
        hardware: H,
    ) -> Self {
        let first = system.cores[index as usize].first_domain;
        let since = hardware.now();
        let budgets = domains.iter().any(|domain| domain.budget.is_some());
        let mut core = Self {
            hardware,
            system,
            domains,
            ready: ReadyQueue::new(),
            timers,
            index,
            first,
            current: NO_DOMAIN,
            budgets,
            charged: false,
            since,
            alarm: NEVER,
        };
        for local in 0..core.domains.len() as u32 {
            core.callers_changed(local);
            if core.description(local).flags & domain_flags::START_STOPPED == 0 {
                core.start(local);
            } else {
                core.publish_state(local, DomainState::Stopped);
            }
        }
        core
    }

    /// The domain's first instruction is what it will do next.
    pub(crate) fn start(&mut self, local: u32) {
        let description = self.description(local);
        let seed = self.hardware.seed();
        let domain = &mut self.domains[local as usize];
        let arguments = [description.start_block, u64::from(domain.restarts)];
        domain.context.start(description.entry, description.stack_top, arguments, seed);
        self.publish_state(local, DomainState::Alive);
        self.make_ready(local);
    }

    pub(crate) fn description(&self, local: u32) -> &'s DomainDescription {
        &self.system.domains[(self.first + local) as usize]
    }

    pub(crate) fn publish_state(&self, local: u32, state: DomainState) {
        self.domains[local as usize].account.state.store(state as u32, Ordering::Relaxed);
    }

    /// The state of a domain of this core.
    pub fn domain(&mut self, local: u32) -> &mut Domain<'s, C> {
        &mut self.domains[local as usize]
    }

    /// The machine.
    pub fn hardware(&mut self) -> &mut H {
        &mut self.hardware
    }

    /// What runs next, when nothing more happened.
    pub fn what_next(&mut self) -> Next {
        self.go_on()
    }

    // ---- system calls ------------------------------------------------------------------------------------------
    //
    // Inlined where the architecture calls them: what follows there does not return, so nothing needs to be kept for it.

    /// `signal`, whatever it names.
    #[inline(always)]
    pub fn signal(&mut self, signals: u64, options: u64) -> Next {
        self.count_system_call();
        if let Err(reason) = self.send(signals, TurnOptions(options).group()) {
            return self.refuse(reason, u64::from(culm_abi::syscall::SIGNAL));
        }
        self.domains[self.current as usize].context.done();
        self.go_on()
    }

    /// The end of a `signal` that found domain `target` (of all) asleep.
    #[inline(always)]
    pub fn signal_wake(&mut self, target: u32) -> Next {
        self.wake_any(target);
        self.domains[self.current as usize].context.done();
        self.go_on()
    }

    /// `wait`.
    #[inline(always)]
    pub fn wait(&mut self, signals: u64, deadline: u64, options: u64) -> Next {
        self.count_system_call();
        let call = u64::from(culm_abi::syscall::WAIT);
        // Its next call would make it forget this client, who would then wait for good.
        if self.domains[self.current as usize].client != NO_DOMAIN {
            return self.refuse(BadCall::Owed, call);
        }
        if signals != 0
            && let Err(reason) = self.send(signals, TurnOptions(options).group())
        {
            return self.refuse(reason, call);
        }
        if self.receive(deadline) { self.go_on() } else { self.pick() }
    }

    /// `reply_wait`.
    #[inline(always)]
    pub fn reply_wait(&mut self, message: &[u64; MESSAGE_WORDS], signals: u64, deadline: u64, options: u64) -> Next {
        self.count_system_call();
        let call = u64::from(culm_abi::syscall::REPLY_WAIT);
        let current = self.current;
        let client = self.domains[current as usize].client;
        if client == NO_DOMAIN {
            return self.refuse(BadCall::Reply, call);
        }
        if signals != 0
            && let Err(reason) = self.send(signals, TurnOptions(options).group())
        {
            return self.refuse(reason, call);
        }
        self.domains[current as usize].client = NO_DOMAIN;
        if client == GONE {
            return if self.receive(deadline) { self.go_on() } else { self.pick() };
        }
        self.domains[client as usize].context.replied(CallStatus::Replied, message);
        if self.receive(deadline) {
            self.make_ready(client);
            return self.go_on();
        }
        // The usual case: the callee sleeps again and its caller goes on, without passing through the queue.
        let caller = &mut self.domains[client as usize];
        if i32::from(caller.priority) >= self.ready.highest() {
            caller.state = State::Running;
            return self.switch_to(client);
        }
        self.make_ready(client);
        self.pick()
    }

    /// `call`.
    #[inline(always)]
    pub fn call(&mut self, message: &[u64; MESSAGE_WORDS], channel: u64) -> Next {
        self.count_system_call();
        let current = self.current;
        let end = self.domains[current as usize].ends.get(channel as usize);
        let Some(end) = end.filter(|end| (end.callee as usize) < self.domains.len()) else {
            return self.refuse(BadCall::Channel, u64::from(culm_abi::syscall::CALL));
        };
        let callee = end.callee;
        let caller = &mut self.domains[current as usize];
        caller.state = State::Calling;
        caller.callee = callee;
        match self.domains[callee as usize].state {
            State::Waiting | State::Open => {
                self.accept(callee, current, Event(end.event), message);
                self.domains[callee as usize].state = State::Running;
                self.switch_to(callee)
            }
            State::Stopped => {
                let caller = &mut self.domains[current as usize];
                caller.state = State::Running;
                caller.context.replied(CallStatus::CalleeGone, &[0; MESSAGE_WORDS]);
                self.go_on()
            }
            _ => {
                let caller = &mut self.domains[current as usize];
                caller.call = Event(end.event);
                caller.context.keep(message);
                self.queue_caller(callee, current);
                self.pick()
            }
        }
    }

    /// `halt`.
    pub fn halt(&mut self, status: u64) -> Next {
        if self.description(self.current).flags & domain_flags::MAY_HALT == 0 {
            return self.refuse(BadCall::Right, u64::from(culm_abi::syscall::HALT));
        }
        self.hardware.halt(status)
    }

    /// A system call that breaks a rule is a fault of its caller.
    #[cold]
    #[inline(never)]
    pub fn refuse(&mut self, reason: BadCall, number: u64) -> Next {
        // Should the supervisor let it go on, it does so as if the call had done nothing.
        self.domains[self.current as usize].context.done();
        self.fault(FaultReport {
            kind: FaultKind::SystemCall as u64,
            syndrome: number,
            address: reason as u64,
            ..FaultReport::default()
        })
    }

    // ---- interrupts --------------------------------------------------------------------------------------------

    /// A device's interrupt: it stays masked until its owner signals the channel end that stands for it.
    pub fn interrupt(&mut self, number: u32) -> Next {
        self.count_interrupt();
        let route = self.system.routes.get(number.wrapping_sub(FIRST_INTERRUPT) as usize);
        if let Some(route) = route
            && route.domain != NONE
            && self.system.words[route.word as usize].signal(route.bit)
        {
            self.wake_any(route.domain);
        }
        self.go_on()
    }

    /// The timer: deadlines pass, budgets run out.
    pub fn timer(&mut self) -> Next {
        self.alarm = NEVER;
        self.hardware.set_timer(NEVER);
        let now = self.hardware.now();
        let account = &self.system.core_accounts[self.index as usize];
        add(&account.timer, 1);
        while let Some(local) = self.timers.expired(now) {
            let domain = &mut self.domains[local as usize];
            if domain.deadline > now {
                if domain.deadline != NEVER {
                    self.timers.set(local, domain.deadline);
                }
            } else if domain.throttled {
                domain.throttled = false;
                domain.deadline = NEVER;
                self.make_ready(local);
            } else if domain.state.waits() {
                self.wake(local);
            }
        }
        if self.charged && self.out_of_budget(now) {
            let current = self.current;
            add(&self.domains[current as usize].account.throttles, 1);
            self.make_ready(current);
            return self.pick();
        }
        let next = self.go_on();
        self.renew_alarm(now);
        next
    }

    /// Another core left something in the mailbox.
    pub fn mail(&mut self) -> Next {
        self.count_interrupt();
        let core = &self.system.cores[self.index as usize];
        for word in 0..core.mailbox_words {
            let mut set = self.system.mailboxes[(core.first_mailbox_word + word) as usize].take();
            while set != 0 {
                let local = word * 64 + set.trailing_zeros();
                set &= set - 1;
                if local as usize >= self.domains.len() {
                    continue;
                }
                if let Some(command) = self.system.shared[(self.first + local) as usize].take_command() {
                    self.obey(local, command);
                }
                self.wake(local);
            }
        }
        self.go_on()
    }

    // ---- signals -----------------------------------------------------------------------------------------------

    #[inline(always)]
    fn send(&mut self, mut signals: u64, group: u32) -> Result<(), BadCall> {
        let ends = self.domains[self.current as usize].ends;
        while signals != 0 {
            let number = (group * GROUP + signals.trailing_zeros()) as usize;
            signals &= signals - 1;
            let Some(end) = ends.get(number) else { return Err(BadCall::Channel) };
            if end.rights & end_rights::NOTIFY != 0 {
                if self.system.words[end.word as usize].signal(end.bit) {
                    self.wake_any(end.target);
                }
            } else if end.kind == end_kind::INTERRUPT {
                self.hardware.enable_interrupt(end.target);
            } else {
                return Err(BadCall::Channel);
            }
        }
        Ok(())
    }

    /// Wakes a domain of any core, which its signaller found asleep.
    #[inline(always)]
    pub(crate) fn wake_any(&mut self, target: u32) {
        let local = target.wrapping_sub(self.first);
        if (local as usize) < self.domains.len() { self.wake(local) } else { self.post(target) }
    }

    /// Has another core look after one of its domains.
    #[cold]
    #[inline(never)]
    pub(crate) fn post(&mut self, target: u32) {
        let index = self.system.domains[target as usize].core;
        let core = &self.system.cores[index as usize];
        let local = target - core.first_domain;
        if self.system.mailboxes[(core.first_mailbox_word + local / 64) as usize].post(local % 64) {
            add(&self.system.core_accounts[self.index as usize].signals_sent, 1);
            self.hardware.interrupt_core(index);
        }
    }

    #[inline(always)]
    fn wake(&mut self, local: u32) {
        let domain = &mut self.domains[local as usize];
        if !domain.state.waits() {
            return;
        }
        domain.woken = true;
        domain.deadline = NEVER;
        self.make_ready(local);
    }

    // ---- waiting -----------------------------------------------------------------------------------------------

    /// The running domain wants an event. True: it has one, and may go on. False: it sleeps.
    #[inline(always)]
    fn receive(&mut self, deadline: u64) -> bool {
        let local = self.current;
        let domain = &mut self.domains[local as usize];
        let mut asleep = true;
        for word in domain.words {
            asleep &= word.sleep();
        }
        if !asleep {
            collect(domain);
            return true;
        }
        let caller = domain.callers.0;
        if caller != NO_DOMAIN {
            self.unqueue_caller(local);
            let from = &self.domains[caller as usize];
            let (event, message) = (from.call, from.context.kept());
            self.accept(local, caller, event, &message);
            return true;
        }
        let open = deadline == NEVER && !self.budgets;
        domain.state = if open { State::Open } else { State::Waiting };
        deadline != NEVER && self.pause(deadline)
    }

    /// Ends a wait with a deadline before it begins (true), or sets the timer.
    fn pause(&mut self, deadline: u64) -> bool {
        let local = self.current;
        let past = deadline <= self.hardware.now();
        let domain = &mut self.domains[local as usize];
        if past {
            domain.state = State::Running;
            collect(domain);
        } else {
            domain.deadline = deadline;
            self.timers.set(local, deadline);
        }
        past
    }

    // ---- calls -------------------------------------------------------------------------------------------------

    /// The callee's wait ends with this caller's call.
    #[inline(always)]
    fn accept(&mut self, callee: u32, caller: u32, event: Event, message: &[u64; MESSAGE_WORDS]) {
        let charge = self.domains[caller as usize].charge;
        let to = &mut self.domains[callee as usize];
        to.context.called(event, message);
        to.client = caller;
        to.deadline = NEVER;
        if to.passive {
            to.charge = charge;
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

    /// Decides anew whether the straight paths may end a turn of this domain.
    pub(crate) fn callers_changed(&mut self, local: u32) {
        let domain = &mut self.domains[local as usize];
        let free = !self.budgets && domain.callers.0 == NO_DOMAIN;
        domain.straight = if let ([word], true) = (domain.words, free) { Some(word) } else { None };
    }

    // ---- schedule ----------------------------------------------------------------------------------------------

    /// Puts a domain that could run into the ready queue, or holds it back until its budget returns.
    #[inline(always)]
    pub(crate) fn make_ready(&mut self, local: u32) {
        let domain = &mut self.domains[local as usize];
        domain.state = State::Ready;
        let charge = domain.charge;
        if self.domains[charge as usize].budget.is_some() && self.held_back(local, charge) {
            return;
        }
        self.ready.push_back(self.domains, local);
    }

    #[inline(never)]
    fn held_back(&mut self, local: u32, charge: u32) -> bool {
        let now = self.hardware.now();
        if charge == self.domains.get(self.current as usize).map_or(NO_DOMAIN, |current| current.charge) {
            self.account(now);
        }
        let Some(budget) = &self.domains[charge as usize].budget else { return false };
        let from = budget.available_from();
        if from <= now {
            return false;
        }
        let domain = &mut self.domains[local as usize];
        domain.throttled = true;
        domain.deadline = from;
        self.timers.set(local, from);
        true
    }

    fn out_of_budget(&mut self, now: u64) -> bool {
        self.account(now);
        let charge = self.domains[self.current as usize].charge;
        self.domains[charge as usize].budget.as_ref().is_some_and(|budget| budget.available_from() > now)
    }

    /// The running domain may go on, unless one of a higher priority has become ready.
    #[inline(always)]
    pub(crate) fn go_on(&mut self) -> Next {
        let current = self.current;
        if let Some(domain) = self.domains.get(current as usize)
            && self.ready.highest() <= i32::from(domain.priority)
            && domain.state == State::Running
        {
            return Some(current);
        }
        self.preempt()
    }

    /// Something else runs than what ran.
    #[inline(never)]
    fn preempt(&mut self) -> Next {
        let current = self.current;
        // Not running any more: a supervisor on another core stopped or restarted it.
        if let Some(domain) = self.domains.get_mut(current as usize)
            && domain.state == State::Running
        {
            domain.state = State::Ready;
            add(&domain.account.preemptions, 1);
            self.ready.push_front(self.domains, current);
        }
        self.pick()
    }

    /// The running domain does not go on: takes the next from the queue.
    #[inline(always)]
    pub(crate) fn pick(&mut self) -> Next {
        let Some(next) = self.ready.pop(self.domains) else {
            return self.idle();
        };
        let domain = &mut self.domains[next as usize];
        domain.state = State::Running;
        if domain.woken {
            collect(domain);
        }
        self.switch_to(next)
    }

    #[inline(never)]
    fn idle(&mut self) -> Next {
        let now = self.hardware.now();
        self.account(now);
        self.count_switch();
        self.current = NO_DOMAIN;
        self.charged = false;
        self.set_alarm(self.timers.earliest());
        None
    }

    #[inline(always)]
    fn switch_to(&mut self, next: u32) -> Next {
        let now = self.hardware.now();
        self.account(now);
        self.count_switch();
        self.current = next;
        let charge = self.domains[next as usize].charge;
        let mut alarm = self.timers.earliest();
        self.charged = false;
        if let Some(budget) = &mut self.domains[charge as usize].budget {
            self.charged = true;
            budget.begin(now);
            alarm = alarm.min(now.saturating_add(budget.remaining(now)));
        }
        self.set_alarm(alarm);
        Some(next)
    }

    /// Sees to it that the timer goes off at `time` or before. Never puts it off: an early timer costs one look.
    #[inline(always)]
    fn set_alarm(&mut self, time: u64) {
        if time < self.alarm {
            self.alarm = time;
            self.hardware.set_timer(time);
        }
    }

    /// Sets the timer anew after it went off.
    fn renew_alarm(&mut self, now: u64) {
        let mut time = self.timers.earliest();
        if self.charged {
            let charge = self.domains[self.current as usize].charge;
            if let Some(budget) = &self.domains[charge as usize].budget {
                time = time.min(now.saturating_add(budget.remaining(now)));
            }
        }
        self.set_alarm(time);
    }
}

/// Ends a domain's wait with what is pending, one group of it.
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

/// [`collect`] for a domain with several groups: they take turns.
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
