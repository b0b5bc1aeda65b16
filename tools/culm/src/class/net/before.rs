//! The domains that a client's frames go through: its copier, and further components on either way.

use crate::description::catalogue::CatalogueComponent;
use crate::description::system::DomainOptions;
use crate::expand::domains::{Making, make};
use crate::expand::draft::{Draft, DraftDomain, DraftProvider};
use crate::plan::{LogLevel, Origin};
use culm_abi::connection::{NetClient, NetCopier};
use culm_manifest::reader::Entry;
use culm_manifest::{ConnectionKind, Located, Manifest};

/// The copier's component.
const COPIER: &str = "net-copier";

/// Options of copiers and what else stands before a client: none, all is derived from the client's.
static DERIVED: DomainOptions = DomainOptions {
    priority: None,
    core: None,
    budget: None,
    period: None,
    stack: None,
    heap: None,
    log: None,
    on_fault: None,
    restart: None,
};

/// The way of frames, as the client sees it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    Received,
    Sent,
}

/// Makes the domains that a client's frames go through.
pub struct BeforeClient<'d, 'a> {
    /// The client's domain.
    pub domain: DraftDomain,
    /// The provider.
    pub provider: DraftProvider,
    /// The key that makes it a client.
    pub entry: &'d Entry<'a>,
}

impl<'a> BeforeClient<'_, 'a> {
    /// The copier runs on its client's core, one priority above it, so that what it copies is ready
    /// when the client runs.
    pub fn add_copier(&self, draft: &mut Draft<'a>, priority: Option<Located<i128>>) -> Option<DraftDomain> {
        let span = self.entry.key.span.clone();
        let (component, manifest) = draft.own_component(COPIER, &span)?;
        if manifest.connection_of_kind(ConnectionKind::of::<NetCopier>()).is_none() {
            let message = format!("the manifest of `{COPIER}` lists no connection of the kind `net-copier`");
            let diagnostic = draft.at(&span, message);
            draft.error(diagnostic);
            return None;
        }
        let client_priority = draft.domains[self.domain].priority;
        if priority.is_none() && client_priority == u8::MAX {
            let name = &draft.domains[self.domain].name.value;
            let diagnostic = draft
                .at(&span, format!("the copier of `{name}` has no room above priority 255"))
                .help("lower the client's priority, give the copier one (`copier_priority`), or do without (`copier = false`)");
            draft.error(diagnostic);
        }
        let priority = priority.map_or(client_priority.saturating_add(1), |priority| priority.value as u8);
        let name = Located::new(self.name(draft, "copier"), span);
        Some(self.add(
            draft,
            name,
            (component, manifest),
            Origin::Before { provider: self.provider, duty: "Copies what {provider} received for one client." },
            priority,
        ))
    }

    /// Components by name, in the order in which frames go through them: at the copier's priority,
    /// so that frames stay together.
    pub fn add_through(
        &self,
        draft: &mut Draft<'a>,
        copier: Option<DraftDomain>,
        names: Vec<Located<String>>,
        way: Way,
    ) -> Option<Vec<DraftDomain>> {
        let (role, duty) = match way {
            Way::Received => ("through", "Hands what {provider} received on to one client."),
            Way::Sent => ("sent", "Hands what one client sends on to {provider}."),
        };
        let mut made = Vec::new();
        for (index, wanted) in names.into_iter().enumerate() {
            let (component, manifest) = draft.component_for(
                "component",
                |component| {
                    let manifest = component.manifest.as_ref().ok();
                    manifest.is_some_and(|manifest| {
                        manifest.connection_of_kind(ConnectionKind::of::<NetCopier>()).is_some()
                    })
                },
                &wanted.value,
                &wanted.span,
            )?;
            if manifest.connection_of_kind(ConnectionKind::of::<NetCopier>()).is_none() {
                let diagnostic = draft
                    .at(&wanted.span, format!("frames cannot go through `{}`", wanted.value))
                    .help("its manifest would need a connection of the kind `net-copier`");
                draft.error(diagnostic);
                return None;
            }
            let priority = draft.domains[copier.unwrap_or(self.domain)].priority;
            let name = Located::new(self.name(draft, &format!("{role}{}", index + 1)), wanted.span);
            made.push(self.add(
                draft,
                name,
                (component, manifest),
                Origin::Before { provider: self.provider, duty },
                priority,
            ));
        }
        Some(made)
    }

    /// Returns the name of a domain that is made for the client: the client's name and the role,
    /// with the connection's name between them if there are several.
    fn name(&self, draft: &Draft<'_>, role: &str) -> String {
        let connections = &draft.domains[self.domain].manifest.connections;
        let several = connections.iter().filter(|other| other.kind.is::<NetClient>()).count() > 1;
        let client = &draft.domains[self.domain].name.value;
        if several { format!("{client}_{}_{role}", self.entry.key.value) } else { format!("{client}_{role}") }
    }

    fn add(
        &self,
        draft: &mut Draft<'a>,
        name: Located<String>,
        (component, manifest): (&'a CatalogueComponent, &'a Manifest),
        origin: Origin,
        priority: u8,
    ) -> DraftDomain {
        let core = draft.domains[self.domain].core;
        let making = Making { name, component, manifest, origin, options: &DERIVED, priority, core, config: None };
        let mut domain = make(draft, making);
        domain.log = LogLevel::Warn;
        draft.domains.push(domain);
        draft.domains.len() - 1
    }
}
