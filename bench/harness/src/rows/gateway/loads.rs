//! The loads of a way through the machine.

use crate::lab::{Lab, Subject};
use crate::network::{DEVICE, DEVICE_BESIDE, NOWHERE};
use crate::results::Sample;
use crate::rows::curve::{Curve, Point};
use crate::rows::tcp;
use crate::spawn;
use anyhow::{Context, Result, bail};
use culm_bench_load::connections::{Closer, Opener};
use culm_bench_load::spray::{Kind, MOST_FLOWS, Spray, SpraySpec};
use culm_bench_load::{FarEnd, Load, LoadSpec, Mode};
use culm_wire::Namespace;
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::time::{Duration, Instant};

/// Packets under way in closed loops.
pub(super) const WINDOW: usize = 64;

/// The rates that are sent, in multiples of the one that saturates the way.
const MULTIPLES_OF_SATURATION: [f64; 5] = [0.5, 1.0, 2.0, 3.0, 4.0];

/// How long the load goes on before it is counted.
const WARM_UP: Duration = Duration::from_millis(500);

/// Packets per second of many flows.
const RATE: f64 = 20_000.0;

/// The first of their sources, which are on the network of the load.
const SOURCES: Ipv4Addr = Ipv4Addr::new(198, 18, 0, 4);

/// How long is waited until packets of as many flows as are wanted have come.
const PATIENCE: Duration = Duration::from_secs(60);

/// How long the first answer is waited for. The question may be lost, and is sent again then.
const FIRST_ANSWER: Duration = Duration::from_secs(8);

/// Clients that open connections.
const CLIENTS: usize = 16;

/// The other end of the way.
pub(super) struct Far {
    /// Where it is.
    pub(super) namespace: Namespace,
    /// Its address.
    pub(super) address: Ipv4Addr,
}

/// Starts a load, and lets it go on for a while.
fn start(lab: &Lab, subject: &Subject, target: SocketAddr, size: usize, mode: Mode) -> Result<Load> {
    let patience = Duration::from_secs(2);
    let spec = LoadSpec { targets: vec![target], size, mode, patience, processor: lab.load_processor };
    let load = subject.machine.network.within(|| Load::start(&spec))?;
    std::thread::sleep(WARM_UP);
    Ok(load)
}

/// Where a device's line in `/proc/net/dev` counts packets: those that were received, and those
/// that were sent. What a TAP device has sent the machine has taken.
const RECEIVED: usize = 1;
const SENT: usize = 9;

/// Packets that a device of a namespace has counted.
fn packets(namespace: &Namespace, device: &str, column: usize) -> Result<u64> {
    let read = || std::fs::read_to_string("/proc/thread-self/net/dev").context("the namespace has no devices");
    let table = namespace.within(read)?;
    let line = table.lines().find_map(|line| line.trim().strip_prefix(device)?.strip_prefix(':'));
    let packets = line.and_then(|line| line.split_whitespace().nth(column)?.parse().ok());
    packets.with_context(|| format!("no count of {device}"))
}

/// Counts while so many packets are under way, there and back.
pub(super) fn closed_loop(lab: &Lab, subject: &mut Subject, far: &Far, size: usize) -> Result<Sample> {
    // It shares its processor with the load, which spins: QEMU has the other one. It has a port of
    // its own, since it serves whoever sends first, which late packets of another load would be.
    let end = || far.namespace.within(|| FarEnd::start((far.address, 0).into(), lab.load_processor, false));
    // At first one packet after the other: of many at once, a router that does not know its
    // neighbours yet drops most.
    let first = end()?;
    let load = start(lab, subject, first.address(), size, Mode::Window(1))?;
    let patience = Instant::now() + FIRST_ANSWER;
    while load.counts().answered == 0 && Instant::now() < patience {
        spawn::go_on()?;
        std::thread::sleep(Duration::from_millis(10));
    }
    drop(load);
    let end = end()?;
    let mut load = start(lab, subject, end.address(), size, Mode::Window(WINDOW))?;
    load.record();
    let (window, before) = (subject.begin()?, load.counts());
    std::thread::sleep(lab.window);
    let counts = load.counts() - before;
    let mut sample = subject.end(window, 2.0 * counts.answered as f64, "packet")?;
    let report = load.finish()?;
    if counts.corrupt > 0 || counts.duplicates > 0 {
        bail!("{} packets were corrupt, {} came twice", counts.corrupt, counts.duplicates);
    }
    if counts.lost > 0 {
        sample.notes.push(format!("{} of {} packets were lost", counts.lost, counts.sent));
    }
    sample.set("p50 us", report.round_trip.p50 as f64 / 1e3);
    sample.set("p99 us", report.round_trip.p99 as f64 / 1e3);
    Ok(sample)
}

/// Counts what one connection carries from the load to the far end.
pub(super) fn bulk(lab: &Lab, subject: &mut Subject, far: &Far) -> Result<Sample> {
    let listener = far.namespace.within(|| Ok(TcpListener::bind((far.address, 0))?))?;
    let address = listener.local_addr()?;
    let connect = || Ok(TcpStream::connect_timeout(&address, FIRST_ANSWER)?);
    let from = subject.machine.network.within(connect).context("no connection through the machine")?;
    let (to, _) = listener.accept()?;
    tcp::carry(lab, subject, from, to)
}

