//! Checks that need all clients of a provider of files.

use super::options::ClientOptions;
use crate::class::block;
use crate::expand::draft::{Client, Draft, DraftProvider};
use culm_abi::connection::BlockClient;
use culm_manifest::ConnectionKind;

/// The most clients of one provider: its notification word has a bit for each, and one for its
/// disk.
const MAX_CLIENTS: usize = 63;

/// Checks that there are not too many clients, that who may write has a disk that can be written,
/// and that nobody else has the files that a client writes, unless both say `shared = true`.
pub fn check_clients(draft: &mut Draft<'_>, provider: DraftProvider) {
    let mut found = Vec::new();
    let clients: Vec<&Client> = draft.clients_of(provider).collect();
    let (name, domain) = (&draft.providers[provider].name, draft.providers[provider].domain);
    if let Some(client) = clients.get(MAX_CLIENTS) {
        let message = format!("{} clients of `{name}` are too many", clients.len());
        let help = format!("{MAX_CLIENTS} can share a provider of files");
        found.push(draft.at(&ClientOptions::of(client).at, message).help(help));
    }
    let connections = &draft.domains[domain].manifest.connections;
    let is_disk = |client: &&Client| {
        // Compare the domain first: `connections` are those of its manifest, and another domain's
        // slot may have no place among them.
        client.domain == domain
            && client.slot.is_some_and(|slot| connections[slot].kind == ConnectionKind::of::<BlockClient>())
    };
    let is_read_only = draft.clients.iter().find(is_disk).is_some_and(block::is_read_only);
    for (index, client) in clients.iter().enumerate() {
        let options = ClientOptions::of(client);
        let own_name = &draft.domains[client.domain].name.value;
        if options.write && is_read_only {
            let message = format!("`{own_name}` would write files of `{name}`, whose disk is read-only");
            let help = format!("leave out `write` here, or `read_only` in [pd.{name}] and the disk's table");
            found.push(draft.at(&options.at, message).help(help));
        }
        let common = clients[..index].iter().find(|other| {
            let other = ClientOptions::of(other);
            options.overlaps(other) && (options.write || other.write) && !(options.shared && other.shared)
        });
        let Some(other) = common else { continue };
        let other_name = &draft.domains[other.domain].name.value;
        let other = ClientOptions::of(other);
        let message = match (options.write, other.write) {
            (true, true) => format!("two writers of the same files of `{name}`: `{other_name}` and `{own_name}`"),
            (false, _) => format!("`{own_name}` would read files of `{name}` that `{other_name}` writes"),
            (true, false) => format!("`{own_name}` would write files of `{name}` that `{other_name}` reads"),
        };
        let help = "give each a `folder` of its own, neither within the other; or say `shared = true` for both";
        found.push(draft.at(&options.at, message).related(draft.source, other.at.clone(), "the other one").help(help));
    }
    for diagnostic in found {
        draft.error(diagnostic);
    }
}
