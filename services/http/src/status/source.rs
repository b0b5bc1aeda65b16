//! Where the system's state is, and how a snapshot of it is taken.

use super::snapshot::{Component, Core, Queue, Share, Snapshot, Ticks};
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use culm_abi::accounting::{CoreAccount, DomainAccount, DomainState};
use culm_abi::connection::{Counters, Observation, ObservedDomain, ObservedRing};
use culm_abi::start::Span;
use culm_queue::Shared;

/// A protection domain and where its counters are.
pub struct Described {
    /// What does not change, and the counters' names.
    pub component: Component,
    /// The counters.
    pub counters: Option<&'static Counters>,
}

/// A queue and where it is.
pub struct Watched {
    /// What does not change.
    pub queue: Queue,
    /// The ring. Only how full it is is looked at, so the type of its entries does not matter.
    pub ring: Shared<u8>,
    /// The ring's total when it was last looked at, which is all that the ring knows of it.
    pub seen: u32,
}

/// What was used until some moment.
#[derive(Default)]
struct Mark {
    time: u64,
    idle: Vec<u64>,
    used: Vec<u64>,
}

/// The system's state.
pub struct Source {
    cores: &'static [CoreAccount],
    domains: &'static [DomainAccount],
    counters: Vec<Option<&'static Counters>>,
    rings: Vec<(Shared<u8>, u32)>,
    frequency: u64,
    /// Shares are taken from `base` until now. It is the mark before `latest`, so at least a second old.
    base: Mark,
    latest: Mark,
    snapshot: Snapshot,
}

impl Source {
    /// The state that an observer is given.
    pub fn new(observation: &Observation) -> Self {
        let domains: &[ObservedDomain] = culm::start::list(observation.domains);
        let described: Vec<_> = domains.iter().map(describe).collect();
        let name = |index: u32| described.get(index as usize).map_or("", |described| described.component.name);
        let rings: &[ObservedRing] = culm::start::list(observation.rings);
        let watched = rings.iter().map(|observed| Watched {
            queue: Queue {
                name: culm::start::text(observed.name),
                producer: name(observed.producer),
                consumer: name(observed.consumer),
                depth: 0,
                capacity: observed.ring.capacity,
                total: 0,
            },
            ring: culm::queue::shared(observed.ring),
            seen: 0,
        });
        let watched = watched.collect();
        Self::from_parts(
            (culm::start::text(observation.system), culm::start::text(observation.board)),
            culm::observe::core_accounts(observation.core_accounts),
            culm::observe::domain_accounts(observation.domain_accounts),
            described,
            watched,
            culm::time::frequency(),
        )
    }

    /// The state in these places; `names` are the system's and the board's.
    pub fn from_parts(
        names: (&'static str, &'static str),
        cores: &'static [CoreAccount],
        domains: &'static [DomainAccount],
        described: Vec<Described>,
        watched: Vec<Watched>,
        frequency: u64,
    ) -> Self {
        let count = described.len().min(domains.len());
        let counters = described.iter().map(|described| described.counters).collect();
        let rings = watched.iter().map(|watched| (watched.ring, watched.seen)).collect();
        let mark = || Mark { time: 0, idle: vec![0; cores.len()], used: vec![0; count] };
        let snapshot = Snapshot {
            system: names.0,
            board: names.1,
            cores: vec![Core::default(); cores.len()],
            components: described.into_iter().take(count).map(|described| described.component).collect(),
            queues: watched.into_iter().map(|watched| watched.queue).collect(),
            ..Snapshot::default()
        };
        Self { cores, domains, counters, rings, frequency, base: mark(), latest: mark(), snapshot }
    }

    /// The state now. Time is in ticks of the system counter.
    pub fn snapshot(&mut self, now: u64) -> &Snapshot {
        if now.saturating_sub(self.latest.time) >= self.frequency {
            core::mem::swap(&mut self.base, &mut self.latest);
            self.mark(now);
        }
        let frequency = self.frequency;
        let ticks = |ticks| Ticks { ticks, frequency };
        let window = now.saturating_sub(self.base.time);
        self.snapshot.uptime = ticks(now);
        self.snapshot.window = ticks(window);
        let bases = self.domains.iter().zip(&self.counters).zip(&self.base.used);
        for (component, ((account, counters), base)) in self.snapshot.components.iter_mut().zip(bases) {
            update(component, account, *counters);
            let used = account.ticks.load(Relaxed);
            component.used = ticks(used);
            component.share = Share::of(used.saturating_sub(*base), window);
        }
        for (index, ((core, account), base)) in
            self.snapshot.cores.iter_mut().zip(self.cores).zip(&self.base.idle).enumerate()
        {
            let idle = account.idle.load(Relaxed);
            // The present sleep of a core that sleeps is not in its idle time yet; what its components used is.
            let load = if account.asleep.load(Relaxed) != 0 {
                let on_core = self.snapshot.components.iter().filter(|component| component.core as usize == index);
                Share(on_core.map(|component| component.share.0).sum::<u32>().min(1_000_000))
            } else {
                Share::of(window.saturating_sub(idle.saturating_sub(*base)), window)
            };
            *core = Core {
                load,
                idle: ticks(idle),
                interrupts: account.interrupts.load(Relaxed),
                signals_sent: account.signals_sent.load(Relaxed),
                timer: account.timer.load(Relaxed),
                sleeps: account.sleeps.load(Relaxed),
            };
        }
        for (queue, (ring, seen)) in self.snapshot.queues.iter_mut().zip(&mut self.rings) {
            let depth = ring.depth();
            queue.depth = depth.queued;
            // The ring counts modulo 2³², and is looked at often enough while somebody looks at the page.
            queue.total += u64::from(depth.total.wrapping_sub(*seen));
            *seen = depth.total;
        }
        &self.snapshot
    }

    fn mark(&mut self, now: u64) {
        self.latest.time = now;
        for (mark, core) in self.latest.idle.iter_mut().zip(self.cores) {
            *mark = core.idle.load(Relaxed);
        }
        for (mark, domain) in self.latest.used.iter_mut().zip(self.domains) {
            *mark = domain.ticks.load(Relaxed);
        }
    }
}

fn describe(domain: &ObservedDomain) -> Described {
    let names: &[Span] = culm::start::list(domain.counter_names);
    let component = Component {
        name: culm::start::text(domain.name),
        component: culm::start::text(domain.component),
        core: domain.core,
        priority: domain.priority,
        budget: (domain.budget > 0).then_some((domain.budget, domain.period)),
        passive: domain.passive != 0,
        counters: names.iter().map(|name| (culm::start::text(*name), 0)).collect(),
        ..Component::default()
    };
    Described { component, counters: culm::observe::counters(domain.counters) }
}

/// Takes over what changes, but for the time.
fn update(component: &mut Component, account: &DomainAccount, counters: Option<&Counters>) {
    component.state = match account.state.load(Relaxed) {
        state if state == DomainState::Faulted as u32 => DomainState::Faulted,
        state if state == DomainState::Stopped as u32 => DomainState::Stopped,
        _ => DomainState::Alive,
    };
    component.system_calls = account.system_calls();
    component.switches = account.switches();
    component.preemptions = account.preemptions.load(Relaxed);
    component.throttles = account.throttles.load(Relaxed);
    component.faults = account.faults.load(Relaxed);
    component.restarts = account.restarts.load(Relaxed);
    let Some(counters) = counters else { return };
    for ((_, value), word) in component.counters.iter_mut().zip(&counters.values) {
        *value = word.load(Relaxed);
    }
}
