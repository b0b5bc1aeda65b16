//! Breaks one rule of the kernel at a time, for the isolation tests.
//!
//! It behaves for a while, says `now breaking the rule …`, breaks the rule, and says so should it
//! survive what must end in a fault. Unsafe code is the point of it, and all in `rules`.

#![cfg_attr(target_os = "none", no_std, no_main)]

#[cfg(target_os = "none")]
mod rules;

use culm::time::{self, Instant};
use culm::{Channel, Channels, Component, Message};

culm::component!(Misbehave);

/// Rules that only a passive domain can break, or one that serves a call: when it is called.
const WHEN_CALLED: [&str; 2] = ["wait-while-owing", "deadline-of-passive"];

struct Misbehave {
    config: Config,
    #[cfg_attr(not(target_os = "none"), expect(dead_code, reason = "rules are broken on the target only"))]
    connections: Connections,
    when: Instant,
}

impl Component for Misbehave {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let when = time::now() + config.after;
        if !WHEN_CALLED.contains(&config.rule) {
            culm::wake_at(when);
        }
        Self { config, connections, when }
    }

    fn notified(&mut self, _: Channels) {
        if time::now() < self.when {
            culm::wake_at(self.when);
            return;
        }
        self.misbehave();
    }

    fn called(&mut self, _: Channel, _: Message) -> Message {
        self.misbehave();
        Message::EMPTY
    }
}

impl Misbehave {
    fn misbehave(&self) {
        culm::info!("now breaking the rule {}", self.config.rule);
        culm::log::flush();
        #[cfg(target_os = "none")]
        rules::break_rule(self.config.rule, &self.connections);
        culm::error!("survived breaking the rule {}", self.config.rule);
    }
}
