//! A snapshot as JSON (RFC 8259), for programs.

use super::http;
use super::snapshot::{Core, Domain, Queue, Snapshot, Tally};
use super::text::{Nanoseconds, PerSecond, Quoted, Ratio, Seconds, Text, put};
use crate::crashes::Crash;
use core::fmt::{self, Display, Write};
use culm::observe::DomainState;

/// Writes the snapshot, as one object.
///
/// # Errors
///
/// If `into` does not take all of it.
pub fn render(snapshot: &Snapshot, into: &mut dyn Write) -> fmt::Result {
    let mut written = Text::new(into);
    let text = &mut written;
    put!(text, "{{\"system\":{},\"board\":{},", Quoted(snapshot.system), Quoted(snapshot.board));
    put!(text, "\"version\":{},", Quoted(env!("CARGO_PKG_VERSION")));
    put!(text, "\"uptime_seconds\":{},", Seconds(snapshot.uptime));
    put!(text, "\"window_seconds\":{},", Seconds(snapshot.window));
    list(text, "cores", &snapshot.cores, core);
    put!(text, ",");
    list(text, "components", &snapshot.domains, component);
    put!(text, ",");
    list(text, "queues", &snapshot.queues, queue);
    put!(text, ",");
    let servers = snapshot.domains.iter().filter(|it| it.serves_http());
    list(text, "http", servers, server);
    if let Some(crashes) = &snapshot.crashes {
        put!(text, ",");
        list(text, "crashes", crashes, crash);
    }
    put!(text, "}}\n");
    written.end()
}

fn list<'e, T: 'e>(
    text: &mut Text,
    name: &str,
    elements: impl IntoIterator<Item = &'e T>,
    mut render: impl FnMut(&mut Text, usize, &T),
) {
    put!(text, "\n\"{name}\":[");
    for (index, element) in elements.into_iter().enumerate() {
        put!(text, "{}", if index == 0 { "\n" } else { ",\n" });
        render(text, index, element);
    }
    put!(text, "]");
}

fn core(text: &mut Text, index: usize, core: &Core) {
    put!(text, "{{\"core\":{index},\"load\":{},\"idle_seconds\":{},", Ratio(core.load), Seconds(core.idle));
    put!(text, "\"interrupts\":{},\"ipis_sent\":{},", core.interrupts.total, core.ipis_sent);
    // The old name of `ipis_sent`; it goes with the version after 0.1.
    put!(text, "\"signals_sent\":{},", core.ipis_sent);
    put!(text, "\"timer\":{},\"sleeps\":{}}}", core.timer, core.sleeps);
}

fn component(text: &mut Text, _: usize, it: &Domain) {
    put!(text, "{{\"name\":{},\"component\":{},", Quoted(it.name), Quoted(it.component));
    put!(text, "\"core\":{},\"priority\":{},\"passive\":{},", it.core, it.priority, it.passive);
    let (budget, period) = (it.budget.map(|budget| budget.0), it.budget.map(|budget| budget.1));
    let seconds = |value: Option<u64>| OrNull(value.map(Nanoseconds));
    put!(text, "\"budget_seconds\":{},\"period_seconds\":{},", seconds(budget), seconds(period));
    put!(
        text,
        "\"state\":\"{}\",\"cpu_share\":{},\"cpu_seconds\":{},",
        state(it.state),
        Ratio(it.share),
        Seconds(it.used)
    );
    put!(text, "\"system_calls\":{},\"switches\":{},", it.system_calls, it.switches);
    put!(text, "\"preemptions\":{},\"throttles\":{},", it.preemptions, it.throttles);
    put!(text, "\"faults\":{},\"restarts\":{},", it.faults, it.restarts);
    let trouble = Some(it.trouble.as_str()).filter(|text| !text.is_empty());
    put!(text, "\"trouble\":{},", OrNull(trouble.map(Quoted)));
    let total = |tally: Option<Tally>| OrNull(tally.map(|tally| tally.total));
    put!(text, "\"packets\":{},\"drops\":{},\"counters\":{{", total(it.packets()), total(it.drops()));
    for (index, (name, tally)) in it.counters.iter().enumerate() {
        put!(text, "{}{}:{}", if index == 0 { "" } else { "," }, Quoted(name), tally.total);
    }
    put!(text, "}}}}");
}

fn queue(text: &mut Text, _: usize, queue: &Queue) {
    put!(text, "{{\"name\":{},\"producer\":{},", Quoted(queue.name), Quoted(queue.producer));
    put!(text, "\"consumer\":{},\"depth\":{},", Quoted(queue.consumer), queue.depth);
    put!(text, "\"capacity\":{},\"total\":{}}}", queue.capacity, queue.entries.total);
}

fn server(text: &mut Text, _: usize, it: &Domain) {
    put!(text, "{{\"name\":{}", Quoted(it.name));
    for http::Figure { name, counter, kind, .. } in &http::FIGURES {
        let tally = it.counter(counter);
        put!(text, ",\"{name}\":{}", tally.total);
        if *kind == http::Kind::Count {
            put!(text, ",\"{name}_per_second\":{}", PerSecond(tally.rate));
        }
    }
    put!(text, "}}");
}

fn crash(text: &mut Text, _: usize, it: &Crash) {
    put!(text, "{{\"name\":{},\"modified\":{},\"text\":{}}}", Quoted(&it.name), it.modified, Quoted(&it.text));
}

/// Returns the state's name, here and on the page.
pub fn state(state: DomainState) -> &'static str {
    match state {
        DomainState::Alive => "alive",
        DomainState::Faulted => "faulted",
        DomainState::Stopped => "stopped",
    }
}

struct OrNull<T>(Option<T>);

impl<T: Display> Display for OrNull<T> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.0 {
            Some(value) => value.fmt(formatter),
            None => formatter.write_str("null"),
        }
    }
}
