//! The renderings of a snapshot, and how one is taken.

use culm_abi::accounting::{CoreAccount, DomainAccount, DomainState};
use culm_abi::connection::Counters;
use culm_queue::{Producer, Storage};
use http::status::snapshot::{Component, Core, Queue, Share, Snapshot, Ticks};
use http::status::source::{Described, Source, Watched};
use http::status::{json, metrics};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

fn component(name: &'static str) -> Component {
    Component {
        name,
        component: "net-rx",
        core: 1,
        priority: 239,
        budget: Some((4_000_000, 10_000_000)),
        state: DomainState::Faulted,
        share: Share(12_345),
        used: Ticks { ticks: 62_500_000 * 3 + 1, frequency: 62_500_000 },
        system_calls: 7,
        faults: 1,
        restarts: 2,
        counters: vec![("rx_packets", 10), ("tx_packets", 5), ("dropped_unknown", 3), ("bytes", 99)],
        ..Component::default()
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        system: "we\"b\\\n",
        board: "virt",
        uptime: Ticks { ticks: 100, frequency: 1000 },
        window: Ticks { ticks: 1500, frequency: 1000 },
        cores: vec![Core { load: Share(1_000_000), interrupts: u64::MAX, ..Core::default() }, Core::default()],
        components: vec![component("nic0_rx"), Component { name: "quiet", passive: true, ..Component::default() }],
        queues: vec![Queue {
            name: "rx_filled",
            producer: "nic0_driver",
            consumer: "nic0_rx",
            depth: 3,
            capacity: 512,
            total: 1 << 40,
        }],
    }
}

fn render_json(snapshot: &Snapshot) -> Value {
    let mut bytes = Vec::new();
    json::render(snapshot, &mut bytes);
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(&bytes)))
}

#[test]
fn json_says_everything() {
    let json = render_json(&snapshot());
    assert_eq!(json["system"], "we\"b\\\n");
    assert_eq!(json["uptime_seconds"], 0.1);
    assert_eq!(json["cores"][0]["load"], 1.0);
    assert_eq!(json["cores"][0]["interrupts"], u64::MAX);
    let component = &json["components"][0];
    assert_eq!(component["state"], "faulted");
    assert_eq!(component["cpu_share"], 0.012345);
    assert_eq!(component["cpu_seconds"], 3.0);
    assert_eq!((&component["budget_seconds"], &component["period_seconds"]), (&json!(0.004), &json!(0.01)));
    assert_eq!((&component["packets"], &component["drops"]), (&json!(15), &json!(3)));
    assert_eq!(component["counters"]["bytes"], 99);
    let quiet = &json["components"][1];
    assert_eq!(
        (&quiet["packets"], &quiet["budget_seconds"], &quiet["passive"]),
        (&Value::Null, &Value::Null, &json!(true))
    );
    assert_eq!(json["queues"][0]["total"], 1u64 << 40);
}

#[test]
fn json_of_an_empty_system() {
    assert_eq!(render_json(&Snapshot::default())["components"], json!([]));
}

