//! Greets over TCP: the tutorial's component. It asks for a name and greets by it.
//!
//! `docs/src/tutorial.md` builds it step by step; the code there is the code here, and a test sees to that.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

extern crate alloc;

use alloc::format;
use alloc::string::String;
use culm::time::{self, Instant};
use culm::{Channels, Component};
use culm_net::Client;
use culm_net::stack::{Event, Settings, Stack};

culm::component!(Greeter);

/// Conversations at a time.
const PLACES: usize = 16;

/// The longest name that it greets, in bytes.
const LONGEST_NAME: usize = 40;

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
    /// Does everything there is to do. Every turn ends by this, so it also says when the next one is due.
    fn work(&mut self) {
        loop {
            self.stack.receive(&mut |_| {});
            while let Some(event) = self.stack.event() {
                match event {
                    Event::Opened { slot, .. } => self.ask(slot),
                    Event::Ready { slot } => self.listen(slot),
                }
            }
            self.lose_patience();
            if self.stack.settle() {
                break;
            }
        }
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

    /// Ends conversations in which nothing was said for too long, so that nobody keeps a place for ever.
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

    fn end(&mut self, slot: usize) {
        self.limits[slot] = None;
        self.stack.release(slot);
    }
}

/// What to answer to what was received so far; nothing yet while the line is not complete.
fn answer(greeting: &str, received: &[u8]) -> Option<String> {
    let Some(end) = received.iter().position(|byte| *byte == b'\n') else {
        return (received.len() > LONGEST_NAME).then(|| String::from("That is too long for me. Goodbye!\n"));
    };
    let name = core::str::from_utf8(&received[..end]).unwrap_or_default().trim();
    let name = if name.is_empty() { "stranger" } else { name };
    Some(format!("{greeting}, {name}!\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greets_by_name() {
        assert_eq!(answer("Hello", b"Ada\r\n").as_deref(), Some("Hello, Ada!\n"));
        assert_eq!(answer("Hello", b"\n").as_deref(), Some("Hello, stranger!\n"));
        assert_eq!(answer("Hello", b"\xff\n").as_deref(), Some("Hello, stranger!\n"));
    }

    #[test]
    fn waits_for_the_end_of_a_line_that_is_not_too_long() {
        assert_eq!(answer("Hello", b"Ad"), None);
        assert!(answer("Hello", &[b'a'; LONGEST_NAME + 1]).is_some());
    }
}
