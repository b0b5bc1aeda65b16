//! Fields of configurations that are right by themselves and wrong beside others: of
//! the same component, or of the one at the other end of a channel. How they belong together, the
//! component's manifest says (`at_most`, `same_by`, `needs`, `needs_any`).

use super::draft::{Draft, DraftDomain};
use crate::diagnostics::Diagnostic;
use crate::plan::ConfigValue;
use culm_manifest::{ConfigField, ConfigType, Located};
use std::ops::Range;

/// Checks the configuration of all domains.
pub fn check(draft: &mut Draft<'_>) {
    let mut found = Vec::new();
    for domain in 0..draft.domains.len() {
        for field in &draft.domains[domain].manifest.config {
            found.extend(at_most(draft, domain, field));
            found.extend(same_by(draft, domain, field));
            found.extend(needs(draft, domain, field));
        }
    }
    found.into_iter().for_each(|diagnostic| draft.error(diagnostic));
}

/// Refuses a number above another one of the same configuration.
fn at_most(draft: &Draft<'_>, domain: DraftDomain, field: &ConfigField) -> Option<Diagnostic> {
    let (name, most) = (&field.name, &field.relations.at_most.as_ref()?.value);
    let (ConfigValue::Unsigned(own), ConfigValue::Unsigned(bound)) =
        (value(draft, domain, name)?, value(draft, domain, most)?)
    else {
        return None;
    };
    if own <= bound {
        return None;
    }
    let (own_at, bound_at) = (given_at(draft, domain, name), given_at(draft, domain, most));
    let diagnostic = match (&own_at, &bound_at) {
        (Some(at), _) => draft.at(at, format!("`{name}` is {own}, more than `{most}`, which is {bound}")),
        // What neither gives is the manifest's own.
        (None, at) => draft
            .at(at.as_ref()?, format!("`{most}` is {bound}, less than `{name}`, which is {own} where it is not given")),
    };
    let related = bound_at.filter(|_| own_at.is_some()).into_iter();
    let help = format!("give a `{name}` of {bound} or less, or raise `{most}`");
    Some(related.fold(diagnostic, |diagnostic, at| diagnostic.related(draft.source, at, "the other")).help(help))
}

/// Refuses what the component at the other end of a channel needs too, and has not, or otherwise.
fn same_by(draft: &Draft<'_>, domain: DraftDomain, field: &ConfigField) -> Option<Diagnostic> {
    let (name, by) = (&field.name, &field.relations.same_by.as_ref()?.value);
    let (slot, _) = draft.domains[domain].manifest.connection(by)?;
    let mut ends = draft.channels.iter().flat_map(|channel| {
        let [first, second] = &channel.ends;
        [(first, second), (second, first)]
    });
    let (_, peer) = ends.find(|(own, _)| (own.domain, own.slot) == (domain, slot))?;
    let (own, other) = (value(draft, domain, name)?, value(draft, peer.domain, name)?);
    let other_name = &draft.domains[peer.domain].name;
    let at = given_at(draft, domain, name)?;
    let (message, place, what) = match given_at(draft, peer.domain, name) {
        None => (
            format!("`{}` has no `{name}`, and `{}` has one", other_name.value, draft.domains[domain].name.value),
            other_name.span.clone(),
            "it has none",
        ),
        // Two that have it are told of once.
        Some(other_at) if !is_same(field.kind, own, other) && domain < peer.domain => {
            (format!("`{name}` is another one for `{}`", other_name.value), other_at, "the other")
        }
        Some(_) => return None,
    };
    let help = format!("give both the same `{name}`, or neither: one without the other does nothing");
    Some(draft.at(&at, message).related(draft.source, place, what).help(help))
}

/// Refuses a field that does nothing, since another one is not given.
fn needs(draft: &Draft<'_>, domain: DraftDomain, field: &ConfigField) -> Option<Diagnostic> {
    let (name, relations) = (&field.name, &field.relations);
    let is_in_use = |name: &str| {
        value(draft, domain, name).is_some_and(|value| !matches!(value, ConfigValue::Absent | ConfigValue::Bool(false)))
    };
    if !is_in_use(name) {
        return None;
    }
    let at = given_at(draft, domain, name)?;
    let is_missing = |other: &&Located<String>| !is_in_use(&other.value);
    let missing: Vec<_> = match relations.needs.iter().find(is_missing) {
        Some(missing) => vec![missing],
        None if relations.needs_any.iter().any(|other| is_in_use(&other.value)) => return None,
        None => relations.needs_any.iter().collect(),
    };
    let missing: Vec<_> = missing.into_iter().map(|other| format!("`{}`", other.value)).collect();
    let given = match &missing[..] {
        [] => return None,
        [one] => one,
        _ => "one of them",
    };
    let help = format!("give {given} too, or leave `{name}` out");
    Some(draft.at(&at, format!("`{name}` does nothing without {}", missing.join(" or "))).help(help))
}

fn is_same(kind: ConfigType, own: &ConfigValue, other: &ConfigValue) -> bool {
    match (own, other) {
        // Hexadecimal digits.
        (ConfigValue::Text(own), ConfigValue::Text(other)) if kind == ConfigType::Sha256 => {
            own.eq_ignore_ascii_case(other)
        }
        _ => own == other,
    }
}

/// The value of a field; `None`: the component has no such field.
fn value<'d>(draft: &'d Draft<'_>, domain: DraftDomain, name: &str) -> Option<&'d ConfigValue> {
    let fields = draft.domains[domain].manifest.config.iter().zip(&draft.domains[domain].config);
    fields.into_iter().find(|(field, _)| field.name == name).map(|(_, value)| value)
}

/// Where the system file gives a field.
fn given_at(draft: &Draft<'_>, domain: DraftDomain, name: &str) -> Option<Range<usize>> {
    let table = draft.file.domains.iter().find(|table| table.name.value == draft.domains[domain].name.value)?;
    Some(table.config.clone()?.take(name)?.span())
}
