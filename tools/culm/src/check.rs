//! `culm check`: everything that is wrong or odd in a system, a board, a component, or all there
//! are, for people or for programs.

use crate::description::board::BoardFile;
use crate::description::catalogue::{Catalogue, CatalogueComponent};
use crate::description::workspace;
use crate::diagnostics::{Diagnostic, Diagnostics, Severity, Source, json};
use crate::expand::{self, Checked, fused};
use crate::failure::Failure;
use crate::{class, commands};
use anyhow::Result;
use culm_manifest::problem::suggest;
use culm_manifest::units::format_size;
use culm_manifest::{Kind, Manifest};
use std::path::Path;
use std::process::ExitCode;
use std::sync::Arc;

/// The files to check, and how to report.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The system: its name, or the path of its file; or the path of a board or component file;
    /// without it all there are
    pub system: Option<String>,
    /// The board, in place of the one that each system names
    #[arg(long, value_name = "NAME")]
    pub board: Option<String>,
    /// Print one JSON document for programs and editors, whatever is found
    #[arg(long)]
    pub json: bool,
    /// Findings that fail the check besides mistakes
    #[arg(long, value_enum, value_name = "WHAT")]
    pub deny: Option<Deny>,
}

/// The findings that can be denied.
#[derive(clap::ValueEnum, Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deny {
    /// Descriptions that are legal, but odd
    Warnings,
}

/// The findings of a check.
struct Outcome {
    /// Mistakes and warnings.
    found: Diagnostics,
    /// The summary, if there is no mistake.
    summary: String,
}

/// Checks. Mistakes are the error, unless they are printed as JSON.
pub fn check(options: &Options) -> Result<ExitCode> {
    let Outcome { found, summary } = outcome(options)?;
    let is_wrong = found.count(Severity::Error) > 0;
    let is_denied = options.deny == Some(Deny::Warnings) && found.count(Severity::Warning) > 0;
    if options.json {
        println!("{:#}", json::document(options.system.as_deref(), &found));
        return Ok(if is_wrong || is_denied { ExitCode::FAILURE } else { ExitCode::SUCCESS });
    }
    if is_wrong {
        return Err(found.into());
    }
    commands::show_warnings(&found);
    if is_denied {
        return Err(Failure::new("warnings are denied").help("repair what they say, or leave out `--deny`").into());
    }
    println!("{summary}");
    Ok(ExitCode::SUCCESS)
}

fn outcome(options: &Options) -> Result<Outcome> {
    let catalogue = commands::catalogue()?;
    let Some(name) = &options.system else { return Ok(check_all(&catalogue, options.board.as_deref())) };
    let file = match catalogue.system_file(name) {
        Ok(file) => file,
        Err(diagnostic) => return Ok(Outcome { found: diagnostic.into(), summary: String::new() }),
    };
    let kind = kind_of(&file);
    if let (Some(_), Kind::Board | Kind::Component) = (&options.board, kind) {
        return Err(Failure::new("only a system is checked with a board").help("leave out `--board`").into());
    }
    Ok(match kind {
        Kind::Board => summarised(check_board(&catalogue, &file), name, "a board"),
        Kind::Component => summarised(check_component(&catalogue, &file), name, "a component"),
        Kind::System | Kind::Crate => {
            let mut outcome = match expand::check(&catalogue, &file, options.board.as_deref()) {
                Ok(checked) => Outcome { summary: summary(&checked), found: checked.warnings },
                Err(found) => Outcome { found, summary: String::new() },
            };
            outcome.found.append(&workspace::check(&catalogue));
            outcome
        }
    })
}

fn summarised(found: Diagnostics, name: &str, what: &str) -> Outcome {
    Outcome { found, summary: format!("{name} is well: {what}") }
}

/// The kind of a file: by its name or what is in it; else by its folder, where it cannot be read or
/// is empty.
fn kind_of(file: &Path) -> Kind {
    if file.ends_with("component.toml") {
        return Kind::Component;
    }
    let text = std::fs::read_to_string(file).unwrap_or_default();
    let folder = file.parent().and_then(Path::file_name);
    let by_folder = if folder.is_some_and(|folder| folder == "boards") { Kind::Board } else { Kind::System };
    Kind::of(&text).unwrap_or(by_folder)
}

fn check_board(catalogue: &Catalogue, file: &Path) -> Diagnostics {
    match catalogue.source(file) {
        Ok(source) => {
            let mut found = Diagnostics::default();
            if let Some(board) = BoardFile::read(&source, &mut found) {
                board.is_called_otherwise(file).into_iter().for_each(|diagnostic| found.push(diagnostic));
            }
            found
        }
        Err(diagnostic) => diagnostic.into(),
    }
}

