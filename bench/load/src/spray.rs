//! Packets of many flows, one way: what fills a router's tables, and what begins a flow each.
//!
//! Each packet is made whole, its IPv4 header included, so that it can have any source: a socket
//! for each of 100,000 flows would be a load for the host's kernel.

use crate::batch::Batch;
use crate::engine::{due_until, pin};
use anyhow::{Context, Result, bail};
use std::net::{Ipv4Addr, SocketAddrV4, UdpSocket};
use std::os::fd::FromRawFd as _;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::Instant;

/// Bytes of the headers of IPv4, UDP and TCP.
const IPV4: usize = 20;
const UDP: usize = 8;
const TCP: usize = 20;

/// Sources, from the first on, and ports of each from this one on.
const SOURCES: u64 = 250;
const FIRST_PORT: u64 = 1024;
const PORTS: u64 = 64_000;

/// Most flows there are.
pub const MOST_FLOWS: u64 = SOURCES * PORTS;

/// What the packets are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Datagrams of UDP with so many bytes of payload.
    Udp(usize),
    /// First segments of TCP connections, which nobody answers.
    Syn,
}

/// The packets to send.
#[derive(Clone, Copy, Debug)]
pub struct SpraySpec {
    /// What they are.
    pub kind: Kind,
    /// The first of the sources.
    pub source: Ipv4Addr,
    /// The network of 16 bits to whose hosts they are sent, one after the other.
    pub target: Ipv4Addr,
    /// Flows, which have packets in turn: [`MOST_FLOWS`] at most.
    pub flows: u64,
    /// Packets per second.
    pub rate: f64,
    /// The processor to run on.
    pub processor: Option<usize>,
}

