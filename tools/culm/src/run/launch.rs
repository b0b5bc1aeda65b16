//! The last step before the emulator: a process that makes itself ready and then becomes it.
//!
//! A child inherits which signals its parent blocks, and this tool blocks those that it waits for:
//! an emulator started straight from it could not be asked to end, only killed after a while. What
//! a child is to be like only the child itself can arrange, so the tool starts itself again, by the
//! hidden command `become`.

use crate::failure::Failure;
use nix::sys::prctl::set_pdeathsig;
use nix::sys::signal::{SigSet, Signal};
use nix::unistd::getppid;
use std::ffi::OsString;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Arguments of `culm become`.
#[derive(clap::Args, Clone, Debug)]
pub struct Become {
    /// The process at whose end this one is to end.
    parent: u32,
    /// The program to become.
    program: PathBuf,
    /// Its arguments.
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    arguments: Vec<OsString>,
}

/// A command that becomes `program`: with no signal blocked, and killed by the operating system
/// should this process end without ending it.
pub fn command(program: &Path) -> Result<Command, Failure> {
    let tool = std::env::current_exe().map_err(|error| Failure::io("find the running tool", &error))?;
    let mut command = Command::new(tool);
    command.args(["become", &std::process::id().to_string()]).arg(program);
    Ok(command)
}

/// `culm become`: returns only where that is not possible.
pub fn into_program(options: &Become) -> Failure {
    let prepared = set_pdeathsig(Signal::SIGKILL).and_then(|()| SigSet::all().thread_unblock());
    if let Err(error) = prepared {
        return Failure::new(format!("cannot prepare the start of {}: {error}", options.program.display()));
    }
    // The parent may have ended before it was asked after.
    if getppid().as_raw().cast_unsigned() != options.parent {
        return Failure::new("the tool has ended");
    }
    let error = Command::new(&options.program).args(&options.arguments).exec();
    Failure::io(format_args!("run {}", options.program.display()), &error)
}
