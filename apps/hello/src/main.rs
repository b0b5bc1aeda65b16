//! Says hello, and how often: the smallest component.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::time::{self, Instant};
use culm::{Channels, Component};

culm::component!(Hello);

struct Hello {
    config: Config,
    greetings: u64,
    next: Instant,
}

impl Component for Hello {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, _: Connections) -> Self {
        let mut hello = Self { config, greetings: 0, next: time::now() };
        hello.greet();
        hello
    }

    fn notified(&mut self, _: Channels) {
        self.greet();
    }
}

impl Hello {
    /// Greets where it is time to, and asks to be woken when it is time again.
    fn greet(&mut self) {
        if time::now() >= self.next {
            self.greetings += 1;
            self.next += self.config.every;
            counters::GREETINGS.add(1);
            culm::info!("hello, {}! ({})", self.config.whom, self.greetings);
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
    fn greets_once_per_interval() {
        let config = Config { whom: "moon", every: Duration::from_secs(2) };
        let mut hello = Hello::init(config, Connections {});
        assert_eq!(testing::deadline(), Some(Instant::default() + Duration::from_secs(2)));
        hello.notified(Channels::NONE);
        assert_eq!(testing::take_log().matches("hello, moon!").count(), 1);
        testing::set_time(Instant::default() + Duration::from_secs(2));
        hello.notified(Channels::NONE);
        assert!(testing::take_log().contains("hello, moon! (2)"));
    }
}
