//! Looks whether registers hold anything of another protection domain's.
//!
//! Two of these run on one core. Before each system call, and while it works, each fills every
//! register with a mark that names it; after each system call each looks at every register: those
//! that carry a result may hold it, those that the kernel keeps must hold what they held, all
//! others must be zero. A leak shows as the peer's mark.
//!
//! The system test waits for `nothing leaked`; a line with `leak` says which register held what.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod registers;
mod verdict;

use culm::{Channels, Component};

culm::component!(Snoop);

struct Snoop {
    #[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "it looks on the target only"))]
    config: Config,
    #[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "it looks on the target only"))]
    connections: Connections,
}

impl Component for Snoop {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        culm::wake_at(culm::time::now());
        Self { config, connections }
    }

    /// Takes the turns over from the runtime, whose own use of registers would hide leaks; never
    /// returns.
    fn notified(&mut self, _: Channels) {
        #[cfg(target_os = "none")]
        match self.config.role {
            "high" => registers::high(&self.config, self.connections.peer),
            _ => registers::low(&self.config, self.connections.peer),
        }
    }
}
