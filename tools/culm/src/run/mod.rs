//! `culm run`: builds a system and runs it in QEMU, in the foreground, with its console.

mod console;
mod keys;
pub mod launch;
mod machine;
pub mod qemu;
mod symbols;
mod terminal;

use crate::build::command::{ProfileChoice, build_plan};
use crate::class::{self, Outside};
use crate::commands::System;
use crate::failure::Failure;
use crate::image::report::Report;
use crate::plan::{ConfigValue, Domain, Plan};
use crate::tree::Tree;
use anyhow::Result;
use console::{Sign, Watcher};
use culm_manifest::units::{format_size, parse_size};
use keys::Keys;
use machine::{End, Next, Watch};
use nix::sys::signal::Signal;
use qemu::{PREFERRED_QEMU, Qemu, QemuCommand};
use std::io::{IsTerminal as _, Write as _};
use std::net::Ipv4Addr;
use std::process::ExitCode;
use symbols::Symbols;

/// The components whose port is a web page.
const WEB_COMPONENTS: [&str; 2] = ["http", "router-status"];

/// Arguments of `culm run`.
#[derive(clap::Args, Clone, Debug)]
pub struct Options {
    /// The system.
    #[command(flatten)]
    pub system: System,
    /// The profile.
    #[command(flatten)]
    pub profile: ProfileChoice,
    /// Options for what the machine's devices lead to.
    #[command(flatten)]
    pub outside: class::Options,
    /// Emulate this many cores, at least those that the system uses
    #[arg(long, value_name = "N")]
    pub cores: Option<u32>,
    /// Main memory, in place of what the board says, for example 256MiB
    #[arg(long, value_name = "SIZE", value_parser = memory)]
    pub memory: Option<u64>,
    /// Wait for a debugger on this port before the first instruction
    #[arg(long, value_name = "PORT", num_args = 0..=1, default_missing_value = "1234",
        value_parser = clap::value_parser!(u16).range(1..))]
    pub gdb: Option<u16>,
    /// Hand this argument to QEMU. May be given several times
    #[arg(long, value_name = "ARGUMENT", allow_hyphen_values = true)]
    pub qemu: Vec<String>,
}

fn memory(text: &str) -> Result<u64, String> {
    let size = parse_size(text).or_else(|| text.parse().ok());
    // The image begins some way behind the memory's start; QEMU has machines of a TiB.
    let (least, most) = (2 * culm_abi::memory::IMAGE_OFFSET, 1 << 40);
    let possible = |size: &u64| (least..=most).contains(size) && size.is_multiple_of(culm_abi::memory::PAGE_SIZE);
    size.filter(possible).ok_or_else(|| {
        let (least, most) = (format_size(least), format_size(most));
        format!("expected a size such as 256MiB, from {least} to {most}, a multiple of 4KiB")
    })
}

/// Builds and runs; the exit status is 0 only where the run ended well: the system halted itself
/// with status 0, or the operator ended a system that was alive.
pub fn run(options: &Options) -> Result<ExitCode> {
    let mut plan = options.system.plan_to_build(options.memory)?;
    options.outside.apply(&mut plan)?;
    let cores = cores(&plan, options.cores)?;
    let emulator = Qemu::find()?;
    options.outside.check(&plan, options.gdb)?;
    let built = build_plan(&plan, options.profile.profile())?;
    // Only now: others may have taken ports during the build.
    let outside = options.outside.outside(&plan, options.gdb)?;
    let machine =
        QemuCommand { plan: &plan, image: &built.image, cores, outside, gdb: options.gdb, extra: &options.qemu };
    let arguments = machine.arguments()?;
    if emulator.version < PREFERRED_QEMU {
        eprintln!("culm: QEMU {} runs this; {PREFERRED_QEMU} is what Culm is tested with", emulator.version);
    }
    let keys = (machine.outside.takes_keys() && terminal::is_ours()).then(Keys::default);
    announce(&plan, &machine, &built.report, keys.is_some());
    let mut screen = Screen {
        report: &built.report,
        outside: machine.outside.clone(),
        servers: Vec::new(),
        with_address: with_address(&plan),
        waits_for_debugger: options.gdb.is_some(),
        tree: Tree::find()?,
        watcher: Watcher::default(),
        plain: !std::io::stdout().is_terminal(),
        halted: None,
        panicked: false,
        spoke: false,
        errors: Vec::new(),
    };
    let end = machine::run(&emulator.path, &arguments, keys, &mut screen)?;
    Ok(screen.verdict(end)?)
}

