//! FAT volumes in files of the host's, looked at by mtools and `fsck.fat`.

use crate::PATIENCE;
use std::path::Path;
use std::process::{Command, Output};
use std::time::{Duration, Instant};

/// Returns a program of the host's, which may be in a folder that only root searches.
///
/// # Panics
/// Where it is not installed.
pub fn program(name: &str) -> Command {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let folders = std::env::split_paths(&path).chain(["/usr/sbin".into(), "/sbin".into()]);
    let found = folders.map(|folder| folder.join(name)).find(|file| file.is_file());
    Command::new(found.unwrap_or_else(|| panic!("this test needs `{name}`: `./culm setup --tests` installs it")))
}

/// Runs a program to its end; returns what it has written.
///
/// # Panics
/// Where it fails.
pub fn run(command: &mut Command) -> Vec<u8> {
    let Output { status, stdout, stderr } = command.output().expect("the program starts");
    let said = String::from_utf8_lossy(&stdout).into_owned() + &String::from_utf8_lossy(&stderr);
    assert!(status.success(), "{command:?}: {said}");
    stdout
}

/// Returns the bytes of a file on the volume.
///
/// # Panics
/// Where there is none.
pub fn content(image: &Path, path: &str) -> Vec<u8> {
    run(program("mtype").arg("-i").arg(image).arg(format!("::{path}")))
}

/// Waits until the volume says of itself that it is whole, which it does when nothing has changed
/// for a while.
///
/// # Panics
/// Where that does not come.
pub fn wait_for_rest(image: &Path) {
    let until = Instant::now() + PATIENCE;
    while !program("fsck.fat").arg("-n").arg(image).output().expect("it starts").status.success() {
        assert!(Instant::now() < until, "the volume does not come to rest");
        std::thread::sleep(Duration::from_millis(100));
    }
}
