//! From a description to a [`Plan`]: names are resolved, rules are checked, connections by class
//! become drivers, virtualisers, copiers, queues, regions and channels.
//!
//! Two steps. The `draft` resolves and checks everything and reports every mistake it can; nothing
//! is wired while one stands. The `assemble` step then cannot fail: it numbers channels, makes
//! queues and regions, and fills in the plan. What is particular to a class of devices is in
//! [`crate::class`].

mod addresses;
mod assemble;
mod channels;
mod circles;
mod config;
mod connections;
mod devices;
pub(crate) mod domains;
pub(crate) mod draft;
mod firewall_rules;
pub(crate) mod fused;
mod guest_files;
mod guests;
mod memory;
mod names;
mod providers;
mod regions;
mod relations;
mod same_addresses;
mod supervision;
pub mod switch_ports;
mod warnings;
pub(crate) mod wiring;

use crate::description::board::BoardFile;
use crate::description::catalogue::Catalogue;
use crate::description::system::{DEFAULT_BOARD, Document, SystemFile};
use crate::diagnostics::{Diagnostic, Diagnostics, Location, Source};
use crate::plan::Plan;
use culm_manifest::Located;
use culm_manifest::problem::suggest;
use culm_manifest::reader::Problems;
use draft::Draft;
use std::path::Path;
use std::sync::Arc;

/// Facts for the reference about expansion, from where they are decided.
pub mod facts {
    pub use super::domains::{MAX_HEAP, MAX_STACK};
}

/// A system without mistakes.
#[derive(Clone, Debug)]
pub struct Checked {
    /// The system.
    pub plan: Plan,
    /// Warnings of what is legal in it, but odd.
    pub warnings: Diagnostics,
}

/// Reads, checks and expands the system file at `path`. `board` takes the place of the board that
/// the file names.
pub fn expand(catalogue: &Catalogue, path: &Path, board: Option<&str>) -> Result<Plan, Diagnostics> {
    check(catalogue, path, board).map(|checked| checked.plan)
}

/// The same, with what is odd.
pub fn check(catalogue: &Catalogue, path: &Path, board: Option<&str>) -> Result<Checked, Diagnostics> {
    check_with_memory(catalogue, path, board, None)
}

/// The same of a board that has so many bytes of memory, in place of what its file says.
pub fn check_with_memory(
    catalogue: &Catalogue,
    path: &Path,
    board: Option<&str>,
    memory: Option<u64>,
) -> Result<Checked, Diagnostics> {
    check_on(catalogue, path, &catalogue.source(path)?, board, memory)
}

/// The same for a system file that has been read from `path`.
pub fn check_source(
    catalogue: &Catalogue,
    path: &Path,
    source: &Arc<Source>,
    board: Option<&str>,
) -> Result<Checked, Diagnostics> {
    check_on(catalogue, path, source, board, None)
}

fn check_on(
    catalogue: &Catalogue,
    path: &Path,
    source: &Arc<Source>,
    board: Option<&str>,
    memory: Option<u64>,
) -> Result<Checked, Diagnostics> {
    let document = Document::parse(&source.text);
    let mut problems = Problems::new();
    let file = SystemFile::read(&document, &mut problems);
    let mut diagnostics = Diagnostics::default();
    diagnostics.extend(source, problems);
    let Some(file) = file else { return Err(diagnostics) };
    let board = read_board(catalogue, path, source, &file, board, &mut diagnostics);
    let Some(mut board) = board else { return Err(diagnostics) };
    board.board.memory.size = memory.unwrap_or(board.board.memory.size);
    let draft = resolve(Draft::new(catalogue, path, source, &file, &board, diagnostics))?;
    let warnings = warnings::find(&draft);
    Ok(Checked { plan: assemble::assemble(&draft, path), warnings })
}

/// Resolves and checks everything that the description names; `Err` holds all mistakes found.
fn resolve(mut draft: Draft<'_>) -> Result<Draft<'_>, Diagnostics> {
    devices::resolve(&mut draft);
    domains::resolve(&mut draft);
    providers::add_domains(&mut draft);
    connections::resolve(&mut draft);
    devices::check_shared(&mut draft);
    supervision::resolve(&mut draft);
    names::check(&mut draft);
    channels::resolve(&mut draft);
    regions::resolve(&mut draft);
    guests::check_complete(&mut draft);
    connections::check_complete(&mut draft);
    providers::check_clients(&mut draft);
    circles::check(&mut draft);
    switch_ports::check(&mut draft);
    addresses::check(&mut draft);
    same_addresses::check(&mut draft);
    relations::check(&mut draft);
    firewall_rules::check(&mut draft);
    if draft.diagnostics.is_empty() {
        memory::check_address_spaces(&mut draft);
        memory::check_draft(&mut draft);
    }
    if draft.diagnostics.is_empty() { Ok(draft) } else { Err(draft.diagnostics) }
}

/// The board: `given` on the command line, or as the file says, or the default one. Boards beside
/// the system file count too, so that a system outside the tree can bring its own.
fn read_board(
    catalogue: &Catalogue,
    system: &Path,
    source: &Arc<Source>,
    file: &SystemFile<'_>,
    given: Option<&str>,
    diagnostics: &mut Diagnostics,
) -> Option<BoardFile> {
    let named = file.board.as_ref().filter(|_| given.is_none());
    let name = given.or(named.map(|board| board.value.as_str())).unwrap_or(DEFAULT_BOARD);
    let beside = system.parent().unwrap_or(Path::new(".")).join(name);
    let is_path = name.ends_with(".toml") || name.contains('/');
    let path = if is_path && given.is_none() {
        Ok(beside)
    } else {
        catalogue.board_file(name).map_err(|diagnostic| unknown_board(catalogue, source, named, name, diagnostic))
    };
    let path = path.map_err(|diagnostic| diagnostics.push(diagnostic)).ok()?;
    let board = match catalogue.source(&path) {
        Ok(board) => board,
        Err(mut diagnostic) => {
            let name = named.map(|name| Location { source: source.clone(), span: name.span.clone() });
            diagnostic.place = diagnostic.place.or(name);
            diagnostic.help.get_or_insert_with(|| {
                "a board is a name, as `./culm boards` lists them, or a path ending in `.toml`, from the system file"
                    .to_string()
            });
            diagnostics.push(diagnostic);
            return None;
        }
    };
    BoardFile::read(&board, diagnostics)
}

fn unknown_board(
    catalogue: &Catalogue,
    source: &Arc<Source>,
    named: Option<&Located<String>>,
    name: &str,
    otherwise: Diagnostic,
) -> Diagnostic {
    let Some(named) = named else { return otherwise };
    let boards = catalogue.boards();
    Diagnostic::at(source, named.span.clone(), format!("there is no board called `{name}`"))
        .maybe_help(suggest(name, boards.keys().map(String::as_str)))
}
