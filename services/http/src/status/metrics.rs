//! A snapshot as OpenMetrics text (version 1.0.0), for a Prometheus server.

use super::snapshot::{Core, Domain, Queue, Snapshot, Tally};
use super::text::{Nanoseconds, Quoted, Ratio, Seconds, Text, put};
use super::{http, json};
use core::fmt::{self, Display, Write};
use culm::observe::DomainState;

/// A metric of each element of a list: name, unit, type, help, and the sample's value.
struct Metric<T> {
    name: &'static str,
    kind: Kind,
    help: &'static str,
    value: fn(&T) -> Value,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    Counter,
    Gauge,
}

/// A sample's value; an absent one is left out.
enum Value {
    Absent,
    Count(u64),
    Seconds(super::snapshot::Ticks),
    Nanoseconds(u64),
    Ratio(super::snapshot::Fraction),
}

impl From<Option<Tally>> for Value {
    fn from(tally: Option<Tally>) -> Self {
        tally.map_or(Self::Absent, |tally| Self::Count(tally.total))
    }
}

impl Display for Value {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Absent => Ok(()),
            Self::Count(value) => value.fmt(formatter),
            Self::Seconds(ticks) => Seconds(*ticks).fmt(formatter),
            Self::Nanoseconds(nanoseconds) => Nanoseconds(*nanoseconds).fmt(formatter),
            Self::Ratio(share) => Ratio(*share).fmt(formatter),
        }
    }
}

const fn metric<T>(name: &'static str, kind: Kind, help: &'static str, value: fn(&T) -> Value) -> Metric<T> {
    Metric { name, kind, help, value }
}

use Kind::{Counter, Gauge};

const CORES: [Metric<Core>; 7] = [
    metric("core_load_ratio", Gauge, "Share of time in which the core was not idle.", |it| Value::Ratio(it.load)),
    metric("core_idle_seconds", Counter, "Time without anything to run.", |it| Value::Seconds(it.idle)),
    metric("core_interrupts", Counter, "Interrupts taken.", |it| Value::Count(it.interrupts.total)),
    metric("core_ipis_sent", Counter, "Inter-processor interrupts sent to other cores.", |it| {
        Value::Count(it.ipis_sent)
    }),
    // The old name of the one above; it goes with the version after 0.1.
    metric("core_signals_sent", Counter, "As core_ipis_sent, to be left out after Culm 0.1.", |it| {
        Value::Count(it.ipis_sent)
    }),
    metric("core_timer", Counter, "Timer expiries.", |it| Value::Count(it.timer)),
    metric("core_sleeps", Counter, "Times the core went to sleep.", |it| Value::Count(it.sleeps)),
];

const DOMAINS: [Metric<Domain>; 14] = [
    metric("component_cpu_ratio", Gauge, "Share of its core that it used.", |it| Value::Ratio(it.share)),
    metric("component_cpu_seconds", Counter, "Time that it has used.", |it| Value::Seconds(it.used)),
    metric("component_priority", Gauge, "Its priority.", |it| Value::Count(it.priority.into())),
    metric("component_budget_seconds", Gauge, "Time that it may use in each period.", |it| {
        it.budget.map_or(Value::Absent, |(budget, _)| Value::Nanoseconds(budget))
    }),
    metric("component_period_seconds", Gauge, "The period of its budget.", |it| {
        it.budget.map_or(Value::Absent, |(_, period)| Value::Nanoseconds(period))
    }),
    metric("component_up", Gauge, "1 unless it is faulted or stopped.", |it| {
        Value::Count(u64::from(it.state == DomainState::Alive))
    }),
    metric("component_system_calls", Counter, "System calls.", |it| Value::Count(it.system_calls)),
    metric("component_switches", Counter, "Times it left the core.", |it| Value::Count(it.switches)),
    metric("component_preemptions", Counter, "Times it was preempted.", |it| Value::Count(it.preemptions)),
    metric("component_throttles", Counter, "Times it was throttled: nobody had budget to pay for it.", |it| {
        Value::Count(it.throttles)
    }),
    metric("component_faults", Counter, "Faults.", |it| Value::Count(it.faults.into())),
    metric("component_restarts", Counter, "Restarts.", |it| Value::Count(it.restarts.into())),
    metric("component_packets", Counter, "Packets handled.", |it| it.packets().into()),
    metric("component_drops", Counter, "What was dropped or refused.", |it| it.drops().into()),
];

