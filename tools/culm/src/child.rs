//! Other programs, run to their end.

use anyhow::{Context as _, Result, bail};
use std::process::{Command, Stdio};

/// Runs a command to its end and returns what it printed; an error says what it said.
pub fn run(command: &mut Command) -> Result<String> {
    let name = command.get_program().to_string_lossy().into_owned();
    let result = command.stdin(Stdio::null()).output();
    let output =
        result.with_context(|| format!("cannot run {name}: is it installed? (`./culm setup --tests` does that)"))?;
    if !output.status.success() {
        let arguments: Vec<_> = command.get_args().map(|argument| argument.to_string_lossy().into_owned()).collect();
        let said = String::from_utf8_lossy(&output.stderr);
        let last: Vec<_> = said.lines().rev().take(12).collect();
        let said = last.into_iter().rev().collect::<Vec<_>>().join("\n");
        bail!("{name} {} failed ({}):\n{said}", arguments.join(" "), output.status);
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_says_what_the_command_said() {
        let error = run(Command::new("sh").args(["-c", "echo broken >&2; exit 3"])).unwrap_err().to_string();
        assert!(error.contains("broken") && error.contains('3'), "{error}");
        assert!(run(&mut Command::new("no-such-command-here")).is_err());
    }
}
