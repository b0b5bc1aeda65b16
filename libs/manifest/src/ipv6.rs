//! Values of the types `ipv6` and `ipv6-network`: addresses that a host can have. Components get
//! the text, whose form is checked here.

use crate::problem::Problem;
use crate::reader::{Entry, Problems};
use std::net::Ipv6Addr;

/// Reads an address like `2001:db8::1`.
pub fn address(entry: &Entry<'_>, problems: &mut Problems) -> Option<String> {
    read(entry, "an IPv6 address", "2001:db8::1", check_address, problems)
}

/// Reads an address with the length of its network's prefix, like `2001:db8::1/64`.
pub fn network(entry: &Entry<'_>, problems: &mut Problems) -> Option<String> {
    read(entry, "an IPv6 address with its network's prefix", "2001:db8::1/64", check_network, problems)
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

fn check_address(text: &str) -> Result<(), String> {
    if text.contains('/') {
        return Err("no prefix belongs here".to_string());
    }
    host(text).map(|_| ())
}

fn check_network(text: &str) -> Result<(), String> {
    let Some((address, prefix)) = text.split_once('/') else {
        return Err(host(text).err().unwrap_or_else(|| "the length of the network's prefix is missing".to_string()));
    };
    let address = host(address)?;
    if address.is_unicast_link_local() {
        return Err("a router gives itself its link-local addresses".to_string());
    }
    let is_number = !prefix.is_empty() && prefix.bytes().all(|digit| digit.is_ascii_digit());
    let length = prefix.parse::<u32>().ok().filter(|length| is_number && (1..=128).contains(length));
    length.map(|_| ()).ok_or_else(|| "the length of a prefix is 1 to 128".to_string())
}

/// The address, if one host can have it.
fn host(text: &str) -> Result<Ipv6Addr, String> {
    let address: Ipv6Addr =
        text.parse().map_err(|_| "an address is up to eight hexadecimal numbers with colons".to_string())?;
    // An address of IPv4 in one of IPv6 is for within hosts (RFC 4291 §2.5.5).
    if address.is_multicast() || address.to_bits() >> 32 <= 0xffff {
        return Err("no host has that address".to_string());
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_hosts_pass() {
        for text in ["2001:db8::1", "fe80::1", "fd00::ff"] {
            assert_eq!(check_address(text), Ok(()), "{text}");
        }
        for text in ["2001:db8::1/64", "fd00::1/48", "2001:db8::1/128"] {
            assert_eq!(check_network(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn others_do_not() {
        for text in ["", "10.0.0.1", "::", "::1", "ff02::1", "::ffff:10.0.0.1", "2001:db8::1/64", "2001:db8::g"] {
            assert!(check_address(text).is_err(), "{text}");
        }
        for text in ["2001:db8::1", "2001:db8::1/0", "2001:db8::1/129", "2001:db8::1/", "fe80::1/64", "ff02::1/64"] {
            assert!(check_network(text).is_err(), "{text}");
        }
    }
}
