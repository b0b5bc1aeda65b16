//! The supervisor of the other protection domains.
//!
//! The kernel notifies it when a domain faults. The supervisor logs which domain, why and where
//! ([`cause`], [`backtrace`]), then acts by the system description's policy ([`policy`]): it
//! restarts the domain, leaves it stopped, or halts the system.
//!
//! It logs like any component. If the fault is in the serial path itself, the lines wait in the
//! queues, which outlive a restart.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod backtrace;
mod cause;
mod policy;

use alloc::vec::Vec;
use backtrace::Backtrace;
use cause::Cause;
use culm::connection::{Child, fault_action};
use culm::supervision::{self, FaultKind, FaultReport};
use culm::time::{self, Duration, Instant};
use culm::{Channel, Channels, Component, Region, start};
use policy::{Decision, History, Policy};

culm::component!(Supervisor);

/// Time between the decision to halt the system and the halt, for the last lines to reach the port.
const LAST_WORDS: Duration = Duration::from_millis(200);

/// Exit status of a system that was halted because of a fault.
const HALTED: u32 = 1;

/// A domain under supervision.
struct Supervised {
    name: &'static str,
    channel: Channel,
    stack: Region,
    stack_base: u64,
    limit: u32,
    history: History,
    /// The time at which it is to be restarted.
    restart_at: Option<Instant>,
}

struct Supervisor {
    supervised: Vec<Supervised>,
    halt_at: Option<Instant>,
}

impl Component for Supervisor {
    type Config = Config;
    type Connections = Connections;

    fn init(_: Config, connections: Connections) -> Self {
        let children = start::list::<Child>(connections.supervision.children);
        Self { supervised: children.iter().map(Supervised::new).collect(), halt_at: None }
    }

    fn notified(&mut self, channels: Channels) {
        let now = time::now();
        for channel in channels {
            if let Some(index) = self.supervised.iter().position(|domain| domain.channel == channel) {
                self.fault(index, now);
            }
        }
        self.act(now);
    }
}

impl Supervised {
    fn new(child: &Child) -> Self {
        let policy = match child.action {
            fault_action::RESTART => Policy::Restart {
                limit: child.limit,
                window: Duration::from_nanos(child.window),
                backoff: Duration::from_nanos(child.backoff),
            },
            fault_action::HALT => Policy::Halt,
            _ => Policy::Stop,
        };
        Self {
            name: start::text(child.name),
            channel: Channel::new(child.channel),
            stack: Region::read_only(child.stack),
            stack_base: child.stack_base,
            limit: child.limit,
            history: History::new(policy),
            restart_at: None,
        }
    }

    /// Logs a fault.
    fn report(&self, report: &FaultReport) {
        let stack = self.stack_base..self.stack_base.saturating_add(self.stack.len() as u64);
        let cause = Cause::new(report, stack);
        culm::error!("{} faulted: {cause} (pc {:#x}, sp {:#x})", self.name, report.pc, report.sp);
        let (FaultReport { lr, fp, syndrome, address, restarts, .. }, name) = (report, self.name);
        culm::error!(
            "registers {name}: lr {lr:#x}, fp {fp:#x}, syndrome {syndrome:#x}, address {address:#x}; {restarts} restarts before"
        );
        let backtrace = Backtrace::new(report, &self.stack, self.stack_base);
        culm::error!("backtrace {}: {backtrace}", self.name);
    }
}

impl Supervisor {
    /// Handles a notification that a domain has faulted, if it has.
    fn fault(&mut self, index: usize, now: Instant) {
        let domain = &mut self.supervised[index];
        let report = supervision::fault(domain.channel);
        if report.kind == FaultKind::None as u64 || domain.restart_at.is_some() {
            return;
        }
        counters::FAULTS.add(1);
        domain.report(&report);
        match domain.history.fault(now) {
            Decision::Restart { at, count } => {
                let (name, limit, wait) = (domain.name, domain.limit, at.since(now).as_millis());
                culm::warn!("{name} restarts in {wait} ms (restart {count} of {limit})");
                domain.restart_at = Some(at);
            }
            Decision::Stop => {
                culm::warn!("{} stays stopped", domain.name);
                Self::stop(domain);
            }
            Decision::GiveUp => {
                culm::error!("{} stays stopped: it faults too often", domain.name);
                Self::stop(domain);
            }
            Decision::Halt => {
                culm::error!("the system halts because {} faulted", domain.name);
                self.halt_at = self.halt_at.or(Some(now + LAST_WORDS));
            }
        }
    }

