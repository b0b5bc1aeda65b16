//! More clients than a machine can serve: how many of them it serves.
//!
//! The machine here does so much work in a millisecond, reading a segment is some of it and serving
//! a request more. What it has no time for waits in its network card, and what the card has no room
//! for is lost. Clients do what TCP does: they ask again.

use super::crowd::answer_and_end;
use super::lan::Lan;
use super::station::{ACK, PORTS, RST, SYN, Station, addressee};
use crate::stack::Counts;
use std::collections::{BTreeMap, VecDeque};
use std::vec::Vec;

/// Work that is done in a millisecond, that of reading a segment being 1.
const SPEED: i64 = 30;

/// Work of answering a request. A client sends five segments, so there is time for two clients in a
/// millisecond.
const ANSWER: i64 = 10;

/// Segments that the card has room for.
const CARD: usize = 500;

/// Segments that are read at once.
const BATCH: usize = 16;

/// How long a client waits for its answer, in milliseconds.
const PATIENCE: u64 = 2000;

/// A client's action when its time comes.
#[derive(Clone, Copy)]
enum Action {
    Ask,
    Request { again: u64 },
    GiveUp,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum State {
    Asking,
    Connected,
    Over,
}

/// A server, and clients that come at a steady rate.
struct World {
    lan: Lan,
    clients: Vec<(Station, State)>,
    due: BTreeMap<u64, Vec<(usize, Action)>>,
    card: VecDeque<Vec<u8>>,
    /// Work that there is time for; below 0 where the last batch took longer.
    time: i64,
    answers: u64,
}

impl World {
    fn new() -> Self {
        let mut lan = Lan::fixed(64);
        lan.server = answer_and_end;
        lan.stack.listen(80);
        lan.seen.clear();
        let (clients, due, card) = (Vec::new(), BTreeMap::new(), VecDeque::new());
        Self { lan, clients, due, card, time: 0, answers: 0 }
    }

    /// A millisecond, in which so many clients begin.
    fn pass(&mut self, now: u64, newcomers: usize) {
        for _ in 0..newcomers {
            let number = self.clients.len();
            self.clients.push((Station::new(number as u16), State::Asking));
            self.due.entry(now).or_default().push((number, Action::Ask));
            self.due.entry(now + PATIENCE).or_default().push((number, Action::GiveUp));
        }
        for (client, action) in self.due.remove(&now).unwrap_or_default() {
            self.act(client, action, now);
        }
        self.time = (self.time + SPEED).min(SPEED);
        while self.time > 0 && !self.card.is_empty() {
            let count = self.card.len().min(BATCH);
            self.lan.wire.to_stack.extend(self.card.drain(..count));
            self.lan.step();
            self.time -= count as i64 + ANSWER * self.hear(now);
        }
        self.lan.pass(1);
        self.time -= ANSWER * self.hear(now);
    }

    /// A client does what is due.
    fn act(&mut self, client: usize, action: Action, now: u64) {
        let (station, state) = self.clients[client];
        match (action, state) {
            (Action::Ask, State::Asking) => {
                self.send(station.segment(SYN, b""));
                self.due.entry(now + 1000).or_default().push((client, action));
            }
            (Action::Request { again }, State::Connected) => {
                self.send(station.segment(ACK, b"request"));
                let action = Action::Request { again: 2 * again };
                self.due.entry(now + again).or_default().push((client, action));
            }
            (Action::GiveUp, State::Asking | State::Connected) => {
                if state == State::Connected {
                    self.send(station.segment(RST | ACK, b""));
                }
                self.clients[client].1 = State::Over;
            }
            _ => {}
        }
    }

    fn send(&mut self, segment: Vec<u8>) {
        if self.card.len() < CARD {
            self.card.push_back(segment);
        }
    }

    /// Clients hear what was sent to them; returns how many have their answers.
    fn hear(&mut self, now: u64) -> i64 {
        let mut answers = 0;
        for frame in core::mem::take(&mut self.lan.seen) {
            let Some(client) = addressee(&frame).map(|port| usize::from(port - PORTS)) else { continue };
            let (station, state) = &mut self.clients[client];
            let (flags, payload) = station.take(&frame);
            assert!(flags & RST == 0 || *state == State::Over, "{client} was reset");
            match *state {
                State::Asking if flags & SYN != 0 => {
                    station.next += 1;
                    *state = State::Connected;
                    let acknowledgement = station.segment(ACK, b"");
                    self.send(acknowledgement);
                    self.act(client, Action::Request { again: 200 }, now);
                }
                State::Connected if !payload.is_empty() => {
                    station.next += 7;
                    *state = State::Over;
                    let segments = [ACK, RST | ACK].map(|flags| station.segment(flags, b""));
                    segments.into_iter().for_each(|segment| self.send(segment));
                    answers += 1;
                }
                _ => {}
            }
        }
        self.answers += answers as u64;
        answers
    }
}

/// Answers in two seconds where so many clients come in ten milliseconds, and what the stack
/// counted.
fn answers(rate: usize) -> (u64, Counts) {
    let mut world = World::new();
    let mut before = 0;
    for now in 0..3000_u64 {
        let newcomers = (now as usize + 1) * rate / 10 - now as usize * rate / 10;
        if now == 1000 {
            before = world.answers;
        }
        world.pass(now, newcomers);
    }
    (world.answers - before, world.lan.stack.counts())
}

/// Whoever brings the frames learns which SYNs were dropped unread, and that no others were.
#[test]
fn buffers_of_syns_that_were_dropped_unread_go_back_with_a_mark() {
    let mut lan = Lan::fixed(4);
    lan.stack.listen(80);
    for number in 0..600 {
        lan.wire.to_stack.push_back(Station::new(number).segment(SYN, b""));
        lan.deliver();
        lan.stack.receive(&mut |_| {});
        let _ = lan.stack.end_round();
    }
    lan.deliver();
    let counts = lan.stack.counts();
    assert_eq!(counts.attempts, 600);
    assert!(lan.refused > 300, "the others wait: {}, {counts:?}", lan.refused);
    assert_eq!(lan.refused as u64, counts.attempts_refused);
}

/// Who is not served asks twice; to read that is all the work that too many clients make.
#[test]
fn too_many_clients_cost_no_more_than_reading_their_questions() {
    for rate in [10, 20, 40, 60] {
        let (answers, counts) = answers(rate);
        let all = 200 * rate as i64;
        let of_served = 5 + ANSWER;
        let possible = all.min((2000 * SPEED - 2 * all) / (of_served - 2));
        assert!(20 * answers as i64 >= 19 * possible, "{rate}: {answers} of {possible}, {counts:?}");
        let useful = counts.attempts + 4 * counts.opened;
        assert!(100 * counts.received <= 103 * useful, "{rate}: {counts:?}");
        assert_eq!(counts.resets, 0);
    }
}
