//! A copy of the checkout in which a test may do what a user does: make components, break them,
//! type what the book says.
//!
//! It lies below `build/` and keeps its own `target` folder from run to run, so that only its first
//! build takes long.

use crate::root;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// A copy of the checkout. Each copy has a name of its own, so that tests can use theirs side by
/// side.
#[derive(Clone, Debug)]
pub struct Checkout {
    root: PathBuf,
}

impl Checkout {
    /// The files that are there and that git does not ignore, as they are now.
    ///
    /// # Panics
    /// Where they cannot be copied.
    pub fn copy(name: &str) -> Self {
        let copy = root().join("build").join(name);
        clear(&copy);
        let mut list = Command::new("git");
        list.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).current_dir(root());
        let listed = list.output().expect("git starts");
        assert!(listed.status.success(), "{}", String::from_utf8_lossy(&listed.stderr));
        for file in String::from_utf8(listed.stdout).expect("names are text").split_terminator('\0') {
            let (from, to) = (root().join(file), copy.join(file));
            fs::create_dir_all(to.parent().expect("a file is in a folder")).expect("the copy is writable");
            match copy_file(&from, &to) {
                Ok(()) => {}
                // Deleted and not yet committed.
                Err(error) if error.kind() == ErrorKind::NotFound => {}
                Err(error) => panic!("{file} cannot be copied: {error}"),
            }
        }
        Self { root: copy }
    }

    /// The same for who has gone from there to another folder.
    #[must_use]
    pub fn within(&self, folder: &str) -> Self {
        Self { root: self.root.join(folder) }
    }

    /// Its root.
    pub fn root(&self) -> &Path {
        &self.root
    }

    /// Writes a file of it, with the folders above.
    ///
    /// # Panics
    /// Where it cannot be written.
    pub fn write(&self, file: &str, text: &str) {
        let path = self.root.join(file);
        fs::create_dir_all(path.parent().expect("a file is in a folder")).expect("the copy is writable");
        fs::write(path, text).expect("the copy is writable");
    }

    /// A command as a user in the copy would type it, for the shell.
    pub fn shell(&self, line: &str) -> Command {
        let mut command = Command::new("bash");
        command.args(["-c", line]).current_dir(&self.root);
        // Those of the test: the copy is built like a checkout of its own, and its tool is its own.
        for name in [
            "CARGO_TARGET_DIR",
            "CARGO_MANIFEST_DIR",
            "CARGO",
            "CULM",
            "CULM_ROOT",
            "CULM_WORKSPACE",
            "CULM_BUILD",
            "RUSTC",
        ] {
            command.env_remove(name);
        }
        command
    }

    /// Types a line and waits for its end.
    ///
    /// # Panics
    /// Where the shell cannot be started.
    pub fn try_type(&self, line: &str) -> Output {
        self.shell(line).output().expect("bash starts")
    }

    /// Types a line that must end well; what it printed.
    ///
    /// # Panics
    /// Where it does not.
    pub fn type_line(&self, line: &str) -> String {
        let output = self.try_type(line);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success(), "`{line}` failed ({}):\n{errors}", output.status);
        String::from_utf8_lossy(&output.stdout).into_owned()
    }
}

/// Removes all but what builds left.
fn clear(copy: &Path) {
    for entry in fs::read_dir(copy).into_iter().flatten().flatten() {
        let removed = match entry.path() {
            path if path.ends_with("target") => Ok(()),
            path if path.is_dir() && !path.is_symlink() => fs::remove_dir_all(path),
            path => fs::remove_file(path),
        };
        removed.expect("an old copy can be removed");
    }
}

/// With its time of change: by that cargo knows that it has compiled it already.
fn copy_file(from: &Path, to: &Path) -> std::io::Result<()> {
    fs::copy(from, to)?;
    fs::File::options().write(true).open(to)?.set_modified(fs::metadata(from)?.modified()?)
}
