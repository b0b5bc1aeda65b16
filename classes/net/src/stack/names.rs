//! Names of hosts and their addresses: the resolver of `libs/dns` on this stack.
//!
//! Its datagrams come to ports of their own, one drawn for each question, which only the host's way
//! knows (`super::host`): a packet of anybody else costs what it costs without names. Where an
//! answer does not fit into a datagram, the stack opens a connection for it, which takes one of its
//! places.

use super::stream::Event;
use super::tcp::Tcp;
use super::{Stack, Times};
use crate::client::Transmitter;
use alloc::boxed::Box;
use alloc::collections::VecDeque;
use core::net::{IpAddr, SocketAddr};
use culm::time;

use culm_dns::stream::{Incoming, prefix};
use culm_dns::{LONGEST, LOOKUPS, Resolver, Servers, Step};
use culm_ip::dhcp::Lease;
use culm_ip::udp::{Checksum, Datagram};

pub use culm_dns::{Addresses, Failure, Family, Lookup, Name, Outcome};

/// What a stack knows of names.
pub(super) struct Names {
    resolver: Resolver,
    /// Whether the servers are those that DHCP and routers tell of.
    are_found: bool,
    stream: Option<Stream>,
    /// Bytes of the answer that comes over TCP.
    incoming: Box<Incoming>,
    /// What the application has not taken yet.
    found: VecDeque<(Lookup, Outcome)>,
    /// Searches whose end the application has not taken.
    open: usize,
    /// When the resolver has something to do.
    due: culm_ip::Instant,
}

/// The connection of one search, in a slot that the application does not see.
#[derive(Clone, Copy)]
struct Stream {
    lookup: Lookup,
    slot: usize,
}

impl Stack {
    /// Begins to look for the addresses of the host `name`: [`Self::found`] has them, or says why
    /// there are none. The name servers are those that [`Self::set_name_servers`] was told, else
    /// those that the DHCP server and routers (RFC 8106) tell of.
    ///
    /// Returns `None` while [`LOOKUPS`] searches are under way, or have ended and were not taken.
    pub fn look_up(&mut self, name: Name, family: Family) -> Option<Lookup> {
        let names = &mut self.names;
        if names.open == LOOKUPS {
            return None;
        }
        let lookup = names.resolver.look_up(name, family)?;
        names.open += 1;
        names.due = culm_ip::Instant(0);
        Some(lookup)
    }

    /// Returns a search that has ended, and how; `None` if there is none. A round in which one has
    /// ended is followed by another.
    pub fn found(&mut self) -> Option<(Lookup, Outcome)> {
        let found = self.names.found.pop_front()?;
        self.names.open = self.names.open.saturating_sub(1);
        Some(found)
    }

    /// Asks these name servers, the first three of them, in place of those that the
    /// network tells of.
    pub fn set_name_servers(&mut self, servers: &[IpAddr]) {
        self.names.are_found = false;
        self.names.resolver.set_servers(Servers::new(servers.iter().copied()));
    }

    /// Does what is due about names.
    #[inline]
    pub(super) fn poll_names(&mut self, now: time::Instant) {
        let ip_time = self.clock.ip_time(now);
        if ip_time >= self.names.due {
            self.resolve(now, ip_time);
        }
    }

    #[cold]
    fn resolve(&mut self, now: time::Instant, ip_time: culm_ip::Instant) {
        let times = Times { tcp: self.clock.tcp_time(now), now };
        let names = &mut self.names;
        names.read_stream(&mut self.tcp, ip_time);
        while let Some(step) = names.resolver.poll(ip_time) {
            match step {
                Step::Send(datagram) => {
                    let transmitter = &mut self.client.transmitter;
                    let (port, to, payload) = (datagram.source_port, datagram.to, datagram.payload);
                    // What is not sent is as if it were lost: the next server's turn comes.
                    let _ = self.host.send(port, to, payload, transmitter, ip_time);
                    self.host_at = self.host_at.min(self.clock.local_time_of_ip(self.host.deadline()));
                }
                Step::Stream { lookup, server, message } => {
                    // No search has it any more: one at a time does.
                    end(names.stream.take(), &mut self.tcp);
                    let source = self.host.source(server.ip(), ip_time);
                    let opened = source.and_then(|source| {
                        open(&mut self.tcp, source, server, message, &mut self.client.transmitter, times)
                    });
                    match opened {
                        Some(slot) => names.stream = Some(Stream { lookup, slot }),
                        None => names.resolver.stream_has_failed(lookup, ip_time),
                    }
                    names.incoming.clear();
                }
                Step::Done(lookup, outcome) => names.found.push_back((lookup, outcome)),
            }
            names.drop_stream(&mut self.tcp);
        }
        names.drop_stream(&mut self.tcp);
        names.due = names.resolver.deadline();
    }
}

