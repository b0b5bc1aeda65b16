//! Name servers that are asked, and how long for each.

use crate::message::{Message, flags, result};
use crate::{Datagram, Malformed, PORT, Question};
use core::net::{IpAddr, SocketAddr};
use core::time::Duration;
use culm_ip::Instant;
use culm_random::Generator;

/// Servers that are asked at most.
pub const SERVERS: usize = 3;

/// How often each server is asked before the question is given up.
const ROUNDS: u8 = 3;

/// How long the first answer may take. It is doubled each time that all servers were asked.
const PATIENCE: Duration = Duration::from_secs(1);

/// The first port that questions are sent from: below it are those of servers (RFC 5452 §9.2).
const FIRST_PORT: u16 = 1024;

/// Name servers that answer for all names, in the order in which they are asked first. The one that
/// has answered last is asked first from then on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Servers {
    list: [Option<IpAddr>; SERVERS],
    count: u8,
    first: u8,
}

impl Servers {
    /// The first [`SERVERS`] of these.
    pub fn new(servers: impl IntoIterator<Item = IpAddr>) -> Self {
        let mut this = Self::default();
        for (place, server) in this.list.iter_mut().zip(servers) {
            *place = Some(server);
            this.count += 1;
        }
        this
    }

    /// Returns whether there is none.
    pub fn is_empty(&self) -> bool {
        self.count == 0
    }

    /// Asks the server `index` first from now on.
    pub(crate) fn prefer(&mut self, index: u8) {
        self.first = index;
    }
}

/// A question that is under way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Attempt {
    pub(crate) id: u16,
    pub(crate) port: u16,
    server: IpAddr,
    /// Which one that is.
    pub(crate) index: u8,
    /// Which of the messages for this question.
    number: u8,
    /// Until when an answer is waited for.
    pub(crate) deadline: Instant,
}

impl Attempt {
    /// Asks the first server, with a number and a port that nobody knows; `None` if there is none.
    pub(crate) fn first(servers: &Servers, random: &mut Generator, now: Instant) -> Option<Self> {
        Self::numbered(0, servers, random, now)
    }

    /// Asks the next server; `None` if all were asked often enough.
    pub(crate) fn next(self, servers: &Servers, random: &mut Generator, now: Instant) -> Option<Self> {
        Self::numbered(self.number + 1, servers, random, now)
    }

    fn numbered(number: u8, servers: &Servers, random: &mut Generator, now: Instant) -> Option<Self> {
        let round = number.checked_div(servers.count).filter(|round| *round < ROUNDS)?;
        let index = (servers.first + number) % servers.count;
        let server = (*servers.list.get(usize::from(index))?)?;
        let [words] = random.words();
        let (id, high) = (words as u16, words >> 32);
        let port = FIRST_PORT + (high % u64::from(u16::MAX - FIRST_PORT + 1)) as u16;
        Some(Self { id, port, server, index, number, deadline: now + PATIENCE * (1 << round) })
    }

    /// Where the server is asked.
    pub(crate) fn server(&self) -> SocketAddr {
        SocketAddr::new(self.server, PORT)
    }

    /// The datagram with `payload` to the server.
    pub(crate) fn datagram<'a>(&self, payload: &'a [u8]) -> Datagram<'a> {
        Datagram { to: self.server(), source_port: self.port, payload }
    }

    /// Returns whether a datagram from there to the port `port` may answer.
    pub(crate) fn may_answer(&self, from: SocketAddr, port: u16) -> bool {
        from == self.server() && port == self.port
    }

    /// Reads an answer to `question`; `None` if it is none.
    pub(crate) fn read<'a>(&self, question: &Question, payload: &'a [u8]) -> Option<Result<Message<'a>, Malformed>> {
        if payload.first_chunk() != Some(&self.id.to_be_bytes()) {
            return None;
        }
        let message = match Message::parse(payload) {
            Ok(message) => message,
            Err(malformed) => return Some(Err(malformed)),
        };
        let is_answer = message.flags() & (flags::ANSWER | flags::OPERATION) == flags::ANSWER;
        (is_answer && message.question() == question).then_some(Ok(message))
    }
}

/// Returns whether another server may know better.
pub(crate) fn is_of_no_use(result: u16) -> bool {
    matches!(result, result::SERVER_FAILURE | result::NOT_IMPLEMENTED | result::REFUSED)
}
