//! Deaths of a domain at any instruction, while its clients work and verify what they get.

use crate::debugger::{Debugger, code};
use crate::frames::Random;
use crate::{Machine, PATIENCE};
use std::time::{Duration, Instant};

/// Instructions that are taken away at a time: with so many, about every second set has one that
/// clients' work needs.
const AT_ONCE: usize = 12;

/// Whether tests are to repeat everything a thousand times or for long (`./culm test --soak`).
pub fn is_soak() -> bool {
    std::env::var_os("CULM_SOAK").is_some()
}

/// How often a domain dies: so often in the usual run, a thousand times if `CULM_SOAK` is set.
pub fn count(usual: usize) -> usize {
    if is_soak() { 1000 } else { usual }
}

/// A domain that dies, and how its clients' progress is seen.
#[derive(Clone, Copy, Debug)]
pub struct Deaths<'a> {
    /// The port of the machine's debugger stub.
    pub port: u16,
    /// The system as it was built, by its name and its board's.
    pub system: &'a str,
    /// The domain, which is restarted without limit.
    pub domain: &'a str,
    /// The text of the line with which a client says that a round of its work is verified.
    pub round: &'a str,
}

impl Deaths<'_> {
    /// Lets the domain die a few dozen times, a thousand times if `CULM_SOAK` is set. After each
    /// death, the clients end two rounds.
    ///
    /// # Panics
    /// Where clients wait for ever, or another domain faults.
    pub fn run(&self, machine: &mut Machine) {
        let deaths = count(30);
        wait_for_more(machine, self.round, 0);
        let (address, size) = code(self.system, self.domain);
        let text = Debugger::connect(self.port).read(address, size);
        let faulted = format!("supervisor: {} faulted: ", self.domain);
        // Some instructions let each life die until they are back: that counts as one death.
        let (mut random, mut tried, mut deadly) = (Random::new(1), 0, 0);
        while deadly < deaths {
            let offsets: [usize; AT_ONCE] = std::array::from_fn(|_| random.below(size / 4) * 4);
            let (died, rounds) = (machine.count(&faulted), machine.count(self.round));
            // An undefined one (Arm ARM C6.2, UDF).
            let mut debugger = Debugger::connect(self.port);
            offsets.iter().for_each(|offset| debugger.write(address + *offset as u64, &[0; 4]));
            drop(debugger);
            // Whatever a round needs, two of them have needed.
            let is_done =
                |machine: &mut Machine| machine.count(&faulted) > died || machine.count(self.round) > rounds + 1;
            let until = Instant::now() + PATIENCE;
            while !is_done(machine) {
                assert!(Instant::now() < until, "a client waits for ever; the last lines:\n{}", machine.tail());
                std::thread::sleep(Duration::from_millis(10));
            }
            let mut debugger = Debugger::connect(self.port);
            offsets.iter().for_each(|offset| debugger.write(address + *offset as u64, &text[*offset..offset + 4]));
            drop(debugger);
            tried += 1;
            // Nobody has died: there is nothing to get over.
            if machine.count(&faulted) == died {
                continue;
            }
            deadly += 1;
            let rounds = machine.count(self.round);
            wait_for_more(machine, self.round, rounds + 1);
        }
        let (rounds, faults) = (machine.count(self.round), machine.count(&faulted));
        eprintln!("{rounds} rounds, {faults} deaths, {deadly} of {tried} sets of instructions deadly");
        assert_eq!(machine.count(" faulted: "), faults, "{}", machine.tail());
    }
}

/// Waits until a text has come in more than so many lines on the console.
///
/// # Panics
/// Where it does not come again.
pub fn wait_for_more(machine: &mut Machine, text: &str, before: usize) {
    let until = Instant::now() + PATIENCE;
    while machine.count(text) <= before {
        assert!(Instant::now() < until, "{text:?} does not come again; the last lines:\n{}", machine.tail());
        std::thread::sleep(Duration::from_millis(10));
    }
}
