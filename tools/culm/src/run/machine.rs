//! A running emulator: its console passed on, its end noticed, nothing left behind.
//!
//! QEMU runs in a process group of its own, so that the signal that Ctrl-C makes reaches this
//! program alone, which then ends QEMU; and it is killed by the operating system should this
//! program be killed.

use super::keys::Keys;
use super::launch;
use super::terminal::Keyboard;
use crate::failure::Failure;
use nix::errno::Errno;
use nix::fcntl::{FcntlArg, OFlag, fcntl};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::signal::{SigSet, Signal, killpg};
use nix::sys::signalfd::{SfdFlags, SignalFd};
use nix::unistd::{Pid, read, write};
use std::ffi::OsString;
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt as _;
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, ChildStdout, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// How long QEMU may take to end when asked to, which it does within some hundredths of a second.
const PATIENCE: Duration = Duration::from_millis(400);

/// After this without a word on the console its silence is told of: a system that can be heard
/// speaks within a second.
pub const SILENCE: Duration = Duration::from_secs(5);

/// Bytes typed at a terminal that wait for the emulator to take them; more are dropped.
const TYPED_AHEAD: usize = 4096;

/// Why a machine ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// QEMU ended by itself.
    Ended(ExitStatus),
    /// This program was told to end it.
    Signalled(Signal),
    /// The keys for it were typed.
    Asked,
    /// The watcher asked for its end.
    Stopped,
}

/// The next step after some output.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Next {
    /// Go on.
    Continue,
    /// The machine is given a second for last words, then ended.
    Stop,
}

/// Receives what a machine prints.
pub trait Watch {
    /// Bytes of the console.
    fn console(&mut self, bytes: &[u8]) -> Next;
    /// A line of QEMU's own.
    fn emulator(&mut self, line: &str);
    /// The console has been silent for [`SILENCE`] from the start on. Told once.
    fn silence(&mut self);
}

struct Emulator {
    child: Child,
    input: Option<ChildStdin>,
    output: Option<ChildStdout>,
    errors: Option<ChildStderr>,
    error_line: Vec<u8>,
    /// Bytes typed that the emulator has not taken yet.
    pending: Vec<u8>,
    /// The keys that end the run, where Ctrl-C does not.
    keys: Option<Keys>,
}

/// Runs `program` until it ends, or a signal, the watcher, or `keys` end it, by which Ctrl-C is a
/// key like any other.
pub fn run(program: &Path, arguments: &[OsString], keys: Option<Keys>, watch: &mut dyn Watch) -> Result<End, Failure> {
    let signals = hold_signals().map_err(|error| Failure::new(format!("cannot wait for signals: {error}")))?;
    let mut emulator = Emulator::start(program, arguments, keys)?;
    let keyboard = Keyboard::take(keys.is_some());
    if !keyboard.is_usable() {
        emulator.input = None;
    }
    let end = emulator.watch(&signals, watch);
    drop(keyboard);
    match end? {
        None => emulator.child.wait().map(End::Ended).map_err(|error| Failure::io("wait for QEMU", &error)),
        Some(end) => {
            emulator.end(watch);
            Ok(end)
        }
    }
}

/// From here on these signals are read, not delivered. Children inherit that; see [`launch`].
fn hold_signals() -> nix::Result<SignalFd> {
    let mut signals = SigSet::empty();
    for signal in [Signal::SIGINT, Signal::SIGTERM, Signal::SIGHUP, Signal::SIGQUIT] {
        signals.add(signal);
    }
    signals.thread_block()?;
    SignalFd::with_flags(&signals, SfdFlags::SFD_CLOEXEC | SfdFlags::SFD_NONBLOCK)
}

impl Emulator {
    fn start(program: &Path, arguments: &[OsString], keys: Option<Keys>) -> Result<Self, Failure> {
        let mut command = launch::command(program)?;
        command.args(arguments).process_group(0);
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child =
            command.spawn().map_err(|error| Failure::io(format_args!("run {}", program.display()), &error))?;
        let (input, output, errors) = (child.stdin.take(), child.stdout.take(), child.stderr.take());
        if let Some(input) = &input {
            // A guest that reads nothing must not stop the console.
            let _ = fcntl(input, FcntlArg::F_SETFL(OFlag::O_NONBLOCK));
        }
        Ok(Self { child, input, output, errors, error_line: Vec::new(), pending: Vec::new(), keys })
    }

    /// Passes everything on until the output ends (`None`) or there is a reason to end it.
    fn watch(&mut self, signals: &SignalFd, watch: &mut dyn Watch) -> Result<Option<End>, Failure> {
        let mut stop_at: Option<Instant> = None;
        let mut silence_until = Some(Instant::now() + SILENCE);
        while self.output.is_some() {
            if silence_until.take_if(|until| *until <= Instant::now()).is_some() {
                watch.silence();
            }
            let timeout = match (stop_at, silence_until) {
                (Some(at), _) if Instant::now() >= at => return Ok(Some(End::Stopped)),
                (Some(_), _) | (None, Some(_)) => PollTimeout::from(100u8),
                (None, None) => PollTimeout::NONE,
            };
            let ready = self.wait(signals, timeout)?;
            if ready.signal
                && let Ok(Some(information)) = signals.read_signal()
            {
                let signal = Signal::try_from(information.ssi_signo.cast_signed()).unwrap_or(Signal::SIGTERM);
                return Ok(Some(End::Signalled(signal)));
            }
            if ready.errors {
                self.read_errors(watch);
            }
            if ready.output {
                silence_until = None;
            }
            if ready.output && self.read_output(watch) == Next::Stop && stop_at.is_none() {
                stop_at = Some(Instant::now() + Duration::from_secs(1));
            }
            if ready.keyboard && self.read_keyboard() == Next::Stop {
                return Ok(Some(End::Asked));
            }
            if ready.input {
                self.write_input();
            }
        }
        self.read_errors(watch);
        Ok(None)
    }

