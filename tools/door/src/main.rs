//! The host tool as a program: all of it is in `tools/culm`.

#![forbid(unsafe_code)]

use std::process::ExitCode;

fn main() -> ExitCode {
    culm_tool::command_line::main()
}
