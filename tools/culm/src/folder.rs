//! Folders of the host whose files go into an image: the image that boots, or that of a disk.

use crate::failure::Failure;
use nix::fcntl::OFlag;
use std::collections::{BTreeMap, BTreeSet};
use std::fs::OpenOptions;
use std::io::{Error, ErrorKind, Read as _, Write};
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

/// The content of a folder.
#[derive(Debug, Default)]
pub struct Listing {
    /// The regular files in the folder and below, by their paths within it, which use `/`.
    pub files: BTreeMap<String, PathBuf>,
    /// The folders below it, by theirs.
    pub folders: BTreeSet<String>,
    /// Bytes of all files.
    pub size: u64,
}

/// Lists `folder` and what is below it. Files and folders whose names begin with a dot are left
/// out: editors and version control leave such. A link may lead to something else in `folder`, so
/// that a site may be put together from links; one that leads out of it is refused, because what it
/// leads to was never meant to be published.
pub fn list(folder: &Path) -> Result<Listing, Failure> {
    if folder.is_file() {
        return Err(Failure::new(format!("{} is a file, not a folder", folder.display()))
            .help("name the folder that it is in: all that is in that is packed"));
    }
    let mut walk = Walk { found: Listing::default(), open: Vec::new() };
    walk.add_folder(folder, "")?;
    Ok(walk.found)
}

/// A folder while it is listed.
struct Walk {
    found: Listing,
    /// The folders that are being looked through, each within the one before, without links in
    /// their paths.
    open: Vec<PathBuf>,
}

impl Walk {
    fn add_folder(&mut self, folder: &Path, prefix: &str) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::io(format_args!("list {}", folder.display()), &error);
        let place = folder.canonicalize().map_err(failed)?;
        if self.open.contains(&place) {
            return Err(Failure::new(format!("the link {} leads back to a folder that it is in", folder.display()))
                .help("that would be packed without end: remove the link"));
        }
        self.open.push(place);
        for entry in std::fs::read_dir(folder).map_err(failed)? {
            let path = entry.map_err(failed)?.path();
            let Some(name) = path.file_name().and_then(|name| name.to_str()) else {
                return Err(Failure::new(format!("the name of {} is not UTF-8", path.display()))
                    .help("rename it; a component sees paths as text"));
            };
            if !name.starts_with('.') {
                self.add(&path, format!("{prefix}{name}"))?;
            }
        }
        self.open.pop();
        Ok(())
    }

    fn add(&mut self, path: &Path, name: String) -> Result<(), Failure> {
        let failed = |error: std::io::Error| Failure::io(format_args!("read {}", path.display()), &error);
        if path.symlink_metadata().map_err(failed)?.is_symlink() {
            self.check_link(path)?;
        }
        let metadata = path.metadata().map_err(failed)?;
        if metadata.is_dir() {
            self.add_folder(path, &format!("{name}/"))?;
            self.found.folders.insert(name);
            return Ok(());
        }
        if !metadata.is_file() {
            return Err(not_regular(path));
        }
        self.found.size = self.found.size.saturating_add(metadata.len());
        self.found.files.insert(name, path.to_path_buf());
        Ok(())
    }

    fn check_link(&self, link: &Path) -> Result<(), Failure> {
        let target = link
            .canonicalize()
            .map_err(|error| Failure::io(format_args!("follow the link {}", link.display()), &error))?;
        if self.open.first().is_some_and(|root| target.starts_with(root)) {
            return Ok(());
        }
        Err(Failure::new(format!("the link {} leads out of its folder, to {}", link.display(), target.display())).help(
            "all that is packed can be read by whoever reaches the component: copy what is meant into the folder",
        ))
    }
}

/// Copies the content of a regular file that is as long as its file system says; returns its bytes.
/// So neither a pipe nor what a kernel makes up while it is read (all of /proc) keeps the tool
/// waiting or fills its memory.
pub fn copy(path: &Path, into: &mut dyn Write) -> Result<u64, Failure> {
    let failed = |error: Error| Failure::io(format_args!("read {}", path.display()), &error);
    // Opening a pipe waits for its writer, unless it is asked not to.
    let options = OpenOptions::new().read(true).custom_flags(OFlag::O_NONBLOCK.bits()).open(path);
    let mut file = options.map_err(|error| match std::fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => not_regular(path),
        _ => failed(error),
    })?;
    let metadata = file.metadata().map_err(failed)?;
    if !metadata.is_file() {
        return Err(not_regular(path));
    }
    let size = metadata.len();
    let changed = || {
        Failure::new(format!("{} is not as long as its {size} bytes when it is read", path.display()))
            .help("only files with a content of their own can be packed, and while nobody writes them")
    };
    let mut buffer = vec![0; BUFFER];
    let mut copied = 0;
    loop {
        let count = match file.read(&mut buffer) {
            Ok(0) => break,
            Ok(count) => count,
            Err(error) if error.kind() == ErrorKind::Interrupted => continue,
            Err(error) => return Err(failed(error)),
        };
        copied += count as u64;
        if copied > size {
            return Err(changed());
        }
        into.write_all(&buffer[..count])
            .map_err(|error| Failure::io(format_args!("copy {}", path.display()), &error))?;
    }
    if copied == size { Ok(size) } else { Err(changed()) }
}

/// Bytes that are copied at once.
const BUFFER: usize = 128 * 1024;

fn not_regular(path: &Path) -> Failure {
    Failure::new(format!("{} is neither a file nor a folder", path.display()))
        .help("pipes, sockets and devices cannot be packed: remove it")
}
