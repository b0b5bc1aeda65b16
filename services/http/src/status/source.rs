//! Where the system's state is, and how a snapshot of it is taken.

use super::snapshot::{Core, Domain, Fraction, Queue, Rate, Snapshot, Tally, Ticks};
use crate::crashes::Crash;
use alloc::vec;
use alloc::vec::Vec;
use core::sync::atomic::Ordering::Relaxed;
use culm::connection::{CounterName, Counters, Observation, ObservedDomain, ObservedRing};
use culm::observe::{CoreAccount, DomainAccount, DomainState};
use culm::queue::Shared;

/// A protection domain and where its counters are.
pub struct Described {
    /// The part that does not change, and the counters' names.
    pub domain: Domain,
    /// The counters.
    pub counters: Option<&'static Counters>,
}

/// A queue and where it is.
pub struct Watched {
    /// The part that does not change.
    pub queue: Queue,
    /// The ring. Only how full it is is looked at, so the type of its entries does not matter.
    pub ring: Shared<u8>,
    /// The ring's total when it was last looked at, which is all that the ring knows of it.
    pub seen: u32,
}

/// The use and the counts until some moment.
#[derive(Clone, Default)]
struct Mark {
    time: u64,
    idle: Vec<u64>,
    used: Vec<u64>,
    /// All counts, in the order in which [`tallies`] goes through them.
    counts: Vec<u64>,
}

impl Mark {
    /// As long as the snapshot needs it, and all zero.
    fn new(snapshot: &mut Snapshot) -> Self {
        let (cores, domains) = (snapshot.cores.len(), snapshot.domains.len());
        Self { time: 0, idle: vec![0; cores], used: vec![0; domains], counts: tallies(snapshot).map(|_| 0).collect() }
    }

    /// Takes over what the snapshot has now.
    fn take(&mut self, snapshot: &mut Snapshot) {
        self.time = snapshot.uptime.ticks;
        for (mark, core) in self.idle.iter_mut().zip(&snapshot.cores) {
            *mark = core.idle.ticks;
        }
        for (mark, domain) in self.used.iter_mut().zip(&snapshot.domains) {
            *mark = domain.used.ticks;
        }
        for (mark, tally) in self.counts.iter_mut().zip(tallies(snapshot)) {
            *mark = tally.total;
        }
    }
}

/// All that is counted.
fn tallies(snapshot: &mut Snapshot) -> impl Iterator<Item = &mut Tally> {
    let Snapshot { cores, domains, queues, .. } = snapshot;
    let interrupts = cores.iter_mut().map(|core| &mut core.interrupts);
    let counters = domains.iter_mut().flat_map(|it| it.counters.iter_mut().map(|(_, tally)| tally));
    interrupts.chain(counters).chain(queues.iter_mut().map(|queue| &mut queue.entries))
}

/// The system's state.
pub struct Source {
    cores: &'static [CoreAccount],
    domains: &'static [DomainAccount],
    counters: Vec<Option<&'static Counters>>,
    rings: Vec<(Shared<u8>, u32)>,
    frequency: u64,
    /// Shares are taken from `base` until now. It is the mark before `latest`, so at least a second
    /// old.
    base: Mark,
    latest: Mark,
    snapshot: Snapshot,
}

