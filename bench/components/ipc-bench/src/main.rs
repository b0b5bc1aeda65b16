//! Loops over calls, notifications and deadlines, for the benchmarks: `./culm bench ipc`.
//!
//! One of these is the client and runs the loops, one row after the other, each between two marks
//! that the counting plugin records. The others answer: a passive server to calls, `pong` to
//! notifications; `sink` has a lower priority and never gets to run while the client notifies it. A
//! row whose peer is not connected is left out.

#![cfg_attr(target_os = "none", no_std, no_main)]
#![forbid(unsafe_code)]

use culm::time::{self, Duration, Instant};
use culm::{Channel, Channels, Component, Message};
use culm_bench_guest::mark;

culm::component!(IpcBench);

/// Rounds that are measured in each row.
const ROUNDS: u64 = 10_000;
/// Rounds before those, so that the emulator has translated everything.
const WARM_UP: u64 = 1_000;
/// Long enough for every other component to have started.
const DELAY: Duration = Duration::from_millis(100);

/// Numbers of the rows, known to `bench/harness/src/rows/ipc.rs`.
mod row {
    pub const NOTIFY_NO_SWITCH: u64 = 1;
    pub const CALL: u64 = 2;
    pub const CALL_8_WORDS: u64 = 3;
    pub const PING_PONG: u64 = 4;
    pub const DEADLINE: u64 = 5;
}

/// The client's next turn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
enum Phase {
    /// Only answers; not the client, or all rows are done.
    Answer,
    /// Waits until the others have started, then runs the rows that need no turn.
    Start(Instant),
    /// Notifies `pong` and waits for its answer, so many times more.
    PingPong(u64),
    /// Waits for a deadline that has just passed, so many times more.
    Deadline(u64),
}

struct IpcBench {
    config: Config,
    connections: Connections,
    phase: Phase,
}

impl Component for IpcBench {
    type Config = Config;
    type Connections = Connections;

    fn init(config: Config, connections: Connections) -> Self {
        let phase = if config.client { Phase::Start(time::now() + DELAY) } else { Phase::Answer };
        if let Phase::Start(start) = phase {
            culm::wake_at(start);
        }
        Self { config, connections, phase }
    }

    fn notified(&mut self, channels: Channels) {
        match self.phase {
            Phase::Answer => {
                if let Some(pong) = self.connections.pong.filter(|pong| channels.contains(*pong)) {
                    pong.notify();
                }
            }
            Phase::Start(start) if time::now() < start => culm::wake_at(start),
            Phase::Start(_) => self.start(),
            Phase::PingPong(left) => {
                if let Some(pong) = self.connections.pong.filter(|pong| channels.contains(*pong)) {
                    self.ping_pong(pong, left);
                }
            }
            Phase::Deadline(left) => self.deadline(left),
        }
    }

    fn called(&mut self, _: Channel, message: Message) -> Message {
        message
    }
}

impl IpcBench {
    /// The rows that are one loop within one turn, then the first round of the next row.
    fn start(&mut self) {
        if let Some(sink) = self.connections.sink {
            self.measure(row::NOTIFY_NO_SWITCH, || sink.notify_now());
        }
        if let Some(server) = self.connections.server {
            self.measure(row::CALL, || server.call(Message::EMPTY));
            self.measure(row::CALL_8_WORDS, || server.call([1, 2, 3, 4, 5, 6, 7, 8]));
        }
        match self.connections.pong {
            Some(pong) => {
                self.phase = Phase::PingPong(WARM_UP + ROUNDS);
                pong.notify();
            }
            None => self.begin_deadlines(),
        }
    }

    /// Measures a round, whose result says nothing that matters here: a peer that has failed shows
    /// in the figures.
    fn measure<T>(&self, row: u64, round: impl Fn() -> T) {
        for _ in 0..WARM_UP {
            let _ = round();
        }
        mark::begin(self.config.first_row + row, ROUNDS);
        for _ in 0..ROUNDS {
            let _ = round();
        }
        mark::end(self.config.first_row + row, ROUNDS);
        counters::ROWS.add(1);
    }

    fn ping_pong(&mut self, pong: Channel, left: u64) {
        if left == ROUNDS {
            mark::begin(self.config.first_row + row::PING_PONG, ROUNDS);
        }
        if left == 0 {
            mark::end(self.config.first_row + row::PING_PONG, ROUNDS);
            counters::ROWS.add(1);
            self.begin_deadlines();
        } else {
            self.phase = Phase::PingPong(left - 1);
            pong.notify();
        }
    }

    fn begin_deadlines(&mut self) {
        self.phase = Phase::Deadline(WARM_UP + ROUNDS);
        culm::wake_at(time::now());
    }

    fn deadline(&mut self, left: u64) {
        if left == ROUNDS {
            mark::begin(self.config.first_row + row::DEADLINE, ROUNDS);
        }
        if left == 0 {
            mark::end(self.config.first_row + row::DEADLINE, ROUNDS);
            counters::ROWS.add(1);
            self.phase = Phase::Answer;
            culm::info!("all rows are done");
        } else {
            self.phase = Phase::Deadline(left - 1);
            // Near enough that the core hardly sleeps, far enough that it does.
            culm::wake_at(time::now() + Duration::from_micros(20));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answering(pong: Option<Channel>) -> IpcBench {
        let config = Config { client: false, first_row: 0 };
        IpcBench::init(config, Connections { server: None, pong, sink: None })
    }

    #[test]
    fn one_that_is_not_the_client_answers() {
        let pong = Channel::new(3);
        let mut bench = answering(Some(pong));
        bench.notified(pong.into());
        assert_eq!(bench.phase, Phase::Answer);
        let message = Message::new([1, 2]);
        assert_eq!(bench.called(Channel::new(0), message), message);
    }

    #[test]
    fn the_client_waits_for_the_others_and_leaves_out_what_is_not_connected() {
        let config = Config { client: true, first_row: 0 };
        let mut bench = IpcBench::init(config, Connections { server: None, pong: None, sink: None });
        bench.notified(Channels::NONE);
        assert!(matches!(bench.phase, Phase::Start(_)));
        culm::testing::set_time(Instant::default() + DELAY * 2);
        bench.notified(Channels::NONE);
        for _ in 0..=WARM_UP + ROUNDS {
            assert!(matches!(bench.phase, Phase::Deadline(_)));
            bench.notified(Channels::NONE);
        }
        assert_eq!(bench.phase, Phase::Answer);
    }
}