/// Checks a component: reports what is wrong with its manifest, and in the tree with its crate and
/// its name among the others.
fn check_component(catalogue: &Catalogue, file: &Path) -> Diagnostics {
    let folder = |path: &Path| path.canonicalize().ok();
    let own = file.canonicalize().ok().and_then(|file| file.parent().map(Path::to_path_buf));
    let known = catalogue.components.values().find(|component| own.is_some() && folder(&component.folder) == own);
    if let Some(component) = known.filter(|_| file.ends_with("component.toml")) {
        return check_known(catalogue, component);
    }
    let parse = |source: &Arc<Source>| {
        let mut found = Diagnostics::default();
        found.extend(source, Manifest::parse(&source.text).err().unwrap_or_default());
        found
    };
    catalogue.source(file).map_or_else(Diagnostics::from, |source| parse(&source))
}

/// Reports what is wrong with a component of the tree.
fn check_known(catalogue: &Catalogue, component: &CatalogueComponent) -> Diagnostics {
    let manifest = match &component.manifest {
        Ok(manifest) => manifest,
        Err(found) => return found.clone(),
    };
    let source = match catalogue.source(&component.folder.join("component.toml")) {
        Ok(source) => source,
        Err(diagnostic) => return diagnostic.into(),
    };
    let mut found = check_required(&source, manifest);
    found.append(&check_driver(catalogue, &source, manifest));
    found
}

/// Reports keys that connections require and their classes do not have.
fn check_required(source: &Arc<Source>, manifest: &Manifest) -> Diagnostics {
    let mut found = Diagnostics::default();
    for connection in &manifest.connections {
        let Some(class) = connection.kind.client_class() else { continue };
        let tables = class::of(class).client_keys();
        let keys =
            tables.iter().flat_map(|table| &table.keys).filter(|key| key.value == "true or false").map(|key| key.name);
        for required in &connection.requires {
            if keys.clone().any(|key| key == required.value) {
                continue;
            }
            let message = format!("the class `{}` has no key `{}` that is true or false", class.name(), required.value);
            let help = suggest(&required.value, keys.clone()).unwrap_or_else(|| "leave `requires` out".to_string());
            found.push(Diagnostic::at(source, required.span.clone(), message).help(help));
        }
    }
    found
}

/// Reports what a fused driver lacks, and warns of a driver that is for the same devices as another
/// one: no system could use such a device without choosing one of them.
fn check_driver(catalogue: &Catalogue, source: &Arc<Source>, manifest: &Manifest) -> Diagnostics {
    let Some(own) = &manifest.driver else { return Diagnostics::default() };
    let mut found = fused::mistakes(source, manifest);
    for other in catalogue.components.values() {
        let Ok(Manifest { name, driver: Some(driver), .. }) = &other.manifest else { continue };
        let of_one_class = driver.classes.iter().any(|class| own.classes.contains(class));
        // `fused` chooses between one with virtualisers and one without.
        let are_alike = other.manifest.as_ref().is_ok_and(|other| fused::is_fused(other) == fused::is_fused(manifest));
        if *name == manifest.name || !of_one_class || !are_alike {
            continue;
        }
        let mut wanted = own.needs.compatible.iter();
        let Some(shared) = wanted.find(|compatible| driver.needs.compatible.contains(compatible)) else { continue };
        let message = format!("`{name}` is for `{shared}` too");
        let diagnostic = Diagnostic::at(source, own.needs.span.clone(), message).help(format!(
            "a system that has such a device must choose: `driver = \"{}\"` or `driver = \"{name}\"`",
            manifest.name
        ));
        found.push(diagnostic.warning());
    }
    found
}

/// Every board, component and system of the tree.
fn check_all(catalogue: &Catalogue, board: Option<&str>) -> Outcome {
    let (boards, systems) = (catalogue.boards(), catalogue.systems());
    let mut found = workspace::check(catalogue);
    for file in boards.values() {
        found.append(&check_board(catalogue, file));
    }
    for component in catalogue.components.values() {
        found.append(&check_known(catalogue, component));
    }
    for file in systems.values() {
        match expand::check(catalogue, file, board) {
            Ok(checked) => found.append(&checked.warnings),
            Err(mistakes) => found.append(&mistakes),
        }
    }
    let counts = [(boards.len(), "board"), (catalogue.components.len(), "component"), (systems.len(), "system")];
    let counts = counts.map(|(count, what)| format!("{count} {what}{}", if count == 1 { "" } else { "s" }));
    let [boards, components, systems] = counts;
    Outcome { found, summary: format!("all is well: {boards}, {components}, {systems}") }
}

