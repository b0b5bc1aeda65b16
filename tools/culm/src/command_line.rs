//! The command line of the host tool.

use crate::build::command as build;
use crate::{bench, commands, create, run, test};
use clap::{CommandFactory as _, Parser, Subcommand};
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
    /// Check a system: everything that is wrong, with file and line
    Check(commands::System),
    /// Show what a system expands to
    Expand(commands::System),
    /// Draw a system as an SVG picture
    Graph(commands::Graph),
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
    /// List the systems
    Systems,
    /// Build a system and run it in QEMU
    Run(run::Options),
    /// Run every test there is
    Test(test::Options),
}

/// Does what the command line asks for.
pub fn main() -> ExitCode {
    let command_line = CommandLine::parse();
    let result = match command_line.command {
        Command::Become(options) => Err(run::launch::into_program(&options).into()),
        Command::Run(options) => return done(run::run(&options)),
        Command::Bench(options) => bench::bench(&options),
        Command::Build(options) => build::build(&options),
        Command::Check(system) => commands::check(&system),
        Command::Expand(system) => commands::expand(&system),
        Command::Graph(graph) => commands::graph(&graph),
        Command::New(what) => create::new(&what),
        Command::Reference { which } => commands::reference(which, &CommandLine::command()),
        Command::Boards => commands::boards(),
        Command::Systems => commands::systems(),
        Command::Test(options) => test::test(&options),
    };
    done(result.map(|()| ExitCode::SUCCESS))
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
    fn the_page_of_commands_in_the_book_is_this_one() {
        let file = std::path::Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src/reference/commands.md");
        let page = crate::reference::commands(&CommandLine::command());
        if std::env::var_os("CULM_BLESS").is_some() {
            std::fs::write(&file, &page).expect("the book can be written");
        }
        assert_eq!(std::fs::read_to_string(&file).unwrap_or_default(), page, "run this test with CULM_BLESS=1");
    }
}
