//! The terminal while a machine's console is on it: keys go through one by one and are not echoed.
//! Those that a terminal makes signals of, such as Ctrl-C, remain, unless a console of the system
//! takes what is typed.

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
    /// Takes the terminal, where standard input is one and this program is in its foreground; `all`
    /// says whether every key goes through.
    pub fn take(all: bool) -> Self {
        let stdin = stdin();
        let before = if owns_terminal(&stdin) { tcgetattr(&stdin).ok() } else { None };
        if let Some(before) = &before {
            let mut settings = before.clone();
            settings.local_flags.remove(LocalFlags::ICANON | LocalFlags::ECHO);
            settings.input_flags.remove(InputFlags::ICRNL);
            if all {
                // Else the terminal would keep, too, Ctrl-S and Ctrl-Q, Ctrl-V, and what Ctrl-V
                // precedes.
                settings.local_flags.remove(LocalFlags::ISIG | LocalFlags::IEXTEN);
                settings.input_flags.remove(InputFlags::IXON);
            }
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

/// Whether somebody types at a terminal that this program has in front.
pub fn is_ours() -> bool {
    owns_terminal(&stdin())
}

/// A program in the background would be stopped if it touched the terminal.
fn owns_terminal(stdin: &Stdin) -> bool {
    stdin.is_terminal() && tcgetpgrp(stdin).is_ok_and(|foreground| foreground == getpgrp())
}
