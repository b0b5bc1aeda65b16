//! The commands that look at descriptions: what the command line calls, and how it reports.

use crate::description::catalogue::Catalogue;
use crate::description::system::{Document, SystemFile};
use crate::diagnostics::{Diagnostic, Diagnostics, Source};
use crate::expand::Checked;
use crate::failure::Failure;
use crate::guest;
use crate::plan::Plan;
use crate::show;
use crate::tree::Tree;
use anyhow::{Context as _, Result};
use std::io::IsTerminal as _;
use std::path::{Path, PathBuf};

/// Which system a command is about.
#[derive(clap::Args, Clone, Debug)]
pub struct System {
    /// The system: its name, or the path of its file
    pub system: String,
    /// The board, in place of the one that the system names
    #[arg(long, value_name = "NAME")]
    pub board: Option<String>,
}

impl System {
    /// Reads, checks and expands the system; what is odd in it is shown.
    pub fn plan(&self) -> Result<Plan> {
        self.plan_with(None)
    }

    fn plan_with(&self, memory: Option<u64>) -> Result<Plan> {
        let checked = self.checked_with(memory)?;
        show_warnings(&checked.warnings);
        Ok(checked.plan)
    }

    /// The same of a system that is to be built: what it takes from Debian is fetched first. Its
    /// board may have another size of memory than its file says.
    pub fn plan_to_build(&self, memory: Option<u64>) -> Result<Plan> {
        let tree = Tree::find()?;
        // Mistakes are reported by the plan.
        let path = Catalogue::of(&tree).system_file(&self.system).ok();
        if let Some(source) = path.and_then(|path| Source::read(&path).ok()) {
            let document = Document::parse(&source.text);
            if let Some(file) = SystemFile::read(&document, &mut Vec::new()) {
                guest::source::fetch(&tree, &file)?;
            }
        }
        self.plan_with(memory)
    }

    /// The same, with what is odd in it for the caller.
    pub fn checked(&self) -> Result<Checked, Diagnostics> {
        self.checked_with(None)
    }

    fn checked_with(&self, memory: Option<u64>) -> Result<Checked, Diagnostics> {
        let tree = Tree::find().map_err(|error| Diagnostic::general(format!("{error:#}")))?;
        let catalogue = Catalogue::of(&tree);
        let file = catalogue.system_file(&self.system)?;
        crate::expand::check_with_memory(&catalogue, &file, self.board.as_deref(), memory)
    }
}

/// The catalogue of what is there.
pub fn catalogue() -> Result<Catalogue> {
    Ok(Catalogue::of(&Tree::find()?))
}

/// Shows what is odd, if something is.
pub fn show_warnings(warnings: &Diagnostics) {
    if !warnings.is_empty() {
        eprint!("{}", warnings.render(colour()));
    }
}

/// Whether standard error is shown in colours.
fn colour() -> bool {
    std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none()
}

/// Prints why a command failed: mistakes in descriptions as such, anything else in one line.
pub fn report(error: &anyhow::Error) {
    let colour = colour();
    match error.downcast_ref::<Diagnostics>() {
        Some(diagnostics) => eprint!("{}", diagnostics.render(colour)),
        None => eprintln!("{}", Diagnostic::general(format!("{error:#}")).render(colour).trim_end()),
    }
}

/// `culm expand`: prints the plan.
pub fn expand(system: &System) -> Result<()> {
    print!("{}", show::expanded(&system.plan()?));
    Ok(())
}

/// The picture to draw, and where to.
#[derive(clap::Args, Clone, Debug)]
pub struct Graph {
    /// Which system.
    #[command(flatten)]
    pub system: System,
    /// The file to write; without it the picture goes to standard output, or to build/NAME.svg on a
    /// terminal
    #[arg(short, long, value_name = "FILE")]
    pub output: Option<PathBuf>,
}

/// `culm graph`: draws the plan.
pub fn graph(graph: &Graph) -> Result<()> {
    let plan = graph.system.plan()?;
    let picture = crate::graph::svg(&plan);
    let file = match &graph.output {
        Some(file) => file.clone(),
        None if std::io::stdout().is_terminal() => Tree::find()?.build.join(format!("{}.svg", plan.name)),
        None => {
            print!("{picture}");
            return Ok(());
        }
    };
    if let Some(folder) = file.parent().filter(|folder| !folder.as_os_str().is_empty() && !folder.exists()) {
        std::fs::create_dir_all(folder).with_context(|| format!("cannot make the folder {}", folder.display()))?;
        println!("made: {}", folder.display());
    }
    check_picture(&file)?;
    std::fs::write(&file, picture).with_context(|| format!("cannot write {}", file.display()))?;
    println!("drawn: {}", file.display());
    Ok(())
}

