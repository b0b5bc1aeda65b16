//! Says that it runs, once a second.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::time::{self, Instant};
use culm::{Channels, Component};

culm::component!(NewComponent);

struct NewComponent {
    config: Config,
    next: Instant,
}

impl Component for NewComponent {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, _connections: Connections) -> Self {
        culm::info!("new-component starts");
        let next = time::now() + config.every;
        culm::wake_at(next);
        Self { config, next }
    }

    fn notified(&mut self, _channels: Channels) {
        if time::now() >= self.next {
            counters::TURNS.add(1);
            culm::info!("new-component runs");
            self.next += self.config.every;
        }
        culm::wake_at(self.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm::testing;
    use culm::time::Duration;

    #[test]
    fn runs_once_per_interval() {
        let mut component = NewComponent::init(Config { every: Duration::from_secs(1) }, Connections {});
        let deadline = testing::deadline().expect("it asks to be woken");
        assert_eq!(deadline, time::now() + Duration::from_secs(1));

        testing::take_log();
        testing::set_time(deadline);
        component.notified(Channels::NONE);
        assert!(testing::take_log().ends_with("new-component runs\n"));
        assert_eq!(testing::deadline(), Some(deadline + Duration::from_secs(1)));
    }
}
