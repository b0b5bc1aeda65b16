//! Frames that no honest station sends, from a seeded generator, and the capture files in which
//! tcpreplay takes them.

use culm_wire::{GUEST, HOST};
use std::io::Write as _;
use std::net::Ipv6Addr;
use std::path::Path;

/// A station's hardware address.
pub type Mac = [u8; 6];

/// The sender's address: administered locally.
const SENDER: Mac = [2, 0, 0, 0, 0, 1];

const IPV4: [u8; 2] = [8, 0];
const IPV6: [u8; 2] = [0x86, 0xdd];
const ARP: [u8; 2] = [8, 6];
const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMPV6: u8 = 58;

const ETHERNET: usize = 14;
/// The longest frame, without its check sequence.
const LONGEST: usize = 1514;

/// A generator of numbers (xorshift64*), the same at each run.
#[derive(Debug)]
pub struct Random(u64);

impl Random {
    /// From a seed, which must not be 0.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The next number, of 64 bits.
    pub fn number(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// A number below `end`.
    pub fn below(&mut self, end: usize) -> usize {
        (self.number() >> 16) as usize % end
    }

    fn byte(&mut self) -> u8 {
        (self.number() >> 32) as u8
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }
}

/// Frames for the station `to`, each wrong in a way of its own: lengths, checksums, fragments,
/// options, addresses.
pub fn malformed(to: Mac, to_ipv6: Ipv6Addr, random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|number| {
            let mut frame = match number % 6 {
                0 | 1 => tcp(to, random),
                2 => transport_4(to, UDP, &[vec![0x30, 0x39, 0, 67, 0, 20, 0, 0], random.bytes(12)].concat()),
                3 => transport_4(to, ICMP, &[vec![8, 0, 0, 0, 0, 1, 0, 1], random.bytes(40)].concat()),
                4 => arp(to, random),
                _ => version_6(to, to_ipv6, random),
            };
            spoil(&mut frame, random);
            frame.truncate(LONGEST);
            frame
        })
        .collect()
}

/// Frames of random bytes; every other one is addressed to `to`, and most name a protocol that it
/// speaks.
pub fn noise(to: Mac, random: &mut Random, count: usize) -> Vec<Vec<u8>> {
    (0..count)
        .map(|_| {
            let length = ETHERNET + random.below(LONGEST - ETHERNET + 1);
            let mut frame = random.bytes(length);
            match random.below(4) {
                0 | 1 => frame[..6].copy_from_slice(&to),
                2 => frame[..6].fill(0xff),
                _ => {}
            }
            // A sender cannot be a group.
            frame[6] &= 0xfe;
            match random.below(5) {
                0 => {}
                1 => frame[12..14].copy_from_slice(&ARP),
                2 => frame[12..14].copy_from_slice(&IPV6),
                _ => frame[12..14].copy_from_slice(&IPV4),
            }
            if let Some(first) = frame.get_mut(ETHERNET) {
                *first = [0x45, 0x46, 0x60, *first][random.below(4)];
            }
            // The protocol, where an IPv4 packet has it.
            if let Some(protocol) = frame.get_mut(ETHERNET + 9) {
                *protocol = [ICMP, TCP, UDP, *protocol][random.below(4)];
            }
            frame
        })
        .collect()
}

/// Writes a capture in the classic format of libpcap (microseconds, Ethernet).
///
/// # Errors
/// Where the file cannot be written.
pub fn write_capture(file: &Path, frames: &[Vec<u8>]) -> std::io::Result<()> {
    let mut bytes = vec![];
    for word in [0xa1b2_c3d4_u32, 4 << 16 | 2, 0, 0, 65535, 1] {
        bytes.extend(word.to_le_bytes());
    }
    for (number, frame) in frames.iter().enumerate() {
        let length = frame.len() as u32;
        for word in [0, number as u32, length, length] {
            bytes.extend(word.to_le_bytes());
        }
        bytes.extend(frame);
    }
    std::fs::File::create(file)?.write_all(&bytes)
}

fn ethernet(to: Mac, kind: [u8; 2], payload: &[u8]) -> Vec<u8> {
    [&to as &[u8], &SENDER, &kind, payload].concat()
}

/// A packet to the guest, right but for the checksum of its content.
fn transport_4(to: Mac, protocol: u8, content: &[u8]) -> Vec<u8> {
    let length = (20 + content.len()) as u16;
    let mut packet = vec![0x45, 0, 0, 0, 0, 1, 0, 0, 64, protocol, 0, 0];
    packet[2..4].copy_from_slice(&length.to_be_bytes());
    packet.extend(HOST.octets());
    packet.extend(GUEST.octets());
    let sum = checksum(&packet);
    packet[10..12].copy_from_slice(&sum.to_be_bytes());
    packet.extend(content);
    ethernet(to, IPV4, &packet)
}

