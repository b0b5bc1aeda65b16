//! What the tests of this crate have in common: servers that are made up, and messages.

mod forwarder;
mod message;
mod resolver;

use crate::message::{HEADER, kind};
use crate::{Name, PORT, Servers};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::vec::Vec;

const FIRST: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 53));
const SECOND: IpAddr = IpAddr::V4(Ipv4Addr::new(192, 0, 2, 54));

fn servers() -> Servers {
    Servers::new([FIRST, SECOND])
}

fn at_port_53(server: IpAddr) -> SocketAddr {
    SocketAddr::new(server, PORT)
}

fn name(text: &str) -> Name {
    text.parse().expect("a name")
}

/// A record of an answer: its owner, its type, how long it holds, its data.
struct Entry<'a>(&'a str, u16, u32, Vec<u8>);

impl Entry<'_> {
    fn write(&self, message: &mut Vec<u8>) {
        let Self(owner, kind, time, data) = self;
        message.extend(name(owner).as_bytes());
        message.extend(kind.to_be_bytes());
        message.extend([0, 1]);
        message.extend(time.to_be_bytes());
        message.extend((data.len() as u16).to_be_bytes());
        message.extend(data);
    }
}

fn address<'a>(owner: &'a str, last: u8, time: u32) -> Entry<'a> {
    Entry(owner, kind::A, time, std::vec![10, 0, 0, last])
}

fn alias<'a>(owner: &'a str, target: &str) -> Entry<'a> {
    Entry(owner, kind::CNAME, 60, name(target).as_bytes().to_vec())
}

/// The start of a zone, which says for how many seconds nothing else exists.
fn zone<'a>(owner: &'a str, minimum: u32) -> Entry<'a> {
    let mut data = std::vec![0, 0];
    data.extend([[0; 4]; 4].concat());
    data.extend(minimum.to_be_bytes());
    Entry(owner, kind::SOA, 3600, data)
}

/// Answers a question with a result, answers, and who is in charge. Of the question's additional
/// records nothing is left.
fn reply(question: &[u8], result: u8, answers: &[Entry<'_>], authorities: &[Entry<'_>]) -> Vec<u8> {
    let (_, end) = Name::read(question, HEADER).expect("a name");
    let mut message = question[..end + 4].to_vec();
    message[2] |= 0x80;
    message[3] = result;
    message[7] = answers.len() as u8;
    message[9] = authorities.len() as u8;
    message[11] = 0;
    answers.iter().chain(authorities).for_each(|entry| entry.write(&mut message));
    message
}
