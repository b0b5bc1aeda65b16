//! Packets that go through the machine, from one network card to another: what each costs, and what
//! becomes of them where more come than can pass.
//!
//! The load is in one namespace, the far end in another, and the only way between them is the
//! machine: a switch, or a router with more or fewer rules. In a closed loop the far end sends each
//! packet back, so that two pass for each answer. Packets of many flows and those beyond saturation
//! go one way, so that answers are not in the way of questions: what is counted is what the machine
//! has taken, and what the far end's device has received.

mod guests;
mod loads;

use crate::lab::{Lab, Setup, Subject};
use crate::linux::Variant;
use crate::linux::gateway::Way;
use crate::results::{Params, Results, Sample, Side};
use crate::systems::{Router, System};
use anyhow::{Result, bail};
use culm_bench_load::spray::{Kind, MOST_FLOWS};
use loads::{Far, WINDOW};
use serde_json::json;

const BENCH: &str = "gateway";

/// The peer of all rows.
const PEER: Side = Side::Peer(Variant::NoKaslr.name());

/// What is done with a way through the machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Work {
    /// A closed loop of packets of so many bytes of payload.
    Loop(usize),
    /// A connection that carries as many bytes as it can.
    Bulk,
    /// Packets one way, up to four times of what passes.
    Overload,
    /// Packets of so many flows in turn.
    Flows(u64),
    /// Packets that begin a flow each, in a table that has room.
    New,
    /// TCP connections that begin and end.
    Connections,
    /// First segments of TCP connections that nobody answers, in a table that is full.
    Flood,
}

use Work::{Bulk, Connections, Flood, Flows, Loop, New, Overload};

impl Work {
    /// How the name of its row ends.
    fn name(self) -> String {
        match self {
            Loop(size) => format!("{size}-w{WINDOW}"),
            Bulk => "bulk".to_owned(),
            Overload => "64-overload".to_owned(),
            Flows(count) => format!("{count}"),
            New => "new".to_owned(),
            Connections => "connection".to_owned(),
            Flood => "flood".to_owned(),
        }
    }

    fn params(self) -> Params {
        let size = ("size".to_owned(), json!(if let Loop(size) = self { size } else { 64 }));
        match self {
            Loop(_) => [size, ("window".to_owned(), json!(WINDOW))].into(),
            Flows(count) => [size, ("flows".to_owned(), json!(count))].into(),
            Overload | New => [size].into(),
            Bulk | Connections | Flood => Params::new(),
        }
    }

    /// What is counted.
    fn unit(self) -> &'static str {
        match self {
            Bulk => "instructions/MiB",
            Connections => "instructions/connection",
            Loop(_) | Overload | Flows(_) | New | Flood => "instructions/packet",
        }
    }
}

/// What Culm has between two networks.
enum Between {
    /// Components.
    System(System),
    /// Two small Linuxes, each with one of the cards and a core, and a link between them. Their
    /// cores are not to take turns on one of the host's, and neither are those of their peer.
    Guests,
}

impl Between {
    fn boot(&self, lab: &Lab, setup: &Setup) -> Result<Subject> {
        match self {
            Between::System(system) => lab.boot_culm(system, setup),
            Between::Guests => guests::boot(lab, setup),
        }
    }
}

/// Something between two networks, and Linux in its place.
struct Gateway {
    /// How names of its rows begin.
    name: &'static str,
    culm: Between,
    linux: Way,
    /// Flows that it knows at most, where it is a router.
    flows: u32,
    work: &'static [Work],
}

impl Gateway {
    /// A router that has rules.
    fn firewall(name: &'static str, router: Router, work: &'static [Work]) -> Gateway {
        let Router { rules, nat, flows, .. } = router;
        Gateway {
            name,
            culm: Between::System(router.system()),
            linux: Way::Firewall { rules, nat, flows },
            flows,
            work,
        }
    }

    fn row(&self, work: Work) -> String {
        format!("{}-{}", self.name, work.name())
    }

    /// Whether the caller wants a row, or one that is compared with it.
    fn wants(&self, lab: &Lab, work: Work) -> bool {
        let own = self.row(work);
        let is_base = |(row, base, _): &(&str, &str, &str)| *base == own && lab.wants(BENCH, row);
        lab.wants(BENCH, &own) || GROWTH.iter().any(is_base)
    }
}

/// Flows of a table that is filled, and of one that is not.
const FEW_FLOWS: u32 = 16_384;
const MANY_FLOWS: u32 = 131_072;

