//! Linux between two networks: what its kernel needs for that beside what every peer has.
//!
//! The modules and scripts stand in an archive of their own behind the peer's initial RAM disk,
//! which Linux unpacks over it.

use super::{Kernel, find_file, read};
use anyhow::{Context, Result};
use culm_tool::debian::RELEASE;
use culm_tool::guest::cpio::Archive;
use std::fs;
use std::path::{Path, PathBuf};

/// What Linux is between the networks of its two cards.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Way {
    /// A bridge: both are one network.
    Bridge,
}

impl Way {
    /// Every way.
    const ALL: [Way; 1] = [Way::Bridge];

    /// The name of its script, which the word `culm.tools=NAME` of the kernel's command line has.
    pub fn name(self) -> &'static str {
        match self {
            Way::Bridge => "bridge",
        }
    }

    /// The kernel's modules that it needs, in the order in which they depend on each other.
    fn modules(self) -> &'static [&'static str] {
        match self {
            Way::Bridge => &["llc", "stp", "bridge"],
        }
    }

    /// What is done once the modules are there.
    fn script(self) -> &'static str {
        match self {
            // Without spanning trees, as a bridge is made if nobody says otherwise, and without the
            // seconds for which it would only listen.
            Way::Bridge => {
                "$b ip addr flush dev eth0\n\
                 $b brctl addbr bridge0\n\
                 echo 0 >/sys/class/net/bridge0/bridge/forward_delay\n\
                 $b brctl addif bridge0 eth0\n\
                 $b brctl addif bridge0 eth1\n\
                 $b ip link set eth1 up\n\
                 $b ip link set bridge0 up\n"
            }
        }
    }
}

/// Writes the archive of `initrd` and what `kernel` needs for every way.
pub fn prepare(cache: &Path, initrd: &Path, kernel: &Kernel) -> Result<PathBuf> {
    let version = &kernel.version;
    let folder = cache.join(format!("{RELEASE}-arm64/lib/modules/{version}"));
    let mut archive = Archive::default();
    archive.directory("etc/tools");
    for way in Way::ALL {
        let mut script = format!("b=/bin/busybox\nmodules=/modules/{version}\n");
        for module in way.modules() {
            let name = format!("{module}.ko");
            let path = find_file(&folder, &name).with_context(|| format!("Linux {version} has no module {name}"))?;
            archive.file(&format!("modules/{version}/{name}"), 0o644, &read(&path)?);
            script += &format!("$b insmod $modules/{name}\n");
        }
        archive.file(&format!("etc/tools/{}", way.name()), 0o644, (script + way.script()).as_bytes());
    }
    let path = cache.join("gateway.cpio");
    let content = [read(initrd)?, archive.finish()].concat();
    fs::write(&path, content).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}
