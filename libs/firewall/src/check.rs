//! Rules against each other: what hides what, what collides, what can never happen.

use crate::rule::{Action, Forward, Lender, Match, Nat, Rule, RuleSet};
use crate::zone::ZoneSet;
use crate::{Addresses, MAX_PROBLEMS, Problem, Ranges};
use alloc::format;
use alloc::vec::Vec;
use core::ops::Range;

/// A rule of any kind.
trait Placed {
    fn matching(&self) -> &Match;
    fn line(&self) -> u32;
    fn span(&self) -> Range<usize>;
}

macro_rules! placed {
    ($($kind:ty),*) => { $(
        impl Placed for $kind {
            fn matching(&self) -> &Match {
                &self.matching
            }
            fn line(&self) -> u32 {
                self.line
            }
            fn span(&self) -> Range<usize> {
                self.span.clone()
            }
        }
    )* };
}

placed!(Rule, Nat, Forward);

/// Returns what is wrong with the rules of a set when they are taken together, in the order of
/// their lines.
pub fn rules(set: &RuleSet) -> Vec<Problem> {
    let mut problems = Vec::new();
    hidden(&set.rules, &mut problems);
    hidden(&set.nats, &mut problems);
    for (index, nat) in set.nats.iter().enumerate() {
        let earlier = set.nats.iter().take(index).find(|earlier| shares_part(earlier, nat));
        problems.extend(earlier.map(|earlier| {
            let message =
                format!("this NAT gives some of the addresses and ports of line {}, and others", earlier.line);
            Problem::new(nat.span(), message)
                .related(earlier.span(), "the other")
                .help("give both all the same, or nothing in common")
        }));
    }
    for (index, forward) in set.forwards.iter().enumerate() {
        problems.extend(forwarding(set, index, forward));
    }
    problems.sort_by_key(|problem| problem.span.start);
    problems
}

/// Looks for rules of which each packet is taken by an earlier one.
fn hidden<T: Placed>(rules: &[T], problems: &mut Vec<Problem>) {
    for (index, rule) in rules.iter().enumerate() {
        let hides = |earlier: &&T| earlier.matching().covers(rule.matching());
        if let Some(earlier) = rules.iter().take(index).find(hides) {
            let line = earlier.line();
            let problem =
                Problem::new(rule.span(), format!("no packet comes to this rule: line {line} takes them all"));
            let problem = problem.related(earlier.span(), "the rule that hides it");
            problems.push(problem.help(format!("put it before line {line}, or leave it out")));
        }
        if problems.len() >= MAX_PROBLEMS {
            return;
        }
    }
}

/// Returns whether two NATs lend some of the same addresses and ports, but not all the same.
fn shares_part(one: &Nat, other: &Nat) -> bool {
    if (one.to, one.ports) == (other.to, other.ports) || !meet(one.ports, other.ports) {
        return false;
    }
    match (one.to, other.to) {
        (Lender::Own, Lender::Own) => one.matching.exits.meets(other.matching.exits),
        (Lender::Range(first, last), Lender::Range(begin, end)) => meet((first, last), (begin, end)),
        _ => false,
    }
}

fn meet<T: Ord>((first, last): (T, T), (begin, end): (T, T)) -> bool {
    first <= end && begin <= last
}

/// Looks for what is wrong with one forwarding.
fn forwarding(set: &RuleSet, index: usize, forward: &Forward) -> Option<Problem> {
    let earlier = set.forwards.iter().take(index);
    if let Some(other) = earlier.clone().find(|other| other.matching.covers(&forward.matching)) {
        let message = format!("line {} forwards the same ports already", other.line);
        return Some(
            Problem::new(forward.span(), message).related(other.span(), "the other").help("leave one of them"),
        );
    }
    let collides = |other: &&Forward| {
        other.matching.meets(&forward.matching) && other.matching.sources == forward.matching.sources
    };
    if let Some(other) = earlier.clone().find(collides) {
        let message = format!("line {} forwards some of these ports already", other.line);
        return Some(
            Problem::new(forward.span(), message).related(other.span(), "the other").help("forward each port once"),
        );
    }
    if let Some(nat) = set.nats.iter().find(|nat| lends(nat, forward)) {
        let message = format!("the NAT of line {} may give this port to another connection", nat.line);
        let problem = Problem::new(forward.span(), message).related(nat.span(), "the NAT");
        return Some(problem.help("give that NAT `ports` among which this one is not"));
    }
    if passes(set, forward) {
        return None;
    }
    let problem = Problem::new(forward.span(), "no rule allows what this forwards");
    Some(problem.help(format!("add an `allow` rule for packets to {}; it sees the new address and port", forward.to)))
}

/// Returns whether a NAT may use a port that is forwarded.
fn lends(nat: &Nat, forward: &Forward) -> bool {
    let is_own = forward.matching.exits == ZoneSet::EMPTY.with(crate::Zone::SELF);
    let addresses_meet = match nat.to {
        Lender::Own => is_own,
        Lender::Range(first, last) => {
            !is_own && forward.matching.destinations.v4.meets(&Ranges::new(Vec::from([(first.into(), last.into())])))
        }
    };
    let ports = Ranges::new(Vec::from([nat.ports]));
    addresses_meet
        && nat.matching.exits.meets(forward.matching.entries)
        && nat.matching.protocols.meets(&forward.matching.protocols, crate::Family::V4)
        && ports.meets(&forward.matching.destination_ports)
}

/// Returns whether something that is forwarded may pass the filter: the default allows it, or a
/// rule does that no earlier one hides from it.
fn passes(set: &RuleSet, forward: &Forward) -> bool {
    let to = Ranges::new(Vec::from([(forward.to.into(), forward.to.into())]));
    let mut forwarded = forward.matching.clone();
    forwarded.exits = ZoneSet::ALL;
    forwarded.destinations = Addresses { v4: to, v6: Ranges::EMPTY };
    if let Some(port) = forward.port {
        forwarded.destination_ports = Ranges::new(Vec::from([(port, port)]));
    }
    for rule in &set.rules {
        if rule.outcome.action == Action::Allow && rule.matching.meets(&forwarded) {
            return true;
        }
        if rule.matching.covers(&forwarded) {
            return false;
        }
    }
    set.default.action == Action::Allow
}
