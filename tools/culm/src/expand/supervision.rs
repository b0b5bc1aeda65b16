//! The supervisor: one domain that is told of every other one's faults, and acts as the description
//! says.

use super::domains::{Making, make};
use super::draft::Draft;
use super::wiring::Wiring;
use crate::plan::{End, Origin};
use culm_abi::connection::Supervision;
use culm_manifest::{ConnectionKind, Located};

/// The supervisor's component, and its domain's name.
const SUPERVISOR: &str = "supervisor";

/// Its priority: above all that it may have to stop, below one that may be kept for experiments.
const PRIORITY: u8 = 254;

/// Adds the supervisor.
pub fn resolve(draft: &mut Draft<'_>) {
    let span = draft.file.first_line.clone();
    let Some((component, manifest)) = draft.own_component(SUPERVISOR, &span) else { return };
    if manifest.connection_of_kind(ConnectionKind::of::<Supervision>()).is_none() {
        let diagnostic = draft
            .at(&span, format!("the manifest of `{SUPERVISOR}` lists no connection of the kind `supervision`"))
            .help("give it one: `[[connection]]`, `name = \"supervision\"`, `kind = \"supervision\"`");
        draft.error(diagnostic);
        return;
    }
    let making = Making {
        name: Located::new(SUPERVISOR.to_string(), span),
        component,
        manifest,
        origin: Origin::Supervisor,
        options: &draft.file.supervisor,
        priority: PRIORITY,
        core: 0,
        config: None,
    };
    let mut domain = make(draft, making);
    // A supervisor that is told to halt the system has to be able to.
    domain.may_halt = true;
    draft.domains.push(domain);
}

/// Puts every other domain under the supervisor.
pub fn wire(wiring: &mut Wiring) {
    let Some(supervisor) = wiring.domains.iter().position(|domain| domain.origin == Origin::Supervisor) else {
        return;
    };
    let mut children = Vec::new();
    for domain in (0..wiring.domains.len()).filter(|domain| *domain != supervisor) {
        let channel = wiring.end(supervisor, End::Child { domain });
        wiring.domains[domain].supervisor = Some((supervisor, channel));
        children.push(wiring.domains[domain].as_child(domain, channel));
    }
    wiring.connect(supervisor, "", Supervision { children });
}
