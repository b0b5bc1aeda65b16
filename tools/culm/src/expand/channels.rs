//! `[[channel]]`: who may notify and who may call whom.
//!
//! A call runs the callee in the caller's place, so it must go to a higher priority on the same
//! core: then no domain ever waits for one of lower priority, and no two can wait for each other.

use super::draft::{Channel, ChannelEnd, Draft};
use crate::description::system::ChannelTable;
use culm_manifest::{ConnectionKind, Located};
use std::collections::BTreeSet;

/// Resolves the channels and checks the calls.
pub fn resolve(draft: &mut Draft<'_>) {
    let file = draft.file;
    for table in &file.channels {
        if let Some(channel) = resolve_channel(draft, table) {
            draft.channels.push(channel);
        }
    }
    let on_cycle = check_cycles(draft);
    check_calls(draft, &on_cycle);
    check_passive(draft);
}

fn resolve_channel(draft: &mut Draft<'_>, table: &ChannelTable) -> Option<Channel> {
    let first = draft.end(&table.ends[0], ConnectionKind::of::<culm_abi::connection::Channel>());
    let second = draft.end(&table.ends[1], ConnectionKind::of::<culm_abi::connection::Channel>());
    let names = [&table.ends[0].value.0, &table.ends[1].value.0];
    let may_call = table.call.as_ref().and_then(|call| side(draft, table, call));
    let may_notify: Option<Vec<Option<usize>>> =
        table.notify.as_ref().map(|notify| notify.iter().map(|name| side(draft, table, name)).collect());
    let ends = [first?, second?];
    if names[0] == names[1] {
        let diagnostic = draft
            .at(&table.ends[1].span, format!("both ends of the channel are in `{}`", names[0]))
            .help("a channel connects two protection domains");
        draft.error(diagnostic);
        return None;
    }
    let end = |index: usize| {
        let (domain, slot, connection) = ends[index];
        let other = ends[1 - index].0;
        let notify = match &may_notify {
            Some(sides) => sides.contains(&Some(index)),
            // A passive domain is called, not notified.
            None => !draft.domains[other].passive,
        };
        ChannelEnd { domain, slot, connection: connection.name.clone(), notify, call: may_call == Some(index) }
    };
    let channel = Channel { table: table.clone(), ends: [end(0), end(1)] };
    if !channel.ends.iter().any(|end| end.notify || end.call) {
        let diagnostic = draft
            .at(&table.span, "nobody may use this channel")
            .help("let one end notify or call: `notify = [\"…\"]`, `call = \"…\"`");
        draft.error(diagnostic);
    }
    Some(channel)
}

/// Which end a name in `call` or `notify` means: 0 or 1.
fn side(draft: &mut Draft<'_>, table: &ChannelTable, name: &Located<String>) -> Option<usize> {
    let found = table.ends.iter().position(|end| {
        let (domain, connection) = &end.value;
        name.value == *domain || name.value == format!("{domain}.{connection}")
    });
    if found.is_none() {
        let names = [&table.ends[0].value.0, &table.ends[1].value.0];
        let diagnostic = draft
            .at(&name.span, format!("`{}` is no end of this channel", name.value))
            .help(format!("its ends are `{}` and `{}`", names[0], names[1]));
        draft.error(diagnostic);
    }
    found
}

/// Every permission to call, as (channel, calling end).
fn calls<'d>(draft: &'d Draft<'_>) -> impl Iterator<Item = (usize, usize)> + 'd {
    let sides = |index: usize| [(index, 0), (index, 1)];
    (0..draft.channels.len()).flat_map(sides).filter(|(channel, end)| draft.channels[*channel].ends[*end].call)
}

/// Reports each cycle of calls once; returns the channels on one.
fn check_cycles(draft: &mut Draft<'_>) -> BTreeSet<usize> {
    let edges: Vec<(usize, usize, usize)> = calls(draft)
        .map(|(channel, end)| {
            let ends = &draft.channels[channel].ends;
            (ends[end].domain, ends[1 - end].domain, channel)
        })
        .collect();
    let mut on_cycle = BTreeSet::new();
    let mut found = Vec::new();
    for &(from, to, channel) in &edges {
        if on_cycle.contains(&channel) {
            continue;
        }
        let Some(path) = path(&edges, to, from) else { continue };
        let mut names = vec![draft.domains[from].name.value.as_str()];
        names.extend(path.iter().map(|edge| draft.domains[edges[*edge].0].name.value.as_str()));
        names.push(names[0]);
        on_cycle.insert(channel);
        on_cycle.extend(path.iter().map(|edge| edges[*edge].2));
        let mut diagnostic = draft
            .at(&draft.channels[channel].table.span, format!("a cycle of calls: `{}`", names.join("` calls `")))
            .help("each would wait for the next for ever; let one of them notify instead");
        for edge in path {
            let table = &draft.channels[edges[edge].2].table;
            diagnostic = diagnostic.related(draft.source, table.span.clone(), "and this call");
        }
        found.push(diagnostic);
    }
    for diagnostic in found {
        draft.error(diagnostic);
    }
    on_cycle
}

