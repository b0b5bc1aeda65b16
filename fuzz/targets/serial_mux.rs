//! The serial virtualiser between an operator, a driver, an honest log, an honest console, and a
//! hostile console.
//!
//! The hostile console writes anything anywhere in its queues at any time, as if it were restarted
//! too. Whatever it does: the honest console is given what was typed while it was in focus and
//! nothing else; while neither is in focus, each line that comes out is of the mux, or begins with
//! the name of who wrote it, and does nothing to the terminal; and each line of the honest log
//! comes out, by itself, in the end.

#![no_main]

#[path = "../common/peers.rs"]
#[allow(dead_code, reason = "entries of the net class are none of this one's")]
mod peers;

use culm::connection::Ring;
use culm::queue::{self, Consumer, Producer};
use culm::testing::{ring, signalled};
use culm::time::{Duration, Instant};
use culm::{Channel, Region};
use libfuzzer_sys::fuzz_target;
use peers::{Input, clear, scribble};
use serial_mux::{Client, Mux};
use std::sync::OnceLock;

/// The numbers of the consoles, by which the operator calls them.
const HOSTILE: u8 = 1;
const HONEST: u8 = 2;

const LINE: &[u8] = b"[    1.000000] info  log: said\n";

/// Queues, the same for each input.
struct Ground {
    driver_tx: Ring,
    driver_rx: Ring,
    log: Ring,
    honest: [Ring; 2],
    hostile: [Ring; 2],
}

fn ground() -> &'static Ground {
    static GROUND: OnceLock<Ground> = OnceLock::new();
    GROUND.get_or_init(|| Ground {
        driver_tx: ring::<u8>(512),
        driver_rx: ring::<u8>(256),
        log: ring::<u8>(1024),
        honest: [ring::<u8>(256), ring::<u8>(256)],
        hostile: [ring::<u8>(256), ring::<u8>(256)],
    })
}

struct World {
    mux: Mux,
    driver_tx: Consumer<u8>,
    driver_rx: Producer<u8>,
    log: Producer<u8>,
    heard: Consumer<u8>,
    hostile: Producer<u8>,
    reach: [Region; 2],
    focus: u8,
    now: Instant,
    /// What came out since no console is in focus.
    text: Vec<u8>,
    /// Lines that the log has said, and those that came out.
    said: usize,
    seen: usize,
}

fn mux() -> Mux {
    let ground = ground();
    let console = |name, channel, [tx, rx]: [Ring; 2]| {
        Client::new(name, Channel::new(channel), true, queue::consumer(tx), Some(queue::producer(rx)))
    };
    let clients = vec![
        Client::new(b"log", Channel::new(1), false, queue::consumer(ground.log), None),
        console(b"evil", 2, ground.hostile),
        console(b"good", 3, ground.honest),
    ];
    let (tx, rx) = (queue::producer(ground.driver_tx), queue::consumer(ground.driver_rx));
    Mux::new(Channel::new(0), tx, rx, clients, None)
}

impl World {
    fn new() -> Self {
        let ground = ground();
        let all = [ground.driver_tx, ground.driver_rx, ground.log, ground.honest[0], ground.honest[1]];
        all.into_iter().for_each(|ring| _ = clear::<u8>(ring));
        let reach = ground.hostile.map(clear::<u8>);
        let mut world = Self {
            mux: mux(),
            driver_tx: queue::consumer(ground.driver_tx),
            driver_rx: queue::producer(ground.driver_rx),
            log: queue::producer(ground.log),
            heard: queue::consumer(ground.honest[1]),
            hostile: queue::producer(ground.hostile[0]),
            reach,
            focus: HOSTILE,
            now: Instant::default(),
            text: Vec::new(),
            said: 0,
            seen: 0,
        };
        world.rest();
        world
    }

    /// One turn of everybody who is honest.
    fn turn(&mut self) {
        (1..=3).for_each(|channel| self.mux.notified(Channel::new(channel)));
        self.now += Duration::from_millis(10);
        self.mux.serve(self.now);
        let text: Vec<u8> = self.driver_tx.drain(u32::MAX).collect();
        let _ = self.driver_tx.release();
        let _ = self.log.publish();
        let _ = self.driver_rx.publish();
        self.text.extend(text);
    }

    /// Turns until all that is there came out, if nobody adds to it.
    fn rest(&mut self) {
        (0..40).for_each(|_| self.turn());
        let line = [&LINE[..LINE.len() - 1], b"\r\n"].concat();
        let text = core::mem::take(&mut self.text);
        self.seen += text.windows(line.len()).filter(|window| *window == line).count();
        if self.focus == 0 {
            let text = String::from_utf8(text).expect("text");
            for line in text.split_terminator("\r\n") {
                let is_named = ["log: ", "[    1.000000] info  log: ", "evil| ", "good| ", "[console "];
                assert!(is_named.iter().any(|name| line.starts_with(name)), "{line:?} is nobody's");
                assert!(!line.chars().any(char::is_control), "{line:?}");
            }
        }
    }

    fn press(&mut self, keys: &[u8]) {
        assert_eq!(self.driver_rx.push_slice(keys), keys.len());
        let _ = self.driver_rx.publish();
    }

    /// The operator chooses, and waits until it is so.
    fn choose(&mut self, number: u8) {
        self.rest();
        self.press(&[0x1d, b'0' + number]);
        self.mux.serve(self.now);
        (0..40).for_each(|_| self.turn());
        // What came out until here is of two minds: only the log's lines count.
        self.focus = u8::MAX;
        self.rest();
        self.focus = number;
    }

    fn step(&mut self, input: &mut Input<'_>) {
        match input.byte() % 10 {
            0..=2 => _ = scribble(&self.reach, input),
            3 | 4 => {
                let count = usize::from(input.byte());
                self.hostile.push_slice(input.bytes(count));
                let _ = self.hostile.publish();
            }
            5 => self.hostile = queue::producer(ground().hostile[0]),
            6 if self.log.refresh() as usize >= LINE.len() => {
                self.log.push_slice(LINE);
                let _ = self.log.publish();
                self.said += 1;
            }
            7 => {
                self.rest();
                let count = 1 + usize::from(input.byte() % 32);
                let typed: Vec<u8> = input.bytes(count).iter().copied().filter(|byte| *byte != 0x1d).collect();
                self.press(&typed);
                self.rest();
                let heard: Vec<u8> = self.heard.drain(u32::MAX).collect();
                let _ = self.heard.release();
                assert_eq!(heard, if self.focus == HONEST { typed } else { vec![] }, "the honest console's input");
            }
            8 => {
                let number = input.byte() % 3;
                self.choose(number);
            }
            _ => self.turn(),
        }
    }
}

fuzz_target!(|data: &[u8]| {
    let mut input = Input::new(data);
    let mut world = World::new();
    while !input.is_over() {
        world.step(&mut input);
    }
    world.choose(HONEST);
    assert_eq!(world.seen, world.said, "lines of the log");
    let _ = signalled();
});
