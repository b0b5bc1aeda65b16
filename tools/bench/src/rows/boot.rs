//! From the start of QEMU to the first answer: instructions, time and bytes of the image.

use crate::counters::{Delta, Snapshot};
use crate::lab::{Lab, Setup, first_echo};
use crate::linux::{Variant, port};
use crate::machine::Machine;
use crate::network::Port;
use crate::results::{Params, Results, Sample, Side};
use crate::systems::System;
use anyhow::{Result, bail};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::{Duration, Instant};

const BENCH: &str = "boot";
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let strict = Variant::NoKaslr;
    if lab.wants(BENCH, "first-echo") {
        if lab.settings.culm() {
            let (mut machine, image) = lab.start_culm(&System::file("bench-echo"), &Setup::default())?;
            let mut sample = until_echo(&mut machine)?;
            sample.set("image bytes", std::fs::metadata(&image.image.path)?.len() as f64);
            results.record(Side::Culm, BENCH, "first-echo", &Params::new(), sample);
        }
        if lab.settings.peer() {
            let sample = until_echo(&mut lab.start_linux(strict, "", &Setup::default())?)?;
            results.record(Side::Peer(strict.name()), BENCH, "first-echo", &Params::new(), sample);
        }
    }
    if lab.wants(BENCH, "first-http") {
        if lab.settings.culm() {
            let (mut machine, image) = lab.start_culm(&System::file("bench-web"), &Setup::default())?;
            let mut sample = until_http(&mut machine)?;
            sample.set("image bytes", std::fs::metadata(&image.image.path)?.len() as f64);
            results.record(Side::Culm, BENCH, "first-http", &Params::new(), sample);
        }
        if lab.settings.peer() {
            let sample = until_http(&mut lab.start_linux(strict, "", &Setup::default())?)?;
            results.record(Side::Peer(strict.name()), BENCH, "first-http", &Params::new(), sample);
        }
    }
    Ok(())
}

fn sample(machine: &Machine, snapshot: &Snapshot) -> Sample {
    let delta = Delta::between(&Snapshot { time: snapshot.time, ..Snapshot::default() }, snapshot);
    let mut sample = Sample::default();
    sample.set("instructions", delta.instructions());
    sample.set("milliseconds", machine.started.elapsed().as_secs_f64() * 1e3);
    sample
}

fn until_echo(machine: &mut Machine) -> Result<Sample> {
    let snapshot = first_echo(machine, PATIENCE)?;
    Ok(sample(machine, &snapshot))
}

fn until_http(machine: &mut Machine) -> Result<Sample> {
    let address = machine.network.address(Port::Tcp(port::HTTP))?;
    let end = Instant::now() + PATIENCE;
    loop {
        crate::spawn::go_on()?;
        if machine.network.within(|| Ok(first_byte(address).is_ok()))? {
            let snapshot = machine.snapshot()?;
            return Ok(sample(machine, &snapshot));
        }
        if Instant::now() > end {
            bail!("no answer from the guest's web server. Its console's last lines:\n{}", machine.last_lines());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn first_byte(address: SocketAddr) -> std::io::Result<()> {
    let mut stream = TcpStream::connect_timeout(&address, Duration::from_millis(20))?;
    stream.set_read_timeout(Some(Duration::from_secs(1)))?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n")?;
    let mut byte = [0];
    stream.read_exact(&mut byte)
}
