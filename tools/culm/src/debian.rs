//! Fetches Debian's arm64 packages by name, without a change to the machine: a private root for
//! `apt-get`, whose mirror is the one that the machine itself uses, and which verifies what it
//! fetches by the archive's signature.
//!
//! The release is fixed, so that it is the same Linux wherever the tool runs.

mod libraries;

pub use libraries::linked;

use crate::child::run;
use anyhow::{Context as _, Result, bail};
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The release of Debian.
pub const RELEASE: &str = "bookworm";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// How names of kernels' packages begin. One without a version in its name depends on the one that
/// has it, and is fetched as that.
const KERNEL: &str = "linux-image-";

/// File in an unpacked folder that names its packages.
const COMPLETE: &str = ".complete";

/// File in a package's own folder with the fields that say which packages it depends on.
const DEPENDS: &str = ".depends";

/// Whether `root` holds the files of exactly these packages.
pub fn has(root: &Path, packages: &[&str]) -> bool {
    fs::read_to_string(root.join(COMPLETE)).is_ok_and(|found| found == packages.join("\n"))
}

/// Makes sure that these packages are unpacked in `root`, together; `cache` is for what apt keeps.
pub fn unpack(cache: &Path, root: &Path, packages: &[&str]) -> Result<()> {
    if has(root, packages) {
        return Ok(());
    }
    let _lock = lock(cache)?;
    if has(root, packages) {
        return Ok(());
    }
    eprintln!("culm: fetching from Debian {RELEASE} for arm64, once: {}", packages.join(", "));
    let archives = beside(root, ".packages");
    let _ = fs::remove_dir_all(&archives);
    fetch(&cache.join("apt"), &archives, packages)?;
    // Unpacked beside and renamed, so that an interrupted run leaves nothing that looks complete.
    let partial = beside(root, ".partial");
    let _ = fs::remove_dir_all(&partial);
    let mut count = 0;
    for entry in fs::read_dir(&archives)? {
        let archive = entry?.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&partial))?;
            count += 1;
        }
    }
    if count < packages.len() {
        bail!("only {count} of {} packages arrived in {}", packages.len(), archives.display());
    }
    fs::write(partial.join(COMPLETE), packages.join("\n"))?;
    let _ = fs::remove_dir_all(root);
    fs::rename(&partial, root)?;
    fs::remove_dir_all(&archives)?;
    Ok(())
}

/// Makes sure that each of these packages is unpacked in a folder of its own below `folders`,
/// beside the fields that say what it depends on.
fn unpack_each(cache: &Path, folders: &Path, packages: &[String]) -> Result<()> {
    let missing = || {
        let is_missing = |package: &&String| {
            let folder = folders.join(package);
            !has(&folder, &[package.as_str()]) || !folder.join(DEPENDS).is_file()
        };
        packages.iter().filter(is_missing).collect::<Vec<_>>()
    };
    if missing().is_empty() {
        return Ok(());
    }
    let _lock = lock(cache)?;
    let missing = missing();
    if missing.is_empty() {
        return Ok(());
    }
    let names: Vec<&str> = missing.iter().map(|package| package.as_str()).collect();
    eprintln!("culm: fetching from Debian {RELEASE} for arm64, once: {}", names.join(", "));
    let apt = Apt::prepare(&cache.join("apt"))?;
    apt.get(&["update", "-qq"])?;
    for package in names {
        let (root, name) = (folders.join(package), apt.versioned(package)?);
        let (archives, partial) = (beside(&root, ".packages"), beside(&root, ".partial"));
        [&archives, &partial].into_iter().for_each(|folder| drop(fs::remove_dir_all(folder)));
        fs::create_dir_all(&archives)?;
        apt.get_in(&archives, &["download", "-qq", &name])?;
        let archive = fs::read_dir(&archives)?.next().with_context(|| format!("{name} did not arrive"))??.path();
        run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&partial))?;
        let fields = run(Command::new("dpkg-deb").arg("-f").arg(&archive).args(["Pre-Depends", "Depends"]))?;
        fs::write(partial.join(DEPENDS), fields)?;
        fs::write(partial.join(COMPLETE), package)?;
        let _ = fs::remove_dir_all(&root);
        fs::rename(&partial, &root)?;
        fs::remove_dir_all(&archives)?;
    }
    Ok(())
}

/// Waits until no other run fetches to `cache`, and keeps others from it as long as the file is
/// open.
fn lock(cache: &Path) -> Result<File> {
    fs::create_dir_all(cache).with_context(|| format!("cannot make {}", cache.display()))?;
    let lock = File::create(cache.join("lock")).with_context(|| format!("cannot write in {}", cache.display()))?;
    lock.lock()?;
    Ok(lock)
}

/// The folder of the same name with something behind it.
fn beside(root: &Path, ending: &str) -> PathBuf {
    let mut path = root.as_os_str().to_owned();
    path.push(ending);
    path.into()
}