/// Checks the grammar of OpenMetrics text as far as it is used: descriptions before samples, families not interleaved, names
/// with the suffix of their type, labels quoted, numbers, no sample twice, and the end.
#[test]
fn metrics_are_open_metrics() {
    let mut bytes = Vec::new();
    metrics::render(&snapshot(), &mut bytes);
    let text = String::from_utf8(bytes).expect("UTF-8");
    assert!(text.ends_with("\n# EOF\n"));
    let (mut families, mut samples) = (HashSet::new(), HashSet::new());
    let (mut family, mut suffix) = (String::new(), "");
    for line in text.lines().filter(|line| *line != "# EOF") {
        if let Some(description) = line.strip_prefix("# ") {
            let mut words = description.splitn(3, ' ');
            let (keyword, name, rest) = (words.next().unwrap(), words.next().unwrap(), words.next().unwrap());
            if keyword == "TYPE" {
                assert!(families.insert(name.to_owned()), "{name} described twice");
                family = name.to_owned();
                suffix = match rest {
                    "counter" => "_total",
                    "info" => "_info",
                    "gauge" | "unknown" => "",
                    other => panic!("type {other}"),
                };
            }
            assert_eq!(name, family, "{line}");
            assert!(keyword != "UNIT" || name.ends_with(&format!("_{rest}")), "{line}");
            continue;
        }
        let (sample, value) = line.rsplit_once(' ').expect("a sample has a value");
        assert!(value.parse::<f64>().is_ok(), "{line}");
        assert!(samples.insert(sample), "{sample} twice");
        let name = sample.split('{').next().unwrap();
        assert_eq!(name, format!("{family}{suffix}"));
        if let Some(labels) = sample.strip_prefix(name).filter(|labels| !labels.is_empty()) {
            let labels =
                labels.strip_prefix('{').and_then(|labels| labels.strip_suffix('}')).expect("labels in braces");
            assert!(labels.split("\",").all(|label| label.contains("=\"")), "{line}");
        }
    }
    assert!(text.contains("culm_info{system=\"we\\\"b\\\\\\n\",board=\"virt\""));
    assert!(text.contains("culm_component_cpu_seconds_total{component=\"nic0_rx\",core=\"1\"} 3.000000\n"));
    assert!(text.contains("culm_component_packets_total{component=\"nic0_rx\",core=\"1\"} 15\n"));
    assert!(!text.contains("culm_component_budget_seconds{component=\"quiet\""), "what is absent is left out");
}

#[test]
fn shares_are_of_the_last_one_to_two_seconds() {
    const FREQUENCY: u64 = 1000;
    let cores: &'static [CoreAccount] = Box::leak(Box::new([CoreAccount::default()]));
    let domains: &'static [DomainAccount] = Box::leak(Box::new([DomainAccount::default()]));
    let page: &'static Counters = Box::leak(Box::new(Counters { values: [const { AtomicU64::new(0) }; 512] }));
    let storage: &'static Storage<u8, 8> = Box::leak(Box::new(Storage::new()));
    let mut producer = Producer::attach(storage.shared());
    let empty = Queue { name: "q", producer: "a", consumer: "b", depth: 0, capacity: 8, total: 0 };
    let mut source = Source::from_parts(
        ("system", "board"),
        cores,
        domains,
        vec![Described {
            component: Component { counters: vec![("requests", 0)], ..Component::default() },
            counters: Some(page),
        }],
        vec![Watched { queue: empty, ring: storage.shared(), seen: 0 }],
        FREQUENCY,
    );

    domains[0].ticks.store(500, Relaxed);
    cores[0].idle.store(1500, Relaxed);
    page.values[0].store(42, Relaxed);
    domains[0].state.store(DomainState::Stopped as u32, Relaxed);
    producer.push(1).unwrap();
    let _ = producer.publish();
    let first = source.snapshot(2000);
    assert_eq!((first.components[0].share, first.cores[0].load), (Share(250_000), Share(250_000)), "since the start");
    assert_eq!(first.components[0].counters, [("requests", 42)]);
    assert_eq!(first.components[0].state, DomainState::Stopped);
    assert_eq!((first.queues[0].depth, first.queues[0].total), (1, 1));

    // A core that sleeps has not booked its present sleep yet; it is as busy as its components were.
    cores[0].idle.store(0, Relaxed);
    assert_eq!(source.snapshot(2000).cores[0].load, Share(1_000_000));
    cores[0].asleep.store(1, Relaxed);
    assert_eq!(source.snapshot(2000).cores[0].load, Share(250_000));

    // Asked again at once, the window is still long; a second later it has moved on.
    assert_eq!(source.snapshot(2500).window, Ticks { ticks: 2500, frequency: FREQUENCY });
    domains[0].ticks.store(1500, Relaxed);
    let second = source.snapshot(3000);
    assert_eq!((second.window.ticks, second.components[0].share), (1000, Share(1_000_000)));
    assert_eq!(source.snapshot(3999).window.ticks, 1999);
    assert_eq!(source.snapshot(4000).window.ticks, 1000);
}
