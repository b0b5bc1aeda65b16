//! The renderings of a snapshot, and how one is taken.

use culm::connection::Counters;
use culm::observe::{CoreAccount, DomainAccount, DomainState};
use culm_http::Renderer;
use culm_queue::{Producer, Storage};
use http::crashes::Crash;
use http::status::snapshot::{Core, Domain, Fraction, Queue, Rate, Snapshot, Tally, Ticks};
use http::status::source::{Described, Source, Watched};
use http::status::{DOCUMENTS, Status, html, json, metrics};
use serde_json::{Value, json};
use std::collections::HashSet;
use std::fmt::{self, Write};
use std::sync::atomic::Ordering::Relaxed;

/// So many in all, and so many a second.
const fn tally(total: u64, per_second: u64) -> Tally {
    Tally { total, rate: Rate(per_second * 1000) }
}

fn component(name: &'static str) -> Domain {
    Domain {
        name,
        component: "net-rx",
        core: 1,
        priority: 239,
        budget: Some((4_000_000, 10_000_000)),
        state: DomainState::Faulted,
        share: Fraction(12_345),
        used: Ticks { ticks: 62_500_000 * 3 + 1, frequency: 62_500_000 },
        system_calls: 7,
        faults: 1,
        restarts: 2,
        trouble: "there is no \"card\"".into(),
        counters: vec![
            ("received_packets", tally(10, 0)),
            ("sent_packets", tally(5, 0)),
            ("ignored", tally(2, 1)),
            ("dropped_full", tally(3, 0)),
            ("bytes", tally(99, 0)),
        ],
        ..Domain::default()
    }
}

/// A web server with more clients than it has places.
fn server() -> Domain {
    Domain {
        name: "front",
        component: "http",
        counters: vec![
            ("requests", tally(12_345, 9000)),
            ("open", tally(320, 0)),
            ("attempts", tally(60_000, 700)),
            ("attempts_refused", tally(4000, 512)),
            ("evicted", tally(70, 6)),
            ("drops", tally(1, 0)),
        ],
        ..Domain::default()
    }
}

fn snapshot() -> Snapshot {
    Snapshot {
        system: "we\"b\\\n",
        board: "virt",
        uptime: Ticks { ticks: 100, frequency: 1000 },
        window: Ticks { ticks: 1500, frequency: 1000 },
        cores: vec![
            Core { load: Fraction(1_000_000), interrupts: tally(u64::MAX, 1), ipis_sent: 11, ..Core::default() },
            Core::default(),
        ],
        domains: vec![component("nic0_rx"), Domain { name: "quiet", passive: true, ..Domain::default() }, server()],
        queues: vec![Queue {
            name: "rx_filled",
            producer: "nic0_driver",
            consumer: "nic0_rx",
            depth: 3,
            capacity: 512,
            entries: tally(1 << 40, 0),
        }],
        crashes: Some(vec![Crash {
            name: "crash.txt".into(),
            modified: 1_700_000_000,
            text: "http faulted: \"<b>\"\nand more\n".into(),
        }]),
    }
}

