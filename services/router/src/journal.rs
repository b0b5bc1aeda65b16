//! The log of packets that rules with `log` are about, a bounded number of lines a second.

use crate::networks::Networks;
use crate::policy::Judgement;
use crate::router::milliseconds;
use core::fmt;
use culm_firewall::Action;
use culm_flow::{ICMP, ICMP6, Key, Limits, Packet, Rate, SCTP, TCP, Tuple, UDP};
use culm_ip::Instant;

/// Lines about one sender, so that it hides nobody else's.
const EACH: Rate = Rate { per_second: 2, burst: 10 };

/// Writes lines, as often as it may.
#[derive(Debug)]
pub struct Journal {
    limits: Limits,
    /// Packets that no line was written for since the last one.
    left_out: u64,
}

impl Journal {
    /// A journal of so many lines a second. The key is of random bits.
    pub fn new(key: Key, per_second: u32) -> Self {
        Self { limits: Limits::new(key, EACH, Rate { per_second, burst: per_second.saturating_mul(2) }), left_out: 0 }
    }

    /// Tells of a packet from the network `entry` to `exit`, which is `None` if that is the router.
    #[allow(clippy::too_many_arguments, reason = "all that is told of a packet")]
    #[cold]
    pub fn tell(
        &mut self,
        networks: &Networks,
        judgement: &Judgement,
        packet: &Packet,
        tuple: &Tuple,
        entry: usize,
        exit: Option<usize>,
        now: Instant,
    ) {
        if !self.limits.take(packet.source, milliseconds(now)) {
            self.left_out += 1;
            return;
        }
        if self.left_out > 0 {
            culm::info!("{} packets more were not logged", self.left_out);
            self.left_out = 0;
        }
        let name = |network: usize| networks.get(network).map_or("?", |network| network.name);
        let what = match judgement.outcome.action {
            Action::Allow => "allowed",
            Action::Deny => "denied",
            Action::Reject => "rejected",
        };
        let (from, to) = (name(entry), exit.map_or("self", name));
        culm::info!("{what} by {}: {} in {from} out {to}", Line(judgement.line), Ends(tuple));
    }
}

/// The line of a rule.
struct Line(u32);

impl fmt::Display for Line {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            0 => formatter.write_str("default"),
            line => write!(formatter, "line {line}"),
        }
    }
}

/// Protocol, addresses and ports, as rules have them.
struct Ends<'a>(&'a Tuple);

impl fmt::Display for Ends<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tuple { protocol, source, destination, source_port, destination_port } = *self.0;
        match protocol {
            TCP | UDP | SCTP => {
                let name = match protocol {
                    TCP => "tcp",
                    UDP => "udp",
                    _ => "sctp",
                };
                write!(
                    formatter,
                    "{name} from {source} source-port {source_port} to {destination} port {destination_port}"
                )
            }
            ICMP => write!(formatter, "icmp from {source} to {destination}"),
            ICMP6 => write!(formatter, "icmp6 from {source} to {destination}"),
            other => write!(formatter, "protocol {other} from {source} to {destination}"),
        }
    }
}
