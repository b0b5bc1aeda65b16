//! The server: whose a connection is, and how the test goes that is under way.
//!
//! There is one test at a time; other clients are told so. Whoever connects has [`PATIENCE`] to say
//! a cookie, and makes way for others until then. A test in which nothing moves for
//! [`SILENCE`](crate::progress::SILENCE), or which takes longer than it was to, ends; so does one
//! of whose connections one is lost.

use crate::counters;
use crate::exchange::{PARAMETERS, Text, fill, pass_results, read_parameters, take_byte};
use crate::flow::{Flow, Peer};
use crate::parameters::{Parameters, Transport};
use crate::progress::{PATIENCE, Stage, Test, Trouble};
use crate::protocol::{COOKIE, WIDE_HEADER, answer, state};
use crate::results::{EACH, HEAD, Results, Summary};
use crate::usage::Usage;
use alloc::vec;
use alloc::vec::Vec;
use core::fmt::Write as _;
use culm::time::{Duration, Instant};
use culm_net::stack::{Datagram, Event, KeepAlive, Stack};

/// When a client that says nothing on its control connection is asked whether it is there: one
/// that gets datagrams has nothing to say until the end. It is given up after 40 s.
const QUESTIONS: KeepAlive =
    KeepAlive { idle: Duration::from_secs(20), interval: Duration::from_secs(5), questions: 4 };

/// Datagrams of a stream that are sent before others get their turn.
const BATCH: usize = 32;

/// Payload of the longest datagram that is sent: an Ethernet's packet less the headers of IPv4, or
/// IPv6, and UDP.
const LONGEST_DATAGRAM: [usize; 2] = [1500 - 20 - 8, 1500 - 40 - 8];

/// How often streams that have a rate are given what it allows.
const PACE: Duration = Duration::from_millis(1);

/// Whose the connection in a slot is.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// Nobody's.
    Free,
    /// Of somebody who has not said a whole cookie, and is to by then.
    New(Instant),
    /// The test's control connection.
    Control,
    /// The stream with this index.
    Flow(usize),
}

/// The server.
pub struct Server {
    places: Vec<Place>,
    test: Option<Test>,
    flows: Vec<Flow>,
    /// The most streams.
    most: usize,
    /// What is read that must be whole, and what is told.
    text: Vec<u8>,
    results: Vec<u8>,
    /// A datagram.
    datagram: [u8; LONGEST_DATAGRAM[0]],
    port: u16,
    usage: Usage,
}

impl Server {
    /// One for `slots` connections, with tests of at most `most` streams.
    pub fn new(port: u16, slots: usize, most: usize, usage: Usage) -> Self {
        Self {
            places: vec![Place::Free; slots],
            test: None,
            flows: Vec::with_capacity(most),
            most,
            text: vec![0; 4 + PARAMETERS],
            results: Vec::with_capacity(4 + HEAD + EACH * most + 1),
            datagram: [b'c'; LONGEST_DATAGRAM[0]],
            port,
            usage,
        }
    }

    /// Takes a datagram.
    #[inline]
    pub fn datagram(&mut self, datagram: Datagram<'_>, now: Instant) {
        let Some(test) = self.test.as_mut().filter(|test| test.parameters.transport == Transport::Udp) else { return };
        let remote = datagram.remote();
        let found = self.flows.iter_mut().find(|flow| flow.peer == Peer::Udp(remote));
        if let Some(flow) = found {
            // Only then does the client have to send any: at other times they prolong nothing.
            if test.stage == Stage::Running {
                test.moved = now;
            }
            if let Some(hello) = answer(datagram.payload()) {
                // The answer was lost.
                datagram.answer(hello.len(), |place, _| place.copy_from_slice(&hello));
            } else if test.stage == Stage::Running && !flow.sends {
                let length = datagram.payload().len() as u64;
                flow.take(datagram.payload(), test.parameters.has_wide_numbers, now.microseconds());
                counters::RECEIVED_BYTES.add(length);
            }
        } else if test.stage == Stage::Streams
            && remote.ip() == test.peer
            && self.flows.len() < test.parameters.streams()
            && let Some(hello) = answer(datagram.payload())
            && datagram.answer(hello.len(), |place, _| place.copy_from_slice(&hello))
        {
            test.moved = now;
            self.flows.push(Flow::new(Peer::Udp(remote), self.flows.len() >= test.parameters.from_client));
        }
    }

