//! Rules as those of nftables, for who wants to compare, or to have Linux do the same.

use crate::rule::{Action, Family, Forward, Lender, Match, Nat, Outcome, Protocols, RuleSet, protocol};
use crate::zone::{Zone, ZoneSet};
use crate::{Addresses, Number, Ranges, values};
use alloc::format;
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt::{self, Display, Write};
use core::net::{Ipv4Addr, Ipv6Addr};

/// A chain of the filter: nftables has one for each way through the router.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Hook {
    /// To the router itself.
    Input,
    /// Through it.
    Forward,
    /// From the router itself.
    Output,
}

/// The protocols with ports, which nftables wants named where it changes ports.
const WITH_PORTS: [(&str, u8); 3] = [("tcp", protocol::TCP), ("udp", protocol::UDP), ("sctp", protocol::SCTP)];

/// Writes `rules` as a file for `nft -f`, in the tables `inet culm` and, for NAT and forwarding,
/// `ip culm_nat`. Each zone is the interface of its name. The comment of each rule of nftables
/// names the line that it was; one line can be several.
///
/// Connections are let pass by nftables' tracking unless `every_packet`: then each packet is asked
/// about by itself, as if it were the first of a connection.
///
/// # Errors
///
/// If `out` fails.
pub fn nftables(rules: &RuleSet, every_packet: bool, out: &mut impl Write) -> fmt::Result {
    out.write_str("table inet culm {\n")?;
    for (hook, name) in [(Hook::Input, "input"), (Hook::Forward, "forward"), (Hook::Output, "output")] {
        let policy = if rules.default.action == Action::Allow { "accept" } else { "drop" };
        writeln!(out, "\tchain {name} {{\n\t\ttype filter hook {name} priority filter; policy {policy};")?;
        match hook {
            Hook::Input => out.write_str("\t\tiifname \"lo\" accept\n")?,
            Hook::Output => out.write_str("\t\toifname \"lo\" accept\n")?,
            Hook::Forward => {}
        }
        if !every_packet {
            out.write_str("\t\tct state established,related accept\n\t\tct state invalid drop\n")?;
        }
        for rule in &rules.rules {
            let Some(zones) = zones(rules, &rule.matching, hook) else { continue };
            for words in lines(&rule.matching) {
                outcome(out, &format!("{zones}{words}"), rule.outcome, &rule.matching.protocols, &line(rule.line))?;
            }
        }
        outcome(out, "", rules.default, &Protocols::ALL, "default")?;
        out.write_str("\t}\n")?;
    }
    out.write_str("}\n")?;
    if rules.nats.is_empty() && rules.forwards.is_empty() {
        return Ok(());
    }
    out.write_str("table ip culm_nat {\n\tchain prerouting {\n")?;
    out.write_str("\t\ttype nat hook prerouting priority dstnat; policy accept;\n")?;
    rules.forwards.iter().try_for_each(|rule| forward(out, rules, rule))?;
    out.write_str("\t}\n\tchain postrouting {\n\t\ttype nat hook postrouting priority srcnat; policy accept;\n")?;
    rules.nats.iter().try_for_each(|rule| nat(out, rules, rule))?;
    out.write_str("\t}\n}\n")
}

fn line(number: u32) -> String {
    format!("line {number}")
}

/// Writes one rule of the filter.
fn outcome(out: &mut impl Write, words: &str, outcome: Outcome, protocols: &Protocols, comment: &str) -> fmt::Result {
    let log = if outcome.logs { "log " } else { "" };
    let mut rule = |condition: &str, verdict: &str| {
        writeln!(out, "\t\t{words}{condition}{log}counter {verdict} comment \"{comment}\"")
    };
    match outcome.action {
        Action::Allow => rule("", "accept"),
        Action::Deny => rule("", "drop"),
        Action::Reject => {
            if Family::ALL.into_iter().any(|family| protocols.contains(family, protocol::TCP)) {
                rule("meta l4proto tcp ", "reject with tcp reset")?;
            }
            rule("", "reject with icmpx admin-prohibited")
        }
    }
}

/// Returns the conditions on interfaces by which a rule stands in the chain of `hook`, or `None` if
/// it does not stand there.
fn zones(rules: &RuleSet, matching: &Match, hook: Hook) -> Option<String> {
    let has_self = |set: ZoneSet| set.contains(Zone::SELF);
    let entry = match hook {
        Hook::Output => has_self(matching.entries).then(String::new),
        _ => interfaces(rules, "iifname", matching.entries),
    }?;
    let exit = match hook {
        Hook::Input => has_self(matching.exits).then(String::new),
        _ => interfaces(rules, "oifname", matching.exits),
    }?;
    Some(entry + &exit)
}

