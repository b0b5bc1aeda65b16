//! Resets, by which a rule that rejects tells the sender of a TCP segment (RFC 9293 §3.5.2).

use core::net::IpAddr;
use culm_flow::{Packet, Segment, TCP, flags};
use culm_packet::checksum::Sum;

/// Bytes of the headers of TCP, IPv4 and IPv6.
const HEADER: usize = 20;
const IPV4: usize = 20;
const IPV6: usize = 40;

/// Routers that it may pass.
const HOPS: u8 = 64;

/// Writes the packet that resets the connection of a segment, as from its receiver. Returns its
/// length; `None` if it does not fit.
pub fn write(packet: &Packet, segment: &Segment, out: &mut [u8]) -> Option<usize> {
    let (from, to) = (packet.destination, packet.source);
    let start = if from.is_ipv4() { IPV4 } else { IPV6 };
    let out = out.get_mut(..start + HEADER)?;
    let (network, transport) = out.split_at_mut(start);
    write_transport(segment, transport);
    let pseudo = Sum::pseudo_header(from, to, TCP, HEADER);
    let checksum = pseudo.add_bytes(transport).checksum().to_be_bytes();
    transport.get_mut(16..18)?.copy_from_slice(&checksum);
    write_network(from, to, network)?;
    Some(start + HEADER)
}

/// Writes TCP's header, but for its checksum.
fn write_transport(segment: &Segment, out: &mut [u8]) {
    // Who has sent an acknowledgement expects that number next; who has sent none is told that all
    // of the segment has come.
    let (sequence, acknowledgement, flags) = if segment.has(flags::ACK) {
        (segment.acknowledgement, 0, flags::RST)
    } else {
        (0, segment.sequence.wrapping_add(segment.advance()), flags::RST | flags::ACK)
    };
    let parts: [&[u8]; 7] = [
        &segment.destination.to_be_bytes(),
        &segment.source.to_be_bytes(),
        &sequence.to_be_bytes(),
        &acknowledgement.to_be_bytes(),
        &[(HEADER as u8 / 4) << 4, flags],
        &[0, 0],
        &[0, 0, 0, 0],
    ];
    out.iter_mut().zip(parts.into_iter().flatten()).for_each(|(place, byte)| *place = *byte);
}

fn write_network(from: IpAddr, to: IpAddr, out: &mut [u8]) -> Option<()> {
    match (from, to) {
        (IpAddr::V4(from), IpAddr::V4(to)) => {
            let length = (IPV4 + HEADER) as u8;
            out.get_mut(..12)?.copy_from_slice(&[0x45, 0, 0, length, 0, 0, 0x40, 0, HOPS, TCP, 0, 0]);
            out.get_mut(12..16)?.copy_from_slice(&from.octets());
            out.get_mut(16..)?.copy_from_slice(&to.octets());
            let checksum = Sum::ZERO.add_bytes(out).checksum().to_be_bytes();
            out.get_mut(10..12)?.copy_from_slice(&checksum);
        }
        (IpAddr::V6(from), IpAddr::V6(to)) => {
            out.get_mut(..8)?.copy_from_slice(&[0x60, 0, 0, 0, 0, HEADER as u8, TCP, HOPS]);
            out.get_mut(8..24)?.copy_from_slice(&from.octets());
            out.get_mut(24..)?.copy_from_slice(&to.octets());
        }
        _ => return None,
    }
    Some(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use culm_flow::{Transport, checksum_is_right};

    fn check(from: &str, to: &str, has_ack: bool) {
        let [source, destination] = [from, to].map(|text| text.parse::<IpAddr>().expect("an address"));
        let segment = Segment {
            source: 1000,
            destination: 80,
            sequence: u32::MAX,
            acknowledgement: 77,
            flags: if has_ack { flags::ACK } else { flags::SYN },
            window: 1,
            data: 3,
            scale: None,
            mss_at: None,
        };
        let packet = Packet {
            source,
            destination,
            protocol: TCP,
            hops: 3,
            may_fragment: false,
            length: 43,
            payload: 20,
            fragment: None,
            transport: Transport::Tcp(segment),
        };
        let mut out = [0; 60];
        let length = write(&packet, &segment, &mut out).expect("it fits");
        let reset = Packet::read(&out[..length]).expect("a packet");
        assert_eq!((reset.source, reset.destination), (destination, source));
        assert_eq!(checksum_is_right(&reset, &out), Some(true));
        let Transport::Tcp(own) = reset.transport else { panic!("{reset:?}") };
        assert_eq!((own.source, own.destination, own.data), (80, 1000, 0));
        let expected = if has_ack { (77, flags::RST) } else { (0, flags::RST | flags::ACK) };
        assert_eq!((own.sequence, own.flags), expected);
        assert_eq!(own.acknowledgement, if has_ack { 0 } else { 3 });
        assert_eq!(write(&packet, &segment, &mut out[..length - 1]), None);
    }

    #[test]
    fn a_reset_is_one_that_the_sender_believes() {
        for has_ack in [false, true] {
            check("10.0.0.1", "192.0.2.1", has_ack);
            check("2001:db8::1", "2001:db8:1::1", has_ack);
        }
    }
}
