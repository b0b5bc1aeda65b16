//! Peers, stations and addresses that are no longer there, and what the application hears of that.

use super::lan::{Lan, echo};
use super::station::{ACK, Station};
use crate::stack::{Event, KeepAlive, Stack};
use core::time::Duration;

/// Asks after two seconds, and gives up a second after the second question.
const SOON: KeepAlive = KeepAlive { idle: Duration::from_secs(2), interval: Duration::from_secs(1), questions: 2 };

/// Echoes, and has silent peers be asked.
fn careful(stack: &mut Stack, event: Event) {
    if let Event::Opened { slot, .. } = event
        && let Some(mut stream) = stack.stream(slot)
    {
        stream.keep_alive(Some(SOON));
    }
    echo(stack, event);
}

/// A stack that serves two places, and one open connection.
fn served(server: super::lan::Server) -> (Lan, Station) {
    let mut lan = Lan::fixed(2);
    lan.server = server;
    lan.stack.listen(80);
    let mut station = Station::new(0);
    station.open(&mut lan);
    station.exchange(&mut lan, b"hello");
    (lan, station)
}

/// RFC 9293 §3.8.4: a peer that answers is kept, one that has vanished is not.
#[test]
fn a_vanished_peer_holds_no_place_for_ever() {
    let (mut lan, mut station) = served(careful);
    lan.pass(2200);
    assert!(matches!(station.receive(&mut lan)[..], [(ACK, ref payload)] if payload.is_empty()), "it is asked");
    station.seen = station.seen.wrapping_add(1);
    station.send(&mut lan, ACK, b"");
    lan.pass(3000);
    assert_eq!(lan.open.len(), 1, "it has answered");
    lan.pass(2500);
    assert!(lan.open.is_empty());
}

/// RFC 9293 §3.8.4, MUST-25: nobody is asked unless the application wants it.
#[test]
fn no_peer_is_asked_of_itself() {
    let (mut lan, mut station) = served(echo);
    lan.pass(30_000);
    assert!(station.receive(&mut lan).is_empty());
    assert_eq!(lan.open.len(), 1);
}