/// Returns the condition that an interface is one of these zones', or `None` if there is none.
fn interfaces(rules: &RuleSet, key: &str, set: ZoneSet) -> Option<String> {
    if set == ZoneSet::ALL {
        return Some(String::new());
    }
    let names = rules.zones.all().filter(|zone| *zone != Zone::SELF && set.contains(*zone));
    let names: Vec<String> = names.map(|zone| format!("\"{}\"", rules.zones.name(zone))).collect();
    if names.is_empty() { None } else { Some(format!("{key} {{ {} }} ", names.join(", "))) }
}

/// Returns the further conditions of a rule: once if it does not depend on the family, else once
/// for each family that it is about.
fn lines(matching: &Match) -> Vec<String> {
    let is_of_any = matching.sources.is_all() && matching.destinations.is_all();
    if is_of_any && matching.protocols.is_same_over_both() {
        return Vec::from([conditions(matching, Family::V4, "")]);
    }
    let of = |family| {
        let name = if family == Family::V4 { "meta nfproto ipv4 " } else { "meta nfproto ipv6 " };
        matching.has(family).then(|| conditions(matching, family, name))
    };
    Family::ALL.into_iter().filter_map(of).collect()
}

/// Returns what a packet of `family` must be, behind `start`.
fn conditions(matching: &Match, family: Family, start: &str) -> String {
    let mut words = String::from(start);
    let numbers: Vec<String> = (0..=u8::MAX)
        .filter(|number| matching.protocols.contains(family, *number))
        .map(|number| number.to_string())
        .collect();
    if numbers.len() <= usize::from(u8::MAX) {
        words += &format!("meta l4proto {{ {} }} ", numbers.join(", "));
    }
    let address = |key: &str, set: &Addresses| match family {
        Family::V4 => condition(&format!("ip {key}"), &set.v4, |number| Ipv4Addr::from(*number)),
        Family::V6 => condition(&format!("ip6 {key}"), &set.v6, |number| Ipv6Addr::from(*number)),
    };
    words += &address("saddr", &matching.sources);
    words += &address("daddr", &matching.destinations);
    words += &condition("th sport", &matching.source_ports, |port| *port);
    let is_only = |number: u8| matching.protocols.only(family) == Protocols::EMPTY.with(family, number);
    let key = match family {
        Family::V4 if is_only(protocol::ICMP) => "icmp type",
        Family::V6 if is_only(protocol::ICMPV6) => "icmpv6 type",
        _ => "th dport",
    };
    words + &condition(key, &matching.destination_ports, |port| *port)
}

/// Returns the condition that a value is in a set, unless every value is.
fn condition<T: Number, D: Display>(key: &str, set: &Ranges<T>, show: impl Fn(&T) -> D) -> String {
    if set.is_all() {
        return String::new();
    }
    let part = |(first, last): &(T, T)| match first == last {
        true => show(first).to_string(),
        false => format!("{}-{}", show(first), show(last)),
    };
    let parts: Vec<String> = set.parts().iter().map(part).collect();
    format!("{key} {{ {} }} ", parts.join(", "))
}

/// Writes a forwarding, once for each of its protocols.
fn forward(out: &mut impl Write, rules: &RuleSet, forward: &Forward) -> fmt::Result {
    let matching = &forward.matching;
    let mut words = interfaces(rules, "iifname", matching.entries).unwrap_or_default();
    if matching.exits == ZoneSet::EMPTY.with(Zone::SELF) {
        words += "fib daddr type local ";
    }
    let port = forward.port.map_or(String::new(), |port| format!(":{port}"));
    for (name, number) in WITH_PORTS {
        if matching.protocols.contains(Family::V4, number) {
            let own = Match { protocols: Protocols::EMPTY.with(Family::V4, number), ..matching.clone() };
            let conditions = conditions(&own, Family::V4, "").replacen(&format!("{{ {number} }}"), name, 1);
            let (to, comment) = (forward.to, line(forward.line));
            writeln!(out, "\t\t{words}{conditions}counter dnat to {to}{port} comment \"{comment}\"")?;
        }
    }
    Ok(())
}

