//! Single values of rules: addresses, ports, types and protocols as they are written.

use crate::problem::nearest;
use crate::rule::{Family, Protocols, protocol};
use crate::token::Token;
use crate::{Number, Problem};
use alloc::format;
use alloc::vec::Vec;
use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use core::ops::Range;

/// Addresses of one family, from the first to the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Span {
    V4(u32, u32),
    V6(u128, u128),
}

/// Types of ICMP, by name (IANA's "ICMP Type Numbers").
const TYPES_4: [(&str, u8); 10] = [
    ("echo-reply", 0),
    ("destination-unreachable", 3),
    ("redirect", 5),
    ("echo-request", 8),
    ("router-advertisement", 9),
    ("router-solicitation", 10),
    ("time-exceeded", 11),
    ("parameter-problem", 12),
    ("timestamp-request", 13),
    ("timestamp-reply", 14),
];

/// Types of ICMPv6, by name (IANA's "ICMPv6 type Numbers").
const TYPES_6: [(&str, u8); 14] = [
    ("destination-unreachable", 1),
    ("packet-too-big", 2),
    ("time-exceeded", 3),
    ("parameter-problem", 4),
    ("echo-request", 128),
    ("echo-reply", 129),
    ("listener-query", 130),
    ("listener-report", 131),
    ("listener-done", 132),
    ("router-solicitation", 133),
    ("router-advertisement", 134),
    ("neighbor-solicitation", 135),
    ("neighbor-advertisement", 136),
    ("redirect", 137),
];

/// Protocols by name. Those of which the last is true have ports.
const PROTOCOLS: [(&str, u8, &[Family], bool); 8] = [
    ("tcp", protocol::TCP, &Family::ALL, true),
    ("udp", protocol::UDP, &Family::ALL, true),
    ("sctp", protocol::SCTP, &Family::ALL, true),
    ("icmp", protocol::ICMP, &[Family::V4], false),
    ("icmp6", protocol::ICMPV6, &[Family::V6], false),
    ("gre", protocol::GRE, &Family::ALL, false),
    ("esp", protocol::ESP, &Family::ALL, false),
    ("ah", protocol::AH, &Family::ALL, false),
];

/// Returns the names of protocols.
pub fn protocol_names() -> impl Iterator<Item = &'static str> + Clone {
    PROTOCOLS.iter().map(|(name, ..)| *name)
}

/// Returns `set` with the protocol of this name, and whether that has ports; `None` if no protocol
/// is called so.
pub fn with_protocol(set: Protocols, name: &str) -> Option<(Protocols, bool)> {
    let (_, number, families, has_ports) = PROTOCOLS.iter().find(|(known, ..)| *known == name)?;
    Some((families.iter().fold(set, |set, family| set.with(*family, *number)), *has_ports))
}

/// Returns whether the protocol of this number has ports, as [`crate::Key`] means it.
pub fn has_ports(number: u8) -> bool {
    PROTOCOLS.iter().any(|(_, known, _, has_ports)| *known == number && *has_ports)
}

/// Reads a number in decimal digits.
fn number<T: core::str::FromStr>(text: &str) -> Option<T> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) { text.parse().ok() } else { None }
}

/// Reads an address, a prefix or a range of addresses.
pub fn addresses(token: &Token<'_>) -> Result<Span, Problem> {
    let text = token.text;
    let wrong = || {
        let problem = Problem::new(token.span(), format!("`{text}` is neither an address nor the name of a group"));
        problem.help("write `10.0.0.1`, `10.0.0.0/8`, `10.0.0.1-10.0.0.9`, the same of IPv6, or `any`")
    };
    if let Some((address, length)) = text.split_once('/') {
        let length: u32 = number(length).ok_or_else(wrong)?;
        return match address.parse().map_err(|_| wrong())? {
            IpAddr::V4(address) => prefix_4(token, address, length),
            IpAddr::V6(address) => prefix_6(token, address, length),
        };
    }
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (first, last) = (first.parse().map_err(|_| wrong())?, last.parse().map_err(|_| wrong())?);
    match (first, last) {
        (IpAddr::V4(first), IpAddr::V4(last)) if first <= last => Ok(Span::V4(first.into(), last.into())),
        (IpAddr::V6(first), IpAddr::V6(last)) if first <= last => span_6(token, first.into(), last.into()),
        (IpAddr::V4(_), IpAddr::V4(_)) | (IpAddr::V6(_), IpAddr::V6(_)) => {
            let problem = Problem::new(token.span(), format!("`{text}` is a range without addresses"));
            Err(problem.help(format!("its last address is before its first: write `{last}-{first}`")))
        }
        _ => Err(Problem::new(token.span(), format!("`{text}` begins in one family and ends in the other"))
            .help("make a range of IPv4 and one of IPv6")),
    }
}

