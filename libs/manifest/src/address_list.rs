//! Values of the types `list-of-ipv4` and `list-of-ip`, addresses of hosts, and `list-of-station`,
//! stations with an address for each, like `"52:54:00:00:00:07 10.0.3.7"`. Components get the
//! texts, whose form is checked here.

use crate::address::{Address, check_address, check_either};
use crate::problem::{Located, Problem};
use crate::reader::{Entry, Problems};
use crate::units::parse_mac;
use std::net::Ipv4Addr;

/// What an element of a list of stations looks like.
const STATION: &str = "52:54:00:00:00:07 10.0.3.7";

/// Reads IPv4 addresses, none of them twice.
pub fn ipv4_addresses(entry: &Entry<'_>, problems: &mut Problems) -> Option<Vec<Located<String>>> {
    addresses(entry, "an IPv4 address", check_address::<Ipv4Addr>, problems)
}

/// Reads addresses of both versions of IP, none of them twice.
pub fn ip_addresses(entry: &Entry<'_>, problems: &mut Problems) -> Option<Vec<Located<String>>> {
    addresses(entry, "an IP address", check_either, problems)
}

fn addresses(
    entry: &Entry<'_>,
    what: &str,
    check: fn(&str) -> Result<(), String>,
    problems: &mut Problems,
) -> Option<Vec<Located<String>>> {
    let texts = entry.texts(problems)?;
    let before = problems.len();
    for text in &texts {
        if let Err(why) = check(text) {
            let problem = Problem::new(text.span.clone(), format!("`{}` is not {what}", text.value));
            problems.push(problem.help(format!("{why}: write `\"{}\"`, say", Ipv4Addr::EXAMPLE)));
        }
    }
    twice(&texts, |text| Some(text), "the address", problems);
    (problems.len() == before).then_some(texts)
}

/// Reads stations with their addresses; no station and no address is there twice.
pub fn stations(entry: &Entry<'_>, problems: &mut Problems) -> Option<Vec<Located<String>>> {
    let texts = entry.texts(problems)?;
    let before = problems.len();
    for text in &texts {
        if let Err(why) = check_station(text) {
            let message = format!("`{}` is not a station with its IPv4 address", text.value);
            problems.push(Problem::new(text.span.clone(), message).help(format!("{why}: write `\"{STATION}\"`, say")));
        }
    }
    twice(&texts, |text| text.split_once(' ').map(|(station, _)| station), "the station", problems);
    twice(&texts, station_address, "the address", problems);
    (problems.len() == before).then_some(texts)
}

/// The address of an element of a list of stations.
pub fn station_address(text: &str) -> Option<&str> {
    text.split_once(' ').map(|(_, address)| address)
}

fn check_station(text: &str) -> Result<(), String> {
    let (station, address) =
        text.split_once(' ').ok_or("a hardware address and an IPv4 address have a space between")?;
    let station = parse_mac(station).ok_or("a hardware address is six pairs of hexadecimal digits with colons")?;
    if station[0] & 1 != 0 || station == [0; 6] {
        return Err("no station has that hardware address".to_string());
    }
    check_address::<Ipv4Addr>(address)
}

/// Reports what several elements have in common, which `part` takes from each.
fn twice(texts: &[Located<String>], part: impl Fn(&str) -> Option<&str>, what: &str, problems: &mut Problems) {
    for (index, text) in texts.iter().enumerate() {
        let Some(own) = part(text) else { continue };
        let is_same = |other: &&Located<String>| part(other).is_some_and(|other| other.eq_ignore_ascii_case(own));
        if let Some(earlier) = texts.iter().take(index).find(is_same) {
            let problem = Problem::new(text.span.clone(), format!("{what} {own} is in the list twice"));
            problems.push(problem.related(earlier.span.clone(), "the other").help("leave one of them out"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_station_has_one_address_of_a_host() {
        assert_eq!(check_station(STATION), Ok(()));
        for text in [
            "",
            "10.0.3.7",
            "52:54:00:00:00:07",
            "52:54:00:00:00:07,10.0.3.7",
            "52:54:00:00:00:07  10.0.3.7",
            "10.0.3.7 52:54:00:00:00:07",
            "53:54:00:00:00:07 10.0.3.7",
            "00:00:00:00:00:00 10.0.3.7",
            "52:54:00:00:00:07 10.0.3.7/24",
            "52:54:00:00:00:07 224.0.0.1",
        ] {
            assert!(check_station(text).is_err(), "{text}");
        }
    }
}
