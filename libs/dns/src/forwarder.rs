//! A forwarder (RFC 9499 §6): answers questions by asking name servers, and remembers the answers.
//!
//! A question that is already under way for somebody is not asked again (RFC 5452 §5): the answer
//! is for all who wait for it. No client has more than its number of places for questions under
//! way; where all places are taken, the oldest question of whoever has the most makes way.
//!
//! What a client sends is not passed on. The question is written anew, with a number and from a
//! port of the forwarder's own, and of the extension (RFC 6891) only the wish for signatures goes
//! on. An answer comes back as the server gave it; a client that does not take as long a message
//! gets it marked as truncated. There is no TCP.

use crate::cache::{Ask, Cache, Entry};
use crate::message::{Draft, INTERNET, Message, flags, kind, result};
use crate::upstream::{Attempt, Servers, is_of_no_use};
use crate::{Datagram, LONGEST, Name, PORT, Question, SHORTEST_LIMIT};
use core::net::{IpAddr, Ipv4Addr, SocketAddr};
use culm_ip::Instant;
use culm_random::{Generator, Seed};

/// A forwarder's memory.
#[derive(Debug)]
pub struct Memory<'a> {
    /// A place for each question under way.
    pub pending: &'a mut [Pending],
    /// A place for each answer that is remembered.
    pub entries: &'a mut [Entry],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Free,
    /// It was sent to a server.
    Asked(Attempt),
    /// The same was asked for somebody else.
    Follows,
    /// No server has answered, which the client is to be told.
    Failed,
}

/// A place for a question under way.
#[derive(Clone, Copy, Debug)]
pub struct Pending {
    state: State,
    client: SocketAddr,
    /// The number that the client knows its question by.
    id: u16,
    /// Bytes of the longest message that the client takes.
    limit: usize,
    ask: Ask,
    since: Instant,
}

impl Default for Pending {
    fn default() -> Self {
        Self {
            state: State::Free,
            client: SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), 0),
            id: 0,
            limit: 0,
            ask: Ask {
                question: Question { name: Name::ROOT, kind: 0, class: 0 },
                checking_disabled: false,
                extension: None,
            },
            since: Instant(0),
        }
    }
}

/// What a forwarder has done since it was asked last.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Tally {
    /// Questions that were taken.
    pub questions: u64,
    /// Questions that the cache has answered.
    pub hits: u64,
    /// Messages sent to servers.
    pub asked: u64,
    /// Questions that are not answered, or not as asked: they cannot be read, or are not for a
    /// forwarder.
    pub refused: u64,
    /// Questions dropped because their client had too many under way, or made way for others.
    pub dropped: u64,
    /// Datagrams from servers that answer nothing that was asked.
    pub strays: u64,
    /// Questions that no server has answered.
    pub failed: u64,
}

/// A forwarder. Its module says how it works.
#[derive(Debug)]
pub struct Forwarder<'a> {
    servers: Servers,
    pending: &'a mut [Pending],
    cache: Cache<'a>,
    per_client: usize,
    random: Generator,
    /// What is sent.
    out: Draft,
    tally: Tally,
}

impl<'a> Forwarder<'a> {
    /// A forwarder that asks `servers`, with at most `per_client` questions of each client's
    /// address under way. Whoever knows `seed` can forge answers.
    pub fn new(servers: Servers, memory: Memory<'a>, per_client: usize, seed: Seed) -> Self {
        Self {
            servers,
            pending: memory.pending,
            cache: Cache::new(memory.entries),
            per_client,
            random: Generator::new(seed),
            out: Draft::default(),
            tally: Tally::default(),
        }
    }

    /// Asks other servers from now on, with what is asked next.
    pub fn set_servers(&mut self, servers: Servers) {
        self.servers = servers;
    }

    /// Returns what was done since this was called last.
    pub fn take_tally(&mut self) -> Tally {
        core::mem::take(&mut self.tally)
    }

    /// Returns whether an answer is waited for at the port `port`.
    pub fn awaits(&self, port: u16) -> bool {
        self.pending.iter().any(|pending| matches!(pending.state, State::Asked(attempt) if attempt.port == port))
    }