const QUEUES: [Metric<Queue>; 3] = [
    metric("queue_depth", Gauge, "Entries queued.", |it| Value::Count(it.depth.into())),
    metric("queue_capacity", Gauge, "Entries that the queue holds.", |it| Value::Count(it.capacity.into())),
    metric("queue_entries", Counter, "Entries that ever went in.", |it| Value::Count(it.entries.total)),
];

/// Writes the snapshot.
///
/// # Errors
///
/// If `into` does not take all of it.
pub fn render(snapshot: &Snapshot, into: &mut dyn Write) -> fmt::Result {
    let mut written = Text::new(into);
    let text = &mut written;
    put!(text, "# TYPE culm info\n# HELP culm What runs.\n");
    put!(text, "culm_info{{system={},board={}", Quoted(snapshot.system), Quoted(snapshot.board));
    put!(text, ",version={}}} 1\n", Quoted(env!("CARGO_PKG_VERSION")));
    put!(text, "# TYPE culm_uptime_seconds gauge\n# UNIT culm_uptime_seconds seconds\n");
    put!(text, "# HELP culm_uptime_seconds Time since the machine was switched on.\n");
    put!(text, "culm_uptime_seconds {}\n", Seconds(snapshot.uptime));
    for metric in &CORES {
        family(text, metric, &snapshot.cores, |text, index, _| put!(text, "core=\"{index}\""));
    }
    component_states(text, &snapshot.domains);
    for metric in &DOMAINS {
        family(text, metric, &snapshot.domains, |text, _, it| {
            put!(text, "component={},core=\"{}\"", Quoted(it.name), it.core);
        });
    }
    servers(text, &snapshot.domains);
    own_counters(text, &snapshot.domains);
    for metric in &QUEUES {
        family(text, metric, &snapshot.queues, |text, _, it| {
            put!(text, "queue={},producer={}", Quoted(it.name), Quoted(it.producer));
            put!(text, ",consumer={}", Quoted(it.consumer));
        });
    }
    put!(text, "# EOF\n");
    written.end()
}

/// One metric family: its description and a sample of each element, with the labels that `labels`
/// writes.
fn family<T>(text: &mut Text, metric: &Metric<T>, elements: &[T], labels: impl Fn(&mut Text, usize, &T)) {
    let Metric { name, kind, help, value } = metric;
    let (kind, suffix) = if *kind == Counter { ("counter", "_total") } else { ("gauge", "") };
    put!(text, "# TYPE culm_{name} {kind}\n");
    for unit in ["seconds", "ratio"] {
        if name.ends_with(unit) {
            put!(text, "# UNIT culm_{name} {unit}\n");
        }
    }
    put!(text, "# HELP culm_{name} {help}\n");
    for (index, element) in elements.iter().enumerate() {
        let value = value(element);
        if !matches!(value, Value::Absent) {
            put!(text, "culm_{name}{suffix}{{");
            labels(text, index, element);
            put!(text, "}} {value}\n");
        }
    }
}

/// Writes what each component is, and its state, as labels.
fn component_states(text: &mut Text, domains: &[Domain]) {
    put!(text, "# TYPE culm_component info\n# HELP culm_component What each protection domain runs, and its state.\n");
    for it in domains {
        put!(text, "culm_component_info{{component={},program={}", Quoted(it.name), Quoted(it.component));
        put!(text, ",core=\"{}\",passive=\"{}\",state=\"{}\"}} 1\n", it.core, it.passive, json::state(it.state));
    }
}

/// How HTTP fares: a family for each figure of the servers.
fn servers(text: &mut Text, domains: &[Domain]) {
    for http::Figure { name, counter, kind, help } in &http::FIGURES {
        let (kind, suffix) = if *kind == http::Kind::Count { ("counter", "_total") } else { ("gauge", "") };
        put!(text, "# TYPE culm_http_{name} {kind}\n# HELP culm_http_{name} {help}\n");
        for it in domains.iter().filter(|it| it.serves_http()) {
            put!(text, "culm_http_{name}{suffix}{{component={}}} {}\n", Quoted(it.name), it.counter(counter).total);
        }
    }
}

/// The counters that components name themselves. Some also fall, so their type is not said.
fn own_counters(text: &mut Text, domains: &[Domain]) {
    put!(text, "# TYPE culm_component_counter unknown\n");
    put!(text, "# HELP culm_component_counter A counter of the component's own.\n");
    for it in domains {
        for (name, tally) in &it.counters {
            put!(text, "culm_component_counter{{component={},counter={}}} ", Quoted(it.name), Quoted(name));
            put!(text, "{}\n", tally.total);
        }
    }
}
