//! A snapshot as the page for people: complete as it is sent, so that it needs no script.
//!
//! The page's frame is `page/page.html`, with `{{name}}` where a part goes. Its script fetches the
//! same page each second and puts what changed into place: a number is written in one place only,
//! here. What the script draws as a chart, it finds in the attribute `data-value`; charts of one
//! `data-group` have one scale.

use super::figures::{Bytes, Count, Escaped, PerSecond, Percent, Short, Span, class};
use super::json;
use super::snapshot::{Core, Domain, Fraction, Queue, Rate, Snapshot, Tally};
use super::text::{self, Ratio, Text, put};
use crate::crashes::{Crash, SHOWN};
use core::fmt::{self, Display, Write};
use culm::observe::DomainState;

/// The page without its figures.
const FRAME: &str = include_str!("page/page.html");

/// Bytes of a crash report's first line that are shown while it is closed.
const SUMMARY: usize = 240;

/// Writes the page.
///
/// # Errors
///
/// If `into` does not take all of it.
pub fn render(snapshot: &Snapshot, into: &mut dyn Write) -> fmt::Result {
    let mut written = Text::new(into);
    let text = &mut written;
    let mut pieces = FRAME.split("{{");
    put!(text, "{}", pieces.next().unwrap_or_default());
    for piece in pieces {
        let (name, rest) = piece.split_once("}}").unwrap_or((piece, ""));
        part(text, name, snapshot);
        put!(text, "{rest}");
    }
    written.end()
}

/// The part of this name. The frame is a part of this program, so it names no other.
fn part(text: &mut Text, name: &str, snapshot: &Snapshot) {
    match name {
        "system" => put!(text, "{}", Escaped(snapshot.system)),
        "board" => put!(text, "{}", Escaped(snapshot.board)),
        "version" => put!(text, env!("CARGO_PKG_VERSION")),
        "uptime" => put!(text, "{}", Span(snapshot.uptime)),
        "window" => put!(text, "{}", Span(snapshot.window)),
        "count" => put!(text, "{}", snapshot.domains.len()),
        "servers" => snapshot.domains.iter().filter(|it| it.serves_http()).for_each(|it| server(text, it)),
        "cores" => snapshot.cores.iter().enumerate().for_each(|(index, it)| core(text, index, it)),
        "components" => snapshot.domains.iter().for_each(|it| component(text, it)),
        "counters" => snapshot.domains.iter().for_each(|it| counters(text, it)),
        "crashes" => snapshot.crashes.iter().for_each(|it| crashes(text, it)),
        "queues" => snapshot.queues.iter().for_each(|it| queue(text, it)),
        _ => debug_assert!(false, "the frame names a part that there is not: {name}"),
    }
}

/// Where the script draws what `value` was.
fn chart(text: &mut Text, group: impl Display, value: impl Display, of_shares: bool) {
    put!(text, "<svg class=\"chart\" data-group=\"{group}\" data-value=\"{value}\"");
    put!(text, "{}", if of_shares { " data-share" } else { "" });
    put!(text, " viewBox=\"0 0 100 30\" preserveAspectRatio=\"none\" aria-hidden=\"true\"></svg>");
}

/// How HTTP fares at a web server.
fn server(text: &mut Text, it: &Domain) {
    let [requests, errors, bytes] = ["requests", "errors", "bytes"].map(|name| it.counter(name));
    let [open, connections, evicted] = ["open", "connections", "evicted"].map(|name| it.counter(name));
    let [attempts, refused] = ["attempts", "attempts_refused"].map(|name| it.counter(name));
    let [timeouts, resets] = ["timeouts", "resets"].map(|name| it.counter(name));
    put!(text, "<section><h2>HTTP<small>{}</small></h2><div class=\"tiles\">", Escaped(it.name));
    let tile = |text: &mut Text, title: &str, value: &dyn Display, class: &str, curve: &dyn Display| {
        put!(text, "<section class=\"card tile\"><h3>{title}</h3><b class=\"{class}\">{value}</b>");
        chart(text, format_args!("{} {title}", Escaped(it.name)), curve, false);
    };
    let rate = |rate| (PerSecond(rate), text::PerSecond(rate));
    let (value, curve) = rate(requests.rate);
    tile(text, "Requests", &value, "", &curve);
    put!(text, "<p>{} in all, {} with an error</p></section>", Count(requests.total), Count(errors.total));
    tile(text, "Open connections", &Count(open.total), "", &open.total);
    put!(text, "<p>{} new, {} in all</p></section>", PerSecond(connections.rate), Count(connections.total));
    let (value, curve) = rate(refused.rate);
    tile(text, "Refused", &value, class(refused), &curve);
    put!(text, "<p>{} in all; {} attempts</p></section>", Count(refused.total), PerSecond(attempts.rate));
    let (value, curve) = rate(evicted.rate);
    tile(text, "Evicted", &value, class(evicted), &curve);
    put!(text, "<p>{} in all, {} timed out, ", Count(evicted.total), Count(timeouts.total));
    put!(text, "{} reset</p></section>", Count(resets.total));
    let sent = Bytes(bytes.rate.0 / 1000);
    tile(text, "Sent", &format_args!("{sent}/s"), "", &text::PerSecond(bytes.rate));
    put!(text, "<p>{} in all</p></section></div></section>", Bytes(bytes.total));
}

