//! The cost of one more component in a packet's way: UDP echo with 0 to 8 components between copier
//! and echo server, which hand received frames on, and their buffers back
//! (`bench/components/pass-through`).

use super::echo::{Pressure, measure};
use crate::lab::{Lab, Setup};
use crate::linux::port;
use crate::network::Port;
use crate::results::{Params, Results, Side};
use crate::systems::Echo;
use anyhow::Result;
use culm_bench_load::Mode;
use serde_json::json;

const BENCH: &str = "crossing";

/// Components in the way.
const COUNTS: &[u8] = &[0, 1, 2, 4, 8];
const WINDOWS: &[usize] = &[1, 64];

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let row = |count: u8, window: usize| format!("through-{count}-w{window}");
    let wanted = |window: &usize| COUNTS.iter().any(|count| lab.wants(BENCH, &row(*count, *window)));
    let windows: Vec<usize> = WINDOWS.iter().copied().filter(wanted).collect();
    if !lab.settings.culm() || windows.is_empty() {
        return Ok(());
    }
    // Each row is judged by the one without any, so that all of a window are measured where one is
    // wanted.
    let mut bare = vec![0.0; windows.len()];
    for &count in COUNTS {
        let system = Echo { through: count, ..Echo::default() }.system(&format!("bench-through-{count}"));
        let mut subject = lab.boot_culm(&system, &Setup::default())?;
        for (window, bare) in windows.iter().zip(&mut bare) {
            let targets = vec![subject.machine.network.address(Port::Udp(port::ECHO))?];
            let pressure = Pressure { targets, size: 64, mode: Mode::Window(*window) };
            let mut sample = measure(lab, &mut subject, &pressure)?;
            let cost = sample.figures.get("instructions/packet").copied().unwrap_or(0.0);
            if count == 0 {
                *bare = cost;
            } else {
                let each = (cost - *bare) / f64::from(count);
                sample.set("instructions/packet and component", each);
                sample.set("% more for each component", each / *bare * 100.0);
            }
            let params: Params = [
                ("size".to_owned(), json!(64)),
                ("window".to_owned(), json!(window)),
                ("components".to_owned(), json!(count)),
            ]
            .into();
            results.record(Side::Culm, BENCH, &row(count, *window), &params, sample);
        }
    }
    Ok(())
}
