//! Greets over TCP: it asks for a name and greets by it.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

mod answer;

use answer::{LONGEST_NAME, answer};
use culm::time::{self, Instant};
use culm::{Channels, Component, run_rounds};
use culm_net::Client;
use culm_net::stack::{Event, Settings, Stack};

culm::component!(Greeter);

/// Conversations at a time.
const PLACES: usize = 16;

/// Rounds of one turn: whatever the network has to offer, others of this priority get their turn.
const ROUNDS: u32 = 64;

struct Greeter {
    config: Config,
    stack: Stack,
    /// When its patience with the conversation in each place ends.
    limits: [Option<Instant>; PLACES],
}

impl Component for Greeter {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let settings = Settings { connections: PLACES, ..Settings::default() };
        let mut stack = Stack::new(Client::new(connections.net), settings);
        stack.listen(config.port);
        culm::info!("greets on port {}", config.port);
        let mut greeter = Self { config, stack, limits: [None; PLACES] };
        greeter.work();
        greeter
    }

    fn notified(&mut self, _: Channels) {
        self.work();
    }
}

impl Greeter {
    /// Does everything there is to do. Every turn ends by this, so it also says when the next one
    /// is due.
    fn work(&mut self) {
        run_rounds(ROUNDS, || {
            self.stack.receive(&mut |_| {});
            while let Some(event) = self.stack.event() {
                match event {
                    Event::Opened { slot, .. } => self.ask(slot),
                    Event::Ready { slot } => self.listen(slot),
                }
            }
            self.lose_patience();
            self.stack.end_round()
        });
        if let Some(next) = self.limits.iter().flatten().min() {
            culm::wake_at(*next);
        }
    }

    /// Begins a conversation.
    fn ask(&mut self, slot: usize) {
        if let Some(mut stream) = self.stack.stream(slot) {
            stream.send(b"What is your name? ");
            self.limits[slot] = Some(time::now() + self.config.patience);
        }
    }

    /// Greets as soon as there is a name.
    fn listen(&mut self, slot: usize) {
        let Some(mut stream) = self.stack.stream(slot) else { return };
        let mut line = [0; LONGEST_NAME + 1];
        let length = stream.copy_received(&mut line);
        let answer = answer(self.config.greeting, &line[..length]);
        if answer.is_none() && !stream.ended() {
            return;
        }
        if let Some(answer) = answer {
            stream.send(answer.as_bytes());
            counters::GREETINGS.add(1);
        }
        stream.finish();
        self.end(slot);
    }

    /// Ends conversations in which nothing was said for too long, so that nobody keeps a place for
    /// ever.
    fn lose_patience(&mut self) {
        let now = time::now();
        for slot in 0..PLACES {
            if self.limits[slot].is_some_and(|limit| limit <= now) {
                counters::IMPATIENCE.add(1);
                if let Some(mut stream) = self.stack.stream(slot) {
                    stream.abort();
                }
                self.end(slot);
            }
        }
    }

    /// Gives a place back.
    fn end(&mut self, slot: usize) {
        self.limits[slot] = None;
        self.stack.release(slot);
    }
}
