//! Several guests at a time: packets from one to another, through a switch without a card, over a
//! link with nothing in between, and through a card of each and a bridge of the host's; and what a
//! packet costs as more of them share a card.
//!
//! They are small Linuxes, each on an emulated core of its own.

use super::echo::{self, Pressure};
use super::growth::client_targets;
use super::guest::{BENCH, marked};
use super::marks::wait;
use crate::lab::{Lab, Setup};
use crate::linux;
use crate::results::{Results, Side};
use crate::systems::{Guests, Joint, client_address};
use anyhow::Result;
use culm_bench_guest::pair::{PAIR, Pair};
use culm_bench_load::Mode;
use serde_json::json;
use std::net::SocketAddr;
use std::time::Duration;

/// How many guests share the card.
const COUNTS: [u8; 4] = [1, 2, 3, 4];

/// Packets under way for each of them.
const WINDOW: usize = 16;

/// For each Linux to start its server; the emulated cores may share a core of the host.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the rows.
pub fn run(lab: &Lab, results: &mut Results) {
    lab.attempt(BENCH, "pair", || pair(lab, results, Joint::Switch, "pair"));
    lab.attempt(BENCH, "link", || pair(lab, results, Joint::Link, "link"));
    lab.attempt(BENCH, "cards", || pair(lab, results, Joint::Cards, "cards"));
    for (pair, beginning) in PAIR.iter().flat_map(|pair| [(pair, "pair"), (pair, "link")]) {
        let row = row_of(pair, beginning);
        let time = |row: &str| results.figure(Side::Culm, BENCH, row, "ns/packet");
        if let Some((cards, own)) = time(&row_of(pair, "cards")).zip(time(&row)) {
            results.amend(Side::Culm, BENCH, &row, "throughput to that through cards", cards / own);
        }
    }
    lab.attempt(BENCH, "guests", || sharing(lab, results));
}

/// The row of a pair with another beginning of its name.
fn row_of(pair: &Pair, beginning: &str) -> String {
    pair.row.replacen("pair", beginning, 1)
}

/// A Linux asks the echo server of another, through what joins them.
fn pair(lab: &Lab, results: &mut Results, joint: Joint, beginning: &str) -> Result<()> {
    let row = |pair: &Pair| row_of(pair, beginning);
    if !PAIR.iter().any(|pair| lab.wants(BENCH, &row(pair))) {
        return Ok(());
    }
    let name = format!("bench-guests-{beginning}");
    let ask = format!("ask={}", client_address(0));
    let guests = Guests { name: &name, count: 2, joint, last: &ask };
    let setup = Setup { beside: joint == Joint::Cards, ..Setup::default() };
    let (mut machine, image) = lab.start_guests(&guests, &setup)?;
    if joint == Joint::Cards {
        machine.network.join()?;
    }
    let marks = wait(&mut machine, PAIR.len())?;
    let subject = lab.wait_until_quiet(machine, Some(image))?;
    for pair in PAIR.iter().filter(|pair| lab.wants(BENCH, &row(pair))) {
        if let Some((sample, mut params)) = marked(&subject, &marks, pair.number, "packet") {
            params.extend([("size".to_owned(), json!(pair.size)), ("window".to_owned(), json!(pair.window))]);
            results.record(Side::Culm, BENCH, &row(pair), &params, sample);
        }
    }
    Ok(())
}

/// The row of so many guests that share the card.
fn row(count: u8) -> String {
    format!("guests-{count}")
}

/// The echo servers of one guest and of more that share its card. All are measured if one is
/// wanted, since each is compared with the first.
fn sharing(lab: &Lab, results: &mut Results) -> Result<()> {
    if !COUNTS.iter().any(|count| lab.wants(BENCH, &row(*count))) {
        return Ok(());
    }
    let mut first = None;
    for count in COUNTS {
        let name = format!("bench-guests-{count}");
        let guests = Guests { name: &name, count, joint: Joint::Card, last: "" };
        let (mut machine, image) = lab.start_guests(&guests, &Setup::default())?;
        for guest in 0..count {
            machine.wait_for(&format!("{} {}", linux::READY, client_address(guest)), PATIENCE)?;
        }
        let mut subject = lab.wait_until_quiet(machine, Some(image))?;
        let Some(targets) = client_targets(lab, &subject.machine.network, count)? else { return Ok(()) };
        let pressure = |targets: &[SocketAddr]| Pressure {
            targets: targets.to_vec(),
            size: 64,
            mode: Mode::Window(WINDOW * targets.len()),
        };
        let mut sample = echo::measure(lab, &mut subject, &pressure(&targets))?;
        let cost = sample.figures.get("instructions/packet").copied().unwrap_or(f64::NAN);
        sample.set("cost to one guest's", cost / *first.get_or_insert(cost));
        if count > 1 {
            // The first one alone, in the same machine.
            let alone = echo::measure(lab, &mut subject, &pressure(&targets[..1]))?;
            if let (Some(all), Some(one)) = (sample.figures.get("packets/s"), alone.figures.get("packets/s")) {
                sample.set("throughput to one guest's", all / one);
            }
        }
        results.record(Side::Culm, BENCH, &row(count), &[("guests".to_owned(), json!(count))].into(), sample);
    }
    Ok(())
}