/// A shortest path along edges (from, to, what makes it), as positions in `edges`.
pub fn path(edges: &[(usize, usize, usize)], from: usize, to: usize) -> Option<Vec<usize>> {
    let mut seen = BTreeSet::from([from]);
    let mut paths = vec![(from, Vec::new())];
    while let Some((at, path)) = (!paths.is_empty()).then(|| paths.remove(0)) {
        if at == to {
            return Some(path);
        }
        for (index, edge) in edges.iter().enumerate().filter(|(_, edge)| edge.0 == at) {
            if seen.insert(edge.1) {
                let mut longer: Vec<usize> = path.clone();
                longer.push(index);
                paths.push((edge.1, longer));
            }
        }
    }
    None
}

fn check_calls(draft: &mut Draft<'_>, on_cycle: &BTreeSet<usize>) {
    let mut found = Vec::new();
    for (index, end) in calls(draft) {
        let channel = &draft.channels[index];
        let caller = &draft.domains[channel.ends[end].domain];
        let callee = &draft.domains[channel.ends[1 - end].domain];
        let span = channel.table.call.as_ref().map_or(&channel.table.span, |call| &call.span);
        if caller.core != callee.core {
            let message = format!(
                "a call across cores: `{}` is on core {}, `{}` on core {}",
                caller.name.value, caller.core, callee.name.value, callee.core
            );
            found.push(
                draft.at(span, message).help(
                    "a call runs the callee in the caller's place; put both on one core, or notify and use a queue",
                ),
            );
        } else if callee.priority <= caller.priority && !on_cycle.contains(&index) {
            let message = format!(
                "a call against priority: `{}` has {}, `{}` has {}",
                caller.name.value, caller.priority, callee.name.value, callee.priority
            );
            found.push(draft.at(span, message).related(draft.source, callee.name.span.clone(), "the callee").help(
                format!(
                    "a call goes to a higher priority, so that nobody waits for someone less urgent: \
                         give `{}` more than {}",
                    callee.name.value, caller.priority
                ),
            ));
        }
    }
    for diagnostic in found {
        draft.error(diagnostic);
    }
}

/// A passive domain must be called by somebody, and must not be notified.
fn check_passive(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    for (index, domain) in draft.domains.iter().enumerate().filter(|(_, domain)| domain.passive) {
        let mut called = false;
        for channel in &draft.channels {
            for (end, other) in [(0, 1), (1, 0)] {
                if channel.ends[end].domain != index {
                    continue;
                }
                called |= channel.ends[other].call;
                if channel.ends[other].notify {
                    let peer = &draft.domains[channel.ends[other].domain].name.value;
                    found.push(
                        draft
                            .at(
                                &channel.table.span,
                                format!("`{}` is passive: `{peer}` may not notify it", domain.name.value),
                            )
                            .related(draft.source, domain.name.span.clone(), "passive")
                            .help("a passive domain runs when it is called; leave it out of `notify`'s receivers"),
                    );
                }
            }
        }
        let table = draft.file.domains.iter().find(|table| table.name == domain.name);
        let channels = draft.file.channels.iter().flat_map(|table| &table.ends);
        let is_mentioned = channels.clone().any(|end| end.value.0 == domain.name.value);
        // A channel that could not be resolved may have been the call: that has been reported.
        let may_be_called = is_mentioned && !draft.diagnostics.is_empty();
        if !called && !may_be_called {
            let span =
                table.and_then(|table| table.passive.as_ref()).map_or(&domain.name.span, |passive| &passive.span);
            found.push(
                draft
                    .at(span, format!("`{}` is passive, but nobody calls it", domain.name.value))
                    .help("it would never run; add a `[[channel]]` with `call`, or leave out `passive`"),
            );
        }
    }
    for diagnostic in found {
        draft.error(diagnostic);
    }
}