    fn wait(&self, signals: &SignalFd, timeout: PollTimeout) -> Result<Ready, Failure> {
        let stdin = std::io::stdin();
        let mut all = vec![(PollFd::new(signals.as_fd(), PollFlags::POLLIN), 0)];
        if let Some(output) = &self.output {
            all.push((PollFd::new(output.as_fd(), PollFlags::POLLIN), 1));
        }
        if let Some(errors) = &self.errors {
            all.push((PollFd::new(errors.as_fd(), PollFlags::POLLIN), 2));
        }
        if let Some(input) = &self.input {
            // A machine that takes no input any more can still be ended by keys.
            if self.pending.is_empty() || self.keys.is_some() {
                all.push((PollFd::new(stdin.as_fd(), PollFlags::POLLIN), 3));
            }
            if !self.pending.is_empty() {
                all.push((PollFd::new(input.as_fd(), PollFlags::POLLOUT), 4));
            }
        }
        let (mut descriptors, names): (Vec<_>, Vec<_>) = all.into_iter().unzip();
        match poll(&mut descriptors, timeout) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(Failure::new(format!("cannot wait for QEMU's output: {error}"))),
        }
        let is_ready = |name| {
            let found = descriptors.iter().zip(&names).find(|(_, other)| **other == name);
            found.and_then(|(descriptor, _)| descriptor.any()).unwrap_or(false)
        };
        Ok(Ready {
            signal: is_ready(0),
            output: is_ready(1),
            errors: is_ready(2),
            keyboard: is_ready(3),
            input: is_ready(4),
        })
    }

    fn read_output(&mut self, watch: &mut dyn Watch) -> Next {
        let Some(output) = &self.output else { return Next::Continue };
        let mut buffer = [0; 16 * 1024];
        match read(output, &mut buffer) {
            Ok(0) => self.output = None,
            Ok(count) => return watch.console(&buffer[..count]),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => self.output = None,
        }
        Next::Continue
    }

    /// Reads once; called at the end too, when there is an end of file to be found.
    fn read_errors(&mut self, watch: &mut dyn Watch) {
        let Some(errors) = &self.errors else { return };
        let mut buffer = [0; 4096];
        match read(errors, &mut buffer) {
            Ok(0) => self.errors = None,
            Ok(count) => {
                for &byte in &buffer[..count] {
                    if byte == b'\n' {
                        watch.emulator(&String::from_utf8_lossy(&self.error_line));
                        self.error_line.clear();
                    } else {
                        self.error_line.push(byte);
                    }
                }
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => self.errors = None,
        }
    }

    fn read_keyboard(&mut self) -> Next {
        let mut buffer = [0; 1024];
        match read(std::io::stdin(), &mut buffer) {
            Ok(0) => self.input = None,
            Ok(count) => {
                let typed = &buffer[..count];
                if self.keys.as_mut().is_some_and(|keys| keys.ask_for_end(typed)) {
                    return Next::Stop;
                }
                if self.pending.len() < TYPED_AHEAD {
                    self.pending.extend_from_slice(typed);
                }
            }
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => self.input = None,
        }
        Next::Continue
    }

    fn write_input(&mut self) {
        let Some(input) = &self.input else { return };
        match write(input, &self.pending) {
            Ok(count) => _ = self.pending.drain(..count),
            Err(Errno::EINTR | Errno::EAGAIN) => {}
            Err(_) => self.input = None,
        }
    }

    /// Ends QEMU and all that it started: first asks, then kills.
    fn end(&mut self, watch: &mut dyn Watch) {
        let group = Pid::from_raw(self.child.id().cast_signed());
        let _ = killpg(group, Signal::SIGTERM);
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if matches!(self.child.try_wait(), Ok(Some(_)) | Err(_)) {
                break;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = killpg(group, Signal::SIGKILL);
            let _ = self.child.wait();
        }
        // Its last words, such as the console's bytes that were on their way.
        self.read_output(watch);
    }
}

impl Drop for Emulator {
    /// Whatever went wrong meanwhile: no process stays.
    fn drop(&mut self) {
        if matches!(self.child.try_wait(), Ok(None)) {
            let _ = killpg(Pid::from_raw(self.child.id().cast_signed()), Signal::SIGKILL);
            let _ = self.child.wait();
        }
    }
}

/// Which of the things waited for are there.
struct Ready {
    signal: bool,
    output: bool,
    errors: bool,
    keyboard: bool,
    input: bool,
}