impl Source {
    /// The state that an observer is given.
    pub fn new(observation: &Observation) -> Self {
        let domains: &[ObservedDomain] = culm::start::list(observation.domains);
        let described: Vec<_> = domains.iter().map(describe).collect();
        let name = |index: u32| described.get(index as usize).map_or("", |described| described.domain.name);
        let rings: &[ObservedRing] = culm::start::list(observation.rings);
        let watched = rings.iter().map(|observed| Watched {
            queue: Queue {
                name: culm::start::text(observed.name),
                producer: name(observed.producer),
                consumer: name(observed.consumer),
                depth: 0,
                capacity: observed.ring.capacity,
                entries: Tally::default(),
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
        let mut snapshot = Snapshot {
            system: names.0,
            board: names.1,
            cores: vec![Core::default(); cores.len()],
            domains: described.into_iter().take(count).map(|described| described.domain).collect(),
            queues: watched.into_iter().map(|watched| watched.queue).collect(),
            ..Snapshot::default()
        };
        let base = Mark::new(&mut snapshot);
        let latest = base.clone();
        Self { cores, domains, counters, rings, frequency, base, latest, snapshot }
    }

    /// The state now. Time is in ticks of the system counter.
    pub fn snapshot(&mut self, now: u64) -> &Snapshot {
        self.read(now);
        if now.saturating_sub(self.latest.time) >= self.frequency {
            core::mem::swap(&mut self.base, &mut self.latest);
            self.latest.take(&mut self.snapshot);
        }
        self.compare();
        &self.snapshot
    }

    /// Has snapshots show these crash reports from now on, the newest first.
    pub fn show(&mut self, crashes: &[Crash]) {
        self.snapshot.crashes = Some(crashes.to_vec());
    }

    /// Returns the snapshot that was taken last; before that one without figures.
    pub fn last(&self) -> &Snapshot {
        &self.snapshot
    }

    /// Takes over the accounts, counters and depths as they are now.
    fn read(&mut self, now: u64) {
        let frequency = self.frequency;
        let ticks = |ticks| Ticks { ticks, frequency };
        self.snapshot.uptime = ticks(now);
        let accounts = self.domains.iter().zip(&self.counters);
        for (domain, (account, counters)) in self.snapshot.domains.iter_mut().zip(accounts) {
            update(domain, account, *counters);
            domain.used = ticks(account.ticks.load(Relaxed));
        }
        for (core, account) in self.snapshot.cores.iter_mut().zip(self.cores) {
            core.idle = ticks(account.idle.load(Relaxed));
            core.interrupts.total = account.interrupts.load(Relaxed);
            core.ipis_sent = account.ipis_sent.load(Relaxed);
            core.timer = account.timer.load(Relaxed);
            core.sleeps = account.sleeps.load(Relaxed);
        }
        for (queue, (ring, seen)) in self.snapshot.queues.iter_mut().zip(&mut self.rings) {
            let depth = ring.depth();
            queue.depth = depth.queued;
            // The ring counts modulo 2³², and is looked at often enough while somebody looks at the
            // page.
            queue.entries.total += u64::from(depth.total.wrapping_sub(*seen));
            *seen = depth.total;
        }
    }

    /// Works out shares and rates, by what was there at `base`.
    fn compare(&mut self) {
        let Self { base, snapshot, .. } = self;
        let window = snapshot.uptime.ticks.saturating_sub(base.time);
        snapshot.window = Ticks { ticks: window, frequency: self.frequency };
        let span = snapshot.window;
        for (domain, base) in snapshot.domains.iter_mut().zip(&base.used) {
            domain.share = Fraction::of(domain.used.ticks.saturating_sub(*base), window);
        }
        let cores = snapshot.cores.iter_mut().zip(self.cores).zip(&base.idle);
        for (index, ((core, account), base)) in cores.enumerate() {
            // The present sleep of a core that sleeps is not in its idle time yet; what its
            // components used is.
            core.load = if account.asleep.load(Relaxed) != 0 {
                let on_core = snapshot.domains.iter().filter(|domain| domain.core as usize == index);
                Fraction(on_core.map(|domain| domain.share.0).sum::<u32>().min(1_000_000))
            } else {
                Fraction::of(window.saturating_sub(core.idle.ticks.saturating_sub(*base)), window)
            };
        }
        for (tally, base) in tallies(snapshot).zip(&base.counts) {
            tally.rate = Rate::of(tally.total.saturating_sub(*base), span);
        }
    }
}

fn describe(observed: &ObservedDomain) -> Described {
    let names: &[CounterName] = culm::start::list(observed.counter_names);
    let domain = Domain {
        name: culm::start::text(observed.name),
        component: culm::start::text(observed.component),
        core: observed.core,
        priority: observed.priority,
        budget: (observed.budget > 0).then_some((observed.budget, observed.period)),
        passive: observed.passive != 0,
        counters: names.iter().map(|name| (culm::start::text(name.name), Tally::default())).collect(),
        ..Domain::default()
    };
    Described { domain, counters: culm::observe::counters(observed.counters) }
}

/// Takes over what changes, but for the time.
fn update(domain: &mut Domain, account: &DomainAccount, counters: Option<&Counters>) {
    domain.state = match account.state.load(Relaxed) {
        state if state == DomainState::Faulted as u32 => DomainState::Faulted,
        state if state == DomainState::Stopped as u32 => DomainState::Stopped,
        _ => DomainState::Alive,
    };
    domain.system_calls = account.system_calls();
    domain.switches = account.switches();
    domain.preemptions = account.preemptions.load(Relaxed);
    domain.throttles = account.throttles.load(Relaxed);
    domain.faults = account.faults.load(Relaxed);
    domain.restarts = account.restarts.load(Relaxed);
    let Some(counters) = counters else { return };
    for ((_, tally), word) in domain.counters.iter_mut().zip(&counters.values) {
        tally.total = word.load(Relaxed);
    }
    // While it changes, what was there before is true enough.
    if let Some(trouble) = culm::trouble::read(counters, &mut [0; culm::trouble::LENGTH]) {
        domain.trouble.clear();
        domain.trouble.extend(trouble.chars().filter(|letter| !letter.is_control()));
    }
}
