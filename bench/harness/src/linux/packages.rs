//! Fetches Debian's arm64 packages by name, without a change to the machine: a private root for
//! `apt-get`, whose mirror is the one that the machine itself uses.
//!
//! The release is fixed, so that the peer is the same Linux wherever the harness runs.

use crate::spawn::run;
use anyhow::{Context, Result, bail};
use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

const RELEASE: &str = "bookworm";
const KEYRING: &str = "/usr/share/keyrings/debian-archive-keyring.gpg";

/// Packages of kernels; each depends on the one that has the version in its name.
const KERNELS: &[&str] = &["linux-image-cloud-arm64", "linux-image-arm64"];

/// Programs, and the libraries that they are linked to.
const PACKAGES: &[&str] = &[
    "busybox-static",
    "nginx",
    "iperf3",
    "libc6",
    "libcrypt1",
    "libiperf0",
    "libpcre2-8-0",
    "libsctp1",
    "libssl3",
    "zlib1g",
];

/// Advice for who has no network.
const ONCE: &str = "the peer's Linux cannot be fetched, for which the network is needed once. With --no-peer Culm is \
                    measured alone";

/// Makes sure that all packages are unpacked below `cache` and returns the folder that holds their
/// files.
pub fn unpacked(cache: &Path) -> Result<PathBuf> {
    let root = cache.join(format!("{RELEASE}-arm64"));
    // A cache that an earlier harness filled may lack what this one wants.
    let wanted = [KERNELS, PACKAGES].concat().join("\n");
    if fs::read_to_string(root.join(".complete")).is_ok_and(|packages| packages == wanted) {
        return Ok(root);
    }
    eprintln!("bench: fetching Debian {RELEASE}'s arm64 packages (Linux, busybox, nginx, iperf3; about 90 MB, once)");
    let archives = cache.join("packages");
    fetch(&cache.join("apt"), &archives).context(ONCE)?;
    // Unpacked beside and renamed, so that an interrupted run leaves nothing that looks complete.
    let partial = root.with_extension("partial");
    let _ = fs::remove_dir_all(&partial);
    let mut count = 0;
    for entry in fs::read_dir(&archives)? {
        let archive = entry?.path();
        if archive.extension().is_some_and(|extension| extension == "deb") {
            run(Command::new("dpkg-deb").arg("-x").arg(&archive).arg(&partial))?;
            count += 1;
        }
    }
    let expected = KERNELS.len() + PACKAGES.len();
    if count < expected {
        bail!("only {count} of {expected} packages arrived in {}", archives.display());
    }
    fs::write(partial.join(".complete"), wanted)?;
    let _ = fs::remove_dir_all(&root);
    fs::rename(&partial, &root)?;
    fs::remove_dir_all(&archives)?;
    Ok(root)
}

/// Downloads all packages into a folder.
fn fetch(apt: &Path, archives: &Path) -> Result<()> {
    let apt = Apt::prepare(apt)?;
    apt.get(&["update", "-qq"])?;
    let kernels = KERNELS.iter().map(|package| apt.kernel(package)).collect::<Result<Vec<_>>>()?;
    fs::create_dir_all(archives)?;
    let mut names = vec!["download", "-qq"];
    names.extend(kernels.iter().map(String::as_str));
    names.extend(PACKAGES);
    apt.get_in(archives, &names)?;
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

    /// The package with the version in its name that a kernel's package depends on.
    fn kernel(&self, package: &str) -> Result<String> {
        let mut command = Command::new("apt-cache");
        let listing = run(command.env("APT_CONFIG", &self.configuration).args(["depends", package]))?;
        let depends = listing.lines().filter_map(|line| line.trim().strip_prefix("Depends: "));
        let kernel = depends.map(str::trim).find(|name| name.starts_with("linux-image-"));
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
        bail!(
            "no Debian mirror in /etc/apt: the Linux baseline is made of Debian's arm64 packages. \
             Add a source whose address ends in /debian, or run the rows of Culm alone (--no-peer)"
        );
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
