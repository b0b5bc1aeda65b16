//! A server that leases addresses to clients that send anything.
//!
//! The input is a course of events: messages whose fields are right, with options of the input's
//! own behind them, messages that are the input's altogether, and time that passes. Whatever comes,
//! an answer is one that a client can read, goes to all or to a station of the network, and gives
//! no address that is another's or nobody's; and who comes once all is over gets one.

#![no_main]

#[path = "../common/input.rs"]
mod input;

use culm_ip::dhcp::server::{Answer, DECLINED, LONGEST_ANSWER, Place, Server, Settings};
use culm_ip::dhcp::{self, Kind, LONGEST, Request};
use culm_ip::{Cidr, Instant, LinkAddress};
use input::Input;
use libfuzzer_sys::fuzz_target;
use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::time::Duration;

const OWN: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 2);
const ROUTER: Ipv4Addr = Ipv4Addr::new(10, 0, 3, 1);

/// The last byte of the first address that is leased, and of the last.
const FIRST: u8 = 100;
const LAST: u8 = 103;

/// Stations and their addresses that are set down, one outside of the range and one in it.
const RESERVED: [(LinkAddress, Ipv4Addr); 2] = [(station(6), address(50)), (station(7), address(101))];

const LEASE: Duration = Duration::from_secs(600);

const fn address(last: u8) -> Ipv4Addr {
    Ipv4Addr::new(10, 0, 3, last)
}

const fn station(last: u8) -> LinkAddress {
    LinkAddress([2, 0, 0, 0, 0, last])
}

/// What a server takes from a message (RFC 2131 §2).
struct Asked {
    call: u8,
    link: LinkAddress,
    /// The identifier, or the station's address.
    client: Vec<u8>,
    own: Ipv4Addr,
    wanted: Option<Ipv4Addr>,
    is_for_this: bool,
}

fn ipv4(bytes: &[u8]) -> Option<Ipv4Addr> {
    Some(Ipv4Addr::from(<[u8; 4]>::try_from(bytes).ok()?))
}

/// Reads a message; of several options of one number the last one holds. `None` if it has to have
/// no answer, and to change nothing.
fn read(message: &[u8]) -> Option<Asked> {
    let (fixed, mut rest) = message.split_at_checked(240)?;
    let link = LinkAddress(fixed[28..34].try_into().ok()?);
    if fixed[..3] != [1, 1, 6] || fixed[24..28] != [0; 4] || fixed[236..] != [99, 130, 83, 99] || !link.is_station() {
        return None;
    }
    let (mut call, mut client, mut wanted, mut server) = (0, &link.0[..], None, None);
    while let [number, behind @ ..] = rest {
        rest = match number {
            0 => behind,
            255 => break,
            _ => {
                let (length, behind) = behind.split_first()?;
                let (value, behind) = behind.split_at_checked(usize::from(*length))?;
                match number {
                    53 => call = <[u8; 1]>::try_from(value).ok()?[0],
                    50 => wanted = Some(ipv4(value)?),
                    54 => server = Some(ipv4(value)?),
                    61 => client = if (1..=32).contains(&value.len()) { value } else { &link.0 },
                    _ => {}
                }
                behind
            }
        };
    }
    let client = client.to_vec();
    let is_for_this = server.is_none_or(|server| server == OWN);
    let asked = Asked { call, link, client, own: ipv4(&fixed[12..16])?, wanted, is_for_this };
    [1, 3, 4, 7, 8].contains(&call).then_some(asked)
}

/// A client's message, with what the input says behind its options.
fn message(input: &mut Input<'_>) -> Vec<u8> {
    let (what, last) = (input.byte(), input.byte());
    let near = |choice: u8| match choice & 7 {
        0 => Ipv4Addr::UNSPECIFIED,
        1 => OWN,
        2 => Ipv4Addr::from([last; 4]),
        _ => address(FIRST.wrapping_add(last % 8).wrapping_sub(2)),
    };
    let mut bytes = vec![0; 240];
    bytes[..3].copy_from_slice(&[1, 1, 6]);
    bytes[4..8].copy_from_slice(&[what, last, 3, 4]);
    bytes[10] = what & 0x80;
    if what & 0x40 != 0 {
        bytes[12..16].copy_from_slice(&near(input.byte()).octets());
    }
    bytes[28..34].copy_from_slice(&station(input.byte() & 7).0);
    bytes[236..].copy_from_slice(&[99, 130, 83, 99]);
    bytes.extend([53, 1, [1, 3, 3, 4, 7, 8, 1, 3][usize::from(what & 7)]]);
    for (bit, number) in [(8, 50), (16, 54)] {
        if what & bit != 0 {
            bytes.extend([number, 4]);
            bytes.extend(near(input.byte()).octets());
        }
    }
    if what & 32 != 0 {
        let count = usize::from(input.byte());
        bytes.extend(input.bytes(count));
    }
    bytes
}