    /// Takes news of a connection.
    pub fn event(&mut self, stack: &mut Stack, event: Event, now: Instant) {
        let slot = match event {
            Event::Ready { slot } => slot,
            Event::Opened { slot, .. } => {
                let before = self.places.get(slot).copied();
                if before.is_some_and(|place| matches!(place, Place::Control | Place::Flow(_))) {
                    // The one before had to make way. Its slot is another's from here on, so that
                    // the end of the test leaves that alone.
                    self.set(slot, Place::New(now + PATIENCE));
                    self.end(stack, Trouble::Lost);
                }
                self.set(slot, Place::New(now + PATIENCE));
                slot
            }
        };
        match self.places.get(slot).copied() {
            Some(Place::New(_)) => self.admit(stack, slot, now),
            Some(Place::Control) => self.listen(stack, now),
            Some(Place::Flow(index)) => self.pass(stack, slot, index, now),
            Some(Place::Free) => {}
            None => stack.release(slot),
        }
    }

    fn set(&mut self, slot: usize, place: Place) {
        if let Some(old) = self.places.get_mut(slot) {
            *old = place;
        }
    }

    /// Looks who has connected.
    fn admit(&mut self, stack: &mut Stack, slot: usize, now: Instant) {
        let Some(mut stream) = stack.stream(slot) else { return };
        let mut cookie = [0; COOKIE];
        if stream.copy_received(&mut cookie) < COOKIE {
            if stream.ended() {
                stream.finish();
                stack.release(slot);
                self.set(slot, Place::Free);
            } else {
                stream.rest();
            }
            return;
        }
        stream.consume(COOKIE);
        let Some(remote) = stream.remote() else { return };
        match &mut self.test {
            None => {
                self.test = Some(Test {
                    slot,
                    cookie,
                    peer: remote.ip(),
                    stage: Stage::Parameters,
                    parameters: Parameters::default(),
                    begun: now,
                    counts_from: now,
                    has_omitted: false,
                    moved: now,
                });
                self.flows.clear();
                stream.send(&[state::PARAM_EXCHANGE]);
                stream.keep_alive(Some(QUESTIONS));
                self.set(slot, Place::Control);
                self.listen(stack, now);
            }
            Some(test)
                if test.stage == Stage::Streams
                    && test.parameters.transport == Transport::Tcp
                    && self.flows.len() < test.parameters.streams()
                    && test.cookie == cookie =>
            {
                test.moved = now;
                let index = self.flows.len();
                self.flows.push(Flow::new(Peer::Tcp(slot), index >= test.parameters.from_client));
                self.set(slot, Place::Flow(index));
            }
            Some(_) => {
                counters::REFUSED.add(1);
                stream.send(&[state::ACCESS_DENIED]);
                stream.finish();
                stack.release(slot);
                self.set(slot, Place::Free);
            }
        }
    }

    /// Hears what the client says on the control connection.
    fn listen(&mut self, stack: &mut Stack, now: Instant) {
        loop {
            let Some(test) = &mut self.test else { return };
            let Some(mut stream) = stack.stream(test.slot) else { return self.end(stack, Trouble::Lost) };
            let step = match test.stage {
                Stage::Parameters => {
                    let step = read_parameters(&mut stream, &mut self.text, self.most);
                    if let Ok(Some(parameters)) = step {
                        test.parameters = parameters;
                        test.stage = Stage::Streams;
                        stream.send(&[state::CREATE_STREAMS]);
                    }
                    step.map(|parameters| parameters.is_some())
                }
                Stage::Streams => take_byte(&mut stream).map_or(Ok(false), |_| Err(Trouble::Terminated)),
                Stage::Running => match take_byte(&mut stream) {
                    None => Ok(false),
                    Some(state::TEST_END) => {
                        test.moved = now;
                        self.stop(stack, now);
                        continue;
                    }
                    Some(_) => Err(Trouble::Terminated),
                },
                Stage::Results(left) => match pass_results(&mut stream, left) {
                    Ok(Some(0)) => {
                        test.stage = Stage::Telling(0);
                        Ok(true)
                    }
                    Ok(left) => {
                        test.stage = Stage::Results(left);
                        Ok(false)
                    }
                    Err(trouble) => Err(trouble),
                },
                Stage::Telling(told) => {
                    let told = told + stream.send(self.results.get(told..).unwrap_or_default());
                    test.stage = Stage::Telling(told);
                    // The client says goodbye, or goes without a word.
                    if told == self.results.len() && (stream.received_count() > 0 || stream.ended()) {
                        return self.conclude(stack);
                    }
                    Ok(false)
                }
            };
            match step {
                Ok(true) => test.moved = now,
                Ok(false) if stream.ended() => return self.end(stack, Trouble::Lost),
                Ok(false) => return,
                Err(trouble) => return self.end(stack, trouble),
            }
        }
    }

