//! Lines that give packets another address: `nat` and `forward`.

use super::{Parser, clauses, end};
use crate::Problem;
use crate::Ranges;
use crate::rule::{Addresses, Family, Forward, Lender, Match, Nat};
use crate::token::{Line, Token};
use crate::values::{self, Span};
use crate::zone::{Zone, ZoneSet};
use alloc::format;
use core::net::Ipv4Addr;
use core::ops::Range;

/// The ports that source NAT gives if the rule says none: the upper half, since ports of services,
/// which are those that are forwarded, are seldom there.
const NAT_PORTS: (u16, u16) = (1 << 15, u16::MAX);

impl Parser {
    /// Reads what follows `nat`.
    pub(super) fn nat(&mut self, line: &mut Line<'_>) -> Result<(), Problem> {
        let clauses = self.clauses(line, &clauses::OF_NAT, Some("to"))?;
        let exits = clauses.exits.clone().ok_or_else(|| {
            Problem::new(line.span(), "this NAT does not say where packets go")
                .help("write `out` and the zone on whose side the addresses are known: `nat out outer to own`, say")
        })?;
        refuse_self(&exits, "what is for the router itself keeps its sender")?;
        refuse_v6(clauses.sources.as_ref())?;
        let mut matching = clauses.matching(line.span())?;
        restrict_to_v4(&mut matching, line.span())?;
        let to = self.lender(line)?;
        let ports = match line.take_if("ports") {
            Some(_) => {
                let token =
                    line.take().ok_or_else(|| line.missing("a range of ports", "write `ports 40000-65535`, say"))?;
                not_zero(&token, values::ports(&token)?)?
            }
            None => NAT_PORTS,
        };
        end(line)?;
        self.keep(line, matching.ranges())?;
        self.rules.nats.push(Nat { line: line.number, span: line.span(), matching, to, ports });
        self.fits(line, self.rules.nats.len())
    }

    /// Reads `to` and the addresses that NAT gives.
    fn lender(&self, line: &mut Line<'_>) -> Result<Lender, Problem> {
        let help = "write `to own` for the router's own address, or `to 192.0.2.1`, or `to 192.0.2.1-192.0.2.6`";
        if line.take_if("to").is_none() {
            return Err(Problem::new(line.span(), "this NAT has no addresses to give").help(help));
        }
        let token = line.take().ok_or_else(|| line.missing("the address that packets get", help))?;
        match token.text {
            "own" => return Ok(Lender::Own),
            "ports" => return Err(Problem::new(token.span(), "this NAT has ports and no addresses").help(help)),
            _ => {}
        }
        match values::addresses(&token)? {
            Span::V4(first, last) => Ok(Lender::Range(first.into(), last.into())),
            Span::V6(..) => Err(only_v4(token.span())),
        }
    }

    /// Reads what follows `forward`.
    pub(super) fn forward(&mut self, line: &mut Line<'_>) -> Result<(), Problem> {
        let clauses = self.clauses(line, &clauses::OF_FORWARD, Some("to"))?;
        let entries = clauses.entries.clone().ok_or_else(|| {
            let problem = Problem::new(line.span(), "this forwarding does not say where packets come from");
            problem.help("write `in` and the zone: `forward tcp in outer port 8080 to 10.0.0.1 port 80`, say")
        })?;
        refuse_self(&entries, "what the router sends itself is not forwarded")?;
        let ports = clauses.destination_ports.clone().ok_or_else(|| {
            Problem::new(line.span(), "this forwarding does not say which ports")
                .help("write `port 8080`, say, before `to`")
        })?;
        refuse_v6(clauses.sources.as_ref())?;
        refuse_v6(clauses.destinations.as_ref())?;
        let is_for_router = clauses.destinations.is_none();
        let mut matching = clauses.matching(line.span())?;
        restrict_to_v4(&mut matching, line.span())?;
        if is_for_router {
            matching.exits = ZoneSet::EMPTY.with(Zone::SELF);
        }
        if line.take_if("to").is_none() {
            return Err(line.missing("the new destination", "write `to 10.0.0.1`, say"));
        }
        let token = line.take().ok_or_else(|| line.missing("the new destination", "write `to 10.0.0.1`, say"))?;
        let to = match values::addresses(&token)? {
            Span::V4(first, last) if first == last => Ipv4Addr::from(first),
            Span::V4(..) => {
                let problem = Problem::new(token.span(), "packets can be forwarded to one address only");
                return Err(problem.help("write the one address, and a line for each other"));
            }
            Span::V6(..) => return Err(only_v4(token.span())),
        };
        let port = match line.take_if("port") {
            Some(word) => Some(new_port(line, &word, &ports)?),
            None => None,
        };
        end(line)?;
        self.keep(line, matching.ranges())?;
        self.rules.forwards.push(Forward { line: line.number, span: line.span(), matching, to, port });
        self.fits(line, self.rules.forwards.len())
    }
}

/// Reads the new port of a forwarding, which can be given if one port is forwarded.
fn new_port(line: &mut Line<'_>, word: &Token<'_>, ports: &(Ranges<u16>, Range<usize>)) -> Result<u16, Problem> {
    let token =
        line.take().ok_or_else(|| line.missing("the new port", "write `port 8080`, say, or leave `port` out"))?;
    let (first, last) = not_zero(&token, values::ports(&token)?)?;
    let is_one = matches!(ports.0.parts(), [(first, last)] if first == last);
    if is_one && first == last {
        return Ok(first);
    }
    let problem = Problem::new(word.start..token.span().end, "several ports cannot become others");
    let problem = problem.related(ports.1.clone(), "the ports that are forwarded");
    Err(problem.help("leave the new port out, so that each keeps its number, or write a line for each"))
}

/// Refuses a clause that names the router itself.
fn refuse_self(clause: &(ZoneSet, Range<usize>), why: &str) -> Result<(), Problem> {
    if clause.0.contains(Zone::SELF) {
        return Err(Problem::new(clause.1.clone(), format!("`self` cannot stand here: {why}")).help("name other zones"));
    }
    Ok(())
}

fn refuse_v6(clause: Option<&(Addresses, Range<usize>)>) -> Result<(), Problem> {
    match clause {
        Some((set, span)) if !set.is_all() && set.has(Family::V6) => Err(only_v4(span.clone())),
        _ => Ok(()),
    }
}

fn only_v4(span: Range<usize>) -> Problem {
    Problem::new(span, "addresses are translated in IPv4 only").help("leave addresses of IPv6 out")
}

/// Takes IPv6 out of what a rule is about.
fn restrict_to_v4(matching: &mut Match, span: Range<usize>) -> Result<(), Problem> {
    matching.sources.v6 = Ranges::EMPTY;
    matching.destinations.v6 = Ranges::EMPTY;
    matching.protocols = matching.protocols.only(Family::V4);
    if matching.has(Family::V4) { Ok(()) } else { Err(only_v4(span)) }
}

fn not_zero(token: &Token<'_>, ports: (u16, u16)) -> Result<(u16, u16), Problem> {
    if ports.0 == 0 {
        return Err(Problem::new(token.span(), "port 0 cannot be given").help("begin with 1 or more"));
    }
    Ok(ports)
}