/// Downloads packages into a folder.
fn fetch(apt: &Path, archives: &Path, packages: &[&str]) -> Result<()> {
    let apt = Apt::prepare(apt)?;
    apt.get(&["update", "-qq"])?;
    let names = packages.iter().map(|package| apt.versioned(package)).collect::<Result<Vec<_>>>()?;
    fs::create_dir_all(archives)?;
    let arguments = ["download", "-qq"].into_iter().chain(names.iter().map(String::as_str));
    apt.get_in(archives, &arguments.collect::<Vec<_>>())?;
    Ok(())
}

/// A private root for apt: own lists, own cache, arm64, nothing installed.
struct Apt {
    configuration: PathBuf,
}

impl Apt {
    fn prepare(root: &Path) -> Result<Apt> {
        for folder in ["etc/apt/sources.list.d", "etc/apt/preferences.d", "etc/apt/apt.conf.d", "etc/apt/trusted.gpg.d"]
        {
            fs::create_dir_all(root.join(folder))?;
        }
        for folder in ["var/lib/apt/lists/partial", "var/cache/apt/archives/partial", "var/lib/dpkg"] {
            fs::create_dir_all(root.join(folder))?;
        }
        fs::write(root.join("var/lib/dpkg/status"), "")?;
        fs::write(root.join("etc/apt/sources.list"), sources()?)?;
        let configuration = root.join("apt.conf");
        let root = root.canonicalize()?;
        let root = root.display();
        fs::write(
            &configuration,
            format!(
                "Dir \"{root}/\";\nDir::State::status \"{root}/var/lib/dpkg/status\";\nAPT::Architecture \"arm64\";\n\
                 APT::Architectures {{ \"arm64\"; }};\nAcquire::Languages \"none\";\nAcquire::Retries \"3\";\n\
                 APT::Sandbox::User \"\";\n"
            ),
        )?;
        Ok(Apt { configuration })
    }

    fn get(&self, arguments: &[&str]) -> Result<String> {
        run(Command::new("apt-get").env("APT_CONFIG", &self.configuration).args(arguments))
    }

    fn get_in(&self, folder: &Path, arguments: &[&str]) -> Result<String> {
        run(Command::new("apt-get").env("APT_CONFIG", &self.configuration).current_dir(folder).args(arguments))
    }

    /// The package to download for this one: of a kernel without a version, the one that has it.
    fn versioned(&self, package: &str) -> Result<String> {
        let is_versioned = |name: &str| name.starts_with(|first: char| first.is_ascii_digit());
        if package.strip_prefix(KERNEL).is_none_or(is_versioned) {
            return Ok(package.to_owned());
        }
        let mut command = Command::new("apt-cache");
        let listing = run(command.env("APT_CONFIG", &self.configuration).args(["depends", package]))?;
        let depends = listing.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        let kernel = depends.map(str::trim).find(|name| name.starts_with(KERNEL));
        kernel.map(str::to_owned).with_context(|| format!("{package} names no kernel in:\n{listing}"))
    }
}

/// Sources for [`RELEASE`], from the mirrors that the machine's own sources name.
fn sources() -> Result<String> {
    let mut files = vec![PathBuf::from("/etc/apt/sources.list")];
    if let Ok(entries) = fs::read_dir("/etc/apt/sources.list.d") {
        files.extend(entries.flatten().map(|entry| entry.path()));
    }
    let text: String = files.iter().filter_map(|file| fs::read_to_string(file).ok()).collect::<Vec<_>>().join("\n");
    let lines = lines_for(&text, Path::new(KEYRING).exists());
    if lines.is_empty() {
        bail!("no Debian mirror in /etc/apt, to fetch arm64 packages from: add a source whose address ends in /debian");
    }
    Ok(lines)
}

/// One line for the release and one for its security updates, by the mirrors in `text`.
fn lines_for(text: &str, keyring: bool) -> String {
    let words = || {
        let effective = text.lines().filter(|line| !line.trim_start().starts_with('#'));
        effective.flat_map(str::split_whitespace).filter(|word| word.contains("://") || word.starts_with("file:"))
    };
    let signed = if keyring { format!("[signed-by={KEYRING}] ") } else { String::new() };
    let line = |ending: &str, suite: &str| {
        let mirror = words().find(|word| word.trim_end_matches('/').ends_with(ending));
        mirror.map(|mirror| format!("deb {signed}{mirror} {suite} main\n")).unwrap_or_default()
    };
    line("/debian", RELEASE) + &line("/debian-security", &format!("{RELEASE}-security"))
}

#[cfg(test)]
mod tests {
    use super::lines_for;

    #[test]
    fn mirrors_are_found_in_both_forms_of_sources() {
        let old = "# deb http://no.example/debian x main\ndeb http://a.example/debian trixie main\n";
        assert_eq!(lines_for(old, false), "deb http://a.example/debian bookworm main\n");
        let new = "Types: deb\nURIs: http://a.example/debian/\nSuites: x\n\nTypes: deb\n\
                   URIs: http://a.example/debian-security\n";
        assert_eq!(
            lines_for(new, false),
            "deb http://a.example/debian/ bookworm main\ndeb http://a.example/debian-security bookworm-security main\n"
        );
        assert_eq!(lines_for("deb http://b.example/other x main", true), "");
    }
}
