//! TCP/IP as a library of the client: the protocols of `libs/tcp` and `libs/ip`, with this class's
//! buffers under them.
//!
//! A frame is looked at once. A datagram for a bound port is answered in place ([`datagram`]). A
//! segment of TCP finds its connection by hash (`classify`, `table`); timers are in a wheel
//! (`timer`), so that a packet costs the same however many connections there are, and a request for
//! a connection takes no memory until it is established (`tcp`). All of these answer to the station
//! that a frame came from, without a look at who is whose neighbour. The rest is the host's
//! (`host`): ARP, neighbour discovery, DHCP, ICMP, fragments, packets with options, and datagrams
//! of the application's own accord.
//!
//! # A turn
//!
//! ```text
//! culm::run_rounds(ROUNDS, || {
//!     self.stack.receive(&mut |datagram: Datagram| …);
//!     while let Some(event) = self.stack.event() {
//!         … self.stack.stream(slot) …
//!     }
//!     self.stack.end_round()
//! });
//! ```
//!
//! # What it does
//!
//! IPv4 with an address that is given or fetched by DHCP, IPv6 with a link-local address and those
//! of stateless autoconfiguration, ARP and neighbour discovery, echo replies and errors of ICMP,
//! TCP as server and client, UDP both ways; with the feature `names`, addresses of hosts by DNS.
//! Fragments are put together as far as there is memory; nothing is sent in fragments.

mod classify;
mod cookie;
pub mod datagram;
mod frame;
mod host;
mod key_hash;
mod lease;
#[cfg(feature = "names")]
pub mod names;
#[cfg(not(feature = "names"))]
#[path = "stack/names/none.rs"]
mod names;
mod promises;
mod recent_clients;
mod settings;
mod siphash;
mod spent_cookies;
mod station;
mod stream;
mod syn_queue;
mod table;
mod tcp;
mod time_wait;
mod timer;

use crate::Client;
use crate::checksum;
use crate::client::Transmitter;
use core::net::SocketAddr;
use culm::Progress;
use culm::time::{self, Instant};
use culm_ip::icmp::{Report, Severity};
use culm_ip::path::TooBig;
use datagram::Ports;
use host::{Change, Found, LinkHost};
use names::Names;
use station::Station;
use tcp::{Ingress, Tcp, Times};

pub use culm_ip::Cidr;
pub use culm_ip::host::Unsent;
pub use culm_tcp::{Ending, KeepAlive};
pub use datagram::Datagram;
pub use settings::{InvalidAddress, Settings};
pub use stream::{Event, Stream};
pub use tcp::connecting::Unopened;

/// Frames taken from the queue before what they caused is sent: bounds what a round leaves waiting.
/// Fewer in tests, which have not that many buffers.
const BATCH: usize = if cfg!(test) { 40 } else { 64 };

/// SYNs answered in a round that deals with all that was received.
const SYNS_PER_ROUND: usize = 32;

/// SYNs answered in one that leaves some for the next.
const SYNS_PER_BUSY_ROUND: usize = 2;

/// A TCP/IP stack on a client's connection.
pub struct Stack {
    client: Client,
    host: LinkHost,
    /// The next time that `host` has something to do.
    host_at: Instant,
    ports: Ports,
    names: Names,
    tcp: Tcp,
    /// `(n, t)`: once `n` frames have been received, every frame that had arrived by `t` has been
    /// processed.
    horizon: (u64, Instant),
    clock: Clock,
    counts: Counts,
}

/// Counts of a stack, from the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Counts {
    /// Frames received.
    pub received: u64,
    /// Frames dropped because their TCP or UDP checksum is wrong.
    pub broken: u64,
    /// TCP connections established.
    pub opened: u64,
    /// SYNs received for ports that are listened on.
    pub attempts: u64,
    /// Of these, not answered, or completed when there was no place, so that the peer had to repeat
    /// itself.
    pub attempts_refused: u64,
    /// Open connections ended for new ones: at rest, or stalled.
    pub evicted: u64,
    /// Connections that this side ended by a reset.
    pub resets: u64,
}

/// Numbers that peers do not know.
struct Secrets {
    /// The host's, for times and DHCP's transactions.
    seed: u64,
    /// The host's, for its tables.
    key: [u64; 5],
    table: [u64; 4],
    cookies: [u64; 2],
    names: [u64; 4],
    stamps: u32,
}

impl Secrets {
    /// From the machine's source of randomness. Without one, which the kernel says when it boots,
    /// the time since the machine was switched on has to do.
    fn new(now: Instant) -> Self {
        let key = culm::random::words().unwrap_or([now.ticks(), u64::from_le_bytes(*b"culm net")]);
        let hash = siphash::SipHash::new(key);
        let number = |index| hash.hash(&[], index);
        Self {
            seed: number(0),
            key: core::array::from_fn(|index| number(8 + index as u64)),
            table: [number(1), number(4), number(5), number(6)],
            cookies: [number(2), number(3)],
            names: core::array::from_fn(|index| number(16 + index as u64)),
            stamps: number(7) as u32,
        }
    }
}

