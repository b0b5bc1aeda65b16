//! A terminal with a command in it, as a person has it in front: a pseudo-terminal on which keys
//! are typed.

use crate::PATIENCE;
use crate::screen::Screen;
use nix::pty::{OpenptyResult, openpty};
use nix::sys::termios::{LocalFlags, tcgetattr};
use std::fs::File;
use std::io::Write as _;
use std::process::{Child, Command, ExitStatus};
use std::time::{Duration, Instant};

/// A terminal. Dropping it kills the command that runs in it.
#[derive(Debug)]
pub struct Terminal {
    keyboard: File,
    /// The command's side, kept open so that the terminal's settings can be read after its end.
    settings: File,
    screen: Screen,
    command: Child,
}

impl Terminal {
    /// Runs a command as the terminal's foreground.
    ///
    /// # Panics
    /// Where there is no terminal to be had, or the command does not start.
    pub fn run(command: &Command) -> Self {
        let OpenptyResult { master, slave } = openpty(None, None).expect("Linux has pseudo-terminals");
        let settings = File::from(slave);
        let twin = || settings.try_clone().expect("a file can be held twice");
        let mut inside = Command::new("setsid");
        inside.arg("--ctty").arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        if let Some(folder) = command.get_current_dir() {
            inside.current_dir(folder);
        }
        let command = inside.stdin(twin()).stdout(twin()).stderr(twin()).spawn().expect("the command starts");
        let keyboard = File::from(master);
        let screen = Screen::new(keyboard.try_clone().expect("a file can be held twice"));
        Self { keyboard, settings, screen, command }
    }

    /// Waits for a text and forgets everything up to it.
    ///
    /// # Panics
    /// Where it does not come.
    pub fn expect(&mut self, text: &str) {
        self.screen.expect(text);
    }

    /// Waits for a text and returns what stands before it.
    ///
    /// # Panics
    /// Where it does not come.
    pub fn expect_before(&mut self, text: &str) -> String {
        self.screen.expect_before(text)
    }

    /// Waits for texts in any order and forgets everything up to the last.
    ///
    /// # Panics
    /// Where one does not come.
    pub fn expect_all(&mut self, texts: &[&str]) {
        self.screen.expect_all(texts);
    }

    /// Presses keys.
    ///
    /// # Panics
    /// Where the terminal is gone.
    pub fn press(&mut self, keys: &str) {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal takes keys");
    }

    /// Whether it shows what is typed and hands it on by lines, as it does for a shell.
    ///
    /// # Panics
    /// Where it has no settings.
    pub fn is_in_order(&self) -> bool {
        let settings = tcgetattr(&self.settings).expect("a terminal has settings");
        settings.local_flags.contains(LocalFlags::ICANON | LocalFlags::ECHO)
    }

    /// The command's process.
    pub fn process(&self) -> u32 {
        self.command.id()
    }

    /// Waits until the command ends.
    ///
    /// # Panics
    /// Where it does not.
    pub fn wait(&mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        loop {
            if let Some(status) = self.command.try_wait().expect("a child can be waited for") {
                return status;
            }
            assert!(Instant::now() < until, "the command does not end");
            std::thread::sleep(Duration::from_millis(20));
        }
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.command.kill();
        _ = self.command.wait();
    }
}
