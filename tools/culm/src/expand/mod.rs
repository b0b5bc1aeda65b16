//! From a description to a [`Plan`]: names are resolved, rules are checked, connections by class become
//! drivers, virtualisers, copiers, queues, regions and channels.
//!
//! Two steps. The [`draft`] resolves and checks everything and reports every mistake it can; nothing is wired while
//! one stands. The [`wiring`] then cannot fail: it numbers channels, makes queues and regions, and fills in the plan.

mod channels;
mod config;
mod connections;
mod devices;
mod domains;
mod draft;
mod memory;
mod names;
mod net;
mod regions;
mod serial;
mod supervision;
mod wiring;

use crate::description::board::BoardFile;
use crate::description::catalogue::Catalogue;
use crate::description::system::{DEFAULT_BOARD, Document, SystemFile};
use crate::diagnostics::{Diagnostic, Diagnostics, Source};
use crate::plan::Plan;
use culm_manifest::Located;
use culm_manifest::problem::suggest;
use culm_manifest::reader::Problems;
use draft::Draft;
use std::path::Path;
use std::sync::Arc;

/// What the reference says about expansion, from where it is decided.
pub mod facts {
    pub use super::domains::{MAX_HEAP, MAX_STACK};
    pub use super::net::DEFAULT_BUFFERS as NET_BUFFERS;
    pub use super::net::DEFAULT_LARGE as NET_LARGE_BUFFERS;
    pub use super::serial::DEFAULT_QUEUE as SERIAL_QUEUE;
}

/// Reads, checks and expands the system file at `path`. `board` takes the place of the board that the file names.
pub fn expand(catalogue: &Catalogue, path: &Path, board: Option<&str>) -> Result<Plan, Diagnostics> {
    let source = Source::read(path)?;
    let source = Source::new(catalogue.shown(path), source.text.clone());
    let document = Document::parse(&source.text);
    let mut problems = Problems::new();
    let file = SystemFile::read(&document, &mut problems);
    let mut diagnostics = Diagnostics::default();
    diagnostics.extend(&source, problems);
    let Some(file) = file else { return Err(diagnostics) };
    let board = read_board(catalogue, path, &source, &file, board, &mut diagnostics);
    let Some(board) = board else { return Err(diagnostics) };
    check(Draft::new(catalogue, path, &source, &file, &board, diagnostics))?.wire(path)
}

/// Resolves and checks everything that the description names; `Err` holds all mistakes found.
fn check(mut draft: Draft<'_>) -> Result<Draft<'_>, Diagnostics> {
    devices::resolve(&mut draft);
    domains::resolve(&mut draft);
    connections::resolve(&mut draft);
    supervision::resolve(&mut draft);
    names::check(&mut draft);
    channels::resolve(&mut draft);
    regions::resolve(&mut draft);
    connections::check_complete(&mut draft);
    if draft.diagnostics.is_empty() {
        memory::check_draft(&mut draft);
    }
    if draft.diagnostics.is_empty() { Ok(draft) } else { Err(draft.diagnostics) }
}

/// The board: `given` on the command line, or as the file says, or the default one. Boards beside the system file
/// count too, so that a system outside the tree can bring its own.
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
    let path = if name.ends_with(".toml") && given.is_none() {
        Ok(beside)
    } else {
        catalogue.board_file(name).map_err(|diagnostic| unknown_board(catalogue, source, named, name, diagnostic))
    };
    let path = path.map_err(|diagnostic| diagnostics.push(diagnostic)).ok()?;
    let board = match Source::read(&path) {
        Ok(board) => Source::new(catalogue.shown(&board.path), board.text.clone()),
        Err(mut diagnostic) => {
            diagnostic.place =
                named.map(|name| crate::diagnostics::Place { source: source.clone(), span: name.span.clone() });
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