/// Every way through the machine.
fn all() -> [Gateway; 7] {
    let router = Router { name: "bench-route", rules: 0, nat: false, flows: FEW_FLOWS };
    [
        Gateway {
            name: "switch",
            culm: Between::System(System::file("bench-switch")),
            linux: Way::Bridge,
            flows: 0,
            work: &[Loop(64), Loop(1472), Overload],
        },
        Gateway {
            name: "route",
            culm: Between::System(router.system()),
            linux: Way::Route,
            flows: router.flows,
            work: &[Loop(64), Loop(1472), Bulk, Overload],
        },
        Gateway { name: "guests", culm: Between::Guests, linux: Way::Route, flows: 0, work: &[Loop(64), Bulk] },
        Gateway::firewall(
            "firewall",
            Router { name: "bench-firewall", rules: 1, flows: MANY_FLOWS, ..router },
            &[Loop(64), Loop(1472), Overload, New],
        ),
        Gateway::firewall(
            "rules-1000",
            Router { name: "bench-rules", rules: 1000, flows: MANY_FLOWS, ..router },
            &[Loop(64), New],
        ),
        Gateway::firewall(
            "flows",
            Router { name: "bench-flows", rules: 1, flows: MANY_FLOWS, ..router },
            &[Flows(10), Flows(100_000)],
        ),
        Gateway::firewall(
            "nat",
            Router { name: "bench-nat", rules: 1, nat: true, ..router },
            &[Loop(64), Loop(1472), Connections, Overload, Flood],
        ),
    ]
}

/// Rows beside another row of the same side: what is compared, and the name of the ratio.
const GROWTH: [(&str, &str, &str); 3] = [
    ("rules-1000-64-w64", "firewall-64-w64", "cost to one rule's"),
    ("rules-1000-new", "firewall-new", "cost to one rule's"),
    ("flows-100000", "flows-10", "cost to few flows'"),
];

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    for gateway in all().iter().filter(|gateway| gateway.work.iter().any(|work| gateway.wants(lab, *work))) {
        both_sides(lab, results, gateway);
    }
    for (row, base, unit) in GROWTH {
        for side in [Side::Culm, PEER] {
            let cost = |row| results.figure(side, BENCH, row, "instructions/packet");
            if let Some((cost, base)) = cost(row).zip(cost(base)) {
                results.amend(side, BENCH, row, unit, cost / base);
            }
        }
    }
    Ok(())
}

fn both_sides(lab: &Lab, results: &mut Results, gateway: &Gateway) {
    let unpinned = matches!(gateway.culm, Between::Guests);
    let setup = Setup { beside: true, random: true, unpinned, ..Setup::default() };
    if lab.settings.culm() {
        lab.attempt(BENCH, "culm", || rows(lab, results, gateway, &mut gateway.culm.boot(lab, &setup)?, Side::Culm));
    }
    if lab.settings.peer() {
        lab.attempt(BENCH, "peer", || {
            let mut subject = lab.boot_gateway(Variant::NoKaslr, gateway.linux, &setup)?;
            rows(lab, results, gateway, &mut subject, PEER)
        });
    }
    for work in gateway.work {
        let ratio = |culm: f64, peer: f64| ("cost to peer", culm / peer);
        results.compare(PEER, BENCH, &gateway.row(*work), work.unit(), ratio);
        for rate in ["packets/s", "MiBs/s"] {
            let ratio = |culm: f64, peer: f64| ("throughput to peer", culm / peer);
            results.compare(PEER, BENCH, &gateway.row(*work), rate, ratio);
        }
    }
}

fn rows(lab: &Lab, results: &mut Results, gateway: &Gateway, subject: &mut Subject, side: Side) -> Result<()> {
    if !subject.machine.network.is_tap() {
        bail!("a way through the machine needs two TAP devices, and there are none");
    }
    let (namespace, address) = subject.machine.network.far(gateway.linux.is_routed())?;
    let far = Far { namespace, address };
    for work in gateway.work.iter().filter(|work| gateway.wants(lab, **work)) {
        let row = gateway.row(*work);
        lab.attempt(BENCH, &row, || {
            let sample = measure(lab, subject, &far, *work, gateway.flows)?;
            results.record(side, BENCH, &row, &work.params(), sample);
            Ok(())
        });
    }
    Ok(())
}

fn measure(lab: &Lab, subject: &mut Subject, far: &Far, work: Work, flows: u32) -> Result<Sample> {
    match work {
        Loop(size) => loads::closed_loop(lab, subject, far, size),
        Bulk => loads::bulk(lab, subject, far),
        Overload => loads::overload(lab, subject, far),
        // Each has had two packets then.
        Flows(count) => loads::sprayed(lab, subject, far, Kind::Udp(64), count, 2 * count),
        New => loads::sprayed(lab, subject, far, Kind::Udp(64), MOST_FLOWS, 0),
        Connections => loads::connections(lab, subject, far),
        Flood => loads::sprayed(lab, subject, far, Kind::Syn, MOST_FLOWS, u64::from(flows) * 11 / 10),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    #[test]
    fn each_row_has_a_name_of_its_own_and_those_that_are_compared_are_there() {
        let all = all();
        let names: Vec<String> =
            all.iter().flat_map(|gateway| gateway.work.iter().map(|work| gateway.row(*work))).collect();
        let known: BTreeSet<&str> = names.iter().map(String::as_str).collect();
        assert_eq!(known.len(), names.len());
        for (row, base, _) in GROWTH {
            assert!(known.contains(row) && known.contains(base), "{row} beside {base}");
        }
    }
}
