//! `culm completion SHELL`: the script by which a shell completes commands, options, and the names
//! of what there is.

use crate::commands;
use anyhow::Result;
use clap::Command;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap_complete::{Shell, generate};

/// Prints the script.
pub fn completion(shell: Shell, command_line: Command) -> Result<()> {
    let catalogue = commands::catalogue()?;
    let systems: Vec<String> = catalogue.systems().into_keys().collect();
    let boards: Vec<String> = catalogue.boards().into_keys().collect();
    let mut command_line = with_names(command_line, &[("system", &systems), ("board", &boards)]);
    // The shells find the script by the last part of `./culm`.
    let mut script = Vec::new();
    generate(shell, &mut command_line, "culm", &mut script);
    print!("{}", String::from_utf8(script)?);
    Ok(())
}

/// The same command line, in which these arguments take these names.
fn with_names(command: Command, names: &[(&str, &[String])]) -> Command {
    let subcommands: Vec<String> = command.get_subcommands().map(|inner| inner.get_name().to_string()).collect();
    let mut command = subcommands
        .into_iter()
        .fold(command, |command, name| command.mut_subcommand(name, |inner| with_names(inner, names)));
    for (argument, values) in names {
        if command.get_arguments().any(|own| own.get_id() == *argument) {
            let values: Vec<_> = values.iter().cloned().map(PossibleValue::new).collect();
            command = command.mut_arg(argument, |own| own.value_parser(PossibleValuesParser::new(values)));
        }
    }
    command
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Arg;

    #[test]
    fn names_are_completed_at_every_level() {
        let inner = Command::new("run").arg(Arg::new("system")).arg(Arg::new("board").long("board"));
        let command = Command::new("culm").subcommand(Command::new("outer").subcommand(inner));
        let mut command = with_names(command, &[("system", &["web".into()]), ("board", &["virt".into()])]);
        let mut script = Vec::new();
        generate(Shell::Fish, &mut command, "culm", &mut script);
        let script = String::from_utf8(script).expect("a script is text");
        assert!(script.contains("virt"), "{script}");
    }
}