impl Stack {
    /// A stack on `client`.
    ///
    /// # Panics
    ///
    /// The settings have connections that could receive nothing.
    pub fn new(client: Client, settings: Settings) -> Self {
        settings.check();
        let clock = Clock::new();
        let now = time::now();
        let mac = client.mac();
        let secrets = Secrets::new(now);
        let mut stack = Self {
            client,
            host: LinkHost::new(mac, &settings, secrets.key, secrets.seed, clock.ip_time(now)),
            host_at: now,
            ports: Ports::default(),
            names: Names::new(secrets.names),
            tcp: Tcp::new(&settings, &secrets),
            horizon: (0, now),
            clock,
            counts: Counts::default(),
        };
        stack.note_addresses();
        stack
    }

    /// Accepts TCP connections on `port`.
    ///
    /// # Panics
    ///
    /// The port is 0, or [`Settings::connections`] is.
    pub fn listen(&mut self, port: u16) {
        self.tcp.listen(port, false);
    }

    /// Accepts TCP connections on `port` whose clients speak first, as HTTP's do: a connection
    /// begins with what its client sends, and before that takes no place. A client that waits for
    /// this side's first words would never get any.
    ///
    /// # Panics
    ///
    /// The port is 0, or [`Settings::connections`] is.
    pub fn listen_for_requests(&mut self, port: u16) {
        self.tcp.listen(port, true);
    }

    /// Opens a TCP connection to `remote`, from the address that is best for it, and returns its
    /// slot, which is the application's as that of an [`Event::Opened`] is. What is handed over to
    /// be sent before the peer has answered waits for that. The next [`Event::Ready`] of the slot
    /// says that it has, or that the connection is over ([`Stream::is_over`]): refused, not
    /// answered in about three minutes, or its neighbour not there ([`Ending::Unreachable`]).
    ///
    /// # Errors
    ///
    /// [`Unopened`] says why: the application may try again later.
    pub fn connect(&mut self, remote: SocketAddr) -> Result<usize, Unopened> {
        let now = time::now();
        let times = Times { tcp: self.clock.tcp_time(now), now };
        let source = self.host.source(remote.ip(), self.clock.ip_time(now));
        let is_peer = station::is_station(remote.ip(), self.host.addresses()) && remote.port() != 0;
        let local = source.filter(|_| is_peer).ok_or(Unopened::Unreachable)?;
        let slot = self.tcp.connect(local, remote, &mut self.client.transmitter, times)?;
        self.names.lose(slot);
        Ok(slot)
    }

    /// Receives datagrams on `port`.
    ///
    /// # Panics
    ///
    /// The port is 0.
    pub fn bind(&mut self, port: u16) {
        self.ports.bind(port);
    }

    /// Counts from the start.
    pub fn counts(&self) -> Counts {
        Counts {
            opened: self.tcp.opened,
            attempts: self.tcp.attempts(),
            attempts_refused: self.tcp.attempts_refused(),
            evicted: self.tcp.evicted,
            resets: self.tcp.resets,
            ..self.counts
        }
    }

    /// The stack's IP addresses in use, that of IPv4 first.
    pub fn addresses(&self) -> &[Cidr] {
        self.host.addresses()
    }

    /// Sends a datagram from `port` to `destination`, from the address that is best for it: at
    /// once, or as soon as its neighbour's station is known. It may get lost on the way as any
    /// datagram may. Answers come to [`Self::receive`] if the port is bound.
    ///
    /// # Errors
    ///
    /// Why it cannot be sent: the application may try again later, where a router or an address may
    /// be there, or send less.
    pub fn send_to(&mut self, port: u16, destination: SocketAddr, payload: &[u8]) -> Result<(), Unsent> {
        let now = time::now();
        let (transmitter, ip_time) = (&mut self.client.transmitter, self.clock.ip_time(now));
        let sent = self.host.send(port, destination, payload, transmitter, ip_time);
        self.host_at = self.host_at.min(self.clock.local_time_of_ip(self.host.deadline()));
        sent
    }

    /// Returns whether there is a buffer for a datagram of the application's own accord, and TCP
    /// waits for none. If not, what is sent now may get lost, and the component gets a turn when
    /// there is a buffer. For who sends without end: others rely on the protocol over UDP.
    pub fn can_send(&mut self) -> bool {
        !self.tcp.waits() && self.client.transmitter.is_ready()
    }

