//! Values of the type `list-of-service`: hosts' names or addresses, each with a port, like
//! `"www.example:7"` or `"[2001:db8::1]:7"`. Components get the texts, whose form is checked here.

use crate::address::check_either;
use crate::problem::{Located, Problem};
use crate::reader::{Entry, Problems};
use std::net::SocketAddr;

/// Bytes of the longest name, and of the longest label in it (RFC 1035 §2.3.4).
const LONGEST: (usize, usize) = (253, 63);

/// Reads services.
pub fn services(entry: &Entry<'_>, problems: &mut Problems) -> Option<Vec<Located<String>>> {
    let texts = entry.texts(problems)?;
    let before = problems.len();
    for text in &texts {
        if let Err(why) = check(text) {
            let problem = Problem::new(text.span.clone(), format!("`{}` is not a service", text.value));
            let help = "write a name or an address, a colon and a port, `\"www.example:7\"` or `\"[2001:db8::1]:7\"`";
            problems.push(problem.help(format!("{why}: {help}")));
        }
    }
    (problems.len() == before).then_some(texts)
}

fn check(text: &str) -> Result<(), String> {
    if let Ok(address) = text.parse::<SocketAddr>() {
        check_either(&address.ip().to_string())?;
        return check_port(&address.port().to_string());
    }
    let (host, port) = text.rsplit_once(':').ok_or("the port is missing")?;
    check_port(port)?;
    if host.contains([':', '[', ']']) {
        return Err("an IPv6 address is up to eight hexadecimal numbers with colons, in brackets".to_string());
    }
    // Digits and dots alone look like an address, and are none.
    if !host.bytes().any(|byte| byte.is_ascii_alphabetic()) {
        check_either(host)?;
    }
    let name = host.strip_suffix('.').unwrap_or(host);
    let is_label =
        |label: &str| (1..=LONGEST.1).contains(&label.len()) && label.bytes().all(|byte| byte.is_ascii_graphic());
    if name.len() > LONGEST.0 || !name.split('.').all(is_label) {
        return Err(format!("a name is of labels of 1 to {} characters, {} with their dots", LONGEST.1, LONGEST.0));
    }
    Ok(())
}

fn check_port(text: &str) -> Result<(), String> {
    match text.parse::<u16>() {
        Ok(1..) => Ok(()),
        _ => Err("a port is 1 to 65535".to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_service_is_a_host_and_a_port() {
        let (label, long) = ("a".repeat(63), ["a"; 127].join("."));
        let names = [format!("{label}.example:1"), format!("{long}:65535")];
        for text in ["www.example:7", "www.example.:7", "192.0.2.1:80", "[2001:db8::1]:7", "7up:7"] {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in &names {
            assert_eq!(check(text), Ok(()), "{text}");
        }
        for text in [
            "",
            "www.example",
            "www.example:",
            "www.example:0",
            "www.example:65536",
            "192.0.2:7",
            "192.0.2.300:7",
            "127.0.0.1:7",
            "[::1]:7",
            "[ff02::1]:7",
            "2001:db8::1",
            "2001:db8::1:7",
            "a..b:7",
            "a b:7",
            ":7",
        ] {
            assert!(check(text).is_err(), "{text}");
        }
        for text in [format!("a{label}.example:1"), format!("{long}.a:1")] {
            assert!(check(&text).is_err(), "{text}");
        }
    }
}