fn cores(plan: &Plan, wanted: Option<u32>) -> Result<u32, Failure> {
    let (used, has) = (plan.cores(), plan.board.mpidr.len() as u32);
    match wanted {
        None => Ok(used),
        Some(count) if (used..=has).contains(&count) => Ok(count),
        Some(count) => Err(Failure::new(format!(
            "{count} cores are not possible: the system `{}` uses {used}, the board `{}` has {has}",
            plan.name, plan.board.name
        ))
        .help("the core of each protection domain stands in the system file")),
    }
}

/// Domains to which the description gives an address.
fn with_address(plan: &Plan) -> Vec<String> {
    let has_one = |(id, domain): (usize, &Domain)| {
        let mut fields = plan.component_of(id).manifest.config.iter().zip(&domain.config);
        fields.any(|(field, value)| field.name == "address" && *value != ConfigValue::Absent)
    };
    let found = plan.domains.iter().enumerate().filter(|(id, domain)| has_one((*id, *domain)));
    found.map(|(_, domain)| domain.name.clone()).collect()
}

/// Says what is about to run and how to end it: by keys of its own where Ctrl-C goes to a console.
fn announce(plan: &Plan, machine: &QemuCommand<'_>, report: &Report, by_keys: bool) {
    eprintln!(
        "culm: {} on {}, {} core{}; {}",
        plan.name,
        plan.board.name,
        machine.cores,
        if machine.cores == 1 { "" } else { "s" },
        if by_keys { "Ctrl-] and q ends it; Ctrl-C goes to the console" } else { "Ctrl-C ends it" }
    );
    for announcement in machine.outside.announcements() {
        eprintln!("culm: {announcement}");
    }
    if let Some(port) = machine.gdb {
        let kernel = report.kernel.elf.display();
        eprintln!("culm: waiting for a debugger: gdb-multiarch {kernel} -ex 'target remote :{port}'");
    }
}

/// A web server, as far as it has told of itself.
#[derive(Debug, Default)]
struct Server {
    domain: String,
    port: Option<u16>,
    address: Option<Ipv4Addr>,
    /// The description gives it its address, of which it says nothing then.
    has_fixed_address: bool,
}

impl Server {
    /// The port of this machine at which it is found, if that is clear already.
    fn host(&self, leads_to: impl Fn(u16, Option<Ipv4Addr>) -> Option<u16>) -> Option<u16> {
        // A server that has no address yet is not to be found, wherever the port leads.
        if self.address.is_none() && !self.has_fixed_address {
            return None;
        }
        leads_to(self.port?, self.address)
    }
}

/// Passes the console on and remembers what it told.
struct Screen<'a> {
    report: &'a Report,
    outside: Outside,
    /// Domains that are web servers, with their ports and addresses, as far as they have said.
    servers: Vec<Server>,
    /// Domains whose address stands in the description.
    with_address: Vec<String>,
    /// A debugger decides when it begins: until then its silence means nothing.
    waits_for_debugger: bool,
    tree: Tree,
    watcher: Watcher,
    /// No terminal: lines end in a line feed alone.
    plain: bool,
    halted: Option<u64>,
    panicked: bool,
    spoke: bool,
    errors: Vec<String>,
}