    /// Takes and gives the bytes of a stream over TCP.
    fn pass(&mut self, stack: &mut Stack, slot: usize, index: usize, now: Instant) {
        let Some(test) = &mut self.test else { return };
        let (Some(mut stream), Some(flow)) = (stack.stream(slot), self.flows.get_mut(index)) else { return };
        if test.stage == Stage::Running {
            test.moved = now;
            if flow.sends {
                let elapsed = now.since(test.begun).as_micros() as u64;
                fill(&mut stream, flow, test.parameters.rate, elapsed);
            } else {
                let count = stream.received_count();
                stream.consume(count);
                flow.count(count as u64);
                counters::RECEIVED_BYTES.add(count as u64);
            }
        }
        // A client ends its streams when it has heard that the test is over, and not before.
        if stream.ended() {
            self.end(stack, Trouble::Lost);
        }
    }

    /// Does what is due. Returns whether there is more to do at once.
    pub fn step(&mut self, stack: &mut Stack, now: Instant) -> bool {
        for slot in 0..self.places.len() {
            if let Place::New(limit) = self.places[slot]
                && now >= limit
            {
                if let Some(mut stream) = stack.stream(slot) {
                    stream.abort();
                }
                stack.release(slot);
                self.set(slot, Place::Free);
            }
        }
        let Some(test) = &mut self.test else { return false };
        if now >= test.limit() {
            self.end(stack, Trouble::Slow);
            return false;
        }
        if test.stage == Stage::Streams && self.flows.len() == test.parameters.streams() {
            let Some(mut stream) = stack.stream(test.slot) else { return false };
            stream.send(&[state::TEST_START, state::TEST_RUNNING]);
            test.stage = Stage::Running;
            (test.begun, test.counts_from, test.moved) = (now, now, now);
            test.has_omitted = test.parameters.omit == 0;
            self.usage.begin(now);
            // What has come meanwhile, and what is to be sent.
            for index in 0..self.flows.len() {
                if let Some(Peer::Tcp(slot)) = self.flows.get(index).map(|flow| flow.peer) {
                    self.pass(stack, slot, index, now);
                }
            }
        }
        self.run(stack, now)
    }

    /// Lets streams with a rate go on, and those of datagrams.
    fn run(&mut self, stack: &mut Stack, now: Instant) -> bool {
        let Some(test) = self.test.as_mut().filter(|test| test.stage == Stage::Running) else { return false };
        if !test.has_omitted && now >= test.begun + Duration::from_secs(test.parameters.omit) {
            (test.has_omitted, test.counts_from) = (true, now);
            self.flows.iter_mut().for_each(Flow::omit);
            self.usage.begin(now);
        }
        let Parameters { rate, length, has_wide_numbers, .. } = test.parameters;
        let elapsed = now.since(test.begun).as_micros() as u64;
        let mut has_more = false;
        for flow in self.flows.iter_mut().filter(|flow| flow.sends) {
            match flow.peer {
                Peer::Tcp(slot) => {
                    if rate > 0
                        && let Some(mut stream) = stack.stream(slot)
                    {
                        fill(&mut stream, flow, rate, elapsed);
                    }
                }
                Peer::Udp(remote) => {
                    let longest = LONGEST_DATAGRAM[usize::from(remote.is_ipv6())];
                    let datagram = &mut self.datagram[..length.clamp(WIDE_HEADER, longest)];
                    let allowed = flow.allowance(rate, elapsed) / datagram.len() as u64;
                    let most = BATCH.min(usize::try_from(allowed).unwrap_or(usize::MAX));
                    let mut count = 0;
                    // What no buffer is free for waits for one: it is not lost.
                    while count < most && stack.can_send() {
                        flow.put(datagram, has_wide_numbers, now.microseconds());
                        // Networks lose datagrams.
                        let _ = stack.send_to(self.port, remote, datagram);
                        count += 1;
                    }
                    counters::SENT_BYTES.add((count * datagram.len()) as u64);
                    has_more |= count == BATCH;
                }
            }
        }
        has_more
    }