fn prefix_4(token: &Token<'_>, address: Ipv4Addr, length: u32) -> Result<Span, Problem> {
    let first = u32::from(address);
    let rest = match length {
        0..32 => u32::MAX >> length,
        32 => 0,
        _ => return Err(too_long(token, 32)),
    };
    if first & rest != 0 {
        return Err(host_bits(token, &format!("{}/{length}", Ipv4Addr::from(first & !rest)), &format!("{address}")));
    }
    Ok(Span::V4(first, first | rest))
}

fn prefix_6(token: &Token<'_>, address: Ipv6Addr, length: u32) -> Result<Span, Problem> {
    let first = u128::from(address);
    let rest = match length {
        0..128 => u128::MAX >> length,
        128 => 0,
        _ => return Err(too_long(token, 128)),
    };
    if first & rest != 0 {
        return Err(host_bits(token, &format!("{}/{length}", Ipv6Addr::from(first & !rest)), &format!("{address}")));
    }
    span_6(token, first, first | rest)
}

/// Refuses a part of the addresses that stand for those of IPv4 (RFC 4291 §2.5.5.2): whoever writes
/// one means the packets of IPv4, which have no such address. All of them are in lists of addresses
/// that nobody may have.
fn span_6(token: &Token<'_>, first: u128, last: u128) -> Result<Span, Problem> {
    const MAPPED: (u128, u128) = (0xffff_0000_0000, 0xffff_ffff_ffff);
    if MAPPED.0 <= first && last <= MAPPED.1 && (first, last) != MAPPED {
        let problem = Problem::new(token.span(), format!("`{}` is an address of IPv4 in the form of IPv6", token.text));
        return Err(problem.help("packets of IPv4 do not have that: write it as `10.0.0.1`, say"));
    }
    Ok(Span::V6(first, last))
}

fn too_long(token: &Token<'_>, longest: u32) -> Problem {
    let problem = Problem::new(token.span(), format!("the prefix of `{}` is too long", token.text));
    problem.help(format!("it has {longest} bits at most"))
}

fn host_bits(token: &Token<'_>, network: &str, host: &str) -> Problem {
    let problem = Problem::new(token.span(), format!("`{}` has bits behind its prefix", token.text));
    problem.help(format!("write `{network}` for the network, or `{host}` for the one address"))
}

/// Reads a port or a range of ports.
pub fn ports(token: &Token<'_>) -> Result<(u16, u16), Problem> {
    let text = token.text;
    let (first, last) = text.split_once('-').unwrap_or((text, text));
    let (Some(first), Some(last)) = (number::<u16>(first), number::<u16>(last)) else {
        let problem = Problem::new(token.span(), format!("`{text}` is neither a port nor the name of a group"));
        return Err(problem.help("write a number from 0 to 65535, or a range such as `8000-8099`"));
    };
    if first > last {
        let problem = Problem::new(token.span(), format!("`{text}` is a range without ports"));
        return Err(problem.help(format!("its last port is before its first: write `{last}-{first}`")));
    }
    Ok((first, last))
}

/// Reads the number of a protocol.
pub fn protocol_number(token: &Token<'_>) -> Result<u8, Problem> {
    number(token.text).ok_or_else(|| {
        let problem = Problem::new(token.span(), format!("`{}` is not the number of a protocol", token.text));
        let is_name = protocol_names().any(|name| name == token.text);
        problem.help(match is_name {
            true => "leave `protocol` out before a name",
            false => "write a number from 0 to 255",
        })
    })
}

/// Reads a type of ICMP (`family` IPv4) or ICMPv6, by name or number.
pub fn icmp_type(token: &Token<'_>, family: Family) -> Result<(u16, u16), Problem> {
    let (names, protocol): (&[(&str, u8)], _) = match family {
        Family::V4 => (&TYPES_4, "ICMP"),
        Family::V6 => (&TYPES_6, "ICMPv6"),
    };
    let named = names.iter().find(|(name, _)| *name == token.text).map(|(_, value)| *value);
    if let Some(value) = named.or_else(|| number(token.text)) {
        return Ok((value.into(), value.into()));
    }
    let problem = Problem::new(token.span(), format!("`{}` is not a type of {protocol}", token.text));
    Err(match nearest(token.text, names.iter().map(|(name, _)| *name)) {
        Some(name) => problem.help(format!("did you mean `{name}`?")),
        None => problem.help("write its number, from 0 to 255, or a name such as `echo-request`"),
    })
}

