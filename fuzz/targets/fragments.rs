//! Packets in pieces that anybody sends.
//!
//! The input is a row of packets of IPv4 and IPv6, as bytes behind a header that is right, and time
//! that passes. What becomes whole consists of bytes that came for it, and the memory of all
//! packets under way has an end. A datagram in it is read, and written the same.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_ip::Instant;
use culm_ip::extension::{self, content};
use culm_ip::ipv4::Ipv4;
use culm_ip::ipv6::Ipv6;
use culm_ip::reassembly::{Fragment, Outcome, PATIENCE, Reassembly, Slot};
use culm_ip::udp::{Checksum, Datagram};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::net::{Ipv4Addr, Ipv6Addr};
use std::time::Duration;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 1, 1);

/// Bytes that each packet under way may have.
const SHARE: usize = 600;

fn fragment_of_ipv4<'a>(input: &mut Input<'_>, buffer: &'a mut [u8]) -> Fragment<'a> {
    let (what, offset, count) = (input.byte(), input.byte(), input.byte());
    let packet = Ipv4 {
        source: Ipv4Addr::new(10, 0, 0, what & 7),
        destination: OWN,
        protocol: 17,
        time_to_live: 64,
        identification: u16::from(what >> 4 & 3),
        may_fragment: true,
        offset: u16::from(offset) * 8,
        has_more: what & 0x80 != 0,
        payload: input.bytes(count.into()),
        packet: &[],
    };
    let length = packet.write(buffer).expect("it fits");
    Fragment::of_ipv4(&Ipv4::parse(&buffer[..length]).expect("it was written"))
}

fn fragment_of_ipv6<'a>(input: &mut Input<'_>, buffer: &'a mut [u8]) -> Option<Fragment<'a>> {
    let (what, count) = (input.byte(), input.byte());
    let packet = Ipv6 {
        source: Ipv6Addr::new(0x2001, 0xdb8, 0, (what & 3).into(), 0, 0, 0, 1),
        destination: Ipv6Addr::new(0x2001, 0xdb8, 0, 9, 0, 0, 0, 1),
        next_header: [44, 0, 43, 60][usize::from(what >> 6)],
        hop_limit: 64,
        payload: input.bytes(count.into()),
    };
    let length = packet.write(buffer).expect("it fits");
    let bytes = &buffer[..length];
    let packet = Ipv6::parse(bytes).expect("it was written");
    let found = content(&packet).ok()?;
    assert!(packet.payload.ends_with(found.payload));
    Some(Fragment::of_ipv6(bytes, &packet, found.fragment?, found.protocol, found.payload))
}

fuzz_target!(|bytes: &[u8]| {
    let _ = Ipv4::parse(bytes).map(|packet| assert!(bytes.starts_with(packet.packet)));
    let _ = Ipv6::parse(bytes).map(|packet| content(&packet));
    let mut input = Input::new(bytes);
    let count = usize::from(input.byte() % 6);
    let (mut slots, mut memory) = (vec![Slot::default(); count], vec![0; count * SHARE]);
    let mut reassembly = Reassembly::new(&mut slots, &mut memory);
    let mut now = Instant::default();
    while !input.is_over() {
        let mut buffer = [0; 400];
        let what = input.byte();
        let fragment = match what % 3 {
            0 => {
                now = now + Duration::from_millis(u64::from(what) * 100);
                while reassembly.expire(now).is_some() {}
                assert!(reassembly.deadline() > now);
                continue;
            }
            1 => Some(fragment_of_ipv4(&mut input, &mut buffer)),
            _ => fragment_of_ipv6(&mut input, &mut buffer),
        };
        let Some(fragment) = fragment else { continue };
        if let Outcome::Whole { protocol, payload, .. } = reassembly.take(&fragment, now) {
            assert!(payload.len() <= SHARE);
            let _ = extension::behind(protocol, payload);
            let (source, destination) = (OWN.into(), OWN.into());
            if let Ok(datagram) = Datagram::parse(source, destination, payload, Checksum::Verified) {
                let mut written = vec![0; payload.len()];
                let length = datagram.write(source, destination, &mut written).expect("it fits");
                assert_eq!(Datagram::parse(source, destination, &written[..length], Checksum::Unknown), Ok(datagram));
            }
        }
    }
    now = now + PATIENCE;
    while reassembly.expire(now).is_some() {}
    assert_eq!(reassembly.deadline(), Instant::NEVER, "nothing is under way for ever");
});