/// Writes a NAT, once for each of its protocols that have ports, and for the others.
fn nat(out: &mut impl Write, rules: &RuleSet, nat: &Nat) -> fmt::Result {
    let matching = &nat.matching;
    let (Some(entry), Some(exit)) =
        (interfaces(rules, "iifname", matching.entries), interfaces(rules, "oifname", matching.exits))
    else {
        return Ok(());
    };
    let to = match nat.to {
        Lender::Own => "masquerade".to_string(),
        Lender::Range(first, last) if first == last => format!("snat to {first}"),
        Lender::Range(first, last) => format!("snat to {first}-{last}"),
    };
    let ports = match (nat.to, nat.ports) {
        (Lender::Own, (first, last)) => format!(" to :{first}-{last}"),
        (Lender::Range(..), (first, last)) => format!(":{first}-{last}"),
    };
    let mut rule = |protocols: &str, ports: &str| {
        let source = condition("ip saddr", &matching.sources.v4, |number| Ipv4Addr::from(*number));
        writeln!(out, "\t\t{entry}{exit}{protocols}{source}counter {to}{ports} comment \"line {}\"", nat.line)
    };
    for (name, number) in WITH_PORTS {
        if matching.protocols.contains(Family::V4, number) {
            rule(&format!("meta l4proto {name} "), &ports)?;
        }
    }
    let others = (0..=u8::MAX).filter(|number| !values::has_ports(*number));
    let others: Vec<String> = others
        .filter(|number| matching.protocols.contains(Family::V4, *number))
        .map(|number| number.to_string())
        .collect();
    if others.is_empty() { Ok(()) } else { rule(&format!("meta l4proto {{ {} }} ", others.join(", ")), "") }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Zones, parse};

    fn printed(text: &str, every_packet: bool) -> String {
        let zones = Zones::new(&["inner", "outer"]).expect("names of zones");
        let mut out = String::new();
        nftables(&parse(text, &zones).expect("rules"), every_packet, &mut out).expect("a string takes all");
        out
    }

    /// Returns what stands in a chain below its type, without indentation.
    fn chain<'a>(printed: &'a str, name: &str) -> Vec<&'a str> {
        let (_, rest) = printed.split_once(&format!("chain {name} {{")).expect("it is there");
        let (body, _) = rest.split_once("\t}").expect("it has an end");
        body.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("type ")).collect()
    }

    #[test]
    fn a_rule_stands_in_the_chains_of_its_zones() {
        let text = "allow tcp in inner out self port 80\ndeny log from 10.0.0.0/8, ::1 in outer\n";
        let out = printed(text, true);
        assert_eq!(
            chain(&out, "input")[1..],
            [
                "iifname { \"inner\" } meta l4proto { 6 } th dport { 80 } counter accept comment \"line 1\"",
                "iifname { \"outer\" } meta nfproto ipv4 ip saddr { 10.0.0.0-10.255.255.255 } log counter drop comment \"line 2\"",
                "iifname { \"outer\" } meta nfproto ipv6 ip6 saddr { ::1 } log counter drop comment \"line 2\"",
                "counter drop comment \"default\"",
            ]
        );
        assert_eq!(chain(&out, "forward").len(), 3);
        assert_eq!(chain(&out, "output"), ["oifname \"lo\" accept", "counter drop comment \"default\""]);
        assert!(!out.contains("ct state") && printed(text, false).contains("ct state established,related accept"));
    }

    #[test]
    fn types_and_rejections_are_told_apart() {
        let out = printed("reject icmp type 8\nreject icmp6\nreject tcp,udp source-port 1-2\n", true);
        assert_eq!(
            chain(&out, "forward"),
            [
                "meta nfproto ipv4 meta l4proto { 1 } icmp type { 8 } counter reject with icmpx admin-prohibited comment \"line 1\"",
                "meta nfproto ipv6 meta l4proto { 58 } counter reject with icmpx admin-prohibited comment \"line 2\"",
                "meta l4proto { 6, 17 } th sport { 1-2 } meta l4proto tcp counter reject with tcp reset comment \"line 3\"",
                "meta l4proto { 6, 17 } th sport { 1-2 } counter reject with icmpx admin-prohibited comment \"line 3\"",
                "counter drop comment \"default\"",
            ]
        );
    }

    #[test]
    fn translations_have_a_table_of_their_own() {
        let text = "default allow\nnat tcp from 10.0.0.1 out outer to 192.0.2.1 ports 5-6\nnat icmp out outer to own\n\
                    forward tcp in outer port 80 to 10.0.0.2 port 8080\nforward udp in outer at 192.0.2.1 port 5-6 to 10.0.0.3\n";
        let out = printed(text, false);
        assert_eq!(
            chain(&out, "postrouting"),
            [
                "oifname { \"outer\" } meta l4proto tcp ip saddr { 10.0.0.1 } counter snat to 192.0.2.1:5-6 comment \"line 2\"",
                "oifname { \"outer\" } meta l4proto { 1 } counter masquerade comment \"line 3\"",
            ]
        );
        assert_eq!(
            chain(&out, "prerouting"),
            [
                "iifname { \"outer\" } fib daddr type local meta l4proto tcp th dport { 80 } counter dnat to 10.0.0.2:8080 comment \"line 4\"",
                "iifname { \"outer\" } meta l4proto udp ip daddr { 192.0.2.1 } th dport { 5-6 } counter dnat to 10.0.0.3 comment \"line 5\"",
            ]
        );
        assert!(!printed("allow tcp\n", false).contains("culm_nat"));
    }
}