/// Returns the summary of a good system.
fn summary(checked: &Checked) -> String {
    let plan = &checked.plan;
    let regions: u64 = plan.regions.iter().filter(|region| region.address.is_none()).map(|region| region.size).sum();
    format!(
        "{} is well: {} protection domains on {} core{}, {} queues, {} regions ({}), board {}",
        plan.name,
        plan.domains.len(),
        plan.cores(),
        if plan.cores() == 1 { "" } else { "s" },
        plan.rings.len(),
        plan.regions.len(),
        format_size(regions),
        plan.board.name
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn checked(system: Option<&str>) -> Outcome {
        let tree = concat!(env!("CARGO_MANIFEST_DIR"), "/../../");
        let system = system.map(|path| format!("{tree}{path}"));
        outcome(&Options { system, board: None, json: false, deny: None }).expect("it can be checked")
    }

    #[test]
    fn without_a_name_everything_is_checked_and_counted() {
        let Outcome { found, summary } = checked(None);
        assert!(found.is_empty(), "{found}");
        let catalogue = commands::catalogue().expect("the tree");
        let (boards, systems) = (catalogue.boards().len(), catalogue.systems().len());
        let components = catalogue.components.len();
        assert!(boards > 1 && systems > 1 && components > 10);
        assert_eq!(summary, format!("all is well: {boards} boards, {components} components, {systems} systems"));
    }

    #[test]
    fn what_was_meant_is_said_where_there_is_no_such_system() {
        for (name, advice) in [
            ("virt", "`virt` is a board: `./culm check boards/virt.toml`"),
            ("serial-pl011", "`serial-pl011` is a component: `./culm check drivers/serial/pl011/component.toml`"),
            ("hello.tml", "did you mean `hello`?"),
            ("greeter.toml", "did you mean `systems/greeter.toml`?"),
            ("systems/web", "did you mean `systems/web.toml`?"),
            ("sub/hello", "did you mean `systems/hello.toml`?"),
            ("apps/http", "`http` is a component: `./culm check services/http/component.toml`"),
            ("systems", "choose one of `"),
        ] {
            let options = Options { system: Some(name.into()), board: None, json: false, deny: None };
            let Outcome { found, .. } = outcome(&options).expect("it can be checked");
            assert!(found.render(false).contains(advice), "{name}: {found}");
        }
    }

    #[test]
    fn a_key_that_no_class_has_cannot_be_required() {
        let world = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/bad/world");
        let text = std::fs::read_to_string(format!("{world}/apps/diarist/component.toml")).expect("it is there");
        let source = Source::new("component.toml", text.replace("write", "writes"));
        let manifest = Manifest::parse(&source.text).expect("a manifest");
        let found = check_required(&source, &manifest).render(false);
        assert!(found.contains("the class `file` has no key `writes` that is true or false"), "{found}");
        assert!(found.contains("did you mean `write`?"), "{found}");
    }

    #[test]
    fn two_drivers_for_a_device_are_odd_at_their_manifests() {
        let world = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/bad/world");
        let catalogue = Catalogue::read(Path::new(world));
        let found = check_component(&catalogue, &catalogue.components["fast-a"].folder.join("component.toml"));
        assert_eq!((found.count(Severity::Error), found.count(Severity::Warning)), (0, 1), "{found}");
        assert!(found.render(false).contains("`fast-b` is for `test,fast` too"), "{found}");
    }

    #[test]
    fn a_board_that_is_a_copy_is_odd() {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let file = folder.path().join("mine.toml");
        let virt = concat!(env!("CARGO_MANIFEST_DIR"), "/../../boards/virt.toml");
        std::fs::copy(virt, &file).expect("the board is there");
        let found = check_board(&commands::catalogue().expect("the tree"), &file);
        assert_eq!((found.count(Severity::Error), found.count(Severity::Warning)), (0, 1), "{found}");
        assert!(found.render(false).contains("the board calls itself `virt`, its file is `mine.toml`"), "{found}");
    }

    #[test]
    fn a_file_is_checked_as_what_it_is() {
        for (file, what) in [
            ("boards/virt.toml", "well: a board"),
            ("drivers/serial/pl011/component.toml", "well: a component"),
            ("tests/bad/world/drivers/serial/pl011/component.toml", "well: a component"),
            ("systems/hello.toml", "protection domains"),
        ] {
            let Outcome { found, summary } = checked(Some(file));
            assert!(found.is_empty(), "{file}: {found}");
            assert!(summary.contains(what), "{file}: {summary}");
        }
        for (file, message) in [
            ("tests/bad/boards/registers-not-aligned.toml", "registers"),
            ("tests/bad/components/no-stack.toml", "stack"),
            ("boards/no-such-board.toml", "no such file"),
        ] {
            let Outcome { found, .. } = checked(Some(file));
            assert!(found.count(Severity::Error) > 0, "{file} passes");
            assert!(found.render(false).contains(message), "{file}: {found}");
        }
    }
}
