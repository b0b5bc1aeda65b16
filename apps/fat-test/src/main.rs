//! Tries a volume: makes a folder, changes into it, writes a file there, makes it durable, asks for
//! its size, reads it and compares, and lists the folder. It tells of each step, and begins again
//! after a pause, in another folder. The last line is `all … rounds are well`, or says what failed.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod round;

use culm::time::{self, Instant};
use culm::{Channels, Component, Progress, ROUNDS, run_rounds};
use culm_file::{Client, Completion, NotSent};
use round::{Outcome, Round, Step};

culm::component!(FatTest);

struct FatTest {
    config: Config,
    client: Client<Step>,
    round: Round,
    /// The next round begins then; the present one is done.
    pause: Option<Instant>,
    is_over: bool,
}

impl Component for FatTest {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let client = Client::connect(&connections.files);
        let round = Round::new(1, config.size);
        let mut test = Self { config, client, round, pause: None, is_over: false };
        test.work();
        test
    }

    fn notified(&mut self, _: Channels) {
        self.work();
    }
}

impl FatTest {
    /// Does everything there is to do. Every turn ends by this, so it also asks to be woken when
    /// the pause ends.
    fn work(&mut self) {
        if self.pause.is_some_and(|end| time::now() >= end) {
            self.pause = None;
            self.round = Round::new(self.round.number + 1, self.config.size);
        }
        run_rounds(ROUNDS, || self.go_on());
        if let Some(end) = self.pause {
            culm::wake_at(end);
        }
    }

    /// Looks at what is complete, and asks for the next step.
    fn go_on(&mut self) -> Progress {
        self.client.begin();
        while let Some(Completion { tag, result }) = self.client.next_completion() {
            let outcome = self.round.complete(&mut self.client, tag, result);
            self.conclude(outcome);
        }
        let is_there = self.client.volume().is_some_and(|volume| volume.is_present());
        if is_there && self.pause.is_none() && !self.is_over {
            match self.round.ask(&mut self.client) {
                Ok(()) | Err(NotSent::Full | NotSent::Unknown) => {}
                Err(NotSent::Refused(error)) => {
                    let outcome = self.round.failed(&mut self.client, error);
                    self.conclude(outcome);
                }
            }
        }
        self.client.end_round()
    }

    fn conclude(&mut self, outcome: Outcome) {
        let number = self.round.number;
        match outcome {
            Outcome::GoesOn => {}
            Outcome::Failed => {
                culm::error!("round {number} failed");
                self.is_over = true;
            }
            Outcome::Done => {
                counters::ROUNDS.add(1);
                if number == self.config.rounds {
                    culm::info!("all {number} rounds are well");
                    self.is_over = true;
                } else {
                    self.pause = Some(time::now() + self.config.pause);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests;
