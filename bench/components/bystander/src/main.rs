//! Has nothing to do with what is measured: a system with many of these shows what each further
//! component costs the others (`./culm bench growth`).

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::time::{self, Duration, Instant};
use culm::{Channels, Component};

culm::component!(Bystander);

struct Bystander {
    period: Duration,
    next: Instant,
}

impl Component for Bystander {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, _: Connections) -> Self {
        let mut this = Self { period: config.period, next: time::now() };
        this.sleep();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.sleep();
    }
}

impl Bystander {
    fn sleep(&mut self) {
        if self.period == Duration::ZERO {
            return;
        }
        if time::now() >= self.next {
            counters::TICKS.add(1);
            self.next = time::now() + self.period;
        }
        culm::wake_at(self.next);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn it_wakes_up_once_a_period_and_never_without_one() {
        let mut ticking = Bystander::init(Config { period: Duration::from_millis(10) }, Connections {});
        let first = ticking.next;
        ticking.notified(Channels::NONE);
        assert_eq!(ticking.next, first, "it is not time yet");
        culm::testing::set_time(first + Duration::from_millis(1));
        ticking.notified(Channels::NONE);
        assert!(ticking.next > first);
        let mut idle = Bystander::init(Config { period: Duration::ZERO }, Connections {});
        let start = idle.next;
        idle.notified(Channels::NONE);
        assert_eq!(idle.next, start);
    }
}
