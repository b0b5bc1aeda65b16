//! TCP/IP as a library of the client: smoltcp's protocols, with Culm's own way of finding the
//! socket.
//!
//! smoltcp looks at every socket for every packet. A server of many connections cannot afford that,
//! so here each TCP connection has a socket set of its own. A frame is looked at once (`classify`),
//! the connection found by hash, and smoltcp given that frame and that one socket; timers are in a
//! wheel (`timer`). The cost of a packet does not depend on the number of connections.
//!
//! UDP is answered without smoltcp: see [`datagram`]. So is a request for a connection, which costs
//! no memory until it is established: see `tcp`. Two of smoltcp's interfaces send the answers
//! (`paths`), a third one is for what smoltcp does by itself: ARP, neighbour discovery, DHCP, and
//! autoconfiguration.
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
//! of stateless autoconfiguration, ARP and neighbour discovery, echo replies, TCP servers, UDP. IP
//! fragments and options of IPv6 are dropped.

mod classify;
mod connections;
mod cookie;
pub mod datagram;
mod dhcp;
mod errors;
mod frame;
mod handshake;
mod key_hash;
mod paths;
mod port;
mod promises;
mod recent_clients;
mod settings;
mod siphash;
mod syn_queue;
mod table;
mod tcp;
mod timer;

use crate::client::Transmitter;
use crate::wire::{self, ethernet};
use crate::{Client, Mac};
use alloc::vec;
use classify::Kind;
use culm::Progress;
use culm::time::{self, Instant};
use datagram::{Addresses, Ports};
use dhcp::Dhcp;
use errors::Errors;
use paths::Paths;
use port::Port;
use smoltcp::iface::{Interface, PollResult, SocketSet};
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpCidr, Ipv4Cidr};
use tcp::{Tcp, Times};

pub use connections::{Event, Stream};
pub use datagram::Datagram;
pub use settings::{InvalidAddress, Settings};

/// Frames taken from the queue before what they caused is sent: bounds what a turn leaves waiting.
const BATCH: usize = 64;

/// SYNs answered after all that was received is dealt with.
const SYNS_PER_TURN: usize = 32;

/// SYNs answered where more has been received already.
const SYNS_PER_BUSY_TURN: usize = 2;

/// A TCP/IP stack on a client's connection.
pub struct Stack {
    client: Client,
    /// For what smoltcp does by itself.
    interface: Interface,
    paths: Paths,
    errors: Errors,
    /// The sockets that are no TCP connections: DHCP's.
    control: SocketSet<'static>,
    dhcp: Option<Dhcp>,
    /// The next time that `control` has something to do.
    control_at: Instant,
    ports: Ports,
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
    /// smoltcp's, for DHCP's transactions.
    seed: u64,
    table: [u64; 3],
    cookies: [u64; 2],
    neighbour: u64,
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
            table: [number(1), number(5), number(6)],
            cookies: [number(2), number(3)],
            neighbour: number(4),
            stamps: number(7) as u32,
        }
    }
}

impl Stack {
    /// A stack on `client`.
    pub fn new(mut client: Client, settings: Settings) -> Self {
        let clock = Clock::new();
        let now = time::now();
        let (mac, stack_time) = (client.mac(), clock.stack_time(now));
        let secrets = Secrets::new(now);
        let mut interface = interface(mac, &mut client.transmitter, settings.ipv6, secrets.seed, stack_time);
        let mut control = SocketSet::new(vec![]);
        let dhcp = settings.address.is_none().then(|| Dhcp::new(&mut control, now));
        if settings.ipv6 {
            add_address(&mut interface, IpCidr::Ipv6(settings::link_local(client.mac())));
        }
        if let Some(address) = settings.address {
            configure(&mut interface, Some((address, settings.gateway)));
        }
        let mut stack = Self {
            client,
            interface,
            paths: Paths::new(mac, secrets.neighbour, stack_time),
            errors: Errors::new(now),
            control,
            dhcp,
            control_at: now,
            ports: Ports::default(),
            tcp: Tcp::new(&settings, mac, &secrets),
            horizon: (0, now),
            clock,
            counts: Counts::default(),
        };
        stack.note_addresses();
        stack
    }

    /// Accepts TCP connections on `port`.
    pub fn listen(&mut self, port: u16) {
        self.tcp.listen(port);
    }

    /// Receives datagrams on `port`.
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

    /// The stack's IP addresses.
    pub fn addresses(&self) -> &[IpCidr] {
        self.interface.ip_addrs()
    }

