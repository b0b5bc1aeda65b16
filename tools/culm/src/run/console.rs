//! Reading of the console's output, as far as the tool needs it: how the run ended, what faulted,
//! what is served.

use std::net::Ipv4Addr;

/// Something that a line of the console tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sign {
    /// The system ended itself with this status.
    Halt(u64),
    /// The kernel gave up.
    Panic,
    /// The supervisor names the frames of a domain that faulted.
    Backtrace {
        /// The domain.
        domain: String,
        /// The program counter, then return addresses.
        addresses: Vec<u64>,
    },
    /// A domain says which address it was given.
    Address {
        /// The domain.
        domain: String,
        /// Its address.
        address: Ipv4Addr,
    },
    /// A domain says that it serves a port.
    Serves {
        /// The domain.
        domain: String,
        /// The guest's port.
        port: u16,
    },
}

/// Longest line that is looked at; what is longer is passed on, but tells nothing.
const LONGEST: usize = 4096;

/// Finds signs in the bytes of a console, in whatever pieces they come.
#[derive(Debug, Default)]
pub struct Watcher {
    line: Vec<u8>,
}

impl Watcher {
    /// Takes the next bytes; returns for each line that ends in them its end's position and its
    /// sign.
    pub fn feed(&mut self, bytes: &[u8]) -> Vec<(usize, Sign)> {
        let mut signs = Vec::new();
        for (position, &byte) in bytes.iter().enumerate() {
            if byte == b'\n' {
                let sign = sign(&String::from_utf8_lossy(&self.line));
                signs.extend(sign.map(|sign| (position + 1, sign)));
                self.line.clear();
            } else if self.line.len() < LONGEST {
                self.line.push(byte);
            }
        }
        signs
    }
}

/// The bytes that stand before a line of the log where a program has left the terminal in colours:
/// the virtualiser of the port puts them there.
const CANCEL: &str = "\x18\x1b[m\x1b(B\x0f";

fn sign(line: &str) -> Option<Sign> {
    let line = line.trim_end();
    let line = line.strip_prefix(CANCEL).unwrap_or(line);
    if let Some(status) = line.strip_prefix("culm: halt, status ") {
        return status.trim().parse().ok().map(Sign::Halt);
    }
    if line.starts_with("culm: panic: ") {
        return Some(Sign::Panic);
    }
    let (_, message) = split_log_line(line)?;
    if let Some(rest) = message.strip_prefix("backtrace ") {
        let (domain, addresses) = rest.split_once(": ")?;
        let hexadecimal = |word: &str| u64::from_str_radix(word.strip_prefix("0x")?, 16).ok();
        let addresses: Option<Vec<u64>> = addresses.split_whitespace().map(hexadecimal).collect();
        return Some(Sign::Backtrace { domain: domain.to_string(), addresses: addresses? });
    }
    let (domain, message) = split_log_line(line)?;
    if let Some(rest) = message.strip_prefix("address ") {
        let (address, _) = rest.split_once('/')?;
        return Some(Sign::Address { domain: domain.to_string(), address: address.parse().ok()? });
    }
    let (_, port) = message.split_once(" on port ")?;
    let digits = port.split(|c: char| !c.is_ascii_digit()).next()?;
    Some(Sign::Serves { domain: domain.to_string(), port: digits.parse().ok()? })
}

/// Name and message of a log line: `[   12.345678] info  http: message`.
fn split_log_line(line: &str) -> Option<(&str, &str)> {
    let (_, rest) = line.strip_prefix('[')?.split_once("] ")?;
    let (_level, rest) = rest.split_once(' ')?;
    rest.trim_start().split_once(": ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signs(text: &str) -> Vec<Sign> {
        Watcher::default().feed(text.as_bytes()).into_iter().map(|(_, sign)| sign).collect()
    }

    #[test]
    fn the_end_of_a_run_is_noticed() {
        assert_eq!(signs("culm: halt, status 3\r\n"), [Sign::Halt(3)]);
        assert_eq!(signs("culm: panic: out of luck (x.rs:1)\n"), [Sign::Panic]);
        assert_eq!(signs("[    1.000000] info  x: culm: halt, status 0\n"), [], "a component cannot end the run");
    }

    #[test]
    fn backtraces_and_ports_are_found_in_log_lines() {
        let line = "[    0.096003] error supervisor: backtrace uart0_virt: 0x200464 0x2008e4\n";
        let addresses = vec![0x20_0464, 0x20_08e4];
        assert_eq!(signs(line), [Sign::Backtrace { domain: "uart0_virt".into(), addresses }]);
        assert_eq!(signs(&format!("\x18\x1b[m\x1b(B\x0f{line}")), signs(line), "behind a console with colours");
        let line = "[    0.1] info  http: serves 12 files on port 80\r\n";
        assert_eq!(signs(line), [Sign::Serves { domain: "http".into(), port: 80 }]);
        let line = "[    0.2] info  http: address 10.0.2.16/24 by DHCP\r\n";
        let address = Ipv4Addr::new(10, 0, 2, 16);
        assert_eq!(signs(line), [Sign::Address { domain: "http".into(), address }]);
    }

    #[test]
    fn pieces_and_noise_do_no_harm() {
        let mut watcher = Watcher::default();
        assert_eq!(watcher.feed(b"\xff\xfe\nculm: halt, st"), []);
        assert_eq!(watcher.feed(b"atus 0\nmore"), [(7, Sign::Halt(0))]);
        assert_eq!(watcher.feed(&[b'x'; 100_000]), []);
        assert_eq!(signs("[] backtrace \n[1] error supervisor: backtrace x: 12 0x\n[1] on port \n"), []);
    }
}
