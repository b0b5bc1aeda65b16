//! A stub resolver (RFC 1034 §5.3.1): finds the addresses of hosts by asking name servers that do
//! the rest.
//!
//! A name that stands for another one is followed, within an answer or by asking again, at most
//! [`ALIASES`] times. Where an answer does not fit into a datagram, the server is asked again over
//! TCP (RFC 7766 §5), for one search at a time: [`Step::Stream`]. If that fails, the next server is
//! asked.

use crate::message::{Draft, INTERNET, Message, Section, flags, kind, result};
use crate::upstream::{Attempt, Servers, is_of_no_use};
use crate::{Datagram, Name, Question};
use core::fmt;
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use core::time::Duration;
use culm_ip::Instant;
use culm_random::{Generator, Seed};

/// Names that are looked for at a time.
pub const LOOKUPS: usize = 8;

/// Addresses of one name that are taken.
pub const ADDRESSES: usize = 8;

/// How long a server may take to answer over TCP, from the first SYN on.
const STREAM_PATIENCE: Duration = Duration::from_secs(5);

/// How long a search waits for others to be done with TCP, before another server is asked.
const TURN_PATIENCE: Duration = Duration::from_secs(10);

/// How often one name may stand for another.
pub const ALIASES: u8 = 8;

/// Which addresses are looked for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// Those of IPv4.
    Ipv4,
    /// Those of IPv6.
    Ipv6,
}

/// Names a search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Lookup(u64);

/// A name's addresses, in the server's order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Addresses {
    list: [IpAddr; ADDRESSES],
    count: usize,
    /// For how many seconds they hold.
    pub time_to_live: u32,
}

impl Addresses {
    /// Returns them: one at least.
    pub fn as_slice(&self) -> &[IpAddr] {
        self.list.get(..self.count).unwrap_or_default()
    }
}

/// Why there is no address.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Failure {
    /// No server is known.
    NoServer,
    /// No server has answered in time.
    Timeout,
    /// There is no such name.
    NoSuchName,
    /// The name has no address of that family.
    NoAddress,
    /// The servers answer that they cannot or will not say; the last result (RFC 1035 §4.1.1).
    Refused(u16),
    /// The answer does not fit into a datagram, and no server has given it over TCP.
    Truncated,
    /// Too many names stand for each other.
    Aliases,
}

impl fmt::Display for Failure {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoServer => formatter.write_str("no name server is known"),
            Self::Timeout => formatter.write_str("no name server has answered in time"),
            Self::NoSuchName => formatter.write_str("there is no such name"),
            Self::NoAddress => formatter.write_str("the name has no address of that family"),
            Self::Refused(result) => write!(formatter, "the name servers answer with error {result}"),
            Self::Truncated => {
                formatter.write_str("the answer does not fit into a datagram, and no name server has given it over TCP")
            }
            Self::Aliases => write!(formatter, "more than {ALIASES} names stand for each other"),
        }
    }
}

impl core::error::Error for Failure {}

/// How a search ended.
pub type Outcome = Result<Addresses, Failure>;

/// What [`Resolver::poll`] has to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// This is to be sent.
    Send(Datagram<'a>),
    /// A connection over TCP is to be opened to `server`, and `message` sent there behind its
    /// length, two bytes, the higher one first (RFC 1035 §4.2.2). What becomes of it is for
    /// [`Resolver::receive_from_stream`] or [`Resolver::stream_has_failed`].
    Stream {
        /// Whose search it is for.
        lookup: Lookup,
        /// Whom to connect to.
        server: SocketAddr,
        /// What to send.
        message: &'a [u8],
    },
    /// A search has ended.
    Done(Lookup, Outcome),
}

#[derive(Clone, Copy, Debug)]
enum State {
    /// A question is to be sent.
    Ask,
    /// It was sent.
    Asked(Attempt),
    /// It was answered in part. All of the answer is to be asked for over TCP.
    Truncated(Attempt),
    /// It was sent over TCP.
    Streamed(Attempt),
    Done(Outcome),
}

#[derive(Clone, Copy, Debug)]
struct Search {
    lookup: Lookup,
    state: State,
    /// The name that is asked for, after aliases.
    question: Question,
    aliases: u8,
    /// Why the last server that has answered was of no use.
    failure: Option<Failure>,
}

/// A stub resolver. Its module says how it works.
#[derive(Debug)]
pub struct Resolver {
    searches: [Option<Search>; LOOKUPS],
    servers: Servers,
    random: Generator,
    next: u64,
    out: Draft,
}

impl Resolver {
    /// A resolver that asks `servers`. Whoever knows `seed` can forge answers.
    pub fn new(servers: Servers, seed: Seed) -> Self {
        Self { searches: [None; LOOKUPS], servers, random: Generator::new(seed), next: 0, out: Draft::default() }
    }