/// Returns the problem of two parts of a list that have a number in common, if there are such.
pub fn overlap<T: Number>(parts: &[(T, T, Range<usize>)]) -> Option<Problem> {
    let mut sorted: Vec<_> = parts.iter().collect();
    sorted.sort_by_key(|(first, ..)| *first);
    let mut widest: Option<&(T, T, Range<usize>)> = None;
    for part in sorted {
        if let Some(before) = widest.filter(|before| part.0 <= before.1) {
            let (earlier, later) = if before.2.start < part.2.start { (before, part) } else { (part, before) };
            let what = if (earlier.0, earlier.1) == (later.0, later.1) {
                "is in this list twice"
            } else {
                "overlaps another part of this list"
            };
            let problem = Problem::new(later.2.clone(), format!("this {what}"));
            return Some(problem.related(earlier.2.clone(), "the other").help("leave one of them out, or join them"));
        }
        if widest.is_none_or(|before| before.1 < part.1) {
            widest = Some(part);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn token(text: &str) -> Token<'_> {
        Token { text, start: 3 }
    }

    #[test]
    fn addresses_are_read() {
        let read = |text| addresses(&token(text)).expect("addresses");
        assert_eq!(read("10.0.0.0/8"), Span::V4(0x0a00_0000, 0x0aff_ffff));
        assert_eq!(read("0.0.0.0/0"), Span::V4(0, u32::MAX));
        assert_eq!(read("1.2.3.4/32"), read("1.2.3.4"));
        assert_eq!(read("1.2.3.4-1.2.4.0"), Span::V4(0x0102_0304, 0x0102_0400));
        assert_eq!(read("::/0"), Span::V6(0, u128::MAX));
        assert_eq!(read("fe80::1/128"), read("fe80::1"));
        assert_eq!(read("::1-::5"), Span::V6(1, 5));
        assert_eq!(read("::ffff:0:0/96"), Span::V6(0xffff_0000_0000, 0xffff_ffff_ffff));
    }

    #[test]
    fn what_is_no_address_is_refused() {
        for text in [
            "::ffff:10.0.0.1",
            "::ffff:10.0.0.0/104",
            "::ffff:1.1.1.1-::ffff:1.1.1.9",
            "",
            "/",
            "-",
            "10.0.0",
            "10.0.0.0/",
            "10.0.0.0/33",
            "10.0.0.1/8",
            "::1/129",
            "::1/64",
            "1.1.1.1-::5",
        ] {
            assert_eq!(addresses(&token(text)).expect_err(text).span, 3..3 + text.len());
        }
        let problem = addresses(&token("10.0.0.9-10.0.0.1")).expect_err("it has no addresses");
        assert_eq!(problem.message, "`10.0.0.9-10.0.0.1` is a range without addresses");
        assert!(addresses(&token("1.1.1.1-1.1.1.2-1.1.1.3")).is_err() && addresses(&token("1.0.0.0/+8")).is_err());
    }

    #[test]
    fn ports_types_and_protocols_are_read() {
        assert_eq!(ports(&token("0-65535")), Ok((0, 65535)));
        assert!(["65536", "", "-", "1-", "+1", "9-8"].iter().all(|text| ports(&token(text)).is_err()));
        assert_eq!(icmp_type(&token("echo-request"), Family::V4), Ok((8, 8)));
        assert_eq!(icmp_type(&token("echo-request"), Family::V6), Ok((128, 128)));
        assert_eq!(icmp_type(&token("255"), Family::V6), Ok((255, 255)));
        assert!(
            icmp_type(&token("256"), Family::V4).is_err() && icmp_type(&token("packet-too-big"), Family::V4).is_err()
        );
        assert_eq!(protocol_number(&token("132")), Ok(132));
        assert!(protocol_number(&token("256")).is_err() && protocol_number(&token("tcp")).is_err());
        assert!(has_ports(6) && has_ports(132) && !has_ports(1) && !has_ports(0));
    }

    #[test]
    fn overlaps_are_found_wherever_they_are() {
        let list = |parts: &[(u16, u16)]| -> Vec<_> {
            parts.iter().enumerate().map(|(at, (first, last))| (*first, *last, at..at + 1)).collect()
        };
        assert_eq!(overlap(&list(&[(5, 9), (1, 4), (10, 20)])), None);
        let problem = overlap(&list(&[(30, 30), (1, 20), (3, 4), (18, 19)])).expect("two are in the second");
        assert_eq!((problem.span, problem.related[0].0.clone()), (2..3, 1..2));
        let problem = overlap(&list(&[(5, 5), (1, 1), (5, 5)])).expect("one is there twice");
        assert_eq!((problem.span, problem.message.as_str()), (2..3, "this is in this list twice"));
    }
}
