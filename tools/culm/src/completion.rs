//! `culm completion SHELL`: the script by which a shell completes commands, options, and the names
//! of what there is.

use crate::commands;
use crate::test;
use anyhow::Result;
use clap::Command;
use clap::builder::{PossibleValue, PossibleValuesParser};
use clap_complete::{Shell, generate};
use culm_manifest::DeviceClass;
use std::path::Path;

/// Prints the script.
pub fn completion(shell: Shell, command_line: Command) -> Result<()> {
    let catalogue = commands::catalogue()?;
    let systems: Vec<String> = catalogue.systems().into_keys().collect();
    let boards: Vec<String> = catalogue.boards().into_keys().collect();
    let stages: Vec<String> = test::STAGES.iter().map(ToString::to_string).collect();
    let benches = recorded(&catalogue.root);
    let classes: Vec<String> = DeviceClass::names().iter().map(|(name, _)| format!("{name}/")).collect();
    let names =
        [("system", &systems[..]), ("board", &boards), ("stages", &stages), ("names", &benches), ("device", &classes)];
    let mut command_line = with_names(without_hidden(command_line), &names);
    // The shells find the script by the last part of `./culm`.
    let mut script = Vec::new();
    generate(shell, &mut command_line, "culm", &mut script);
    print!("{}", String::from_utf8(script)?);
    Ok(())
}

/// Names of the benchmarks of which there are results.
fn recorded(root: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(root.join("bench/results")).into_iter().flatten().flatten();
    let files = entries.map(|entry| entry.path()).filter(|file| file.extension().is_some_and(|kind| kind == "json"));
    let mut names: Vec<String> =
        files.filter_map(|file| Some(file.file_stem()?.to_string_lossy().into_owned())).collect();
    names.sort();
    names
}

/// The same command line without what nobody types.
fn without_hidden(command: Command) -> Command {
    let visible: Vec<Command> = command.get_subcommands().filter(|inner| !inner.is_hide_set()).cloned().collect();
    let bare = Command::new(command.get_name().to_string()).version(env!("CARGO_PKG_VERSION"));
    bare.propagate_version(true).args(command.get_arguments().cloned()).subcommands(visible)
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
    fn what_nobody_types_is_not_completed() {
        let command = Command::new("culm").subcommand(Command::new("run")).subcommand(Command::new("inner").hide(true));
        let mut command = without_hidden(command);
        let mut script = Vec::new();
        generate(Shell::Bash, &mut command, "culm", &mut script);
        let script = String::from_utf8(script).expect("a script is text");
        assert!(script.contains("run") && script.contains("--version") && !script.contains("inner"), "{script}");
    }

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