/// Opens a connection and hands `message` over to be sent. Returns its slot.
fn open(
    tcp: &mut Tcp,
    source: IpAddr,
    server: SocketAddr,
    message: &[u8],
    transmitter: &mut Transmitter,
    times: Times,
) -> Option<usize> {
    let mut bytes = [0; 2 + LONGEST];
    let bytes = bytes.get_mut(..2 + message.len())?;
    let (head, body) = bytes.split_at_mut(2);
    head.copy_from_slice(&prefix(message.len()));
    body.copy_from_slice(message);
    let slot = tcp.connect(source, server, transmitter, times).ok()?;
    // Where the application's buffers are too small for it, the server has nothing to answer.
    if let Some(mut stream) = tcp.stream(slot) {
        stream.send(bytes);
    }
    Some(slot)
}

impl Names {
    /// Knows nothing yet. Whoever knows `seed` can forge answers.
    pub(super) fn new(seed: [u64; 4]) -> Self {
        Self {
            resolver: Resolver::new(Servers::default(), seed),
            are_found: true,
            stream: None,
            incoming: Box::default(),
            found: VecDeque::with_capacity(LOOKUPS),
            open: 0,
            due: culm_ip::Instant::NEVER,
        }
    }

    /// Returns whether a datagram for this port answers a question, perhaps.
    pub(super) fn awaits(&self, port: u16) -> bool {
        self.resolver.awaits(port)
    }

    /// Takes a datagram for such a port, whose checksum was looked at.
    #[cold]
    pub(super) fn receive(&mut self, source: IpAddr, destination: IpAddr, datagram: &[u8], now: culm_ip::Instant) {
        if let Ok(datagram) = Datagram::parse(source, destination, datagram, Checksum::Verified) {
            let from = SocketAddr::new(source, datagram.source_port);
            self.resolver.receive(from, datagram.destination_port, datagram.payload, now);
            self.due = self.resolver.deadline();
        }
    }

    /// Takes over the name servers of a lease and those that routers tell of, unless others are
    /// set: three of them, of each kind one at least where there are both (RFC 8106 §5.3.1).
    pub(super) fn take_servers(&mut self, lease: Option<&Lease>, told: impl Iterator<Item = IpAddr>) {
        if self.are_found {
            let leased = lease.into_iter().flat_map(|lease| lease.name_servers.iter().flatten().copied());
            let leased = leased.map(IpAddr::V4);
            let rest = leased.clone().skip(2);
            self.resolver.set_servers(Servers::new(leased.take(2).chain(told).chain(rest)));
        }
    }

    /// Returns an event if it is the application's.
    #[inline]
    pub(super) fn pass(&mut self, event: Event) -> Option<Event> {
        let (slot, is_new) = match event {
            Event::Opened { slot, .. } => (slot, true),
            Event::Ready { slot } => (slot, false),
        };
        if self.stream.is_none_or(|stream| stream.slot != slot) {
            return Some(event);
        }
        self.due = culm_ip::Instant(0);
        is_new.then(|| {
            self.lose(slot);
            event
        })
    }

    /// Takes note that `slot` is another connection's: the resolver's, if it was there, had to make
    /// way.
    pub(super) fn lose(&mut self, slot: usize) {
        if let Some(Stream { lookup, .. }) = self.stream.take_if(|stream| stream.slot == slot) {
            // Due at once, whatever the time.
            self.resolver.stream_has_failed(lookup, culm_ip::Instant(0));
            self.due = culm_ip::Instant(0);
        }
    }

    /// Returns whether the application has something to take.
    pub(super) fn has_found(&self) -> bool {
        !self.found.is_empty()
    }

    /// When something is due.
    pub(super) fn deadline(&self) -> culm_ip::Instant {
        self.due
    }

    /// Takes what has come over the connection, if there is one.
    fn read_stream(&mut self, tcp: &mut Tcp, now: culm_ip::Instant) {
        let Some(Stream { lookup, slot }) = self.stream else { return };
        let Some(mut stream) = tcp.stream(slot) else { return self.resolver.stream_has_failed(lookup, now) };
        loop {
            let taken = self.incoming.take(stream.received());
            if taken == 0 {
                break;
            }
            stream.consume(taken);
        }
        if let Some(message) = self.incoming.message() {
            self.resolver.receive_from_stream(lookup, message, now);
        } else if stream.ended() || self.incoming.is_too_long() {
            self.resolver.stream_has_failed(lookup, now);
        }
    }

    /// Ends the connection if nothing is awaited from it any more.
    fn drop_stream(&mut self, tcp: &mut Tcp) {
        end(self.stream.take_if(|stream| !self.resolver.awaits_stream(stream.lookup)), tcp);
    }
}

/// Ends a connection, if there is one, and gives its slot back.
fn end(stream: Option<Stream>, tcp: &mut Tcp) {
    let Some(Stream { slot, .. }) = stream else { return };
    if let Some(mut stream) = tcp.stream(slot) {
        stream.abort();
    }
    tcp.release(slot);
}
