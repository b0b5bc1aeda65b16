//! The command line of the host tool.

use crate::build::command as build;
use crate::failure::Failure;
use crate::{bench, check, commands, completion, create, disk_image, output, run, schema, test};
use clap::error::{ContextKind, ContextValue, ErrorKind};
use clap::{CommandFactory as _, Parser, Subcommand};
use culm_manifest::problem::nearest;
use std::process::ExitCode;

/// Culm: sealed systems, checked before they boot.
#[derive(Parser)]
#[command(name = "culm", bin_name = "./culm", version, propagate_version = true)]
struct CommandLine {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Measure Culm and Linux in the same emulated machine
    Bench(bench::Options),
    /// Build the image of a system
    Build(build::Options),
    /// Check a system, a board or a component, or all there are: everything that is wrong, with
    /// file and line
    Check(check::Options),
    /// Show what a system expands to
    Expand(commands::System),
    /// Print the script by which a shell completes commands: for bash, source <(./culm completion
    /// bash)
    Completion {
        /// The shell that is to complete
        shell: clap_complete::Shell,
    },
    /// Draw a system as an SVG picture
    Graph(commands::Graph),
    /// Make the image of a disk: a partition table, and FAT partitions that are filled from folders
    Image(disk_image::Options),
    /// Become another program that ends with its parent
    #[command(hide = true)]
    Become(run::launch::Become),
    /// Make something new from a template
    #[command(subcommand)]
    New(create::New),
    /// Print a page of the book that is made from the code
    #[command(hide = true)]
    Reference { which: commands::Reference },
    /// List the boards
    Boards,
    /// Print the JSON schema of a kind of file, by which editors complete and check it
    Schema {
        /// The kind of file
        of: schema::Of,
    },
    /// List the systems
    Systems,
    /// Build a system and run it in QEMU
    Run(run::Options),
    /// Install what is missing on this machine, after saying what and why
    Setup(Setup),
    /// Run every test there is
    Test(test::Options),
}

/// Options of `./culm setup`. That is the work of the script `./culm`, since the tool itself needs
/// what it installs; here it is for the help, for completion and for the book.
#[derive(clap::Args)]
struct Setup {
    /// List what is there and what is missing, and change nothing
    #[arg(long)]
    check: bool,
    /// The same with what `./culm test` and `./culm bench` need
    #[arg(long)]
    tests: bool,
}

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    output::end_quietly_without_reader();
    let command_line = match CommandLine::try_parse() {
        Ok(command_line) => command_line,
        Err(error) => match without_system(&error, std::env::args().skip(1)) {
            Some(failure) => {
                commands::report(&failure);
                return ExitCode::from(2);
            }
            None => with_suggestion(error).exit(),
        },
    };
    let result = match command_line.command {
        Command::Become(options) => Err(run::launch::into_program(&options).into()),
        Command::Run(options) => return done(run::run(&options)),
        Command::Bench(_) => bench::bench(),
        Command::Build(options) => build::build(&options),
        Command::Setup(_) => Err(Failure::new("setup is the work of `./culm`").help("type ./culm setup").into()),
        Command::Completion { shell } => completion::completion(shell, CommandLine::command()),
        Command::Check(options) => return done(check::check(&options)),
        Command::Schema { of } => schema::print(of),
        Command::Expand(system) => commands::expand(&system),
        Command::Graph(graph) => commands::graph(&graph),
        Command::Image(options) => disk_image::image(&options),
        Command::New(what) => create::new(&what),
        Command::Reference { which } => commands::reference(which, &CommandLine::command()),
        Command::Boards => commands::boards(),
        Command::Systems => commands::systems(),
        Command::Test(options) => test::test(&options),
    };
    done(result.map(|()| ExitCode::SUCCESS))
}

/// Returns the message if only the system was left out of `arguments`. The parser would name the
/// argument; a person wants to know which systems there are.
fn without_system(error: &clap::Error, mut arguments: impl Iterator<Item = String>) -> Option<anyhow::Error> {
    let Some(ContextValue::Strings(missing)) = error.get(ContextKind::InvalidArg) else { return None };
    if error.kind() != ErrorKind::MissingRequiredArgument || !missing.iter().eq(["<SYSTEM>"]) {
        return None;
    }
    let line = CommandLine::command();
    let command = arguments.find_map(|argument| line.find_subcommand(argument))?;
    Some(match commands::catalogue() {
        Ok(catalogue) => commands::no_system(&catalogue, command.get_name()).into(),
        Err(error) => error,
    })
}