fn core(text: &mut Text, index: usize, it: &Core) {
    put!(text, "<section class=\"card tile\"><h3>Core {index}</h3><b>{}</b>", Percent(it.load));
    put!(text, "<small class=\"scale\"></small>");
    chart(text, format_args!("core {index}"), Ratio(it.load), true);
    put!(text, "<p>{} interrupts</p></section>", PerSecond(it.interrupts.rate));
}

fn component(text: &mut Text, it: &Domain) {
    put!(text, "<tr role=\"row\"><th role=\"rowheader\" scope=\"row\">{} ", Escaped(it.name));
    put!(
        text,
        "<span class=\"chip\">{}</span>",
        if it.state == DomainState::Alive { "" } else { json::state(it.state) }
    );
    put!(text, "<small class=\"sub\">{}", Escaped(it.component));
    put!(text, "{}<span class=\"narrow\">", if it.passive { ", passive" } else { "" });
    put!(text, ", core {}, priority {}</span></small>", it.core, it.priority);
    put!(text, "<small class=\"trouble\">{}</small></th>", Escaped(&it.trouble));
    put!(text, "<td role=\"cell\" class=\"wide\"><div class=\"cpu\"><span>{}</span>", Percent(it.share));
    bar(text, it.share);
    chart(text, "components", Ratio(it.share), false);
    put!(text, "</div></td>");
    cell(text, "Core", "", it.core, "");
    cell(text, "Priority", "", it.priority, "");
    match it.budget {
        Some((budget, period)) => cell(text, "Budget", "", Short(budget), format_args!("per {}", Short(period))),
        None => cell(text, "Budget", "zero", "none", ""),
    }
    match it.packets() {
        Some(Tally { total, rate }) => {
            cell(text, "Packets", "", PerSecond(rate), format_args!("{} in all", Count(total)));
        }
        None => cell(text, "Packets", "zero", "–", ""),
    }
    match (it.drops(), it.main_drop()) {
        (Some(all), Some((name, Tally { rate: rate @ Rate(1..), .. }))) => {
            let explanation = format_args!("{} {}", Escaped(name), PerSecond(rate));
            cell(text, "Drops", class(all), Count(all.total), explanation);
        }
        (Some(all), Some((name, _))) => cell(text, "Drops", class(all), Count(all.total), Escaped(name)),
        (Some(all), None) => cell(text, "Drops", class(all), Count(all.total), ""),
        (None, _) => cell(text, "Drops", "zero", "–", ""),
    }
    cell(text, "Restarts", if it.restarts > 0 { "warn" } else { "zero" }, it.restarts, "");
    put!(text, "</tr>\n");
}

/// A cell with a number and what explains it, and the column's name for screens too narrow for
/// columns.
fn cell(text: &mut Text, label: &str, class: &str, value: impl Display, explanation: impl Display) {
    put!(text, "<td role=\"cell\" class=\"number\" data-label=\"{label}\"><span class=\"{class}\">{value}</span>");
    put!(text, "<small class=\"sub\">{explanation}</small></td>");
}

/// A bar that is full to this share; as soon as there is any, some of it shows.
fn bar(text: &mut Text, share: Fraction) {
    let tenths = match share.0 {
        0 => 0,
        millionths => (millionths / 1000).max(12),
    };
    put!(text, "<div class=\"bar\"><i style=\"width:{}.{}%\"></i></div>", tenths / 10, tenths % 10);
}

fn counters(text: &mut Text, it: &Domain) {
    if it.counters.is_empty() {
        return;
    }
    put!(text, "<section><h3>{}</h3><dl>", Escaped(it.name));
    for (name, Tally { total, rate }) in &it.counters {
        put!(text, "<div><dt>{}</dt><dd>{total}<small>", Escaped(name));
        if rate.0 > 0 {
            put!(text, "{}", PerSecond(*rate));
        }
        put!(text, "</small></dd></div>");
    }
    put!(text, "</dl></section>\n");
}

fn queue(text: &mut Text, it: &Queue) {
    let value = format_args!("{} of {}, {}", it.depth, it.capacity, PerSecond(it.entries.rate));
    put!(text, "<li{}>", if it.name.contains("free") { " class=\"spare\"" } else { "" });
    put!(text, "<div class=\"row\"><b>{}</b><span class=\"value\">{value}</span></div>", Escaped(it.name));
    bar(text, Fraction::of(it.depth.into(), it.capacity.into()));
    put!(text, "<small class=\"sub\">{} → {}</small></li>\n", Escaped(it.producer), Escaped(it.consumer));
}

/// The crash reports, each behind its first line.
fn crashes(text: &mut Text, all: &[Crash]) {
    put!(text, "<section id=\"crashes\"><h2>Crash reports<small>the newest {SHOWN} that are kept</small></h2>");
    if all.is_empty() {
        put!(text, "<p>There are none.</p>");
    }
    for it in all {
        let first = it.text.lines().next().unwrap_or_default();
        let first = &first[..first.floor_char_boundary(SUMMARY)];
        put!(text, "<details class=\"card report\"><summary>{}</summary>", Escaped(first));
        put!(text, "<p>{}</p><pre>{}</pre></details>\n", Escaped(&it.name), Escaped(&it.text));
    }
    put!(text, "</section>");
}
