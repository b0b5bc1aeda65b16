//! The router's state as JSON: what the page is drawn from, and what programs read.
//!
//! It is written to a text that does not grow: what has no room there is an error.

use crate::flows::{Busy, Flows};
use alloc::string::String;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering::Relaxed;
use culm::connection::{CounterName, Observation, ObservedDomain};
use culm_bridge::counts;
use culm_flow::{ICMP, ICMP6, SCTP, State, TCP, UDP};
use culm_report::Shown;

/// Bytes of JSON that all rules may take, and one more line; those behind are left out.
const RULES: usize = 192 << 10;

/// Letters of a rule's line that are shown.
const LINE: usize = 160;

/// A text that has so many bytes at most.
struct Bounded<'a> {
    text: &'a mut String,
    most: usize,
}

impl Write for Bounded<'_> {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        if part.len() > self.most.saturating_sub(self.text.len()) {
            return Err(fmt::Error);
        }
        self.text.push_str(part);
        Ok(())
    }
}

/// What there is to be shown.
#[derive(Clone, Copy, Default)]
pub(crate) struct Picture<'a> {
    /// When this is, in milliseconds since the machine was switched on.
    pub(crate) now: u64,
    pub(crate) shown: Option<&'a Shown>,
    pub(crate) flows: Option<&'a Flows>,
    pub(crate) ports: Option<&'a counts::View<'static>>,
    pub(crate) observation: Option<&'a Observation>,
}

/// Writes everything in place of `text`, `most` bytes at most. After an error a part is there.
pub(crate) fn write(text: &mut String, most: usize, picture: &Picture<'_>) -> fmt::Result {
    let Picture { now, shown, flows, ports, observation } = *picture;
    text.clear();
    let into = &mut Bounded { text, most };
    write!(into, "{{\"time_ms\":{now},\"rules\":")?;
    match shown {
        Some(shown) => rules(into, shown)?,
        None => into.write_str("null")?,
    }
    into.write_str(",\"flows\":")?;
    match flows {
        Some(flows) => self::flows(into, flows)?,
        None => into.write_str("null")?,
    }
    into.write_str(",\"ports\":")?;
    match ports {
        Some(ports) => ports.write_json(into)?,
        None => into.write_str("null")?,
    }
    into.write_str(",\"counters\":{")?;
    if let Some(observation) = observation {
        counters(into, observation)?;
    }
    into.write_str("}}\n")
}

fn rules(into: &mut Bounded<'_>, shown: &Shown) -> fmt::Result {
    let Shown { text, since, counts } = shown;
    write!(into, "{{\"proposed\":{},\"since_ms\":{},\"list\":[", since.is_proposed, since.time)?;
    let mut lines = text.lines().zip(1_u32..);
    let default = text.lines().map(str::trim).find(|line| line.starts_with("default")).unwrap_or("default deny");
    let begin = into.text.len();
    let mut left_out = 0;
    for (index, (line, count)) in counts.iter().enumerate() {
        let is_default = index + 1 == counts.len();
        // Rules stand in the order of their lines.
        let words = if is_default {
            default
        } else {
            lines.find_map(|(text, number)| (number == *line).then_some(text)).unwrap_or("?")
        };
        if into.text.len() - begin > RULES && !is_default {
            left_out += 1;
            continue;
        }
        write!(into, "{}{{\"line\":{line},\"packets\":{count},\"rule\":", if index == 0 { "" } else { "," })?;
        let words = words.trim();
        let cut = words.char_indices().nth(LINE).and_then(|(end, _)| words.get(..end)).unwrap_or(words);
        string_begun(into, cut)?;
        // What is left out is said to be.
        into.write_str(if cut.len() < words.len() { "…\"}" } else { "\"}" })?;
    }
    write!(into, "],\"left_out\":{left_out}}}")
}

fn flows(into: &mut impl Write, flows: &Flows) -> fmt::Result {
    let (count, capacity) = flows.count();
    write!(into, "{{\"count\":{count},\"capacity\":{capacity},\"busiest\":[")?;
    for (index, busy) in flows.busiest().iter().enumerate() {
        if index > 0 {
            into.write_char(',')?;
        }
        flow(into, busy)?;
    }
    into.write_str("]}")
}

fn flow(into: &mut impl Write, Busy { flow, rates }: &Busy) -> fmt::Result {
    let original = flow.original;
    into.write_str("{\"protocol\":\"")?;
    match original.protocol {
        TCP => into.write_str("tcp")?,
        UDP => into.write_str("udp")?,
        SCTP => into.write_str("sctp")?,
        ICMP => into.write_str("icmp")?,
        ICMP6 => into.write_str("icmp6")?,
        other => write!(into, "{other}")?,
    }
    write!(
        into,
        "\",\"source\":\"{}\",\"source_port\":{},\"destination\":\"{}\",\"destination_port\":{}",
        original.source, original.source_port, original.destination, original.destination_port
    )?;
    // As its other end has it.
    let seen = flow.reply.reversed();
    if seen != original {
        write!(
            into,
            ",\"translated\":{{\"source\":\"{}\",\"source_port\":{},\"destination\":\"{}\",\"destination_port\":{}}}",
            seen.source, seen.source_port, seen.destination, seen.destination_port
        )?;
    }
    let state = match flow.state {
        State::SynSent | State::SynReceived => "opening",
        State::Established => "open",
        State::Closing => "closing",
        State::Closed => "closed",
        State::OneWay => "unanswered",
        State::BothWays => "answered",
    };
    let ([packets, packets_back], [bytes, bytes_back], [rate, rate_back]) = (flow.packets, flow.bytes, *rates);
    write!(
        into,
        ",\"state\":\"{state}\",\"line\":{},\"packets\":[{packets},{packets_back}],\"bytes\":[{bytes},{bytes_back}],\
         \"bytes_per_second\":[{rate},{rate_back}]}}",
        flow.tag
    )
}

/// Writes the counters of all domains that have some.
fn counters(into: &mut impl Write, observation: &Observation) -> fmt::Result {
    let domains: &[ObservedDomain] = culm::start::list(observation.domains);
    let mut is_first = true;
    for domain in domains {
        let names: &[CounterName] = culm::start::list(domain.counter_names);
        let Some(counters) = culm::observe::counters(domain.counters).filter(|_| !names.is_empty()) else { continue };
        if !is_first {
            into.write_char(',')?;
        }
        is_first = false;
        string(into, culm::start::text(domain.name))?;
        into.write_str(":{")?;
        for (index, (name, value)) in names.iter().zip(&counters.values).enumerate() {
            if index > 0 {
                into.write_char(',')?;
            }
            string(into, culm::start::text(name.name))?;
            write!(into, ":{}", value.load(Relaxed))?;
        }
        into.write_char('}')?;
    }
    Ok(())
}

/// Writes a string of JSON (RFC 8259 §7).
fn string(into: &mut impl Write, text: &str) -> fmt::Result {
    string_begun(into, text)?;
    into.write_char('"')
}

/// Writes a string without its end.
fn string_begun(into: &mut impl Write, text: &str) -> fmt::Result {
    into.write_char('"')?;
    for letter in text.chars() {
        match letter {
            '"' | '\\' => write!(into, "\\{letter}")?,
            letter if letter < ' ' => write!(into, "\\u{:04x}", u32::from(letter))?,
            letter => into.write_char(letter)?,
        }
    }
    Ok(())
}
