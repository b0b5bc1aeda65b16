//! Processes, as Linux shows them: whom the tool has started, and whether it is gone.

use crate::PATIENCE;
use nix::sys::signal::Signal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// The folders in /proc of a process's children, to be asked for while it lives: an orphan has
/// another parent.
///
/// # Panics
/// Where it has none.
pub fn children(process: u32) -> Vec<PathBuf> {
    let is_child = |folder: &PathBuf| {
        let status = std::fs::read_to_string(folder.join("status")).unwrap_or_default();
        status.lines().any(|line| line == format!("PPid:\t{process}"))
    };
    let all = std::fs::read_dir("/proc").expect("Linux has /proc").flatten().map(|entry| entry.path());
    let children: Vec<_> = all.filter(is_child).collect();
    assert!(!children.is_empty(), "the tool has an emulator");
    children
}

/// Waits until all of them are gone.
///
/// # Panics
/// Where one stays.
pub fn are_gone(processes: &[PathBuf]) {
    let until = Instant::now() + PATIENCE;
    while let Some(alive) = processes.iter().find(|folder| folder.exists()) {
        assert!(Instant::now() < until, "{} outlived the tool", alive.display());
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Whether a process blocks a signal.
///
/// # Panics
/// Where it has ended.
pub fn blocks(process: &Path, signal: Signal) -> bool {
    let status = std::fs::read_to_string(process.join("status")).expect("it is alive");
    let mask = status.lines().find_map(|line| line.strip_prefix("SigBlk:")).expect("Linux tells what is blocked");
    let mask = u64::from_str_radix(mask.trim(), 16).expect("a mask is a number");
    // The lowest bit is that of signal 1 (proc_pid_status(5)).
    mask & 1 << (signal as i32 - 1) != 0
}