/// The same error with the command that was most likely meant. What clap finds by itself misses
/// exchanged letters.
fn with_suggestion(mut error: clap::Error) -> clap::Error {
    let Some(ContextValue::String(wrong)) = error.get(ContextKind::InvalidSubcommand) else { return error };
    if error.kind() != ErrorKind::InvalidSubcommand {
        return error;
    }
    if let Some(advice) = instead_of(wrong) {
        error.remove(ContextKind::SuggestedSubcommand);
        error.insert(ContextKind::Suggested, ContextValue::StyledStrs(vec![advice.into()]));
    } else if error.get(ContextKind::SuggestedSubcommand).is_none() {
        let command = CommandLine::command();
        let outer = command.get_subcommands().filter(|command| !command.is_hide_set());
        let names = outer.flat_map(|outer| std::iter::once(outer).chain(outer.get_subcommands()));
        let names: Vec<&str> = names.map(clap::Command::get_name).collect();
        if let Some(name) = nearest(wrong, names) {
            let name = ContextValue::Strings(vec![name.to_string()]);
            error.insert(ContextKind::SuggestedSubcommand, name);
        }
    }
    error
}

/// Returns the command to type in place of a word that is none, but what somebody may look for.
fn instead_of(word: &str) -> Option<String> {
    match word {
        "show" => return Some("`./culm expand SYSTEM` shows what a system expands to".into()),
        "status" => return Some("the state of a running system is its web server's page /_status".into()),
        _ => {}
    }
    let catalogue = commands::catalogue().ok()?;
    catalogue.systems().contains_key(word).then(|| format!("to run this system: ./culm run {word}"))
}

/// The exit status; an error is reported.
fn done(result: anyhow::Result<ExitCode>) -> ExitCode {
    match result {
        Ok(status) => status,
        Err(error) => {
            commands::report(&error);
            ExitCode::FAILURE
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_command_line_is_sound() {
        CommandLine::command().debug_assert();
    }

    #[test]
    fn a_mistyped_command_gets_a_suggestion() {
        for (typed, meant) in
            [(&["rnu", "web"][..], "run"), (&["bulid", "web"], "build"), (&["new", "dirver"], "driver")]
        {
            let line = std::iter::once(&"culm").chain(typed);
            let error = CommandLine::try_parse_from(line).err().expect("it is no command");
            let said = with_suggestion(error).to_string();
            assert!(said.contains(&format!("a similar subcommand exists: '{meant}'")), "{said}");
        }
    }

    #[test]
    fn who_leaves_out_the_system_sees_those_that_there_are() {
        for command in ["run", "build", "expand", "graph"] {
            let line = ["culm", command];
            let error = CommandLine::try_parse_from(line).err().expect("there is no system in it");
            let arguments = line.iter().skip(1).map(ToString::to_string);
            let said = without_system(&error, arguments).expect("it is what is wrong").to_string();
            let has_web = |line: &str| line.split_whitespace().eq("web A web server in sealed compartments".split(' '));
            assert!(said.lines().any(has_web), "{said}");
            assert!(said.contains(&format!("help: type `./culm {command} echo`")), "{said}");
        }
        let error = CommandLine::try_parse_from(["culm", "run", "web", "--no-such-option"]).err().expect("wrong");
        assert!(without_system(&error, ["run".to_string()].into_iter()).is_none());
    }

    #[test]
    fn who_types_no_command_is_told_of_one() {
        for (typed, advice) in [("web", "./culm run web"), ("show", "./culm expand SYSTEM"), ("status", "/_status")] {
            let error = CommandLine::try_parse_from(["culm", typed]).err().expect("it is no command");
            let said = with_suggestion(error).to_string();
            assert!(said.contains(advice), "{said}");
        }
    }

    #[test]
    fn the_page_of_commands_in_the_book_is_this_one() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/commands.md");
        let page = crate::reference::commands(&CommandLine::command());
        if std::env::var_os("CULM_BLESS").is_some() {
            std::fs::write(&file, &page).expect("the book can be written");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), page, "run this test with CULM_BLESS=1");
    }
}
