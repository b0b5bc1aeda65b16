//! Child processes that end with the harness, on the processor that they are given.
//!
//! All unsafe code of the harness that deals with processes is here: it sets, between fork and
//! exec, what the standard library cannot.

pub use culm_tool::child::run;

use anyhow::{Context, Result, bail};
use std::os::fd::RawFd;
use std::os::unix::process::CommandExt;
use std::path::Path;
use std::process::Command;
use std::sync::atomic::{AtomicBool, Ordering};

/// The ties of a child to its parent, besides its command line.
#[derive(Clone, Copy, Debug, Default)]
pub struct Ties {
    /// The one processor that all its threads run on.
    pub processor: Option<usize>,
    /// File descriptors of ours that it inherits under the same numbers.
    pub inherit: [Option<RawFd>; 2],
}

/// Makes `command`'s process end when the thread that starts it ends, so that nothing is left
/// behind even where the harness is killed.
pub fn tie(command: &mut Command, ties: Ties) -> &mut Command {
    // SAFETY: between fork and exec only system calls are made, which are safe there
    // (signal-safety(7)).
    unsafe {
        command.pre_exec(move || {
            libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
            pin(ties.processor);
            open_many_files();
            for file in ties.inherit.into_iter().flatten() {
                libc::fcntl(file, libc::F_SETFD, 0);
            }
            Ok(())
        })
    }
}

/// Keeps the calling thread, and those that it starts later, on one processor; where that is
/// refused, figures are noisier.
pub fn pin(processor: Option<usize>) {
    let Some(processor) = processor.filter(|processor| *processor < libc::CPU_SETSIZE as usize) else { return };
    // SAFETY: a zeroed set is an empty one, the processor is within it, and the kernel only reads
    // it.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// A load of a thousand connections needs as many files: as many as are permitted.
fn open_many_files() {
    let mut limit = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
    // SAFETY: the kernel writes the structure, then reads it.
    unsafe {
        if libc::getrlimit(libc::RLIMIT_NOFILE, &raw mut limit) == 0 {
            limit.rlim_cur = limit.rlim_max;
            libc::setrlimit(libc::RLIMIT_NOFILE, &raw const limit);
        }
    }
}

static INTERRUPTED: AtomicBool = AtomicBool::new(false);

/// From here on an interrupt ends the run in good order: rows that are done are reported, nothing
/// is left behind. A second one ends the process at once.
pub fn catch_interrupts() {
    extern "C" fn note(_: libc::c_int) {
        if INTERRUPTED.swap(true, Ordering::Relaxed) {
            // SAFETY: safe in a signal handler (signal-safety(7)).
            unsafe { libc::_exit(130) };
        }
    }
    for signal in [libc::SIGINT, libc::SIGTERM, libc::SIGHUP] {
        // SAFETY: the handler touches an atomic only. Programs that are started get the default
        // handler back.
        unsafe { libc::signal(signal, note as extern "C" fn(libc::c_int) as libc::sighandler_t) };
    }
}

/// Whether the run was interrupted.
pub fn interrupted() -> bool {
    INTERRUPTED.load(Ordering::Relaxed)
}

/// Fails where the run was interrupted.
pub fn go_on() -> Result<()> {
    if interrupted() {
        bail!("interrupted");
    }
    Ok(())
}

/// A folder that vanishes with its owner. Folders of earlier runs that were killed vanish now.
pub fn folder() -> Result<tempfile::TempDir> {
    const PREFIX: &str = "culm-bench-";
    for entry in std::fs::read_dir(std::env::temp_dir())?.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let owner = name.strip_prefix(PREFIX).and_then(|rest| rest.split('-').next()?.parse::<u32>().ok());
        if owner.is_some_and(|owner| !Path::new(&format!("/proc/{owner}")).exists()) {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    let prefix = format!("{PREFIX}{}-", std::process::id());
    Ok(tempfile::Builder::new().prefix(&prefix).tempdir()?)
}

/// The processors that this process may use.
pub fn processors() -> Vec<usize> {
    // SAFETY: a zeroed set is an empty one; the kernel fills it during the call.
    let set = unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::sched_getaffinity(0, size_of::<libc::cpu_set_t>(), &mut set);
        set
    };
    // SAFETY: reads a bit of the set, the index is within it.
    (0..libc::CPU_SETSIZE as usize).filter(|processor| unsafe { libc::CPU_ISSET(*processor, &set) }).collect()
}

/// Processor seconds that a process has used so far, all its threads together (proc(5), fields 14
/// and 15 of `stat`).
pub fn processor_seconds(process: u32) -> Result<f64> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat"))?;
    let after_name = text.rsplit_once(')').context("/proc: stat without a name")?.1;
    let ticks: u64 = after_name.split_whitespace().skip(11).take(2).filter_map(|field| field.parse::<u64>().ok()).sum();
    // SAFETY: no memory is involved.
    let per_second = unsafe { libc::sysconf(libc::_SC_CLK_TCK) };
    Ok(ticks as f64 / per_second.max(1) as f64)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_process_has_processors_and_uses_them() {
        assert!(!processors().is_empty());
        assert!(processor_seconds(std::process::id()).is_ok());
    }

    #[test]
    fn a_tied_child_runs_where_it_is_told() {
        let processor = processors()[0];
        let mut command = Command::new("sh");
        tie(&mut command, Ties { processor: Some(processor), ..Ties::default() });
        let text = run(command.args(["-c", "grep Cpus_allowed_list /proc/self/status"])).unwrap();
        assert!(text.trim().ends_with(&format!("{processor}")), "{text}");
    }
}
