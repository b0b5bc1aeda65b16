//! Looks whether vector registers keep what it puts there.
//!
//! Several of these run on one core, and perhaps a guest. Before each system call, and while it
//! works, each fills all vector registers, the control and the status register with what depends on
//! its priority, the round and the register; afterwards each looks at all of them. A register that
//! was not saved, not loaded, or mixed up shows as another one's content.
//!
//! The system test waits for `nothing lost`; a line with `lost` and a register is a finding.

#![cfg_attr(target_os = "none", no_std, no_main)]

mod content;
#[cfg(target_os = "none")]
mod registers;

use culm::{Channels, Component};

culm::component!(Vectors);

struct Vectors {
    #[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "it looks on the target only"))]
    config: Config,
    #[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "it looks on the target only"))]
    connections: Connections,
}

impl Component for Vectors {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        culm::wake_at(culm::time::now());
        Self { config, connections }
    }

    /// Takes the turns over from the runtime, whose code may use the registers; never returns.
    fn notified(&mut self, _: Channels) {
        #[cfg(target_os = "none")]
        match self.config.role {
            "low" => registers::low(&self.config, &self.connections),
            _ => registers::high(&self.config),
        }
    }
}
