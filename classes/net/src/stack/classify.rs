//! Finding out what a frame is, as far as that decides who gets it.

use crate::ETHERNET_HEADER;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    /// A TCP segment.
    Tcp(Segment),
    /// A message of ICMP that is answered, if at all, to where it came from.
    Question,
    /// Something else for this station alone: if it is answered, then by an error, to where it came
    /// from.
    Stray,
    /// Anything else: what smoltcp's own protocols live on.
    Other,
}

/// Whose a TCP segment is. Fields are as they lie in the frame; they serve only for comparison.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Key {
    /// The sender's address; of IPv4 the lower words are 0.
    pub(super) remote: [u64; 2],
    /// The address that it was sent to.
    pub(super) local: [u64; 2],
    /// Both ports: the sender's in the lower half.
    pub(super) ports: u32,
}

/// A TCP segment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Segment {
    /// Whose it is.
    pub(super) key: Key,
    /// The port that it was sent to.
    pub(super) local_port: u16,
    /// Its flags: FIN, SYN, RST, PSH, ACK are bits 0 to 4 (RFC 9293 §3.1).
    flags: u8,
}

impl Segment {
    /// Whether it asks for a new connection: SYN without ACK or RST.
    #[inline(always)]
    pub(super) fn opens(&self) -> bool {
        self.flags & 0b1_0110 == 0b0_0010
    }

    /// Whether it acknowledges something, and may be the one that completes a connection: ACK
    /// without SYN or RST.
    #[inline(always)]
    pub(super) fn acknowledges(&self) -> bool {
        self.flags & 0b1_0110 == 0b1_0000
    }
}

const ICMP: u8 = 1;
const TCP: u8 = 6;
const UDP: u8 = 17;
const ICMP_6: u8 = 58;

/// ICMPv6's type of echo requests (RFC 4443 §4.1).
const ECHO_REQUEST_6: u8 = 128;

/// The port that DHCP answers to (RFC 2131 §4.1).
const DHCP_CLIENT: u16 = 68;

/// What `frame` is.
#[inline]
pub(super) fn classify(frame: &[u8]) -> Kind {
    match segment(frame) {
        Some(segment) => Kind::Tcp(segment),
        None => other(frame),
    }
}

/// What a frame is that is not a TCP segment. What is for this station alone is its own business,
/// but for ARP, neighbour discovery and DHCP, which are smoltcp's.
#[cold]
fn other(frame: &[u8]) -> Kind {
    let Some(head) = frame.first_chunk::<{ ETHERNET_HEADER + 24 }>() else { return Kind::Other };
    let to_all = head[0] & 1 != 0;
    let dhcp_answer = head[23] == UDP && head[36..38] == DHCP_CLIENT.to_be_bytes();
    match (head[12], head[13]) {
        (0x08, 0x00) if !to_all && head[23] == ICMP => Kind::Question,
        (0x08, 0x00) if !to_all && !dhcp_answer => Kind::Stray,
        // The first of ICMPv6 is a message's type; an echo request is answered whoever else it is
        // for (RFC 4443 §4.2).
        (0x86, 0xdd) if head[20] == ICMP_6 && frame.get(ETHERNET_HEADER + 40) == Some(&ECHO_REQUEST_6) => {
            Kind::Question
        }
        (0x86, 0xdd) if !to_all && head[20] != ICMP_6 => Kind::Stray,
        _ => Kind::Other,
    }
}

#[inline]
fn segment(frame: &[u8]) -> Option<Segment> {
    let head = frame.first_chunk::<{ ETHERNET_HEADER + 20 }>()?;
    match (head[12], head[13]) {
        (0x08, 0x00) if head[23] == TCP => {
            let start = ETHERNET_HEADER + usize::from(head[14] & 0xf) * 4;
            let address =
                |at: usize| [u32::from_le_bytes([head[at], head[at + 1], head[at + 2], head[at + 3]]).into(), 0];
            ports(frame, start, address(26), address(30))
        }
        (0x86, 0xdd) if head[20] == TCP => {
            let addresses = frame.get(ETHERNET_HEADER + 8..ETHERNET_HEADER + 40)?.as_chunks::<8>().0;
            let word = |index: usize| u64::from_le_bytes(addresses[index]);
            ports(frame, ETHERNET_HEADER + 40, [word(0), word(1)], [word(2), word(3)])
        }
        _ => None,
    }
}

#[inline(always)]
fn ports(frame: &[u8], start: usize, remote: [u64; 2], local: [u64; 2]) -> Option<Segment> {
    let head = frame.get(start..)?.first_chunk::<14>()?;
    let key = Key { remote, local, ports: u32::from_le_bytes([head[0], head[1], head[2], head[3]]) };
    Some(Segment { key, local_port: u16::from_be_bytes([head[2], head[3]]), flags: head[13] })
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    fn frame(version: u8, flags: u8) -> Vec<u8> {
        let mut frame = Vec::from([0; 12]);
        if version == 4 {
            frame.extend([0x08, 0, 0x45, 0, 0, 40, 0, 0, 0, 0, 64, TCP, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2]);
        } else {
            frame.extend([0x86, 0xdd, 0x60, 0, 0, 0, 0, 20, TCP, 64]);
            frame.extend([1; 16]);
            frame.extend([2; 16]);
        }
        frame.extend([0xc0, 0x01, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, flags, 0, 0, 0, 0, 0, 0]);
        frame
    }

    #[test]
    fn segments_are_found() {
        for version in [4, 6] {
            let Kind::Tcp(segment) = classify(&frame(version, 0x02)) else { panic!("TCP over IPv{version}") };
            assert_eq!((segment.local_port, segment.opens(), segment.acknowledges()), (80, true, false));
            assert_ne!(segment.key.remote, segment.key.local);
            for flags in [0x12, 0x04, 0x06, 0x10, 0x18, 0x11] {
                let Kind::Tcp(segment) = classify(&frame(version, flags)) else { panic!("TCP") };
                assert!(!segment.opens(), "{flags:#x}");
                assert_eq!(segment.acknowledges(), matches!(flags, 0x10 | 0x18 | 0x11), "{flags:#x}");
            }
        }
    }

    proptest! {
        #[test]
        fn any_bytes_are_survived(bytes in proptest::collection::vec(any::<u8>(), 0..80), kind in 0..3) {
            let mut bytes = bytes;
            if bytes.len() > 23 {
                match kind {
                    0 => { bytes[12..14].copy_from_slice(&[8, 0]); bytes[23] = TCP; }
                    1 => { bytes[12..14].copy_from_slice(&[0x86, 0xdd]); bytes[20] = TCP; }
                    _ => {}
                }
            }
            let _ = classify(&bytes);
        }
    }
}
