//! Values of the types `ipv4` and `ipv6`, and of `ipv4-network` and `ipv6-network`: an address that
//! one host can have, alone or with the length of its network's prefix. Components get the text,
//! whose form is checked here.

use crate::problem::Problem;
use crate::reader::{Entry, Problems};
use std::net::{Ipv4Addr, Ipv6Addr};
use std::ops::RangeInclusive;
use std::str::FromStr;

/// An address of one version of IP.
pub trait Address: FromStr + Copy {
    /// The version, as messages call it.
    const VERSION: &'static str;
    /// What an address looks like.
    const EXAMPLE: &'static str;
    /// What an address with its network's prefix looks like.
    const NETWORK: &'static str;
    /// What is wrong with a text that is none.
    const FORM: &'static str;
    /// The lengths that a network's prefix can have.
    const LENGTHS: RangeInclusive<u32>;

    /// What it means, if one host of a network cannot have it.
    fn of_no_host(self) -> Option<&'static str>;

    /// Says why a host cannot have it in a network whose prefix is that long.
    fn check_in_network(self, length: u32) -> Result<(), String>;
}

impl Address for Ipv4Addr {
    const VERSION: &'static str = "IPv4";
    const EXAMPLE: &'static str = "10.0.0.1";
    const NETWORK: &'static str = "10.0.0.2/24";
    const FORM: &'static str = "an address is four numbers of 0 to 255";
    const LENGTHS: RangeInclusive<u32> = 0..=32;

    fn of_no_host(self) -> Option<&'static str> {
        // RFC 1122 §3.2.1.3, as stacks of IP have it.
        let [first, ..] = self.octets();
        match first {
            0 => Some("the network itself"),
            127 => Some("whoever uses it (loopback)"),
            224..240 => Some("a group"),
            240.. => Some("nothing, or all hosts"),
            _ => None,
        }
    }

    fn check_in_network(self, length: u32) -> Result<(), String> {
        // On a link of two hosts or one (RFC 3021) every address is a host's.
        let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
        if length <= 30 && [0, hosts].contains(&(self.to_bits() & hosts)) {
            let what = if self.to_bits() & hosts == 0 { "the network itself" } else { "all of its hosts" };
            return Err(format!("that address means {what}"));
        }
        Ok(())
    }
}

impl Address for Ipv6Addr {
    const VERSION: &'static str = "IPv6";
    const EXAMPLE: &'static str = "2001:db8::1";
    const NETWORK: &'static str = "2001:db8::1/64";
    const FORM: &'static str = "an address is up to eight hexadecimal numbers with colons";
    const LENGTHS: RangeInclusive<u32> = 1..=128;

    fn of_no_host(self) -> Option<&'static str> {
        match self.to_bits() >> 32 {
            _ if self.is_multicast() => Some("a group"),
            _ if self.is_unspecified() => Some("that there is none yet"),
            _ if self.is_loopback() => Some("whoever uses it (loopback)"),
            // RFC 4291 §2.5.5.
            0..=0xffff => Some("one of IPv4, within a host"),
            _ => None,
        }
    }

    fn check_in_network(self, _: u32) -> Result<(), String> {
        if self.is_unicast_link_local() {
            return Err("a component gives itself its link-local addresses".to_string());
        }
        Ok(())
    }
}

/// Reads an address, like `10.0.0.1`.
pub fn address<A: Address>(entry: &Entry<'_>, problems: &mut Problems) -> Option<String> {
    read(entry, &format!("an {} address", A::VERSION), A::EXAMPLE, check_address::<A>, problems)
}

/// Reads an address with the length of its network's prefix, like `10.0.0.2/24`.
pub fn network<A: Address>(entry: &Entry<'_>, problems: &mut Problems) -> Option<String> {
    let what = format!("an {} address with its network's prefix", A::VERSION);
    read(entry, &what, A::NETWORK, check_network::<A>, problems)
}