    fn stop(domain: &Supervised) {
        supervision::stop(domain.channel);
        counters::STOPPED.add(1);
    }

    /// Halts the system or restarts the domains that are due, and asks to be woken for what is not
    /// due yet.
    fn act(&mut self, now: Instant) {
        if self.halt_at.is_some_and(|time| time <= now) {
            supervision::halt(HALTED);
        }
        for domain in &mut self.supervised {
            if domain.restart_at.take_if(|time| *time <= now).is_some() {
                supervision::restart(domain.channel);
                domain.history.restarted(now);
                counters::RESTARTS.add(1);
                culm::info!("{} restarted", domain.name);
            }
        }
        let restarts = self.supervised.iter().filter_map(|domain| domain.restart_at);
        if let Some(next) = restarts.chain(self.halt_at).min() {
            culm::wake_at(next);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::testing::{self, Act};

    fn domain(name: &'static str, channel: u32, policy: Policy) -> Supervised {
        Supervised {
            name,
            channel: Channel::new(channel),
            stack: Region::EMPTY,
            stack_base: 0x1000_0000,
            limit: 1,
            history: History::new(policy),
            restart_at: None,
        }
    }

    fn supervisor() -> Supervisor {
        let (window, backoff) = (Duration::from_secs(10), Duration::from_millis(50));
        let supervised = [
            domain("http", 3, Policy::Restart { limit: 1, window, backoff }),
            domain("spy", 4, Policy::Stop),
            domain("core", 5, Policy::Halt),
        ];
        Supervisor { supervised: supervised.into(), halt_at: None }
    }

    fn null_write() -> FaultReport {
        let syndrome = 0x24 << 26 | 1 << 6 | 0b0111;
        FaultReport { kind: FaultKind::Exception as u64, syndrome, pc: 0x20_1234, ..FaultReport::default() }
    }

    #[test]
    fn a_fault_is_reported_and_followed_by_a_restart_and_then_by_none() {
        let mut supervisor = supervisor();
        testing::add_fault(null_write());
        supervisor.notified(testing::channels(&[3]));
        let log = testing::take_log();
        assert!(
            log.contains("http faulted: write at 0x0, where nothing is mapped: a null pointer (pc 0x201234"),
            "{log}"
        );
        assert!(log.contains("registers http: lr 0x0, fp 0x0, syndrome 0x90000047, address 0x0; 0 restarts"), "{log}");
        assert!(log.contains("backtrace http: 0x201234\n"), "{log}");
        assert!(log.contains("http restarts in 50 ms (restart 1 of 1)"), "{log}");
        assert_eq!(testing::acts(), []);

        let due = testing::deadline().expect("it waits for the restart");
        testing::set_time(due);
        supervisor.notified(Channels::NONE);
        assert_eq!(testing::acts(), [Act::Restart(Channel::new(3))]);

        testing::add_fault(null_write());
        supervisor.notified(testing::channels(&[3]));
        assert_eq!(testing::acts(), [Act::Stop(Channel::new(3))]);
        assert!(testing::take_log().contains("http stays stopped: it faults too often"));
    }

    #[test]
    fn a_notification_without_a_fault_means_nothing() {
        let mut supervisor = supervisor();
        supervisor.notified(testing::channels(&[3, 4, 5, 9]));
        assert_eq!((testing::acts(), testing::deadline()), (Vec::new(), None));
        assert_eq!(testing::take_log(), "");
    }

    #[test]
    fn what_may_only_stop_is_stopped() {
        let mut supervisor = supervisor();
        testing::add_fault(null_write());
        supervisor.notified(testing::channels(&[4]));
        assert_eq!(testing::acts(), [Act::Stop(Channel::new(4))]);
    }

    #[test]
    #[should_panic = "halted the system with status 1"]
    fn a_halt_leaves_time_for_the_last_words() {
        let mut supervisor = supervisor();
        testing::add_fault(null_write());
        supervisor.notified(testing::channels(&[5]));
        assert!(testing::take_log().contains("the system halts because core faulted"));
        testing::set_time(testing::deadline().expect("it waits for the last words"));
        supervisor.notified(Channels::NONE);
    }
}
