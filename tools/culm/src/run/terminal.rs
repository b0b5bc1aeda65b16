//! The terminal while a machine's console is on it: keys go through one by one and are not echoed,
//! Ctrl-C remains.

use nix::sys::termios::{InputFlags, LocalFlags, SetArg, Termios, tcgetattr, tcsetattr};
use nix::unistd::{getpgrp, tcgetpgrp};
use std::io::{IsTerminal as _, Stdin, stdin};

/// The terminal's settings, put back when this is dropped.
#[derive(Debug)]
pub struct Keyboard {
    stdin: Stdin,
    before: Option<Termios>,
}

impl Keyboard {
    /// Takes the terminal, where standard input is one and this program is in its foreground.
    pub fn take() -> Self {
        let stdin = stdin();
        let before = if owns_terminal(&stdin) { tcgetattr(&stdin).ok() } else { None };
        if let Some(before) = &before {
            let mut settings = before.clone();
            settings.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
            settings.input_flags.remove(InputFlags::ICRNL);
            // Without these settings the console can still be read; typing is only less pleasant.
            let _ = tcsetattr(&stdin, SetArg::TCSANOW, &settings);
        }
        Self { stdin, before }
    }

    /// Whether there is input to be passed on: from a program or file always, from a terminal if it
    /// is ours.
    pub fn is_usable(&self) -> bool {
        !self.stdin.is_terminal() || self.before.is_some()
    }
}

impl Drop for Keyboard {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            let _ = tcsetattr(&self.stdin, SetArg::TCSANOW, before);
        }
    }
}

/// A program in the background would be stopped if it touched the terminal.
fn owns_terminal(stdin: &Stdin) -> bool {
    stdin.is_terminal() && tcgetpgrp(stdin).is_ok_and(|foreground| foreground == getpgrp())
}