/// Refuses to write a picture over a file that is none, such as the system's own.
fn check_picture(file: &Path) -> Result<(), Failure> {
    let is_regular = std::fs::metadata(file).is_ok_and(|metadata| metadata.is_file());
    // A file that cannot be read is no picture for all that is known.
    let is_picture = || std::fs::read(file).is_ok_and(|content| content.is_empty() || crate::graph::is_svg(&content));
    if !is_regular || is_picture() {
        return Ok(());
    }
    Err(Failure::new(format!("{} is there already, and no SVG", file.display()))
        .help("choose another name, ending in `.svg`, or remove it"))
}

/// Which reference to print.
#[derive(clap::ValueEnum, Clone, Copy, Debug)]
pub enum Reference {
    /// Of system files.
    SystemFile,
    /// Of component files.
    ComponentFile,
    /// Of board files.
    BoardFile,
    /// Of commands.
    Commands,
    /// Of what components are given of each kind of connection.
    Connections,
    /// Of descriptions of disks.
    Image,
}

/// `culm reference`: prints a page of the book that is made from the code.
pub fn reference(which: Reference, command_line: &clap::Command) -> Result<()> {
    match which {
        Reference::SystemFile => print!("{}", crate::reference::page()),
        Reference::ComponentFile => print!("{}", crate::reference::component::page()),
        Reference::BoardFile => print!("{}", crate::reference::board::page()),
        Reference::Commands => print!("{}", crate::reference::commands(command_line)),
        Reference::Image => print!("{}", crate::disk::keys::page()),
        Reference::Connections => print!("{}", crate::reference::connections::page()),
    }
    Ok(())
}

/// `culm boards`: one line for each.
pub fn boards() -> Result<()> {
    let catalogue = catalogue()?;
    list(catalogue.boards().into_iter().map(|(name, path)| {
        let mut diagnostics = Diagnostics::default();
        let description = Source::read(&path)
            .ok()
            .and_then(|source| crate::description::board::BoardFile::read(&source, &mut diagnostics))
            .map(|file| file.board.description);
        (name, description.unwrap_or_else(|| "(has mistakes)".to_string()))
    }));
    Ok(())
}

/// `culm systems`: one line for each.
pub fn systems() -> Result<()> {
    list(described_systems(&catalogue()?).into_iter());
    Ok(())
}

/// The failure of a command that was not told which system: those that there are, and what to type.
pub fn no_system(catalogue: &Catalogue, command: &str) -> Failure {
    let systems = described_systems(catalogue);
    let failure = Failure::new(format!("`./culm {command}` needs to know which system"));
    let Some((first, _)) = systems.first() else {
        return failure.help(format!("this tree has none in systems/: `./culm {command} FILE.toml` takes any file"));
    };
    let help = format!("type `./culm {command} {first}`, another of these names, or the path of a system's file");
    table(&systems).into_iter().fold(failure, Failure::detail).help(help)
}

/// Names and descriptions of all systems.
fn described_systems(catalogue: &Catalogue) -> Vec<(String, String)> {
    let describe = |(name, path): (String, PathBuf)| {
        let description = Source::read(&path).ok().and_then(|source| {
            let document = Document::parse(&source.text);
            let file = SystemFile::read(&document, &mut Vec::new());
            file.map(|file| file.description)
        });
        (name, description.unwrap_or_else(|| "(has mistakes)".to_string()))
    };
    catalogue.systems().into_iter().map(describe).collect()
}

fn list(lines: impl Iterator<Item = (String, String)>) {
    for line in table(&lines.collect::<Vec<_>>()) {
        println!("{line}");
    }
}

/// Lines of two columns.
fn table(lines: &[(String, String)]) -> Vec<String> {
    let width = lines.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
    lines.iter().map(|(name, description)| format!("{name:width$}  {description}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_picture_is_written_over_pictures_alone() {
        let folder = tempfile::tempdir().expect("there is a place for temporary files");
        let file = folder.path().join("web");
        assert_eq!(check_picture(&file), Ok(()));
        assert_eq!(check_picture(Path::new("/dev/null")), Ok(()));
        for (content, is_picture) in [
            ("", true),
            ("<svg xmlns=\"http://www.w3.org/2000/svg\"/>", true),
            ("<?xml version=\"1.0\"?>\n<svg/>", true),
            ("<?xml version=\"1.0\"?>\n<html/>", false),
            ("name = \"web\"\n", false),
        ] {
            std::fs::write(&file, content).expect("it can be written");
            assert_eq!(check_picture(&file).is_ok(), is_picture, "{content}");
        }
    }
}