    /// Asks other servers from now on.
    pub fn set_servers(&mut self, servers: Servers) {
        self.servers = servers;
    }

    /// Begins to look for the addresses of `name`; `None` while `LOOKUPS` others are looked for.
    /// [`Self::poll`] has what is to be done.
    pub fn look_up(&mut self, name: Name, family: Family) -> Option<Lookup> {
        let place = self.searches.iter_mut().find(|search| search.is_none())?;
        let kind = match family {
            Family::Ipv4 => kind::A,
            Family::Ipv6 => kind::AAAA,
        };
        let lookup = Lookup(self.next);
        self.next += 1;
        let question = Question { name, kind, class: INTERNET };
        *place = Some(Search { lookup, state: State::Ask, question, aliases: 0, failure: None });
        Some(lookup)
    }

    /// Gives a search up.
    pub fn cancel(&mut self, lookup: Lookup) {
        for search in &mut self.searches {
            search.take_if(|search| search.lookup == lookup);
        }
    }

    /// Returns whether an answer is waited for at the port `port`.
    pub fn awaits(&self, port: u16) -> bool {
        let is_at = |search: &Search| matches!(search.state, State::Asked(attempt) if attempt.port == port);
        self.searches.iter().flatten().any(is_at)
    }

    /// Returns whether an answer over TCP is waited for by this search. Once it is not, its
    /// connection is of no use any more.
    pub fn awaits_stream(&self, lookup: Lookup) -> bool {
        let is_it = |search: &Search| search.lookup == lookup && matches!(search.state, State::Streamed(_));
        self.searches.iter().flatten().any(is_it)
    }

    /// Takes a datagram from a server to the port `port`; what answers nothing is dropped.
    pub fn receive(&mut self, from: SocketAddr, port: u16, payload: &[u8], now: Instant) {
        for search in self.searches.iter_mut().flatten() {
            let State::Asked(attempt) = search.state else { continue };
            if attempt.may_answer(from, port) {
                search.receive(attempt, payload, &mut self.servers, now);
                return;
            }
        }
    }

    /// Takes a message, without its length, that came over the connection for `lookup`. What
    /// answers nothing is as if the connection had failed.
    pub fn receive_from_stream(&mut self, lookup: Lookup, message: &[u8], now: Instant) {
        for search in self.searches.iter_mut().flatten() {
            let State::Streamed(attempt) = search.state else { continue };
            if search.lookup == lookup {
                search.receive(attempt, message, &mut self.servers, now);
            }
        }
        self.stream_has_failed(lookup, now);
    }

    /// Takes note that the connection for `lookup` was not to be had, or has ended.
    pub fn stream_has_failed(&mut self, lookup: Lookup, now: Instant) {
        for search in self.searches.iter_mut().flatten() {
            let State::Streamed(attempt) = &mut search.state else { continue };
            if search.lookup == lookup && attempt.deadline > now {
                // Another server is asked at once.
                (attempt.deadline, search.failure) = (now, Some(Failure::Truncated));
            }
        }
    }

    /// Returns something that is due.
    pub fn poll(&mut self, now: Instant) -> Option<Step<'_>> {
        // One that has failed or is too late has its connection until its next step.
        let turn = self.turn();
        for place in &mut self.searches {
            let Some(search) = place else { continue };
            let (next, failure) = match search.state {
                State::Ask => (Attempt::first(&self.servers, &mut self.random, now), Failure::NoServer),
                State::Asked(attempt) | State::Streamed(attempt) if attempt.deadline <= now => {
                    let failure = search.failure.unwrap_or(Failure::Timeout);
                    (attempt.next(&self.servers, &mut self.random, now), failure)
                }
                State::Truncated(mut attempt) if turn == Some(search.lookup) => {
                    attempt.deadline = now + STREAM_PATIENCE;
                    search.state = State::Streamed(attempt);
                    self.out.begin(attempt.id, flags::RECURSION_DESIRED, &search.question);
                    let (lookup, server) = (search.lookup, attempt.server());
                    return Some(Step::Stream { lookup, server, message: self.out.as_bytes() });
                }
                State::Truncated(attempt) if attempt.deadline <= now => {
                    let failure = search.failure.unwrap_or(Failure::Truncated);
                    (attempt.next(&self.servers, &mut self.random, now), failure)
                }
                State::Asked(..) | State::Truncated(_) | State::Streamed(_) => continue,
                State::Done(outcome) => {
                    let lookup = search.lookup;
                    *place = None;
                    return Some(Step::Done(lookup, outcome));
                }
            };
            let Some(next) = next else {
                let lookup = search.lookup;
                *place = None;
                return Some(Step::Done(lookup, Err(failure)));
            };
            search.state = State::Asked(next);
            self.out.begin(next.id, flags::RECURSION_DESIRED, &search.question);
            return Some(Step::Send(next.datagram(self.out.as_bytes())));
        }
        None
    }

    /// When [`Self::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        let turn = self.turn();
        let due = |search: &Search| match search.state {
            State::Asked(attempt) | State::Streamed(attempt) => attempt.deadline,
            State::Truncated(attempt) if turn != Some(search.lookup) => attempt.deadline,
            State::Ask | State::Truncated(_) | State::Done(_) => Instant(0),
        };
        self.searches.iter().flatten().map(due).min().unwrap_or(Instant::NEVER)
    }

    /// Returns whose turn it is to have the connection: of those that wait for it, the one that has
    /// waited longest; nobody's while a search has it.
    fn turn(&self) -> Option<Lookup> {
        let mut searches = self.searches.iter().flatten();
        if searches.clone().any(|search| matches!(search.state, State::Streamed(_))) {
            return None;
        }
        let waits = |search: &Search| match search.state {
            State::Truncated(attempt) => Some((attempt.deadline, search.lookup.0)),
            _ => None,
        };
        let (_, first) = searches.by_ref().filter_map(waits).min()?;
        Some(Lookup(first))
    }
}

