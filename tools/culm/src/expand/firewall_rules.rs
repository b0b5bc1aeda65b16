//! Rules of a firewall in a configuration: their zones are the networks that the component is
//! connected to. A mistake is underlined where the rule stands: in the file of rules, or in the
//! system file.

use super::draft::{Domain, Draft, DraftDomain};
use super::switch_ports;
use crate::diagnostics::{Diagnostic, Source};
use crate::plan::ConfigValue;
use culm_firewall::{Lender, Nat, Problem, RuleSet, Zones, parse};
use culm_manifest::reader::Problems;
use culm_manifest::{ConfigField, ConfigType};
use std::net::Ipv4Addr;
use std::ops::Range;
use std::sync::Arc;

/// Checks all rules.
pub fn check(draft: &mut Draft<'_>) {
    let file = draft.file;
    for table in &file.domains {
        let (Some(domain), Some(config)) = (draft.domain(&table.name.value), &table.config) else { continue };
        let fields = draft.domains[domain].manifest.config.iter();
        for field in fields.filter(|field| field.kind == ConfigType::FirewallRules) {
            let Some(entry) = config.clone().take(&field.name) else { continue };
            // What is wrong with the value has been reported.
            let Some(text) = entry.text(&mut Problems::new()) else { continue };
            let of_file = draft.rules.iter().find(|rules| rules.place == text.span);
            let place = match of_file {
                Some(rules) => Place { source: rules.source.clone(), from: 0, whole: None },
                None if text.value.contains('\n') => Place::within(draft.source, &text.span, &text.value),
                None => continue,
            };
            let content = of_file.map_or(text.value.as_str(), |rules| rules.source.text.as_str()).to_string();
            check_rules(draft, domain, &content, &place);
            check_networks(draft, domain);
        }
    }
}

/// Where the text of rules stands.
struct Place {
    source: Arc<Source>,
    /// The place of its first byte.
    from: usize,
    /// The place of all, if bytes of the text stand there in another form.
    whole: Option<Range<usize>>,
}

impl Place {
    /// The place of a text of TOML: what is between its delimiters is the text itself, but for
    /// escapes, and a line end right behind the first.
    fn within(source: &Arc<Source>, span: &Range<usize>, text: &str) -> Self {
        let written = source.text.get(span.clone()).unwrap_or_default();
        let at = written.find(text);
        let whole = if at.is_some() { None } else { Some(span.clone()) };
        Self { source: source.clone(), from: span.start + at.unwrap_or(0), whole }
    }

    fn of(&self, span: &Range<usize>) -> Range<usize> {
        self.whole.clone().unwrap_or(self.from + span.start..self.from + span.end)
    }

    fn diagnostic(&self, problem: Problem) -> Diagnostic {
        let diagnostic = Diagnostic::at(&self.source, self.of(&problem.span), problem.message);
        let related = problem.related.into_iter();
        related
            .fold(diagnostic, |diagnostic, (span, what)| diagnostic.related(&self.source, self.of(&span), what))
            .maybe_help(problem.help)
    }
}

fn check_rules(draft: &mut Draft<'_>, domain: DraftDomain, text: &str, place: &Place) {
    let connections = &draft.domains[domain].manifest.connections;
    // A component with such rules is about networks: its first connection is one, and all of the
    // same kind are.
    let kind = connections.first().map(|connection| connection.kind);
    let own = connections
        .iter()
        .enumerate()
        .filter(|(slot, connection)| Some(connection.kind) == kind && draft.named.contains(&(domain, *slot)));
    let names: Vec<&str> = own.map(|(_, connection)| connection.name.as_str()).collect();
    // A connection that is missing has been reported.
    let Ok(zones) = Zones::new(&names) else { return };
    match parse(text, &zones) {
        Ok(rules) => {
            check_own_addresses(draft, domain, &rules, place);
            check_lent_twice(draft, domain, &rules, place);
        }
        Err(problems) => problems.into_iter().for_each(|problem| draft.error(place.diagnostic(problem))),
    }
}

