//! Faults, and the commands by which a supervisor answers them.

use crate::core::{Core, Next};
use crate::domain::{CLIENT_GONE, Context, NO_DOMAIN, State, is_virtual_cpu};
use crate::generated::Target;
use crate::notification::Receiver;
use crate::system::{Command, Hardware};
use ::core::sync::atomic::Ordering;
use culm_abi::accounting::DomainState;
use culm_abi::syscall::{BadCall, CallStatus, FaultKind, FaultReport, MESSAGE_WORDS};
use culm_abi::system::{EndDescription, NONE, end_kind};

/// Exit status of a system whose unsupervised domain faulted.
const STATUS_UNSUPERVISED: u64 = 125;

impl<C: Context, H: Hardware> Core<'_, C, H> {
    /// Handles a fault of the running domain, which keeps its state until its supervisor decides.
    #[cold]
    pub fn fault(&mut self, report: FaultReport) -> Next {
        let current = self.meter.current();
        let global = (self.first + current) as usize;
        let domain = &mut self.domains[current as usize];
        domain.state = State::Faulted;
        let [pc, sp, fp, lr] = domain.context.place();
        let report = FaultReport { pc, sp, fp, lr, restarts: u64::from(domain.restarts), ..report };
        self.system.shared[global].set_fault(&report);
        let account = self.domains[current as usize].account;
        account.faults.store(account.faults.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
        self.publish_state(current, DomainState::Faulted);
        self.stop_guests_of(current);
        let description = self.description(current);
        if description.supervisor == NONE {
            self.hardware.halt(STATUS_UNSUPERVISED);
        }
        let word = &self.system.words[description.supervisor_word as usize];
        if word.signal(description.supervisor_bit) == Receiver::Asleep {
            self.wake_any(description.supervisor);
        }
        self.pick()
    }

    /// Does `fault`: reads the report of a supervised domain's fault.
    pub fn read_fault(&mut self, channel: u64) -> Next {
        self.count_system_call();
        let Some(child) = self.child(channel) else {
            return self.refuse(BadCall::Channel, u64::from(culm_abi::syscall::FAULT));
        };
        let report = self.system.shared[child as usize].fault();
        self.domains[self.meter.current() as usize].context.fault(&report);
        self.go_on()
    }

    /// Does `resume`, `restart` and `stop`. On another core the command takes effect as soon as
    /// that core sees it.
    pub fn supervise(&mut self, channel: u64, command: Command, number: u16) -> Next {
        self.count_system_call();
        let Some(child) = self.child(channel) else {
            return self.refuse(BadCall::Channel, u64::from(number));
        };
        self.domains[self.meter.current() as usize].context.done();
        self.command(child, command);
        self.go_on()
    }

    /// Signals a domain that the running one supervises: a virtual CPU is resumed. No other domain
    /// can be signalled so.
    #[inline(never)]
    pub(crate) fn signal_child(&mut self, end: &EndDescription) -> Result<(), BadCall> {
        if end.kind != end_kind::CHILD || !is_virtual_cpu(&self.system.domains[end.target as usize]) {
            return Err(BadCall::Channel);
        }
        self.command(end.target, Command::Resume);
        Ok(())
    }

    /// Gives a command for a domain of any core.
    pub(crate) fn command(&mut self, target: u32, command: Command) {
        let local = target.wrapping_sub(self.first);
        if (local as usize) < self.domains.len() {
            self.obey(local, command);
        } else {
            let shared = &self.system.shared[target as usize];
            shared.command(command);
            // That of a virtual CPU can wait for its way in.
            let is_cpu = is_virtual_cpu(&self.system.domains[target as usize]);
            if !is_cpu || shared.generated.command() == Target::Listens {
                self.post(target);
            }
        }
    }

    /// Returns the index of the domain that the running domain supervises by `channel`.
    fn child(&self, channel: u64) -> Option<u32> {
        let domain = &self.domains[self.meter.current() as usize];
        let end = domain.ends.get(usize::try_from(channel).ok()?)?;
        (end.kind == end_kind::CHILD).then_some(end.target)
    }

    /// Carries out a supervisor's command for a domain of this core.
    pub(crate) fn obey(&mut self, local: u32, command: Command) {
        if self.domains[local as usize].virtual_cpu {
            return self.obey_monitor(local, command);
        }
        let global = (self.first + local) as usize;
        match command {
            Command::Resume => {
                if self.domains[local as usize].state == State::Faulted {
                    self.system.shared[global].clear_fault();
                    self.publish_state(local, DomainState::Alive);
                    self.make_ready(local);
                }
            }
            Command::Stop => {
                self.stop_guests_of(local);
                self.withdraw(local);
                while self.domains[local as usize].callers.0 != NO_DOMAIN {
                    let caller = self.domains[local as usize].callers.0;
                    self.remove_caller(local, caller);
                    self.callee_gone(caller);
                }
                let fault = self.system.shared[global].fault();
                if fault.kind != FaultKind::None as u64 {
                    self.hardware.given_up(global as u32, &fault);
                }
                self.system.shared[global].clear_fault();
                self.publish_state(local, DomainState::Stopped);
            }
            Command::Restart => {
                self.stop_guests_of(local);
                self.withdraw(local);
                self.system.shared[global].clear_fault();
                let domain = &mut self.domains[local as usize];
                domain.restarts = domain.restarts.wrapping_add(1);
                let account = self.domains[local as usize].account;
                account.restarts.store(account.restarts.load(Ordering::Relaxed).wrapping_add(1), Ordering::Relaxed);
                self.start(local);
            }
        }
    }

    /// Removes a domain from the ready queue and from its call, and ends the call that it serves.
    /// It is `Stopped` afterwards, with nothing pending. Callers that it has not served yet stay
    /// queued.
    pub(crate) fn withdraw(&mut self, local: u32) {
        let domain = &mut self.domains[local as usize];
        let (state, client, callee) = (domain.state, domain.client, domain.callee);
        let was_throttled = domain.throttled;
        domain.state = State::Stopped;
        domain.woken = false;
        domain.throttled = false;
        domain.deadline = u64::MAX;
        domain.client = NO_DOMAIN;
        domain.payer = local;
        if state == State::Ready && !was_throttled {
            self.ready.remove(self.domains, local);
        }
        if state == State::Calling {
            if self.domains[callee as usize].client == local {
                self.domains[callee as usize].client = CLIENT_GONE;
            } else {
                self.remove_caller(callee, local);
            }
        }
        if client != NO_DOMAIN && client != CLIENT_GONE {
            self.callee_gone(client);
        }
        for word in self.domains[local as usize].words {
            word.take();
        }
    }

    /// Ends a caller's call without a reply.
    fn callee_gone(&mut self, caller: u32) {
        self.domains[caller as usize].context.replied(CallStatus::CalleeGone, &[0; MESSAGE_WORDS]);
        self.make_ready(caller);
    }

    /// Removes one caller from a callee's queue.
    fn remove_caller(&mut self, callee: u32, caller: u32) {
        let mut previous = NO_DOMAIN;
        let mut at = self.domains[callee as usize].callers.0;
        while at != NO_DOMAIN && at != caller {
            previous = at;
            at = self.domains[at as usize].next_caller;
        }
        if at == NO_DOMAIN {
            return;
        }
        let next = self.domains[caller as usize].next_caller;
        if previous == NO_DOMAIN {
            self.domains[callee as usize].callers.0 = next;
        } else {
            self.domains[previous as usize].next_caller = next;
        }
        if self.domains[callee as usize].callers.1 == caller {
            self.domains[callee as usize].callers.1 = previous;
        }
        self.callers_changed(callee);
    }
}
