//! Logs numbered lines, with a pause after each. Each life counts from 0 on, and says which life it
//! is. If its configuration says so, it ends by a panic.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::{Channels, Component, time};

culm::component!(Chatter);

struct Chatter {
    config: Config,
    said: u64,
}

impl Component for Chatter {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, _: Connections) -> Self {
        culm::wake_at(time::now());
        Self { config, said: 0 }
    }

    fn notified(&mut self, _: Channels) {
        let (life, number) = (culm::restarts(), self.said);
        if number < self.config.lines {
            culm::info!("life {life}: line {number} of {}", self.config.lines);
            self.said += 1;
            culm::wake_at(time::now() + self.config.pause);
        } else if self.config.faults {
            panic!("life {life} has said all that it had to say");
        }
    }
}
