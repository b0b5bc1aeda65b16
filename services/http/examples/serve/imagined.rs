//! A system that is made up: accounts that move as those of a web server under some load do.

use culm::connection::Counters;
use culm::observe::{CoreAccount, DomainAccount};
use culm_queue::{Producer, Storage};
use http::status::Status;
use http::status::snapshot::{Domain, Queue, Tally};
use http::status::source::{Described, Source, Watched};
use std::sync::atomic::Ordering::Relaxed;
use std::time::Duration;

/// Ticks per second: nanoseconds.
const FREQUENCY: u64 = 1_000_000_000;

/// Milliseconds between two moves of the figures.
const STEP: u64 = 50;

/// A component that is made up.
struct Imagined {
    name: &'static str,
    component: &'static str,
    core: u32,
    priority: u32,
    /// Thousandths of its core that it uses.
    share: u64,
    /// Packets per second and drops in all, where it handles packets.
    packets: Option<(u64, u64)>,
}

const fn imagined(
    (name, component): (&'static str, &'static str),
    (core, priority): (u32, u32),
    share: u64,
    packets: Option<(u64, u64)>,
) -> Imagined {
    Imagined { name, component, core, priority, share, packets }
}

impl Imagined {
    /// The names of its counters.
    fn counters(&self) -> &'static [&'static str] {
        match (self.component, self.packets) {
            ("http", _) => {
                &["requests", "open", "connections", "attempts", "attempts_refused", "evicted", "errors", "bytes"]
            }
            (_, Some(_)) => &["packets", "dropped"],
            _ => &[],
        }
    }

    /// Moves the counters of one step, under a load of so many percent.
    fn count(&self, page: &Counters, step: u64, load: u64) {
        let add = |index: usize, count: u64| _ = page.values[index].fetch_add(count, Relaxed);
        if let Some((packets, drops)) = self.packets {
            add(0, packets * STEP * load / 100_000);
            page.values[1].store(drops, Relaxed);
        }
        if self.component == "http" {
            let (requests, refused) = (900 * STEP * load / 100_000, load.saturating_sub(90) / 4);
            page.values[1].store(load * 3, Relaxed);
            let others = [(0, requests), (2, requests / 8), (3, requests / 8 + refused), (4, refused)];
            for (index, count) in
                others.into_iter().chain([(5, refused / 2), (6, step % 40 / 39), (7, requests * 9000)])
            {
                add(index, count);
            }
        }
    }
}

const COMPONENTS: [Imagined; 9] = [
    imagined(("nic0_driver", "net-virtio"), (0, 240), 62, Some((4100, 0))),
    imagined(("nic0_rx", "net-rx"), (0, 239), 31, Some((2100, 0))),
    imagined(("nic0_tx", "net-tx"), (0, 239), 28, Some((2000, 0))),
    imagined(("http_copier", "net-copier"), (1, 101), 24, Some((2100, 3))),
    imagined(("http", "http"), (1, 100), 187, None),
    imagined(("uart0_driver", "serial-pl011"), (0, 60), 0, None),
    imagined(("uart0_virt", "serial-mux"), (0, 59), 0, None),
    imagined(("supervisor", "supervisor"), (0, 254), 0, None),
    imagined(("lorem", "misbehave"), (1, 20), 4, None),
];

pub const PICTURE: &str = r##"<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 640 120" width="640" height="120">
<g fill="none" stroke="#2f7d4f" stroke-width="2"><rect x="10" y="30" width="160" height="60" rx="10"/><rect x="240" y="30" width="160" height="60" rx="10"/><rect x="470" y="30" width="160" height="60" rx="10"/><path d="M170 60h70M400 60h70"/></g>
<g font-family="sans-serif" font-size="16" text-anchor="middle" fill="#2f7d4f"><text x="90" y="65">nic0_driver</text><text x="320" y="65">nic0_rx</text><text x="550" y="65">http</text></g></svg>"##;

/// The made-up system's status pages. A thread moves its figures for as long as the program runs.
pub fn status() -> Status {
    let cores: &'static [CoreAccount] = Box::leak((0..2).map(|_| CoreAccount::default()).collect());
    let domains: &'static [DomainAccount] = Box::leak(COMPONENTS.iter().map(|_| DomainAccount::default()).collect());
    let pages: &'static [Counters] = Box::leak(COMPONENTS.iter().map(|_| Counters::new()).collect());
    let described = COMPONENTS.iter().zip(pages).map(|(it, page)| Described {
        domain: Domain {
            name: it.name,
            component: it.component,
            core: it.core,
            priority: it.priority,
            budget: (it.component == "net-virtio").then_some((4_000_000, 10_000_000)),
            counters: it.counters().iter().map(|name| (*name, Tally::default())).collect(),
            ..Domain::default()
        },
        counters: Some(page),
    });
    let storages: [&'static Storage<u8, 512>; 3] = [(); 3].map(|()| &*Box::leak(Box::new(Storage::new())));
    let rings = [("rx_filled", 0, 1), ("client_filled", 1, 3), ("rx_filled", 3, 4)].iter().zip(storages).map(
        |(&(name, producer, consumer), storage)| Watched {
            queue: Queue {
                name,
                producer: COMPONENTS[producer].name,
                consumer: COMPONENTS[consumer].name,
                depth: 0,
                capacity: 512,
                entries: Tally::default(),
            },
            ring: storage.shared(),
            seen: 0,
        },
    );
    let source = Source::from_parts(("web", "virt"), cores, domains, described.collect(), rings.collect(), FREQUENCY);
    std::thread::spawn(move || live(cores, domains, pages, storages));
    Status::new(source)
}

fn live(
    cores: &[CoreAccount],
    domains: &[DomainAccount],
    pages: &[Counters],
    storages: [&'static Storage<u8, 512>; 3],
) {
    let mut producers = storages.map(|storage| Producer::attach(storage.shared()));
    let mut random = 1u64;
    for step in 0u64.. {
        std::thread::sleep(Duration::from_millis(STEP));
        let wave = 60 + (step / 4 % 80).abs_diff(40);
        let mut busy = [0; 2];
        for ((it, account), page) in COMPONENTS.iter().zip(domains).zip(pages) {
            random = random.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            // Thousandths of a step, times two percentages: the load's wave and some noise.
            let used = it.share * (STEP * FREQUENCY / 1_000_000) * wave * (70 + (random >> 33) % 60) / 10_000;
            account.ticks.fetch_add(used, Relaxed);
            account.other_calls.fetch_add(used / 10_000, Relaxed);
            busy[it.core as usize] += used;
            it.count(page, step, wave);
        }
        for (core, busy) in cores.iter().zip(busy) {
            core.idle.fetch_add((STEP * FREQUENCY / 1000).saturating_sub(busy), Relaxed);
            core.interrupts.fetch_add(40 + random % 9, Relaxed);
        }
        domains[8].restarts.store(2, Relaxed);
        for producer in &mut producers {
            let _ = producer.push(step as u8);
            let _ = producer.publish();
        }
    }
}