    /// Takes a client's datagram to [`PORT`]; returns one that is to be sent: the answer to the
    /// client, or the question to a server. To a client it is sent from [`PORT`].
    pub fn question(&mut self, client: SocketAddr, payload: &[u8], now: Instant) -> Option<Datagram<'_>> {
        let message = match Message::parse(payload) {
            Ok(message) => message,
            Err(_) => return self.complain(client, payload, result::FORMAT_ERROR),
        };
        // An answer that got here is answered by nobody, lest two servers answer each other.
        if message.flags() & flags::ANSWER != 0 || client.port() == 0 {
            self.tally.refused += 1;
            return None;
        }
        let (question, extension) = (*message.question(), message.extension());
        if let Some(refusal) = refusal(&message) {
            self.tally.refused += 1;
            self.out.begin(message.id(), reply_flags(message.flags()) | refusal, &question);
            if extension.is_some() {
                self.out.put_extension(false);
            }
            return Some(to_client(client, &self.out));
        }
        self.tally.questions += 1;
        let ask = Ask {
            question,
            checking_disabled: message.flags() & flags::CHECKING_DISABLED != 0,
            extension: extension.map(|extension| extension.wants_signatures),
        };
        let limit = extension.map_or(SHORTEST_LIMIT, |extension| usize::from(extension.longest).min(LONGEST));
        let pending = Pending { state: State::Follows, client, id: message.id(), limit, ask, since: now };
        if self.cache.look_up(&ask, now, &mut self.out) {
            self.tally.hits += 1;
            finish(&mut self.out, &pending);
            return Some(to_client(client, &self.out));
        }
        self.ask(pending, now)
    }

    /// Answers what cannot be read, if it has a header of a question.
    fn complain(&mut self, client: SocketAddr, payload: &[u8], result: u16) -> Option<Datagram<'_>> {
        self.tally.refused += 1;
        let (id, bits) = (payload.first_chunk::<2>()?, payload.get(2..4)?.first_chunk::<2>()?);
        let bits = u16::from_be_bytes(*bits);
        if bits & flags::ANSWER != 0 || client.port() == 0 || payload.len() < crate::message::HEADER {
            return None;
        }
        self.out.begin_without_question(u16::from_be_bytes(*id), reply_flags(bits) | result);
        Some(to_client(client, &self.out))
    }

    /// Has a question that the cache does not answer asked, if there is a place.
    fn ask(&mut self, mut pending: Pending, now: Instant) -> Option<Datagram<'_>> {
        let taken = |other: &&Pending| other.state != State::Free;
        let is_same =
            |other: &Pending| other.client == pending.client && other.id == pending.id && other.ask == pending.ask;
        let of_client = self.pending.iter().filter(taken).filter(|other| other.client.ip() == pending.client.ip());
        // A client that repeats itself is answered once.
        if of_client.clone().any(is_same) {
            return None;
        }
        if of_client.count() >= self.per_client {
            self.tally.dropped += 1;
            return None;
        }
        let is_under_way =
            self.pending.iter().any(|other| matches!(other.state, State::Asked(_)) && other.ask == pending.ask);
        let mut attempt = None;
        if is_under_way {
            pending.state = State::Follows;
        } else {
            let Some(first) = Attempt::first(&self.servers, &mut self.random, now) else {
                self.tally.failed += 1;
                fail(&mut self.out, &pending.ask);
                finish(&mut self.out, &pending);
                return Some(to_client(pending.client, &self.out));
            };
            pending.state = State::Asked(first);
            attempt = Some(first);
        }
        let place = self.place()?;
        if pending.state == State::Follows && place.ask == pending.ask && matches!(place.state, State::Asked(_)) {
            // It is the question that was to be waited for, and nobody else does.
            pending.state = place.state;
        }
        *place = pending;
        let attempt = attempt?;
        self.tally.asked += 1;
        write_question(&mut self.out, &pending.ask, attempt.id);
        Some(attempt.datagram(self.out.as_bytes()))
    }

    /// Returns a free place. Where there is none, the oldest question makes way of whoever has the
    /// most.
    fn place(&mut self) -> Option<&mut Pending> {
        if let Some(free) = self.pending.iter().position(|pending| pending.state == State::Free) {
            return self.pending.get_mut(free);
        }
        let count = |client: IpAddr| self.pending.iter().filter(|other| other.client.ip() == client).count();
        let most = |pending: &Pending| (usize::MAX - count(pending.client.ip()), pending.since);
        let (index, _) = self.pending.iter().enumerate().min_by_key(|(_, pending)| most(pending))?;
        self.tally.dropped += 1;
        let left = *self.pending.get(index)?;
        // Who follows it waits for the same answer.
        let follower = |other: &&mut Pending| other.state == State::Follows && other.ask == left.ask;
        if matches!(left.state, State::Asked(_))
            && let Some(heir) = self.pending.iter_mut().find(follower)
        {
            heir.state = left.state;
            self.pending.get_mut(index)?.state = State::Free;
        }
        self.pending.get_mut(index)
    }

    /// Takes a datagram from a server to the port `port`. `send` is given what it answers, for
    /// each client that waits for it. It is sent from [`PORT`].
    pub fn answer(
        &mut self,
        from: SocketAddr,
        port: u16,
        payload: &[u8],
        now: Instant,
        mut send: impl FnMut(&Datagram<'_>),
    ) {
        let asked = self.pending.iter_mut().find_map(|pending| match &mut pending.state {
            State::Asked(attempt) if attempt.may_answer(from, port) => Some((attempt, pending.ask)),
            _ => None,
        });
        let read = asked.and_then(|(attempt, ask)| Some((attempt.read(&ask.question, payload)?, attempt, ask)));
        let Some((message, attempt, ask)) = read else {
            self.tally.strays += 1;
            return;
        };
        let message = match message {
            Ok(message) if !is_of_no_use(message.result()) => message,
            // Another server is asked at once.
            _ => {
                attempt.deadline = now;
                return;
            }
        };
        self.servers.prefer(attempt.index);
        self.cache.insert(&ask, &message, payload, now);
        let waits = |pending: &&mut Pending| is_under_way(pending) && pending.ask == ask;
        for pending in self.pending.iter_mut().filter(waits) {
            pending.state = State::Free;
            if !self.out.copy(payload) {
                self.out.begin(0, message.flags() | flags::TRUNCATED, &ask.question);
            }
            finish(&mut self.out, pending);
            send(&to_client(pending.client, &self.out));
        }
    }

    /// Returns a datagram that is due: to a client that nobody has answered, sent from [`PORT`], or
    /// a question to a server that is repeated.
    pub fn poll(&mut self, now: Instant) -> Option<Datagram<'_>> {
        loop {
            if let Some(pending) = self.pending.iter_mut().find(|pending| pending.state == State::Failed) {
                pending.state = State::Free;
                fail(&mut self.out, &pending.ask);
                finish(&mut self.out, pending);
                return Some(to_client(pending.client, &self.out));
            }
            let (pending, attempt) = self.pending.iter_mut().find_map(|pending| match pending.state {
                State::Asked(attempt) if attempt.deadline <= now => Some((pending, attempt)),
                _ => None,
            })?;
            let ask = pending.ask;
            if let Some(next) = attempt.next(&self.servers, &mut self.random, now) {
                pending.state = State::Asked(next);
                self.tally.asked += 1;
                write_question(&mut self.out, &ask, next.id);
                return Some(next.datagram(self.out.as_bytes()));
            }
            self.tally.failed += 1;
            for pending in self.pending.iter_mut().filter(|other| is_under_way(other) && other.ask == ask) {
                pending.state = State::Failed;
            }
        }
    }

    /// When [`Self::poll`] has something to do.
    pub fn deadline(&self) -> Instant {
        let due = |pending: &Pending| match pending.state {
            State::Asked(attempt) => attempt.deadline,
            State::Failed => Instant(0),
            State::Free | State::Follows => Instant::NEVER,
        };
        self.pending.iter().map(due).min().unwrap_or(Instant::NEVER)
    }
}

