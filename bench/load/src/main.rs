//! `culm-bench-load`: the load generator as a command, with its report as one line of JSON.

#![forbid(unsafe_code)]

use anyhow::{Result, bail};
use clap::Parser;
use culm_bench_load::{Load, LoadSpec, Mode, ceiling};
use std::net::SocketAddr;
use std::time::Duration;

/// Sends UDP packets to an echo server, checks every answer, and prints what happened as JSON.
#[derive(Parser)]
struct Arguments {
    /// The echo servers, each ADDRESS:PORT; without one the generator measures its own ceiling over
    /// the loopback device.
    targets: Vec<SocketAddr>,
    /// Bytes of UDP payload.
    #[arg(long, default_value_t = 64)]
    size: usize,
    /// Packets in flight (closed loop).
    #[arg(long, default_value_t = 256, conflicts_with = "rate")]
    window: usize,
    /// Packets per second (open loop).
    #[arg(long)]
    rate: Option<f64>,
    /// Seconds to record, after half a second of warming up.
    #[arg(long, default_value_t = 2.0)]
    seconds: f64,
    /// Milliseconds after which a packet is lost.
    #[arg(long, default_value_t = 500)]
    patience: u64,
    /// The processor to run on.
    #[arg(long)]
    processor: Option<usize>,
}

fn main() -> Result<()> {
    let arguments = Arguments::parse();
    let mode = arguments.rate.map_or(Mode::Window(arguments.window), Mode::Rate);
    if !(arguments.seconds > 0.0 && arguments.seconds <= 3600.0) {
        bail!("--seconds {}: more than 0 and at most 3600 are possible", arguments.seconds);
    }
    let time = Duration::from_secs_f64(arguments.seconds);
    let report = if arguments.targets.is_empty() {
        ceiling(arguments.size, mode, arguments.processor, None, time)?
    } else {
        let Arguments { targets, size, processor, .. } = arguments;
        let mut load = Load::start(&LoadSpec {
            targets,
            size,
            mode,
            patience: Duration::from_millis(arguments.patience),
            processor,
        })?;
        std::thread::sleep(Duration::from_millis(500));
        load.record();
        std::thread::sleep(time);
        load.finish()?
    };
    println!("{}", serde_json::to_string(&report)?);
    Ok(())
}