    /// Takes what was received, up to a bounded number of frames and as long as there are buffers
    /// for answers; datagrams for bound ports go to `datagrams` at once.
    #[inline]
    pub fn receive(&mut self, datagrams: &mut impl FnMut(Datagram<'_>)) {
        self.client.begin();
        let now = time::now();
        let times = Times { tcp: self.clock.tcp_time(now), now };
        let is_busy = self.client.receiver.available() > BATCH;
        self.tcp.begin_round(if is_busy { SYNS_PER_BUSY_ROUND } else { SYNS_PER_ROUND });
        let (mut is_emptied, mut received) = (false, 0);
        'frames: for _ in 0..BATCH {
            // A frame that cannot be answered is better left where it is: then the device drops
            // what is too much, which costs nothing.
            if !self.client.transmitter.is_ready() {
                break;
            }
            let Some(packet) = self.client.receiver.receive() else {
                is_emptied = true;
                break;
            };
            received += 1;
            let (mut frame, mut is_verified) = (packet.frame(), packet.is_verified());
            // At most twice: what the host makes whole is looked at as if it had come so. It is a
            // loop so that the application's answer is compiled into one place.
            let mut is_whole = false;
            loop {
                if let Some(datagram) = self.ports.find(frame, is_verified, &mut self.client.transmitter) {
                    datagrams(datagram);
                    break;
                }
                let transmitter = &mut self.client.transmitter;
                let _ = transmitter.learn(packet.device());
                match self.tcp.ingress(frame, is_verified, transmitter, times) {
                    Ingress::Taken => break,
                    Ingress::Refused => {
                        packet.mark_refused(now);
                        continue 'frames;
                    }
                    Ingress::Other if is_verified || checksum::is_right(frame) => {}
                    Ingress::Other | Ingress::Broken => {
                        self.counts.broken += 1;
                        break;
                    }
                }
                if is_whole {
                    break;
                }
                self.host_at = now;
                let ip_time = self.clock.ip_time(now);
                let is_awaited = |port| self.names.awaits(port);
                match self.host.receive(&packet, &self.ports, &is_awaited, transmitter, ip_time) {
                    Found::Whole => is_whole = true,
                    Found::Nothing => {}
                    Found::Answer(payload) => {
                        self.names.receive(payload.source, payload.destination, payload.payload, ip_time);
                    }
                    Found::Error(Report::TooBig(mtu), quoted) => {
                        let told = TooBig { destination: quoted.destination, length: quoted.length, mtu };
                        if told.limit().is_some_and(|limit| self.tcp.too_big(&quoted, limit.mtu, times)) {
                            self.host.remember(told, ip_time);
                        }
                    }
                    Found::Error(report, quoted) => {
                        let is_final = report == Report::Unreachable(Severity::Hard);
                        self.tcp.undelivered(&quoted, is_final, times);
                    }
                }
                if !is_whole {
                    break;
                }
                (frame, is_verified) = (self.host.whole(), true);
            }
        }
        self.counts.received += received;
        self.note_heard(is_emptied, now);
        if !is_emptied {
            self.tcp.limit_syns(SYNS_PER_BUSY_ROUND);
        }
    }

    /// Updates [`Tcp::heard`], the time up to which every arrived frame has been processed.
    /// `is_emptied`: this round, which began at `now`, emptied the queue.
    #[inline(always)]
    fn note_heard(&mut self, is_emptied: bool, now: Instant) {
        if is_emptied {
            self.tcp.heard = now;
        } else if self.counts.received >= self.horizon.0 {
            // If the queue is never empty: after as many frames as it holds, all frames that were
            // in it then have been processed.
            self.tcp.heard = self.tcp.heard.max(self.horizon.1);
            self.horizon = (self.counts.received + u64::from(self.client.receiver.capacity()), now);
        }
    }

    /// Returns the next event of a connection; `None` if there is none.
    pub fn event(&mut self) -> Option<Event> {
        loop {
            let event = self.tcp.event()?;
            if let Some(event) = self.names.pass(event) {
                return Some(event);
            }
        }
    }

    /// Returns whether a client waits for whom there is no place. Then an application does well to
    /// end connections that it has served for a while: those that always have something under way
    /// make way for nobody.
    pub fn is_crowded(&self) -> bool {
        self.tcp.is_crowded
    }

