//! Values of the types `ipv4` and `ipv4-network`: addresses that a host can have. Components get
//! the text, whose form is checked here.

use crate::problem::Problem;
use crate::reader::{Entry, Problems};
use std::net::Ipv4Addr;

/// Reads an address like `10.0.0.1`.
pub fn address(entry: &Entry<'_>, problems: &mut Problems) -> Option<String> {
    read(entry, "an IPv4 address", "10.0.0.1", check_address, problems)
}

/// Reads an address with the length of its network's prefix, like `10.0.0.2/24`.
pub fn network(entry: &Entry<'_>, problems: &mut Problems) -> Option<String> {
    read(entry, "an IPv4 address with its network's prefix", "10.0.0.2/24", check_network, problems)
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
    let address = u32::from(host(address)?);
    let is_number = !prefix.is_empty() && prefix.bytes().all(|digit| digit.is_ascii_digit());
    let length = prefix.parse::<u32>().ok().filter(|length| is_number && *length <= 32);
    let length = length.ok_or("the length of a prefix is 0 to 32")?;
    // On a link of two hosts or one (RFC 3021) every address is a host's.
    let hosts = u32::MAX.checked_shr(length).unwrap_or(0);
    if length <= 30 && [0, hosts].contains(&(address & hosts)) {
        let what = if address & hosts == 0 { "the network itself" } else { "all of its hosts" };
        return Err(format!("that address means {what}"));
    }
    Ok(())
}

/// The address, if one host can have it.
fn host(text: &str) -> Result<Ipv4Addr, String> {
    let address: Ipv4Addr = text.parse().map_err(|_| "an address is four numbers of 0 to 255".to_string())?;
    if address.is_unspecified() || address.is_broadcast() || address.is_multicast() {
        return Err("no host has that address".to_string());
    }
    Ok(address)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_hosts_pass() {
        for text in ["10.0.0.1", "198.18.0.2", "127.0.0.1"] {
            assert_eq!(check_address(text), Ok(()), "{text}");
        }
        for text in ["10.0.0.2/24", "10.0.0.0/31", "10.0.0.1/32", "172.16.255.255/12", "1.2.3.4/0"] {
            assert_eq!(check_network(text), Ok(()), "{text}");
        }
    }

    #[test]
    fn others_do_not() {
        for text in ["", "10.0.2.300", "10.0.2", "10.0.2.1/24", "0.0.0.0", "224.0.0.1", "255.255.255.255", "x", "::1"] {
            assert!(check_address(text).is_err(), "{text}");
        }
        for text in ["", "dhcp", "10.0.0.2", "10.0.0.2/33", "10.0.0.2/", "10.0.0.2/+8", "10.0.0.0/24", "10.0.0.255/24"]
        {
            assert!(check_network(text).is_err(), "{text}");
        }
    }
}