/// Refuses a NAT to the component's own address on a network where it has none.
fn check_own_addresses(draft: &mut Draft<'_>, domain: DraftDomain, rules: &RuleSet, place: &Place) {
    let nats: Vec<&Nat> = rules.nats().iter().filter(|nat| matches!(nat.to, Lender::Own)).collect();
    for zone in rules.zones().all() {
        let name = rules.zones().name(zone);
        let Domain { manifest, config, .. } = &draft.domains[domain];
        let is_address = |field: &ConfigField| {
            field.kind == ConfigType::Ipv4Network && field.relations.of.as_ref().is_some_and(|of| of.value == name)
        };
        let fields: Vec<_> = manifest.config.iter().zip(config).filter(|(field, _)| is_address(field)).collect();
        let Some((field, ConfigValue::Absent)) = fields.first() else { continue };
        let help = format!("give `{}`, or write the addresses behind `to`", field.name);
        for nat in nats.iter().filter(|nat| nat.matching.exits.contains(zone)) {
            let message = format!("the router has no IPv4 address of its own on `{name}`");
            let diagnostic = Diagnostic::at(&place.source, place.of(&nat.span), message).help(help.clone());
            draft.error(diagnostic);
        }
    }
}

/// Refuses a NAT to a range in which one of the component's own addresses is, whose ports another
/// NAT gives too.
fn check_lent_twice(draft: &mut Draft<'_>, domain: DraftDomain, rules: &RuleSet, place: &Place) {
    let Domain { manifest, config, .. } = &draft.domains[domain];
    let own = manifest.config.iter().zip(config).filter_map(|(field, value)| match value {
        ConfigValue::Text(text) if field.kind == ConfigType::Ipv4Network && field.relations.of.is_some() => {
            text.split_once('/')?.0.parse::<Ipv4Addr>().ok()
        }
        _ => None,
    });
    let own: Vec<Ipv4Addr> = own.collect();
    let mut found = Vec::new();
    for nat in rules.nats() {
        let Lender::Range(first, last) = nat.to else { continue };
        let Some(address) = own.iter().copied().find(|address| (first..=last).contains(address)) else { continue };
        let meets = |other: &&Nat| {
            matches!(other.to, Lender::Own) && other.ports.0 <= nat.ports.1 && nat.ports.0 <= other.ports.1
        };
        let Some(other) = rules.nats().iter().find(meets) else { continue };
        let message =
            format!("this NAT gives ports of {address}, the router's own, that line {} gives too", other.line);
        let diagnostic = Diagnostic::at(&place.source, place.of(&nat.span), message)
            .related(&place.source, place.of(&other.span), "the other")
            .help(format!("leave {address} out of the range, or give both `ports` that have nothing in common"));
        found.push(diagnostic);
    }
    found.into_iter().for_each(|diagnostic| draft.error(diagnostic));
}

/// Refuses two connections to one network, be it one that a switch joins to another: what comes
/// over it comes over both, so that rules could not tell its zones apart.
fn check_networks(draft: &mut Draft<'_>, domain: DraftDomain) {
    let kind = draft.domains[domain].manifest.connections.first().map(|connection| connection.kind);
    let of_kind = |slot: Option<usize>| {
        slot.and_then(|slot| draft.domains[domain].manifest.connections.get(slot)).map(|own| own.kind) == kind
    };
    let own: Vec<_> = draft.clients.iter().filter(|client| client.domain == domain && of_kind(client.slot)).collect();
    let joined = switch_ports::joined(draft);
    let mut diagnostics = Vec::new();
    for (index, client) in own.iter().enumerate() {
        let earlier = own.iter().take(index).find(|earlier| joined[earlier.provider] == joined[client.provider]);
        if let (Some(earlier), Some(span)) = (earlier, &client.named_at) {
            let message = format!("`{}` and `{}` are the same network", earlier.connection, client.connection);
            let diagnostic =
                draft.at(span, message).help("connect each to a card of its own, or to a switch of its own");
            let way = switch_ports::ways(draft)
                .into_iter()
                .filter(|way| earlier.provider != client.provider && joined[way.provider] == joined[client.provider]);
            let diagnostic = way.filter_map(|way| way.named_at.clone()).fold(diagnostic, |diagnostic, at| {
                diagnostic.related(draft.source, at, "joined to the network of a switch here")
            });
            let other = earlier.named_at.clone().into_iter();
            diagnostics
                .push(other.fold(diagnostic, |diagnostic, at| diagnostic.related(draft.source, at, "the other")));
        }
    }
    diagnostics.into_iter().for_each(|diagnostic| draft.error(diagnostic));
}
