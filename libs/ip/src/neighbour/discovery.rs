//! What a host does with the messages of neighbour discovery about neighbours (RFC 4861 §7.2), and
//! about its own addresses (RFC 4862 §5.4).

use super::{Advertised, Cache, NeighbourAdvertisement, NeighbourSolicitation};
use crate::{ALL_NODES, Instant, LinkAddress, solicited_node};
use core::net::{IpAddr, Ipv6Addr};

/// What an address is to this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Own {
    /// Not its own.
    No,
    /// It will be, if nobody else has it.
    Tentative,
    /// Its own.
    Yes,
}

/// What is to be done about a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Response {
    /// Nothing more.
    Nothing,
    /// This is to be sent.
    Answer(NeighbourAdvertisement),
    /// Somebody else has this address of the host's, or wants it too.
    Conflict(Ipv6Addr),
    /// The default routes by this neighbour have to go: it no longer is a router (§7.2.5).
    NoRouter(Ipv6Addr),
}

/// Takes a question that the station `link` has received and `own` knows the addresses of. What
/// this station itself has sent must not come here.
pub fn solicited<P, const WAITING: usize>(
    cache: &mut Cache<'_, P, WAITING>,
    question: &NeighbourSolicitation,
    own: impl Fn(Ipv6Addr) -> Own,
    link: LinkAddress,
    now: Instant,
) -> Response {
    let NeighbourSolicitation { source, target, .. } = *question;
    match own(target) {
        Own::No => return Response::Nothing,
        // Who asks without an address wants this one; who has an address is not answered yet
        // (RFC 4862 §5.4.3).
        Own::Tentative if source.is_unspecified() => return Response::Conflict(target),
        Own::Tentative => return Response::Nothing,
        Own::Yes => {}
    }
    if own(source) != Own::No {
        return Response::Nothing;
    }
    if let Some(station) = question.link {
        cache.heard(source.into(), station, true, now);
    }
    let is_solicited = !source.is_unspecified();
    Response::Answer(NeighbourAdvertisement {
        source: target,
        destination: if is_solicited { source } else { ALL_NODES },
        target,
        link: Some(link),
        is_router: false,
        is_solicited,
        overrides: true,
    })
}

/// Takes what a neighbour tells of itself.
pub fn advertised<P, const WAITING: usize>(
    cache: &mut Cache<'_, P, WAITING>,
    told: &NeighbourAdvertisement,
    own: impl Fn(Ipv6Addr) -> Own,
    now: Instant,
) -> Response {
    if own(told.target) != Own::No {
        return Response::Conflict(told.target);
    }
    let said = Advertised {
        address: told.target.into(),
        link: told.link,
        is_solicited: told.is_solicited,
        overrides: told.overrides,
        is_router: Some(told.is_router),
    };
    if cache.advertised(said, now) { Response::NoRouter(told.target) } else { Response::Nothing }
}

/// Returns the question that [`super::Action::Ask`] is about: of the station `link`, which has
/// `source`, for `target`, to everybody or to the station that had it.
pub fn question(
    source: Ipv6Addr,
    link: LinkAddress,
    target: Ipv6Addr,
    to: Option<LinkAddress>,
) -> NeighbourSolicitation {
    let destination = if to.is_some() { target } else { solicited_node(target) };
    NeighbourSolicitation { source, destination, target, link: Some(link) }
}

/// Returns the question whether anybody has `target` (RFC 4862 §5.4.2).
pub fn probe(target: Ipv6Addr) -> NeighbourSolicitation {
    let destination = solicited_node(target);
    NeighbourSolicitation { source: Ipv6Addr::UNSPECIFIED, destination, target, link: None }
}

/// Returns the station to which a packet for `destination` goes that is part of this protocol: a
/// group's own, or the neighbour's in `to`.
pub fn station(destination: Ipv6Addr, to: Option<LinkAddress>) -> Option<LinkAddress> {
    LinkAddress::of_group(IpAddr::V6(destination)).or(to)
}