/// A segment to the web server with a right checksum: of any kind, with any options, also from the
/// guest to itself.
fn tcp(to: Mac, random: &mut Random) -> Vec<u8> {
    let options = match random.below(6) {
        0 => vec![],
        // An option of no length: who goes on by its length never ends.
        1 => vec![3, 0, 0, 0],
        2 => vec![2, 1, 2, 1],
        // One that goes on behind the segment.
        3 => vec![2, 255, 1, 1],
        // A selective acknowledgement of anything.
        4 => [vec![1, 1, 5, 10], random.bytes(8)].concat(),
        _ => random.bytes(40),
    };
    let land = random.below(5) == 0;
    let source = if land { GUEST } else { HOST };
    let port = if land { 80 } else { 1024 + random.below(60_000) as u16 };
    let flags = match random.below(4) {
        0 => 2,
        1 => 0x10,
        _ => random.byte(),
    };
    let words = 5 + options.len() / 4;
    let offset = if random.below(4) == 0 { random.byte() } else { (words as u8) << 4 };
    let mut segment = port.to_be_bytes().to_vec();
    segment.extend([0, 80]);
    segment.extend(random.bytes(8));
    segment.extend([offset, flags, 0xff, 0xff, 0, 0, 0, 0]);
    segment.extend(options);
    let payload = random.below(64);
    segment.extend(random.bytes(payload));
    let mut pseudo = [source.octets(), GUEST.octets()].concat();
    pseudo.extend([0, TCP]);
    pseudo.extend((segment.len() as u16).to_be_bytes());
    pseudo.extend(&segment);
    let sum = checksum(&pseudo);
    segment[16..18].copy_from_slice(&sum.to_be_bytes());
    let mut frame = transport_4(to, TCP, &segment);
    frame[ETHERNET + 12..ETHERNET + 16].copy_from_slice(&source.octets());
    mend_ip(&mut frame);
    frame
}

/// A question for the guest's address, or an answer that nobody asked for, with any sizes of
/// addresses.
fn arp(to: Mac, random: &mut Random) -> Vec<u8> {
    let mut packet = vec![0, 1, 8, 0, 6, 4, 0, 1 + random.below(2) as u8];
    if random.below(2) == 0 {
        packet[4..6].copy_from_slice(&random.bytes(2));
    }
    packet.extend(SENDER);
    // Nobody's address: a lie about the test's own would disturb the test.
    packet.extend([198, 18, 0, 200 + random.below(50) as u8]);
    packet.extend(to);
    packet.extend(GUEST.octets());
    ethernet(to, ARP, &packet)
}

/// A packet of IPv6 with extension headers that lead anywhere, or a neighbour's solicitation with
/// options of any length.
fn version_6(to: Mac, to_ipv6: Ipv6Addr, random: &mut Random) -> Vec<u8> {
    let (next, content) = match random.below(3) {
        0 => {
            (ICMPV6, [vec![135, 0, 0, 0, 0, 0, 0, 0], to_ipv6.octets().to_vec(), vec![1, 0, 0, 0, 0, 0, 0, 0]].concat())
        }
        // Hop-by-hop, routing, fragment, destination.
        1 => ([0, 43, 44, 60][random.below(4)], random.bytes(48)),
        _ => (TCP, random.bytes(20)),
    };
    let mut packet = vec![0x60, 0, 0, 0];
    packet.extend((content.len() as u16).to_be_bytes());
    packet.extend([next, 255]);
    packet.extend(Ipv6Addr::new(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1).octets());
    packet.extend(to_ipv6.octets());
    packet.extend(content);
    ethernet(to, IPV6, &packet)
}

/// Breaks a frame in one way, or leaves it as it is.
fn spoil(frame: &mut Vec<u8>, random: &mut Random) {
    let is_4 = frame[12..14] == IPV4;
    match random.below(8) {
        // Cut anywhere behind the Ethernet header.
        0 => frame.truncate(ETHERNET + random.below(frame.len() - ETHERNET)),
        // A length of any size.
        1 => {
            let at = ETHERNET + if is_4 { 2 } else { 4 };
            let length = random.bytes(2);
            frame[at..at + 2].copy_from_slice(&length);
            mend_ip(frame);
        }
        // A header of any length.
        2 if is_4 => {
            frame[ETHERNET] = 0x40 | random.byte() & 0xf;
            mend_ip(frame);
        }
        // A fragment, of any place.
        3 if is_4 => {
            let place = random.bytes(2);
            frame[ETHERNET + 6..ETHERNET + 8].copy_from_slice(&place);
            mend_ip(frame);
        }
        // A wrong checksum.
        4 if is_4 => frame[ETHERNET + 10] ^= 0x55,
        // Bits turned over, wherever they are.
        5 => {
            for _ in 0..=random.below(8) {
                let at = ETHERNET + random.below(frame.len() - ETHERNET);
                frame[at] ^= 1 << random.below(8);
            }
        }
        // More than was announced.
        6 => {
            let more = random.below(1400);
            frame.extend(random.bytes(more));
        }
        _ => {}
    }
}

/// Makes the checksum of an IPv4 header right, as far as there is a header.
fn mend_ip(frame: &mut [u8]) {
    if frame[12..14] != IPV4 {
        return;
    }
    let length = usize::from(frame[ETHERNET] & 0xf) * 4;
    if let Some(header) = frame[ETHERNET..].get_mut(..length.max(20)) {
        header[10..12].fill(0);
        let sum = checksum(header);
        header[10..12].copy_from_slice(&sum.to_be_bytes());
    }
}

/// The Internet checksum (RFC 1071).
fn checksum(bytes: &[u8]) -> u16 {
    let mut sum = 0_u32;
    for pair in bytes.chunks(2) {
        sum += u32::from(u16::from_be_bytes([pair[0], pair.get(1).copied().unwrap_or(0)]));
    }
    while sum > 0xffff {
        sum = (sum >> 16) + (sum & 0xffff);
    }
    !(sum as u16)
}