/// Packets that are being sent. Dropping it ends that.
#[derive(Debug)]
pub struct Spray {
    sent: Arc<AtomicU64>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Spray {
    /// Starts sending, from the network namespace of the caller.
    ///
    /// # Errors
    /// Without the permission for a socket of whole packets, or for a load that is none.
    pub fn start(spec: &SpraySpec) -> Result<Spray> {
        let is_possible = spec.rate > 0.0 && spec.rate <= 1e8 && (1..=MOST_FLOWS).contains(&spec.flows);
        if !is_possible {
            bail!("{} flows at {} packets/s are not possible", spec.flows, spec.rate);
        }
        let socket = open(spec.target)?;
        let (spec, sent, stop) = (*spec, Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (count, ends) = (sent.clone(), stop.clone());
        let thread = std::thread::Builder::new().name("spray".into()).spawn(move || {
            pin(spec.processor);
            run(&spec, &socket, &count, &ends);
        })?;
        Ok(Spray { sent, stop, thread: Some(thread) })
    }

    /// Returns how many packets the host's kernel has taken.
    pub fn sent(&self) -> u64 {
        self.sent.load(Relaxed)
    }
}

impl Drop for Spray {
    fn drop(&mut self) {
        self.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// A socket for whole packets, which leave where those to `target` do.
fn open(target: Ipv4Addr) -> Result<UdpSocket> {
    // SAFETY: the descriptor is ours alone. The type is used for its system calls only, which are
    // those of any datagram socket.
    let socket = unsafe {
        let file = libc::socket(libc::AF_INET, libc::SOCK_RAW | libc::SOCK_CLOEXEC, libc::IPPROTO_RAW);
        if file < 0 {
            return Err(std::io::Error::last_os_error()).context("no permission for a socket of whole packets");
        }
        UdpSocket::from_raw_fd(file)
    };
    socket.connect(SocketAddrV4::new(target, 0)).with_context(|| format!("no way to {target}"))?;
    crate::engine::enlarge_buffers(&socket);
    Ok(socket)
}

fn run(spec: &SpraySpec, socket: &UdpSocket, sent: &AtomicU64, stop: &AtomicBool) {
    let (start, mut batch, mut next) = (Instant::now(), Batch::default(), 0);
    while !stop.load(Relaxed) {
        let due = due_until(start.elapsed().as_nanos() as u64, spec.rate);
        if next >= due {
            std::thread::sleep(std::time::Duration::from_micros(200));
            continue;
        }
        while next < due && !batch.full() {
            write(batch.push(length(spec.kind)), spec, next % spec.flows);
            next += 1;
        }
        // What the device has no room for is lost, as on a wire.
        if let Ok(count) = batch.send(socket) {
            sent.fetch_add(count as u64, Relaxed);
        }
    }
}

/// Bytes of a packet.
fn length(kind: Kind) -> usize {
    match kind {
        Kind::Udp(payload) => IPV4 + UDP + payload,
        Kind::Syn => IPV4 + TCP,
    }
}

/// Writes the packet of a flow.
fn write(packet: &mut [u8], spec: &SpraySpec, flow: u64) {
    let length = packet.len() as u16;
    let source = spec.source.to_bits() + (flow % SOURCES) as u32;
    let port = (FIRST_PORT + flow / SOURCES % PORTS) as u16;
    // No host whose number ends in 0 or 255, which may be all of a network.
    let (high, low) = (flow / 200 % 200, 1 + flow % 200);
    let target = (spec.target.to_bits() & 0xffff_0000) | (high as u32) << 8 | low as u32;
    packet.fill(0);
    let (header, message) = packet.split_at_mut(IPV4);
    let protocol = match spec.kind {
        Kind::Udp(_) => 17,
        Kind::Syn => 6,
    };
    header[0] = 0x45;
    header[2..4].copy_from_slice(&length.to_be_bytes());
    header[8..10].copy_from_slice(&[64, protocol]);
    header[12..16].copy_from_slice(&source.to_be_bytes());
    header[16..20].copy_from_slice(&target.to_be_bytes());
    let checksum = checksum(0, header);
    header[10..12].copy_from_slice(&checksum.to_be_bytes());
    message[..2].copy_from_slice(&port.to_be_bytes());
    message[2..4].copy_from_slice(&9_u16.to_be_bytes());
    let place = match spec.kind {
        Kind::Udp(_) => {
            let bytes = message.len() as u16;
            message[4..6].copy_from_slice(&bytes.to_be_bytes());
            6
        }
        Kind::Syn => {
            message[4..8].copy_from_slice(&(flow as u32).to_be_bytes());
            // Five words, SYN, a window.
            message[12..16].copy_from_slice(&[0x50, 0x02, 0x72, 0x10]);
            16
        }
    };
    // The pseudo-header (RFC 768, RFC 9293 §3.1).
    let addresses = [source >> 16, source & 0xffff, target >> 16, target & 0xffff];
    let pseudo = addresses.iter().sum::<u32>() + u32::from(protocol) + message.len() as u32;
    let checksum = match self::checksum(pseudo, message) {
        0 if protocol == 17 => 0xffff,
        checksum => checksum,
    };
    message[place..place + 2].copy_from_slice(&checksum.to_be_bytes());
}

/// The checksum of RFC 1071 of an even number of bytes, or an odd one with a zero behind.
fn checksum(sum: u32, bytes: &[u8]) -> u16 {
    let words = bytes.chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(*word.get(1).unwrap_or(&0)));
    let mut sum = sum + words.sum::<u32>();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn spec(kind: Kind) -> SpraySpec {
        let (source, target) = (Ipv4Addr::new(198, 18, 0, 4), Ipv4Addr::new(198, 19, 0, 0));
        SpraySpec { kind, source, target, flows: MOST_FLOWS, rate: 1.0, processor: None }
    }

    #[test]
    fn flows_differ_and_checksums_are_right() {
        for kind in [Kind::Udp(65), Kind::Syn] {
            let mut known = BTreeSet::new();
            for flow in (0..1000).chain(MOST_FLOWS - 1000..MOST_FLOWS) {
                let mut packet = vec![7; length(kind)];
                write(&mut packet, &spec(kind), flow);
                assert_eq!(checksum(0, &packet[..IPV4]), 0);
                let protocol = u32::from(packet[9]);
                let pseudo = packet[12..20].chunks(2).map(|word| u32::from(word[0]) << 8 | u32::from(word[1]));
                let pseudo = pseudo.sum::<u32>() + protocol + (packet.len() - IPV4) as u32;
                assert_eq!(checksum(pseudo, &packet[IPV4..]), 0, "{packet:?}");
                assert!((4..=253).contains(&packet[15]) && ![0, 255].contains(&packet[19]));
                assert!(known.insert((packet[12..20].to_vec(), packet[20..24].to_vec())), "{flow}");
            }
        }
    }

    #[test]
    fn what_cannot_be_sent_is_refused() {
        for spec in [SpraySpec { flows: 0, ..spec(Kind::Syn) }, SpraySpec { rate: f64::NAN, ..spec(Kind::Syn) }] {
            assert!(Spray::start(&spec).is_err());
        }
    }
}