/// Counts what passes one way at rates up to four times of what can.
pub(super) fn overload(lab: &Lab, subject: &mut Subject, far: &Far) -> Result<Sample> {
    let (mut curve, mut all) = (Curve::default(), Sample::default());
    // What finds no room in it is lost without an answer.
    let end = far.namespace.within(|| Ok(UdpSocket::bind((far.address, 0))?))?;
    let target = end.local_addr()?;
    let mut one_way = |rate: f64| -> Result<Passed> {
        let load = start(lab, subject, target, 64, Mode::Rate(rate))?;
        let (window, before, sent) =
            (subject.begin()?, packets(&far.namespace, DEVICE_BESIDE, RECEIVED)?, load.counts().sent);
        std::thread::sleep(lab.window);
        let (received, sent) = (packets(&far.namespace, DEVICE_BESIDE, RECEIVED)? - before, load.counts().sent - sent);
        let sample = subject.end(window, (received as f64).max(1.0), "packet")?;
        drop(load);
        // What still stands in queues passes before the next load begins.
        std::thread::sleep(WARM_UP);
        let figure = |unit: &str| sample.figures.get(unit).copied().unwrap_or(0.0);
        let (rate, instructions) = (figure("packets/s"), figure("instructions/packet"));
        Ok(Passed { rate, sent: rate * sent as f64 / (received as f64).max(1.0), instructions })
    };
    let saturation = saturation(&mut one_way)?;
    for factor in MULTIPLES_OF_SATURATION {
        let Passed { rate, sent, instructions } = one_way(saturation * factor)?;
        curve.add(Point { factor, rate, instructions });
        all.set(&format!("packets/s at {factor}x"), rate);
        all.set(&format!("sent/s at {factor}x"), sent);
        all.set(&format!("instructions/packet at {factor}x"), instructions);
    }
    curve.compare(&mut all, "packets", 4.0);
    Ok(all)
}

/// What one rate has come to.
struct Passed {
    /// Packets per second that arrived.
    rate: f64,
    /// Packets per second that were sent.
    sent: f64,
    /// Instructions for each that arrived.
    instructions: f64,
}

/// Packets per second at which more no longer bring more.
fn saturation(one_way: &mut impl FnMut(f64) -> Result<Passed>) -> Result<f64> {
    const STEPS: usize = 8;
    const STEP: f64 = 1.6;
    let (mut most, mut rate) = (0_f64, 10_000.0);
    for _ in 0..STEPS {
        let passed = one_way(rate)?.rate;
        most = most.max(passed);
        if passed < 0.9 * rate {
            break;
        }
        rate *= STEP;
    }
    Ok(most)
}

/// Packets that go one way, of so many flows in turn, after `before` of them have come.
pub(super) fn sprayed(
    lab: &Lab,
    subject: &mut Subject,
    far: &Far,
    kind: Kind,
    flows: u64,
    before: u64,
) -> Result<Sample> {
    let (flows, processor) = (flows.min(MOST_FLOWS), lab.load_processor);
    let spec = SpraySpec { kind, source: SOURCES, target: NOWHERE, flows, rate: RATE, processor };
    let near = subject.machine.network.namespace()?;
    let begun = packets(near, DEVICE, SENT)?;
    let spray = near.within(|| Spray::start(&spec))?;
    let end = Instant::now() + PATIENCE;
    std::thread::sleep(WARM_UP);
    while packets(near, DEVICE, SENT)? - begun < before {
        spawn::go_on()?;
        if Instant::now() > end {
            bail!("only {} of {before} packets have come", packets(near, DEVICE, SENT)? - begun);
        }
        std::thread::sleep(Duration::from_millis(50));
    }
    let count = |subject: &Subject| {
        let near = subject.machine.network.namespace()?;
        Ok::<_, anyhow::Error>([packets(near, DEVICE, SENT)?, packets(&far.namespace, DEVICE_BESIDE, RECEIVED)?])
    };
    let (window, [came, passed]) = (subject.begin()?, count(subject)?);
    std::thread::sleep(lab.window);
    let after = count(subject)?;
    let (came, passed) = ((after[0] - came) as f64, (after[1] - passed) as f64);
    let mut sample = subject.end(window, came, "packet")?;
    drop(spray);
    std::thread::sleep(WARM_UP);
    sample.set("share that passes", passed / came.max(1.0));
    Ok(sample)
}

/// Connections that begin and end.
pub(super) fn connections(lab: &Lab, subject: &mut Subject, far: &Far) -> Result<Sample> {
    let closer = far.namespace.within(|| Closer::start((far.address, 0).into(), lab.load_processor))?;
    let near = subject.machine.network.namespace()?;
    let opener = near.within(|| Opener::start(closer.address(), CLIENTS, lab.load_processor))?;
    std::thread::sleep(WARM_UP);
    let (window, done, failed) = (subject.begin()?, opener.done(), opener.failed());
    std::thread::sleep(lab.window);
    let (done, failed) = (opener.done() - done, opener.failed() - failed);
    let mut sample = subject.end(window, done as f64, "connection")?;
    if failed > 0 {
        sample.notes.push(format!("{failed} connections did not come about"));
    }
    drop(opener);
    std::thread::sleep(WARM_UP);
    Ok(sample)
}