impl Search {
    /// Takes what came for `attempt`, from the server that was asked.
    fn receive(&mut self, mut attempt: Attempt, message: &[u8], servers: &mut Servers, now: Instant) {
        let is_stream = matches!(self.state, State::Streamed(_));
        let read = attempt.read(&self.question, message);
        let is_truncated = |message: &Message<'_>| message.flags() & flags::TRUNCATED != 0;
        match read {
            None => return,
            Some(Ok(message)) if is_of_no_use(message.result()) => {
                self.failure = Some(Failure::Refused(message.result()));
            }
            Some(Ok(message)) if is_truncated(&message) && !is_stream => {
                attempt.deadline = now + TURN_PATIENCE;
                self.state = State::Truncated(attempt);
                return;
            }
            Some(Ok(message)) if !is_truncated(&message) => {
                servers.prefer(attempt.index);
                self.take(&message);
                return;
            }
            Some(_) if is_stream => self.failure = Some(Failure::Truncated),
            Some(_) => {}
        }
        // Another server is asked at once.
        attempt.deadline = now;
        self.state = if is_stream { State::Streamed(attempt) } else { State::Asked(attempt) };
    }

    /// Takes a server's answer, which is whole.
    fn take(&mut self, message: &Message<'_>) {
        let before = self.aliases;
        loop {
            if let Some(addresses) = addresses(message, &self.question) {
                self.state = State::Done(Ok(addresses));
                return;
            }
            let Some(name) = alias(message, &self.question.name) else { break };
            if self.aliases == ALIASES {
                self.state = State::Done(Err(Failure::Aliases));
                return;
            }
            self.aliases += 1;
            self.question.name = name;
        }
        self.state = match message.result() {
            result::NO_SUCH_NAME => State::Done(Err(Failure::NoSuchName)),
            // The server has not followed it to the end.
            result::FINE if self.aliases > before => State::Ask,
            result::FINE => State::Done(Err(Failure::NoAddress)),
            other => State::Done(Err(Failure::Refused(other))),
        };
    }
}

/// Returns the addresses in a message that answer `question`.
fn addresses(message: &Message<'_>, question: &Question) -> Option<Addresses> {
    let mut found =
        Addresses { list: [IpAddr::V4(Ipv4Addr::UNSPECIFIED); ADDRESSES], count: 0, time_to_live: u32::MAX };
    let answers = message.records().filter(|record| {
        record.section == Section::Answer && record.kind == question.kind && record.name == question.name
    });
    for (place, record) in found.list.iter_mut().zip(answers) {
        let Some(address) = record.address() else { break };
        *place = address;
        found.count += 1;
        // RFC 2181 §8.
        let time = if record.time_to_live > i32::MAX as u32 { 0 } else { record.time_to_live };
        found.time_to_live = found.time_to_live.min(time);
    }
    (found.count > 0).then_some(found)
}

/// Returns the name that `name` stands for, if a message says that.
fn alias(message: &Message<'_>, name: &Name) -> Option<Name> {
    let mut records = message.records();
    let record = records.find(|record| {
        record.section == Section::Answer
            && (record.class, record.kind) == (INTERNET, kind::CNAME)
            && record.name == *name
    })?;
    message.name_at(record.data_at)
}