fn read(
    entry: &Entry<'_>,
    what: &str,
    example: &str,
    check: fn(&str) -> Result<(), String>,
    problems: &mut Problems,
) -> Option<String> {
    let text = entry.text(problems)?;
    let Err(why) = check(&text) else { return Some(text.value) };
    let key = &entry.key.value;
    problems.push(
        Problem::new(text.span, format!("`{}` is not {what}", text.value))
            .help(format!("{why}: write `{key} = \"{example}\"`, say")),
    );
    None
}

/// Says why a text is no address.
pub fn check_address<A: Address>(text: &str) -> Result<(), String> {
    if text.contains('/') {
        return Err("no prefix belongs here".to_string());
    }
    of_one_host::<A>(text).map(|_| ())
}

/// Says why a text is an address of neither version.
pub fn check_either(text: &str) -> Result<(), String> {
    if text.contains(':') { check_address::<Ipv6Addr>(text) } else { check_address::<Ipv4Addr>(text) }
}

fn check_network<A: Address>(text: &str) -> Result<(), String> {
    let Some((address, prefix)) = text.split_once('/') else {
        let missing = || "the length of the network's prefix is missing".to_string();
        return Err(of_one_host::<A>(text).err().unwrap_or_else(missing));
    };
    let address = of_one_host::<A>(address)?;
    let is_number = !prefix.is_empty() && prefix.bytes().all(|digit| digit.is_ascii_digit());
    let length = prefix.parse().ok().filter(|length| is_number && A::LENGTHS.contains(length));
    let (least, most) = A::LENGTHS.into_inner();
    address.check_in_network(length.ok_or(format!("the length of a prefix is {least} to {most}"))?)
}

/// The address, if one host can have it.
fn of_one_host<A: Address>(text: &str) -> Result<A, String> {
    let address: A = text.parse().map_err(|_| A::FORM.to_string())?;
    address.of_no_host().map_or(Ok(address), |what| Err(format!("that address means {what}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_hosts_pass() {
        for text in ["10.0.0.1", "198.18.0.2", "223.255.255.254"] {
            assert_eq!(check_address::<Ipv4Addr>(text), Ok(()), "{text}");
        }
        for text in ["10.0.0.2/24", "10.0.0.0/31", "10.0.0.1/32", "172.16.255.255/12", "1.2.3.4/0"] {
            assert_eq!(check_network::<Ipv4Addr>(text), Ok(()), "{text}");
        }
        for text in ["2001:db8::1", "fe80::1", "fd00::ff"] {
            assert_eq!(check_address::<Ipv6Addr>(text), Ok(()), "{text}");
        }
        for text in ["2001:db8::1/64", "fd00::1/48", "2001:db8::1/128"] {
            assert_eq!(check_network::<Ipv6Addr>(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn others_do_not() {
        for text in ["", "10.0.2.300", "10.0.2", "10.0.2.1/24", "0.0.0.0", "224.0.0.1", "255.255.255.255", "x", "::1"] {
            assert!(check_address::<Ipv4Addr>(text).is_err(), "{text}");
        }
        for text in ["", "dhcp", "10.0.0.2", "10.0.0.2/33", "10.0.0.2/", "10.0.0.2/+8", "10.0.0.0/24", "10.0.0.255/24"]
        {
            assert!(check_network::<Ipv4Addr>(text).is_err(), "{text}");
        }
        for text in ["", "10.0.0.1", "::", "::1", "ff02::1", "::ffff:10.0.0.1", "2001:db8::1/64", "2001:db8::g"] {
            assert!(check_address::<Ipv6Addr>(text).is_err(), "{text}");
        }
        for text in ["2001:db8::1", "2001:db8::1/0", "2001:db8::1/129", "2001:db8::1/", "fe80::1/64", "ff02::1/64"] {
            assert!(check_network::<Ipv6Addr>(text).is_err(), "{text}");
        }
    }
}
