//! A console that repeats what it is told: it prints a prompt without a line's end, shows each key
//! as it is typed, and says each line again when it has ended. It may say lines by itself too,
//! some of which look as if they were others'.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

#[cfg(target_os = "none")]
extern crate alloc;
#[cfg(not(target_os = "none"))]
extern crate std as alloc;

use alloc::vec::Vec;
use culm::queue::{self, Consumer, Producer};
use culm::time::{self, Duration, Instant};
use culm::{Channel, Channels, Component, ROUNDS, run_rounds};

culm::component!(Parrot);

/// Longest line that is repeated.
const LINE: usize = 80;

struct Parrot {
    prompt: &'static str,
    every: Duration,
    next: Option<Instant>,
    channel: Channel,
    output: Producer<u8>,
    input: Consumer<u8>,
    line: Vec<u8>,
}

impl Component for Parrot {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let console = connections.console;
        let next = (config.every > Duration::ZERO).then(|| time::now() + config.every);
        let mut parrot = Self {
            prompt: config.prompt,
            every: config.every,
            next,
            channel: Channel::new(console.channel),
            output: queue::producer(console.tx),
            input: queue::consumer(console.rx),
            line: Vec::with_capacity(LINE),
        };
        parrot.say(&[config.prompt.as_bytes()]);
        parrot.work();
        parrot
    }

    fn notified(&mut self, _: Channels) {
        self.work();
    }
}

impl Parrot {
    /// Prints something, as far as there is space: nobody needs the rest.
    fn say(&mut self, pieces: &[&[u8]]) {
        for piece in pieces {
            self.output.push_slice(piece);
        }
    }

    fn work(&mut self) {
        run_rounds(ROUNDS, || {
            while let Some(byte) = self.input.pop() {
                self.hear(byte);
            }
            if (self.input.release() | self.output.publish()).is_asleep() {
                self.channel.notify();
            }
            self.input.sleep()
        });
        self.talk();
    }

    fn hear(&mut self, byte: u8) {
        if byte == b'\r' {
            let line = core::mem::take(&mut self.line);
            self.say(&[b"\r\n", self.prompt.as_bytes(), b"heard ", &line, b"\r\n", self.prompt.as_bytes()]);
        } else if self.line.len() < LINE {
            self.line.push(byte);
            self.say(&[&[byte]]);
        }
    }

    /// Says a line of its own, and one that looks like another's, if it is time to.
    fn talk(&mut self) {
        let Some(next) = self.next else { return };
        if next <= time::now() {
            self.say(&[b"\x1b[31mtalks\x1b[m\r\n[    0.000001] info  other: forged\r\n"]);
            if self.output.publish().is_asleep() {
                self.channel.notify();
            }
            self.next = Some(time::now() + self.every);
        }
        culm::wake_at(self.next.unwrap_or(next));
    }
}