    /// Takes what was received, up to a bounded number of frames and as long as there are buffers
    /// for answers; datagrams for bound ports go to `datagrams` at once.
    #[inline]
    pub fn receive(&mut self, datagrams: &mut impl FnMut(Datagram<'_>)) {
        self.client.begin();
        let now = time::now();
        let times = Times { tcp: self.clock.tcp_time(now), now };
        let (mut syns, mut received) = (SYNS_PER_BUSY_TURN, 0);
        for _ in 0..BATCH {
            // A frame that cannot be answered is better left where it is: then the device drops
            // what is too much, which costs nothing.
            if !self.client.transmitter.is_ready() {
                break;
            }
            let Some(packet) = self.client.receiver.receive() else {
                syns = SYNS_PER_TURN;
                break;
            };
            received += 1;
            let Some(packet) = self.ports.offer(packet, &mut self.client.transmitter, datagrams) else { continue };
            if !packet.is_intact() {
                self.counts.broken += 1;
                continue;
            }
            let kind = classify::classify(packet.frame());
            let _ = self.client.transmitter.learn(packet.device());
            if let Kind::Tcp(segment) = kind {
                let (addresses, transmitter) = (self.paths.addresses(), &mut self.client.transmitter);
                self.tcp.ingress(packet.frame(), &segment, addresses, transmitter, times);
                continue;
            }
            let link = wire::array(packet.frame(), ethernet::SOURCE).copied();
            let stack_time = self.clock.stack_time(now);
            let mut port = Port { packet: Some(packet), transmitter: &mut self.client.transmitter, link };
            match kind {
                Kind::Question => self.paths.answer(&mut port, stack_time),
                Kind::Stray if self.errors.may_send(now) => self.paths.answer(&mut port, stack_time),
                Kind::Stray | Kind::Tcp(_) => {}
                Kind::Other => {
                    port.link = None;
                    self.interface.poll_ingress_single(stack_time, &mut port, &mut self.control);
                    self.control_at = now;
                }
            }
        }
        self.counts.received += received;
        self.note_heard(syns == SYNS_PER_TURN, now);
        self.tcp.answer_syns(&mut self.client.transmitter, syns, times);
    }

    /// Updates [`Tcp::heard`], the time up to which every arrived frame has been processed.
    /// `is_all`: this turn, which began at `now`, emptied the queue.
    #[inline(always)]
    fn note_heard(&mut self, is_all: bool, now: Instant) {
        if is_all {
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
        self.tcp.event()
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
        if now >= self.control_at {
            self.poll_control(now);
        }
        if self.tcp.is_due() {
            let times = Times { tcp: self.clock.tcp_time(now), now };
            self.tcp.egress(&mut self.client.transmitter, times, &self.clock);
        }
        let has_syns = self.tcp.has_answerable_syns(&mut self.client.transmitter, now);
        let progress = self.client.end_round() & Progress::more_if(self.tcp.has_events() | has_syns);
        culm::wake_at(self.control_at.min(self.tcp.deadline(now)));
        progress
    }

    /// Lets smoltcp do what is due besides TCP.
    #[cold]
    fn poll_control(&mut self, now: Instant) {
        let stack_time = self.clock.stack_time(now);
        self.interface.poll_maintenance(stack_time);
        let sockets = &mut self.control;
        let mut port = Port::new(&mut self.client.transmitter, None);
        while self.interface.poll_egress(stack_time, &mut port, sockets) == PollResult::SocketStateChanged {}
        drop(port);
        let mut remark = Instant::NEVER;
        if let Some(dhcp) = &mut self.dhcp {
            dhcp.follow(&mut self.interface, &mut self.control, now);
            remark = dhcp.due();
        }
        self.note_addresses();
        let next = self.interface.poll_at(stack_time, &self.control);
        // Where it says "now" it waits for a buffer or for a neighbour; a little later is soon
        // enough.
        let soon = now + self.clock.tick;
        self.control_at =
            next.map_or(Instant::NEVER, |at| self.clock.local_time_of(at.total_micros())).min(remark).max(soon);
    }

    fn note_addresses(&mut self) {
        self.ports.addresses = Addresses::new(self.client.mac(), self.interface.ip_addrs());
        self.paths.set_addresses(self.interface.ip_addrs());
    }
}

/// smoltcp's interface, without addresses.
fn interface(mac: Mac, transmitter: &mut Transmitter, ipv6: bool, seed: u64, now: smoltcp::time::Instant) -> Interface {
    let mut config = smoltcp::iface::Config::new(HardwareAddress::Ethernet(EthernetAddress(mac.bytes())));
    config.random_seed = seed;
    config.slaac = ipv6;
    Interface::new(config, &mut Port::new(transmitter, None), now)
}

fn add_address(interface: &mut Interface, address: IpCidr) {
    interface.update_ip_addrs(|addresses| {
        // There is space for what the settings can ask for.
        let _ = addresses.push(address);
    });
}

/// Replaces the IPv4 address and route.
fn configure(interface: &mut Interface, address: Option<(Ipv4Cidr, Option<smoltcp::wire::Ipv4Address>)>) {
    interface.update_ip_addrs(|addresses| {
        addresses.retain(|address| !matches!(address, IpCidr::Ipv4(_)));
        if let Some((address, _)) = address {
            let _ = addresses.insert(0, IpCidr::Ipv4(address));
        }
    });
    interface.routes_mut().remove_default_ipv4_route();
    if let Some((_, Some(gateway))) = address {
        let _ = interface.routes_mut().add_default_ipv4_route(gateway);
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
        let frequency = u128::from(time::frequency().max(1));
        Self {
            to_microseconds: ((1_000_000 << 32) / frequency) as u64,
            to_ticks: ((frequency << 32) / 1_000_000) as u64,
            tick: time::Duration::from_millis(1),
        }
    }

    #[inline(always)]
    fn microseconds(&self, at: Instant) -> u64 {
        ((u128::from(at.ticks()) * u128::from(self.to_microseconds)) >> 32) as u64
    }

    #[inline(always)]
    fn stack_time(&self, at: Instant) -> smoltcp::time::Instant {
        smoltcp::time::Instant::from_micros(self.microseconds(at) as i64)
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

    fn local_time_of(&self, microseconds: i64) -> Instant {
        self.local_time(culm_tcp::Instant(microseconds.max(0) as u64))
    }
}

#[cfg(test)]
mod tests;