    /// The connection in `slot`, for reading and writing.
    pub fn stream(&mut self, slot: usize) -> Option<Stream<'_>> {
        self.tcp.stream(slot)
    }

    /// The application has nothing more to do with the connection in `slot`. What it wrote is still
    /// sent.
    pub fn release(&mut self, slot: usize) {
        self.tcp.release(slot);
    }

    /// Ends a round: sends what there is to send, publishes it, and asks to be woken for what comes
    /// next.
    pub fn end_round(&mut self) -> Progress {
        let now = time::now();
        let _ = self.client.transmitter.learn(self.client.receiver.device());
        if self.client.transmitter.take_new_link() {
            self.host.link_is_up(self.clock.ip_time(now));
            self.host_at = now;
        }
        self.poll_names(now);
        if now >= self.host_at {
            self.poll_host(now);
        }
        if self.tcp.is_due() {
            let times = Times { tcp: self.clock.tcp_time(now), now };
            let (host, ip_time) = (&mut self.host, self.clock.ip_time(now));
            let mut has_asked = false;
            let find = |packet: &[u8], transmitter: &mut Transmitter| {
                host.send_packet(packet, transmitter, ip_time);
                has_asked = true;
            };
            self.tcp.egress(&mut self.client.transmitter, times, &self.clock, find);
            if has_asked {
                self.host_at = self.host_at.min(self.clock.local_time_of_ip(self.host.deadline()));
            }
        }
        // After connections, which have buffers first.
        let times = Times { tcp: self.clock.tcp_time(now), now };
        let has_syns = self.tcp.answer_syns(&mut self.client.transmitter, times);
        let progress =
            self.client.end_round() & Progress::more_if(self.tcp.has_events() | has_syns | self.names.has_found());
        let names_at = self.clock.local_time_of_ip(self.names.deadline());
        culm::wake_at(self.host_at.min(self.tcp.deadline(now)).min(names_at));
        progress
    }

    /// Has the host do what is due.
    #[cold]
    fn poll_host(&mut self, now: Instant) {
        // A time is rounded down to ticks, so it may seem to be due a little before it is.
        let soon = now + self.clock.tick;
        // Without a buffer what is due would be lost: a first request of DHCP's, say.
        if !self.client.transmitter.becomes_ready() {
            self.host_at = soon;
            return;
        }
        let ip_time = self.clock.ip_time(now);
        if self.host.is_asking(ip_time) {
            self.tcp.tell_heard(now, |remote, link| self.host.confirm(remote, link, ip_time));
        }
        match self.host.poll(&mut self.client.transmitter, ip_time) {
            Change::Nothing => {}
            Change::NameServers => self.names.take_servers(self.host.lease(), self.host.name_servers()),
            Change::Addresses => {
                self.note_addresses();
                self.tcp.keep_to(self.host.addresses());
            }
        }
        let hop_limit = self.host.hop_limit();
        self.tcp.set_hop_limit(hop_limit);
        self.ports.set_hop_limit(hop_limit);
        while let Some(quoted) = self.host.undelivered() {
            self.tcp.undelivered(&quoted, true, Times { tcp: self.clock.tcp_time(now), now });
        }
        let next = self.clock.local_time_of_ip(self.host.deadline());
        self.host_at = next.min(self.host.remark_at()).max(soon);
    }

    fn note_addresses(&mut self) {
        self.names.take_servers(self.host.lease(), self.host.name_servers());
        let station = Station::new(self.client.mac(), self.host.addresses(), self.host.hop_limit());
        self.ports.set_station(station);
        self.tcp.set_station(station);
    }
}

/// Converts between the system counter and microseconds without dividing.
#[derive(Clone, Copy, Debug)]
struct Clock {
    /// Microseconds per tick, times 2³².
    to_microseconds: u64,
    /// Ticks per microsecond, times 2³².
    to_ticks: u64,
    /// How finely timers are looked at.
    tick: time::Duration,
}

impl Clock {
    fn new() -> Self {
        // Divided as 64 bits, since division of 128 is a lot of code.
        let frequency = time::frequency().max(1);
        let (each, rest) = (frequency / 1_000_000, frequency % 1_000_000);
        Self {
            to_microseconds: (1_000_000 << 32) / frequency,
            to_ticks: (each << 32) + (rest << 32) / 1_000_000,
            tick: time::Duration::from_millis(1),
        }
    }

    #[inline(always)]
    fn microseconds(&self, at: Instant) -> u64 {
        ((u128::from(at.ticks()) * u128::from(self.to_microseconds)) >> 32) as u64
    }

    #[inline(always)]
    fn ip_time(&self, at: Instant) -> culm_ip::Instant {
        culm_ip::Instant(self.microseconds(at))
    }

    #[inline(always)]
    fn tcp_time(&self, at: Instant) -> culm_tcp::Instant {
        culm_tcp::Instant(self.microseconds(at))
    }

    #[inline(always)]
    fn local_time(&self, at: culm_tcp::Instant) -> Instant {
        let ticks = (u128::from(at.0) * u128::from(self.to_ticks)) >> 32;
        Instant::from_ticks(ticks.min(u64::MAX.into()) as u64)
    }

    fn local_time_of_ip(&self, at: culm_ip::Instant) -> Instant {
        self.local_time(culm_tcp::Instant(at.0))
    }
}

#[cfg(test)]
mod tests;
