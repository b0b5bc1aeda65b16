//! Writes a file, makes it durable, reads it back and compares, replaces it, appends lines to
//! another one, lists, renames and removes. It begins again with a file that is lost, as a client
//! does whose provider was restarted. The system test that runs it waits for the line `file-test
//! passed`, and looks at the volume; `file-test failed` says what did not hold.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod work;

use culm::{Channels, Component, ROUNDS, run_rounds};
use work::Work;

culm::component!(Tester);

struct Tester {
    work: Work,
}

impl Component for Tester {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let mut this = Self { work: Work::new(&connections.files, config.seed, config.rounds) };
        this.run();
        this
    }

    fn notified(&mut self, _: Channels) {
        self.run();
    }
}

impl Tester {
    fn run(&mut self) {
        run_rounds(ROUNDS, || self.work.round());
    }
}