fn render_json(snapshot: &Snapshot) -> Value {
    let mut text = String::new();
    json::render(snapshot, &mut text).expect("strings take everything");
    serde_json::from_str(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

#[test]
fn json_says_everything() {
    let json = render_json(&snapshot());
    assert_eq!(json["system"], "we\"b\\\n");
    assert_eq!(json["uptime_seconds"], 0.1);
    assert_eq!(json["cores"][0]["load"], 1.0);
    assert_eq!(json["cores"][0]["interrupts"], u64::MAX);
    let core = &json["cores"][0];
    assert_eq!((&core["ipis_sent"], &core["signals_sent"]), (&json!(11), &json!(11)), "by the old name too");
    let component = &json["components"][0];
    assert_eq!(component["state"], "faulted");
    assert_eq!(component["cpu_share"], 0.012345);
    assert_eq!(component["cpu_seconds"], 3.0);
    assert_eq!((&component["budget_seconds"], &component["period_seconds"]), (&json!(0.004), &json!(0.01)));
    assert_eq!((&component["packets"], &component["drops"]), (&json!(15), &json!(3)));
    assert_eq!(component["counters"]["bytes"], 99);
    assert_eq!(component["trouble"], "there is no \"card\"");
    let quiet = &json["components"][1];
    assert_eq!(quiet["trouble"], Value::Null);
    assert_eq!(
        (&quiet["packets"], &quiet["budget_seconds"], &quiet["passive"]),
        (&Value::Null, &Value::Null, &json!(true))
    );
    assert_eq!(json["queues"][0]["total"], 1u64 << 40);
    assert_eq!(json["components"][2]["drops"], 4001, "what a server refused is lost to somebody");
    let server = &json["http"][0];
    assert_eq!(
        (&server["name"], &server["requests"], &server["requests_per_second"]),
        (&json!("front"), &json!(12_345), &json!(9000.0))
    );
    assert_eq!(
        (&server["open"], &server["refused"], &server["refused_per_second"]),
        (&json!(320), &json!(4000), &json!(512.0))
    );
    assert_eq!((&server["evicted"], &server["evicted_per_second"]), (&json!(70), &json!(6.0)));
    assert_eq!((&server["open_per_second"], json["http"].as_array().map(Vec::len)), (&Value::Null, Some(1)));
    let crash = json!({ "name": "crash.txt", "modified": 1_700_000_000, "text": "http faulted: \"<b>\"\nand more\n" });
    assert_eq!(json["crashes"], json!([crash]));
    assert_eq!(render_json(&Snapshot { crashes: None, ..snapshot() })["crashes"], Value::Null);
}

fn render_html(snapshot: &Snapshot) -> String {
    let mut text = String::new();
    html::render(snapshot, &mut text).expect("strings take everything");
    text
}

/// Checks that each element ends where it should, and takes the page's text, one line for each
/// piece of it.
fn text_of(page: &str) -> String {
    const VOID: [&str; 5] = ["meta", "link", "img", "path", "!doctype"];
    let (mut open, mut text) = (Vec::new(), String::new());
    for piece in page.split('<').skip(1) {
        let (tag, content) = piece.split_once('>').unwrap_or_else(|| panic!("<{piece} has no end"));
        let name = tag.split_ascii_whitespace().next().expect("a tag has a name");
        if let Some(name) = name.strip_prefix('/') {
            assert_eq!(open.pop(), Some(name), "in <{piece}");
        } else if !VOID.contains(&name) {
            open.push(name);
        }
        assert_eq!(tag.matches('"').count() % 2, 0, "<{tag}>");
        if !content.trim().is_empty() {
            text = text + content.trim() + "\n";
        }
    }
    assert!(open.is_empty(), "{open:?} do not end");
    text
}

#[test]
fn the_page_is_complete_without_a_script() {
    let page = render_html(&Snapshot { system: "<we&b>", ..snapshot() });
    assert!(!page.contains("{{") && !page.contains("<we&b>"));
    let text = text_of(&page);
    assert!(text.starts_with("&lt;we&amp;b&gt; · Culm\n"), "{text}");
    assert!(!text.contains("Connecting"), "{text}");
    for expected in [
        "on virt, Culm 0.1.0, up 0.1 s; rates over the last 1.5 s",
        "Requests\n9000/s\n12.3 k in all, 0 with an error",
        "Open connections\n320\n",
        "Refused\n512/s\n4000 in all; 700/s attempts",
        "Evicted\n6.0/s\n70 in all",
        "Core 0\n100 %\n",
        "nic0_rx\nfaulted\nnet-rx\n, core 1, priority 239\nthere is no &quot;card&quot;\n1.2 %",
        "4 ms\nper 10 ms",
        "4001\nattempts_refused 512/s",
        "ignored\n2\n1.0/s",
        "rx_filled\n3 of 512, 0/s\nnic0_driver → nic0_rx",
        "Crash reports\nthe newest 12 that are kept\nhttp faulted: &quot;&lt;b&gt;&quot;\ncrash.txt\nhttp faulted:",
        "What this is, and what the figures mean",
    ] {
        assert!(text.contains(expected), "no {expected:?} in {text}");
    }
}

#[test]
fn drops_are_red_while_they_grow() {
    let page = render_html(&snapshot());
    assert!(page.contains("<span class=\"some\">3</span><small class=\"sub\">dropped_full</small>"), "{page}");
    assert!(page.contains("<span class=\"warn\">4001</span>"), "{page}");
    let idle = Domain { counters: vec![("drops_full", tally(0, 0)), ("ignored", tally(2, 2))], ..Domain::default() };
    let page = render_html(&Snapshot { domains: vec![idle], ..Snapshot::default() });
    assert!(!page.contains("\"warn\""), "frames for nobody here are no loss: {page}");
}

#[test]
fn its_explanation_is_well_formed() {
    for file in http::status::files(b"") {
        if file.path == "/_about" {
            assert!(text_of(std::str::from_utf8(file.content).expect("UTF-8")).contains("docs/src/SUMMARY.md"));
        }
    }
}

#[test]
fn json_of_an_empty_system() {
    assert_eq!(render_json(&Snapshot::default())["components"], json!([]));
}

/// Checks the grammar of OpenMetrics text as far as it is used: descriptions before samples,
/// families not interleaved, names with the suffix of their type, labels quoted, numbers, no sample
/// twice, and the end.
#[test]
fn metrics_are_open_metrics() {
    let mut text = String::new();
    metrics::render(&snapshot(), &mut text).expect("strings take everything");
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
    assert!(text.contains("culm_http_requests_total{component=\"front\"} 12345\n"));
    assert!(text.contains("culm_http_open{component=\"front\"} 320\n"));
}

/// A system of many components, whose counters have these values, and who renders its state.
fn large_system(value: u64) -> Status {
    const COMPONENTS: usize = 200;
    let accounts = || (0..COMPONENTS).map(|_| DomainAccount::default()).collect::<Vec<_>>().leak();
    let page: &'static Counters = Box::leak(Box::new(Counters::new()));
    page.values.iter().for_each(|word| word.store(value, Relaxed));
    let described = |_| Described { domain: component("nic0_rx"), counters: Some(page) };
    let described = (0..COMPONENTS).map(described).collect();
    Status::new(Source::from_parts(("system", "board"), &[], accounts(), described, Vec::new(), 1000))
}

#[test]
fn no_document_is_longer_than_is_said_at_the_start() {
    for value in [0, 9_999_999, u64::MAX / 2, u64::MAX] {
        let mut status = large_system(value);
        for document in 0..DOCUMENTS.len() as u16 {
            for now in [0, 1, 5000, u64::MAX] {
                let mut text = String::new();
                status.render(document, now, &mut text).expect("strings take everything");
                assert!(text.len() <= status.longest(), "{document}: {} bytes of {}", text.len(), status.longest());
            }
        }
    }
}

/// Takes a few bytes and no more.
struct Little(usize);

impl Write for Little {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        self.0 = self.0.checked_sub(text.len()).ok_or(fmt::Error)?;
        Ok(())
    }
}

#[test]
fn a_document_that_does_not_fit_is_an_error() {
    let mut status = large_system(1);
    for document in 0..DOCUMENTS.len() as u16 {
        assert!(status.render(document, 5000, &mut Little(4096)).is_err());
    }
}

#[test]
fn shares_are_of_the_last_one_to_two_seconds() {
    const FREQUENCY: u64 = 1000;
    let cores: &'static [CoreAccount] = Box::leak(Box::new([CoreAccount::default()]));
    let domains: &'static [DomainAccount] = Box::leak(Box::new([DomainAccount::default()]));
    let page: &'static Counters = Box::leak(Box::new(Counters::new()));
    let storage: &'static Storage<u8, 8> = Box::leak(Box::new(Storage::new()));
    let mut producer = Producer::attach(storage.shared());
    let empty = Queue { name: "q", producer: "a", consumer: "b", depth: 0, capacity: 8, entries: Tally::default() };
    let mut source = Source::from_parts(
        ("system", "board"),
        cores,
        domains,
        vec![Described {
            domain: Domain { counters: vec![("requests", Tally::default())], ..Domain::default() },
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
    assert_eq!(
        (first.domains[0].share, first.cores[0].load),
        (Fraction(250_000), Fraction(250_000)),
        "since the start"
    );
    assert_eq!(first.domains[0].counters, [("requests", tally(42, 21))]);
    assert_eq!(first.domains[0].state, DomainState::Stopped);
    assert_eq!((first.queues[0].depth, first.queues[0].entries.total), (1, 1));

    // A core that sleeps has not booked its present sleep yet; it is as busy as its components
    // were.
    cores[0].idle.store(0, Relaxed);
    assert_eq!(source.snapshot(2000).cores[0].load, Fraction(1_000_000));
    cores[0].asleep.store(1, Relaxed);
    assert_eq!(source.snapshot(2000).cores[0].load, Fraction(250_000));

    // Asked again at once, the window is still long; a second later it has moved on.
    assert_eq!(source.snapshot(2500).window, Ticks { ticks: 2500, frequency: FREQUENCY });
    domains[0].ticks.store(1500, Relaxed);
    page.values[0].store(45, Relaxed);
    let second = source.snapshot(3000);
    assert_eq!(second.domains[0].counters, [("requests", tally(45, 3))]);
    assert_eq!((second.window.ticks, second.domains[0].share), (1000, Fraction(1_000_000)));
    assert_eq!(source.snapshot(3999).window.ticks, 1999);
    assert_eq!(source.snapshot(4000).window.ticks, 1000);
}
