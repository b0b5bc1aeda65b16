//! The same echo path with and without each idea that a description of the system or of the machine
//! can leave out.

use super::echo::{Pressure, measure};
use crate::lab::{Lab, Setup};
use crate::linux::port;
use crate::network::Port;
use crate::results::{Params, Results, Side};
use crate::systems::{Echo, Server};
use anyhow::Result;
use culm_bench_load::Mode;
use serde_json::json;

const BENCH: &str = "steps";

/// Sizes and windows of each step: one packet at a time, many small ones, as many as the queues
/// hold, many large ones.
const LOADS: &[(usize, usize)] = &[(64, 1), (64, 64), (64, 256), (1472, 64)];

struct Step {
    name: &'static str,
    echo: Echo,
    setup: Setup,
}

/// A budget that nobody uses up: what having one costs.
const BUDGET: &str = "budget = \"10ms\"\nperiod = \"10ms\"\n";

fn steps() -> Vec<Step> {
    let step = |name, echo| Step { name, echo, setup: Setup::default() };
    let without_offloads = Setup { without_offloads: true, ..Setup::default() };
    vec![
        step("usual", Echo::default()),
        step("fused", Echo { device: "fused = true\n", ..Echo::default() }),
        step("reflector", Echo { server: Server::Reflector, ..Echo::default() }),
        step("bare", Echo { server: Server::BareReflector, ..Echo::default() }),
        step("without-copier", Echo { copier: false, ..Echo::default() }),
        step("bounce-copy", Echo { connection: ", anti_spoof = true", ..Echo::default() }),
        step("budgets", Echo { domain: BUDGET, device: BUDGET, ..Echo::default() }),
        step(
            "small-batches",
            Echo { connection: ", buffers = 16, large_buffers = 0", device: "buffers = 16\n", ..Echo::default() },
        ),
        Step { setup: without_offloads, ..step("without-offloads", Echo::default()) },
    ]
}

/// Runs the benchmark.
pub fn run(lab: &Lab, results: &mut Results) -> Result<()> {
    let row = |name: &str, (size, window): (usize, usize)| format!("{name}-{size}-w{window}");
    if !lab.settings.culm() {
        return Ok(());
    }
    let steps = steps();
    let is_asked_for = |step: &Step, load: &(usize, usize)| lab.wants(BENCH, &row(step.name, *load));
    // Each step is compared with what is usual under the same load.
    let mut usual = [None; LOADS.len()];
    for step in &steps {
        let wanted = |load: &(usize, usize)| match step.name {
            "usual" => steps.iter().any(|step| is_asked_for(step, load)),
            _ => is_asked_for(step, load),
        };
        if !LOADS.iter().any(wanted) {
            continue;
        }
        lab.attempt(BENCH, step.name, || {
            let mut subject = lab.boot_culm(&step.echo.system(&format!("bench-{}", step.name)), &step.setup)?;
            for (load, usual) in LOADS.iter().zip(&mut usual).filter(|(load, _)| wanted(load)) {
                let targets = vec![subject.machine.network.address(Port::Udp(port::ECHO))?];
                let pressure = Pressure { targets, size: load.0, mode: Mode::Window(load.1) };
                let mut sample = measure(lab, &mut subject, &pressure)?;
                if let Some(cost) = sample.figures.get("instructions/packet").copied() {
                    let usual = usual.get_or_insert(cost);
                    sample.set("cost to what is usual", cost / *usual);
                }
                let params: Params = [("size".to_owned(), json!(load.0)), ("window".to_owned(), json!(load.1))].into();
                results.record(Side::Culm, BENCH, &row(step.name, *load), &params, sample);
            }
            Ok(())
        });
    }
    Ok(())
}
