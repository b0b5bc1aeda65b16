//! Where everything is: Culm's own sources, the user's workspace if there is one, and the folder
//! for images.
//!
//! A workspace is a folder outside of the checkout with components, systems and boards of the
//! user's own (`./culm new workspace`). Its script `culm` calls the checkout's and says where it
//! comes from.

use crate::failure::Failure;
use anyhow::{Context as _, Result};
use std::env;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};

/// The folders that a command works with.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tree {
    /// Culm's own sources: kernel, runtime, drivers, boards and its own systems.
    pub culm: PathBuf,
    /// The user's workspace, where the command comes from one.
    pub workspace: Option<PathBuf>,
    /// Where images go.
    pub build: PathBuf,
}

impl Tree {
    /// Finds the tree as the environment says: `CULM_ROOT`, else the nearest folder above that
    /// holds boards and crates; `CULM_WORKSPACE`; `CULM_BUILD`.
    pub fn find() -> Result<Self> {
        let culm = match env::var_os("CULM_ROOT") {
            Some(root) => PathBuf::from(root),
            None => checkout_above(&env::current_dir().context("cannot find the current folder")?)?,
        };
        let mut tree = Self::new(culm, env::var_os("CULM_WORKSPACE").map(PathBuf::from));
        if let Some(build) = env::var_os("CULM_BUILD") {
            tree.build = std::path::absolute(build).context("CULM_BUILD is no path of a folder")?;
        }
        Ok(tree)
    }

    /// The tree of these sources and this workspace, with `build/` in its usual place.
    pub fn new(culm: PathBuf, workspace: Option<PathBuf>) -> Self {
        let build = workspace.as_ref().unwrap_or(&culm).join("build");
        Self { culm, workspace, build }
    }

    /// The folder in which the user works: the workspace, else the checkout.
    pub fn home(&self) -> &Path {
        self.workspace.as_ref().unwrap_or(&self.culm)
    }

    /// The cargo workspace that has the crate in `folder`.
    pub fn of_crate(&self, folder: &Path) -> &Path {
        let own = self.workspace.as_ref().filter(|workspace| folder.starts_with(workspace));
        own.unwrap_or(&self.culm)
    }

    /// A path as messages show it: relative to where the user works, if it lies there.
    pub fn shown<'p>(&self, path: &'p Path) -> &'p Path {
        path.strip_prefix(self.home()).unwrap_or(path)
    }
}

fn checkout_above(here: &Path) -> Result<PathBuf> {
    let is_root = |folder: &&Path| folder.join("boards").is_dir() && folder.join("Cargo.toml").is_file();
    let found = here.ancestors().find(is_root);
    found.map(Path::to_path_buf).context("this is not Culm's source tree: run `./culm` in it, or set CULM_ROOT to it")
}

/// The failure to `action` in the folder for images, with what can be done about it.
pub fn cannot_build(action: impl std::fmt::Display, error: &Error) -> Failure {
    let elsewhere = "have images written to another folder: CULM_BUILD=FOLDER ./culm …";
    let failure = Failure::io(action, error);
    match error.kind() {
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => failure.help(format!("free some room, or {elsewhere}")),
        _ => failure.help(elsewhere),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_workspace_is_where_its_user_works() {
        let alone = Tree::new("/culm".into(), None);
        assert_eq!((alone.home(), &alone.build), (Path::new("/culm"), &PathBuf::from("/culm/build")));
        let tree = Tree::new("/culm".into(), Some("/mine".into()));
        assert_eq!((tree.home(), &tree.build), (Path::new("/mine"), &PathBuf::from("/mine/build")));
        assert_eq!(tree.of_crate(Path::new("/mine/components/a")), Path::new("/mine"));
        assert_eq!(tree.of_crate(Path::new("/culm/services/http")), Path::new("/culm"));
        assert_eq!(tree.shown(Path::new("/mine/systems/a.toml")), Path::new("systems/a.toml"));
        assert_eq!(tree.shown(Path::new("/culm/boards/virt.toml")), Path::new("/culm/boards/virt.toml"));
    }

    #[test]
    fn who_cannot_write_is_told_of_another_place() {
        let full = cannot_build("write x", &Error::from(ErrorKind::StorageFull));
        assert!(full.advice().is_some_and(|help| help.contains("free some room") && help.contains("CULM_BUILD=")));
        let only_read = cannot_build("write x", &Error::from(ErrorKind::ReadOnlyFilesystem));
        assert!(only_read.advice().is_some_and(|help| help.starts_with("have images") && help.contains("CULM_BUILD=")));
    }
}