    /// Returns when [`Self::step`] has something to do, if ever.
    pub fn due(&self, now: Instant) -> Option<Instant> {
        let places = self.places.iter().filter_map(|place| match place {
            Place::New(limit) => Some(*limit),
            _ => None,
        });
        let test = self.test.as_ref().map(|test| {
            let Parameters { omit, rate, transport, to_client, .. } = test.parameters;
            let is_running = test.stage == Stage::Running;
            let is_paced = is_running && to_client > 0 && (rate > 0 || transport == Transport::Udp);
            let pace = if is_paced { now + PACE } else { Instant::NEVER };
            let omitted = if is_running && !test.has_omitted { test.begun + Duration::from_secs(omit) } else { pace };
            test.limit().min(pace).min(omitted)
        });
        places.chain(test).min()
    }

    /// The client has ended the test's time: streams end, results are exchanged.
    fn stop(&mut self, stack: &mut Stack, now: Instant) {
        let Some(test) = &mut self.test else { return };
        for flow in &mut self.flows {
            let Peer::Tcp(slot) = flow.peer else { continue };
            if let Some(mut stream) = stack.stream(slot) {
                if !flow.sends {
                    flow.count(stream.received_count() as u64);
                }
                stream.finish();
            }
            stack.release(slot);
            if let Some(place) = self.places.get_mut(slot) {
                *place = Place::Free;
            }
        }
        let milliseconds = now.since(test.counts_from).as_millis() as u64;
        let results = Results { flows: &self.flows, milliseconds, busy: self.usage.share(now) };
        self.results.clear();
        self.results.extend_from_slice(&[0; 4]);
        // There is space for it, whatever the numbers are.
        let _ = write!(Text(&mut self.results), "{results}");
        let length = (self.results.len() - 4) as u32;
        self.results[..4].copy_from_slice(&length.to_be_bytes());
        let _ = Text(&mut self.results).push(&[state::DISPLAY_RESULTS]);
        culm::info!("{}: {}", test.peer, Summary(&results));
        counters::TESTS.add(1);
        test.stage = Stage::Results(None);
        if let Some(mut stream) = stack.stream(test.slot) {
            stream.send(&[state::EXCHANGE_RESULTS]);
        }
    }

    /// The test has ended well.
    fn conclude(&mut self, stack: &mut Stack) {
        let Some(test) = self.test.take() else { return };
        if let Some(mut stream) = stack.stream(test.slot) {
            stream.finish();
        }
        stack.release(test.slot);
        self.set(test.slot, Place::Free);
        self.flows.clear();
    }

    /// Ends the test early.
    fn end(&mut self, stack: &mut Stack, trouble: Trouble) {
        let Some(test) = self.test.take() else { return };
        let what = if test.has_begun() { "the test ends early" } else { "no test" };
        culm::warn!("{}: {what}: {trouble}", test.peer);
        counters::REFUSED.add(1);
        for slot in 0..self.places.len() {
            let place = self.places[slot];
            if !matches!(place, Place::Control | Place::Flow(_)) {
                continue;
            }
            if let Some(mut stream) = stack.stream(slot) {
                match &trouble {
                    Trouble::Refused(refusal) if place == Place::Control => {
                        stream.send(&refusal.message());
                        stream.finish();
                    }
                    _ => stream.abort(),
                }
            }
            stack.release(slot);
            self.places[slot] = Place::Free;
        }
        self.flows.clear();
    }
}
