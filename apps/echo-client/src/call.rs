//! One service: its addresses, its connection, and what became of it.

use crate::counters;
use crate::service::{Host, Service};
use core::net::{IpAddr, SocketAddr};
use culm::time::{Duration, Instant};
use culm_net::stack::names::{Failure, Family, Lookup, Outcome};
use culm_net::stack::{Ending, Stack};

/// Addresses that are tried.
const ADDRESSES: usize = 16;

/// How soon again where nothing can be done at present: without an address of its own, say.
const AGAIN: Duration = Duration::from_millis(500);

/// How long one of several addresses may take to answer before the next one is tried.
const PATIENCE: Duration = Duration::from_secs(4);

/// A service that is called.
pub struct Call {
    /// As the description has it.
    text: &'static str,
    service: Service,
    bytes: u64,
    /// When it is given up.
    limit: Instant,
    addresses: [Option<IpAddr>; ADDRESSES],
    /// How many of them have failed.
    tried: usize,
    /// The last reason for which there is no answer.
    problem: Problem,
    state: State,
}

/// Why there is no answer.
#[derive(Clone, Copy)]
enum Problem {
    None,
    Name(Failure),
    Unreachable,
    Ended(SocketAddr, Option<Ending>),
    Different(SocketAddr, u64),
}

#[derive(Clone, Copy)]
enum State {
    /// Addresses of this family are to be asked for, at this time.
    Resolve(Family, Instant),
    Resolving(Family, Lookup),
    /// The next address is to be called, at this time.
    Connect(Instant),
    Open(Open),
    Over(bool),
}

/// A connection.
#[derive(Clone, Copy)]
struct Open {
    slot: usize,
    remote: SocketAddr,
    /// Bytes that were handed over, and that came back.
    sent: u64,
    came: u64,
    /// When it is given up while nothing has come.
    answers_by: Instant,
}

/// The byte at `offset` of what a service is sent.
fn pattern(offset: u64) -> u8 {
    (offset ^ (offset >> 8) ^ (offset >> 16)) as u8
}

impl Call {
    pub fn new(text: &'static str, service: Service, bytes: u64, limit: Instant) -> Self {
        let (mut addresses, now) = ([None; ADDRESSES], Instant::default());
        let state = match service.host {
            Host::Name(_) => State::Resolve(Family::Ipv6, now),
            Host::Address(address) => {
                addresses[0] = Some(address);
                State::Connect(now)
            }
        };
        Self { text, service, bytes, limit, addresses, tried: 0, problem: Problem::None, state }
    }

    /// The slot of its connection.
    pub fn slot(&self) -> Option<usize> {
        if let State::Open(open) = self.state { Some(open.slot) } else { None }
    }

    pub fn is_over(&self) -> bool {
        matches!(self.state, State::Over(_))
    }

    pub fn has_answered(&self) -> bool {
        matches!(self.state, State::Over(true))
    }

    /// When [`Self::step`] has something to do, if ever.
    pub fn due(&self) -> Option<Instant> {
        let due = match self.state {
            State::Resolve(_, at) | State::Connect(at) => at,
            State::Open(open) if open.came == 0 => open.answers_by,
            State::Resolving(..) | State::Open(_) => Instant::NEVER,
            State::Over(_) => return None,
        };
        Some(due.min(self.limit))
    }

    /// Takes the end of a search, if it is this one's.
    pub fn take_addresses(&mut self, lookup: Lookup, outcome: Outcome) {
        let State::Resolving(family, of) = self.state else { return };
        if of != lookup {
            return;
        }
        let now = culm::time::now();
        match outcome {
            Ok(found) => {
                let places = self.addresses.iter_mut().filter(|place| place.is_none());
                places.zip(found.as_slice()).for_each(|(place, address)| *place = Some(*address));
            }
            // DHCP has not named one yet, perhaps.
            Err(Failure::NoServer) => {
                (self.state, self.problem) = (State::Resolve(family, now + AGAIN), Problem::Name(Failure::NoServer));
                return;
            }
            Err(failure) => self.problem = Problem::Name(failure),
        }
        self.state = match family {
            Family::Ipv6 => State::Resolve(Family::Ipv4, now),
            Family::Ipv4 => State::Connect(now),
        };
    }

    /// Does what is due.
    pub fn step(&mut self, stack: &mut Stack, now: Instant) {
        if !self.is_over() && now >= self.limit {
            self.close(stack);
            return self.fail();
        }
        match self.state {
            State::Resolve(family, at) if now >= at => {
                let Host::Name(name) = self.service.host else { return };
                self.state = match stack.look_up(name, family) {
                    Some(lookup) => State::Resolving(family, lookup),
                    None => State::Resolve(family, now + AGAIN),
                };
            }
            State::Connect(at) if now >= at => self.connect(stack, now),
            State::Open(open) if open.came == 0 && now >= open.answers_by => self.next(stack, None, now),
            _ => {}
        }
    }