impl Watch for Screen<'_> {
    fn console(&mut self, bytes: &[u8]) -> Next {
        self.spoke = true;
        let mut done = 0;
        let mut next = Next::Continue;
        for (position, sign) in self.watcher.feed(bytes) {
            self.show(&bytes[done..position]);
            done = position;
            match sign {
                Sign::Halt(status) => self.halted = Some(status),
                Sign::Panic => {
                    self.panicked = true;
                    next = Next::Stop;
                }
                Sign::Backtrace { domain, addresses } => self.backtrace(&domain, &addresses),
                Sign::Address { domain, address } => self.server(&domain, |server| server.address = Some(address)),
                Sign::Serves { domain, port } => self.server(&domain, |server| server.port = Some(port)),
            }
        }
        self.show(&bytes[done..]);
        next
    }

    fn emulator(&mut self, line: &str) {
        // Its words when it is told to end are no news.
        if !line.contains("terminating on signal") {
            eprintln!("{line}");
            self.errors.push(line.to_string());
        }
    }

    fn silence(&mut self) {
        if !self.waits_for_debugger {
            let seconds = machine::SILENCE.as_secs();
            eprintln!(
                "culm: nothing was heard of the machine for {seconds} s: is the board's file right about it? \
                 docs/src/guides/board.md, \"See whether it is right\", says what can be the matter"
            );
        }
    }
}

impl Screen<'_> {
    fn show(&self, bytes: &[u8]) {
        let mut output = std::io::stdout().lock();
        // Nobody may be listening any more; the machine is ended by other means.
        let _ = match self.plain {
            true => output.write_all(&bytes.iter().copied().filter(|&byte| byte != b'\r').collect::<Vec<_>>()),
            false => output.write_all(bytes),
        };
        let _ = output.flush();
    }

    fn backtrace(&self, domain: &str, addresses: &[u64]) {
        let found = self.report.domains.iter().find(|candidate| candidate.name == domain);
        if let Some(symbols) = found.and_then(|domain| Symbols::read(&domain.elf)) {
            self.show(symbols.backtrace(addresses, &self.tree).as_bytes());
        }
    }

    /// Notes what a web server said of itself; once it is clear where it is found, says so.
    fn server(&mut self, domain: &str, note: impl FnOnce(&mut Server)) {
        let is_web = |component: &str| WEB_COMPONENTS.contains(&component);
        if !self.report.domains.iter().any(|other| other.name == domain && is_web(&other.component)) {
            return;
        }
        let index = self.servers.iter().position(|server| server.domain == domain).unwrap_or_else(|| {
            let has_fixed_address = self.with_address.iter().any(|name| name == domain);
            self.servers.push(Server { domain: domain.into(), has_fixed_address, ..Server::default() });
            self.servers.len() - 1
        });
        let leads_to = |port, address| self.outside.leads_to(port, address);
        let server = &mut self.servers[index];
        let before = server.host(leads_to);
        note(server);
        let after = server.host(leads_to);
        if let Some(port) = after
            && before != after
        {
            self.show(format!("\n  {domain} is at http://localhost:{port}/\n\n").as_bytes());
        }
    }

    /// Whether the run ended well.
    fn verdict(&self, end: End) -> Result<ExitCode, Failure> {
        if self.panicked {
            return Err(Failure::new("the kernel gave up; its reason is the last line above"));
        }
        match (self.halted, end) {
            (Some(0), _) => Ok(ExitCode::SUCCESS),
            (Some(status), _) => Err(Failure::new(format!("the system halted itself with status {status}"))),
            (None, End::Asked | End::Signalled(Signal::SIGINT)) => Ok(ExitCode::SUCCESS),
            (None, End::Signalled(signal)) => Ok(ExitCode::from(128 + signal as u8)),
            (None, End::Ended(_)) if !self.spoke && !self.errors.is_empty() => {
                Err(Failure::new("QEMU did not start the machine; its reason is above"))
            }
            (None, End::Ended(status)) => {
                Err(Failure::new(format!("the machine ended without saying so (QEMU: {status})")))
            }
            (None, End::Stopped) => Err(Failure::new("the machine was stopped")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_server_is_found_only_once_it_has_an_address() {
        let leads_to = |port, _| (port == 80).then_some(8080);
        let mut server = Server { domain: "http".into(), port: Some(80), ..Server::default() };
        assert_eq!(server.host(leads_to), None);
        server.address = Some(Ipv4Addr::LOCALHOST);
        assert_eq!(server.host(leads_to), Some(8080));
        let fixed = Server { port: Some(80), has_fixed_address: true, ..Server::default() };
        assert_eq!(fixed.host(leads_to), Some(8080), "it says nothing of an address that it was given");
    }
}