/// Returns whether an answer is waited for.
fn is_under_way(pending: &Pending) -> bool {
    matches!(pending.state, State::Asked(_) | State::Follows)
}

/// Returns the result of a question that a forwarder does not answer.
fn refusal(message: &Message<'_>) -> Option<u16> {
    let question = message.question();
    if message.flags() & flags::OPERATION != 0 {
        Some(result::NOT_IMPLEMENTED)
    } else if message.extension().is_some_and(|extension| extension.version != 0) {
        // The result that says it properly needs bits that are in OPT (RFC 6891 §6.1.3).
        Some(result::NOT_IMPLEMENTED)
    } else if message.flags() & flags::RECURSION_DESIRED == 0
        || question.class != INTERNET
        || question.kind == kind::OPT
        || kind::TRANSACTIONS.contains(&question.kind)
    {
        Some(result::REFUSED)
    } else {
        None
    }
}

/// The flags of an answer to a question with `flags`.
fn reply_flags(flags: u16) -> u16 {
    let kept = flags & (flags::OPERATION | flags::RECURSION_DESIRED | flags::CHECKING_DISABLED);
    kept | flags::ANSWER | flags::RECURSION_AVAILABLE
}

fn to_client(client: SocketAddr, out: &Draft) -> Datagram<'_> {
    Datagram { to: client, source_port: PORT, payload: out.as_bytes() }
}

/// Writes the question for a server.
fn write_question(out: &mut Draft, ask: &Ask, id: u16) {
    let checking = if ask.checking_disabled { flags::CHECKING_DISABLED } else { 0 };
    out.begin(id, flags::RECURSION_DESIRED | checking, &ask.question);
    if let Some(wants_signatures) = ask.extension {
        out.put_extension(wants_signatures);
    }
}

/// Writes that nobody has answered.
fn fail(out: &mut Draft, ask: &Ask) {
    let checking = if ask.checking_disabled { flags::CHECKING_DISABLED } else { 0 };
    out.begin(0, reply_flags(flags::RECURSION_DESIRED | checking) | result::SERVER_FAILURE, &ask.question);
    if ask.extension.is_some() {
        out.put_extension(false);
    }
}

/// Makes an answer one to this client's question: with its number, its spelling, and no longer
/// than it takes.
fn finish(out: &mut Draft, pending: &Pending) {
    let Pending { ask, id, limit, .. } = pending;
    if out.as_bytes().len() > *limit {
        let bits = out.flags();
        out.begin(*id, bits | flags::TRUNCATED, &ask.question);
        if ask.extension.is_some() {
            out.put_extension(false);
        }
    }
    out.set_id(*id);
    out.set_flags(out.flags() | flags::RECURSION_AVAILABLE);
    // The names are equal, so that this one is as long as that which stands there.
    out.set_name(&ask.question.name);
}