    fn connect(&mut self, stack: &mut Stack, now: Instant) {
        let Some(address) = self.addresses.get(self.tried).copied().flatten() else { return self.fail() };
        let remote = SocketAddr::new(address, self.service.port);
        self.state = match stack.connect(remote) {
            Ok(slot) => {
                // The last address may take what is left.
                let is_last = self.addresses.get(self.tried + 1).is_none_or(Option::is_none);
                let answers_by = if is_last { self.limit } else { now + PATIENCE };
                State::Open(Open { slot, remote, sent: 0, came: 0, answers_by })
            }
            Err(_) => {
                self.problem = Problem::Unreachable;
                State::Connect(now + AGAIN)
            }
        };
        self.go_on(stack);
    }

    /// Sends and takes what can be.
    pub fn go_on(&mut self, stack: &mut Stack) {
        let State::Open(mut open) = self.state else { return };
        let Some(mut stream) = stack.stream(open.slot) else { return };
        let wrong = loop {
            let received = stream.received();
            let mut offsets = (open.came..).zip(received);
            if let Some((offset, _)) = offsets.find(|(offset, byte)| **byte != pattern(*offset)) {
                break Some(offset);
            }
            let count = received.len();
            if count == 0 {
                break None;
            }
            stream.consume(count);
            open.came += count as u64;
            counters::BYTES.add(count as u64);
        };
        while open.sent < self.bytes && stream.room() > 0 {
            let left = usize::try_from(self.bytes - open.sent).unwrap_or(usize::MAX);
            let sent = stream.send_with(left, |room| {
                let count = room.len().min(left);
                room.iter_mut().zip(open.sent..).take(count).for_each(|(byte, offset)| *byte = pattern(offset));
                count
            });
            if sent == 0 {
                break;
            }
            open.sent += sent as u64;
        }
        if open.sent == self.bytes && open.came == self.bytes {
            stream.finish();
        }
        let (is_over, has_ended, ending) = (stream.is_over(), stream.ended(), stream.ending());
        self.state = State::Open(open);
        if has_ended && open.came == self.bytes && wrong.is_none() {
            culm::info!("{}: {} bytes to {} and back", self.text, open.came, open.remote);
            counters::ANSWERED.add(1);
            stack.release(open.slot);
            self.state = State::Over(true);
        } else if let Some(offset) = wrong {
            self.close(stack);
            self.problem = Problem::Different(open.remote, offset);
            self.fail();
        } else if is_over || has_ended {
            self.next(stack, ending, culm::time::now());
        }
    }

    /// Gives a connection up, and goes on with the next address.
    fn next(&mut self, stack: &mut Stack, ending: Option<Ending>, now: Instant) {
        if let State::Open(open) = self.state {
            self.problem = Problem::Ended(open.remote, ending);
        }
        self.close(stack);
        (self.tried, self.state) = (self.tried + 1, State::Connect(now));
        self.step(stack, now);
    }

    /// Ends what is under way.
    fn close(&mut self, stack: &mut Stack) {
        if let State::Open(open) = self.state {
            if matches!(self.problem, Problem::None | Problem::Name(_) | Problem::Unreachable) {
                self.problem = Problem::Ended(open.remote, None);
            }
            if let Some(mut stream) = stack.stream(open.slot) {
                stream.abort();
            }
            stack.release(open.slot);
        }
    }

    fn fail(&mut self) {
        counters::FAILED.add(1);
        self.state = State::Over(false);
        let text = self.text;
        match self.problem {
            Problem::None => culm::warn!("{text}: no answer from the name servers in time"),
            Problem::Name(failure) => culm::warn!("{text}: {failure}"),
            Problem::Unreachable => culm::warn!("{text}: there is no way to it from here"),
            Problem::Ended(remote, Some(Ending::Refused)) => culm::warn!("{text}: {remote} refuses the connection"),
            Problem::Ended(remote, Some(Ending::Reset)) => culm::warn!("{text}: {remote} has reset the connection"),
            Problem::Ended(remote, None | Some(Ending::TimedOut)) => culm::warn!("{text}: {remote} does not answer"),
            Problem::Ended(remote, Some(Ending::Unreachable)) => culm::warn!("{text}: nothing gets to {remote}"),
            Problem::Ended(_, Some(Ending::AddressLost)) => {
                culm::warn!("{text}: this station has lost the address that the connection was from");
            }
            Problem::Ended(remote, Some(Ending::Closed | Ending::Aborted)) => {
                culm::warn!("{text}: {remote} has ended the connection early");
            }
            Problem::Different(remote, offset) => {
                culm::warn!("{text}: {remote} sends back something else from byte {offset} on");
            }
        }
    }
}