/// Who has an address, and until when.
type Held = BTreeMap<Ipv4Addr, (Vec<u8>, Instant)>;

/// Checks an answer, and remembers what it gives.
fn check(to: &Answer, answer: &[u8], asked: &Asked, transaction: &[u8], held: &mut Held, now: Instant) {
    let read = dhcp::Answer::parse(answer).expect("a client can read it");
    assert_eq!((&read.transaction.to_be_bytes()[..], read.link, read.server), (transaction, asked.link, OWN));
    let network = Cidr::new(OWN, 24).expect("24 of 32");
    let is_for_all = to.link == LinkAddress::BROADCAST && to.address.is_broadcast();
    let is_for_one = to.link == asked.link && network.contains(to.address) && !network.is_everybody(to.address);
    assert!(is_for_all || is_for_one, "{to:?}");
    assert_eq!(read.kind == Kind::Nak, read.lease.is_none() && asked.call == 3);
    // What a client hears that has its address from elsewhere gives none.
    if read.kind == Kind::Nak || asked.call == 8 {
        assert!(read.address.is_unspecified());
        return;
    }
    let reserved = RESERVED.iter().find(|(station, _)| *station == asked.link);
    match reserved {
        Some((_, reserved)) => assert_eq!(read.address, *reserved),
        None => {
            assert!((address(FIRST)..=address(LAST)).contains(&read.address) && read.address != RESERVED[1].1);
            let holder = held.get(&read.address).filter(|(client, until)| *client != asked.client && *until > now);
            assert_eq!(holder, None, "two have one address");
        }
    }
    if read.kind == Kind::Ack {
        held.retain(|_, (client, _)| *client != asked.client);
        held.insert(read.address, (asked.client.clone(), now + LEASE));
    }
}

fuzz_target!(|bytes: &[u8]| {
    let mut input = Input::new(bytes);
    let own = Cidr::new(OWN, 24).expect("24 of 32");
    let (first, last) = (address(FIRST), address(LAST));
    let lease = LEASE.as_secs() as u32;
    let settings = Settings { own, first, last, router: Some(ROUTER), name_server: Some(OWN), lease };
    let mut places = vec![Place::default(); usize::from(LAST - FIRST) + 1];
    let mut server = Server::new(settings, RESERVED, &mut places).expect("settings that can be used");
    let (mut now, mut held, mut buffer) = (Instant(1_000_000), Held::new(), [0; LONGEST_ANSWER]);
    while !input.is_over() {
        let message = match input.byte() & 7 {
            0 => {
                now = now + Duration::from_secs(1 << (input.byte() % 11));
                continue;
            }
            1 => {
                let count = 2 * usize::from(input.byte());
                input.bytes(count).to_vec()
            }
            _ => message(&mut input),
        };
        let answer = server.receive(&message, now, &mut buffer);
        let Some(asked) = read(&message) else {
            assert_eq!(answer, None, "to what is no message");
            continue;
        };
        // It has told that it has none, or not this one.
        match asked.call {
            3 if !asked.is_for_this => held.retain(|_, (client, _)| *client != asked.client),
            7 => held.retain(|_, (client, _)| *client != asked.client),
            4 if asked.is_for_this => {
                held.retain(|at, (client, _)| *client != asked.client || Some(*at) != asked.wanted)
            }
            _ => {}
        }
        if let Some(to) = answer {
            assert!(asked.call != 3 || !asked.own.is_unspecified() || asked.wanted.is_some());
            check(&to, &buffer[..to.length], &asked, &message[4..8], &mut held, now);
        }
        let in_range = |at: &Ipv4Addr| (first..=last).contains(at);
        let count = held.iter().filter(|(at, (_, until))| in_range(at) && *until > now).count();
        assert!(server.leased(now) <= count, "{} are leased, and {count} clients know it", server.leased(now));
    }
    now = now + LEASE.max(DECLINED);
    assert_eq!(server.leased(now), 0);
    let mut ask = |kind, wanted| {
        let (link, server_address) = (station(9), (kind == Kind::Request).then_some(OWN));
        let own = Ipv4Addr::UNSPECIFIED;
        let asked = Request { kind, transaction: 9, seconds: 0, link, own, wanted, server: server_address };
        let (mut message, mut buffer) = ([0; LONGEST], [0; LONGEST_ANSWER]);
        asked.write(&mut message).expect("it fits");
        let to = server.receive(&message, now, &mut buffer).expect("an answer");
        dhcp::Answer::parse(&buffer[..to.length]).expect("a client can read it")
    };
    let offer = ask(Kind::Discover, None);
    let grant = ask(Kind::Request, Some(offer.address));
    assert_eq!((offer.kind, grant.kind, grant.address), (Kind::Offer, Kind::Ack, offer.address));
});
