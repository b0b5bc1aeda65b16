//! Ends the machine when its power button is pressed. It needs `may_halt`.
//!
//! A press that came while this was restarted counts: the line tells of all since the machine was
//! started. A button that is still held as the machine starts, because it was switched on by it,
//! counts once it was released and is pressed again.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::time::{self, Instant};
use culm::{Channels, Component, supervision};
use culm_gpio::Line;

culm::component!(PowerButton);

/// Exit status of a machine that was ended by its button.
const ENDED: u32 = 0;

struct PowerButton {
    line: Line,
    grace: time::Duration,
    /// When the machine ends, once the button was pressed.
    end: Option<Instant>,
}

impl Component for PowerButton {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let mut this = Self { line: Line::new(connections.button), grace: config.grace, end: None };
        this.look(time::now());
        this
    }

    fn notified(&mut self, _: Channels) {
        self.look(time::now());
    }
}

impl PowerButton {
    fn look(&mut self, now: Instant) {
        if self.end.is_none() && self.line.activations() > 0 {
            culm::info!("the power button was pressed: the machine ends in {} ms", self.grace.as_millis());
            self.end = Some(now + self.grace);
        }
        match self.end {
            Some(end) if end <= now => supervision::halt(ENDED),
            Some(end) => culm::wake_at(end),
            None => {}
        }
    }
}
