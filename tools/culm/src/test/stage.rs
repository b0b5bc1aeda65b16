//! The stages, and how one is run.

use super::lint::{self, Strictness};
use super::report;
use super::tally::Tally;
use crate::build::{Cargo, Profile, Target, Toolchain};
use crate::failure::Failure;
use crate::tree::{Tree, cannot_build};
use std::collections::{BTreeMap, BTreeSet};
use std::fs::File;
use std::io::{BufRead, BufReader, IsTerminal, Write};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// How often a line says that a long stage is still at work, where there is no terminal.
const SIGN_OF_LIFE: Duration = Duration::from_secs(30);

/// Programs to run one after the other.
pub struct Stage {
    /// Its name on the command line.
    pub name: &'static str,
    /// Its description, for `--list`.
    pub about: &'static str,
    programs: Vec<Program>,
}

/// A program to run. It counts as one test, unless its output has counts.
struct Program {
    name: String,
    command: Command,
    /// Where it ends well, what it found is shown all the same.
    shows_findings: bool,
}

/// Where and with what the stages run.
pub struct Workshop {
    tree: Tree,
    toolchain: Toolchain,
    strictness: Strictness,
    components: BTreeMap<Target, BTreeSet<String>>,
    tool: PathBuf,
    /// Where the programs' output goes.
    pub logs: PathBuf,
}

impl Stage {
    /// All stages. With `quick`, only as much as a few minutes allow; with `soak`, what is repeated
    /// is repeated a thousand times.
    pub fn all(workshop: &Workshop, quick: bool, soak: bool) -> Vec<Self> {
        if workshop.tree.workspace.is_some() {
            return vec![workshop.check(), workshop.lint(), workshop.host()];
        }
        let mut stages = vec![workshop.format(), workshop.spelling(), workshop.lint(), workshop.doc(), workshop.host()];
        if !quick {
            stages.push(workshop.models());
            stages.push(workshop.fuzz(soak));
        }
        stages.push(workshop.systems(quick, soak));
        stages
    }
}

impl Workshop {
    /// A workshop for the checkout, or for the user's workspace.
    ///
    /// # Errors
    /// Where the logs cannot be written, or the checkout does not say which Rust is the recorded
    /// one.
    pub fn new(
        tree: Tree,
        toolchain: Toolchain,
        components: BTreeMap<Target, BTreeSet<String>>,
    ) -> Result<Self, Failure> {
        let logs = tree.build.join("test-logs");
        std::fs::create_dir_all(&logs)
            .map_err(|error| cannot_build(format_args!("make the folder {}", logs.display()), &error))?;
        let tool = std::env::current_exe().map_err(|error| Failure::io("find the running tool", &error))?;
        // Its own code is its user's: what is found there is shown.
        let recorded = Strictness::of(&toolchain, &tree.culm)?;
        let strictness = if tree.workspace.is_some() { Strictness::Users } else { recorded };
        Ok(Self { tree, toolchain, strictness, components, tool, logs })
    }

    /// A command for which the chosen Rust is the first on the search path: cargo finds its clippy
    /// and rustdoc there, and they must be of the same Rust.
    fn with_rust(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("RUSTC", &self.toolchain.rustc);
        if let Some(folder) = self.toolchain.rustc.parent() {
            let path = std::env::var_os("PATH").unwrap_or_default();
            let path = std::iter::once(folder.to_path_buf()).chain(std::env::split_paths(&path));
            if let Ok(path) = std::env::join_paths(path) {
                command.env("PATH", path);
            }
        }
        command
    }

    fn cargo(&self, arguments: &[&str]) -> Command {
        let mut command = self.with_rust(&self.toolchain.cargo);
        command.args(arguments);
        command
    }

    fn format(&self) -> Stage {
        let mut command = Command::new("sh");
        // Debian's Rust has no rustfmt; where there is none, there is nothing to compare with.
        command.args([
            "-c",
            "if command -v rustfmt >/dev/null; then git ls-files '*.rs' | xargs rustfmt --edition 2024 --check; \
             else echo 'no rustfmt on this machine: formatting is not checked'; fi",
        ]);
        let links = Command::new(self.tree.culm.join("docs/check"));
        Stage {
            name: "format",
            about: "the code is formatted, and no link in the documents leads nowhere",
            programs: vec![program("rustfmt", command), program("links in the documents", links)],
        }
    }

    /// In a workspace: everything that is described is well.
    fn check(&self) -> Stage {
        let mut command = Command::new(&self.tool);
        command.arg("check");
        Stage {
            name: "check",
            about: "systems, boards and components have no mistake",
            programs: vec![program("descriptions", command)],
        }
    }

    fn spelling(&self) -> Stage {
        let mut command = Command::new("sh");
        // `.codespellrc` has the words and the files that are left alone.
        command.args(["-c", "git ls-files -z | xargs -0 codespell"]);
        Stage {
            name: "spelling",
            about: "code and documents have no word that is known to be misspelt",
            programs: vec![program("codespell", command)],
        }
    }

    fn lint(&self) -> Stage {
        let is_culm = self.tree.workspace.is_none();
        let mut host = self.cargo(&["clippy", "--workspace", "--all-targets"]);
        let cargo = Cargo::new(self.toolchain.clone(), &self.tree, Profile::Release);
        let mut packages = self.components.clone();
        if is_culm {
            host.args(["--exclude", "culm-kernel"]);
            let programs = ["culm-kernel", "culm-tests-guest"].map(String::from);
            packages.entry(Target::General).or_default().extend(programs);
        }
        let mut commands = vec![("on the host".to_string(), host)];
        for (target, packages) in packages {
            let command = cargo.clippy(target, self.tree.home(), &packages);
            commands.push((format!("for {}", target.triple()), command));
        }
        let programs = commands.into_iter().map(|(what, mut command)| {
            command.arg("--").args(self.strictness.arguments());
            self.finder("clippy", &what, command)
        });
        let programs = programs.collect();
        Stage { name: "lint", about: "clippy finds nothing, on the host and for the target", programs }
    }

    /// Rustdoc twice: what a reader of the public items gets, whose links must not lead to private
    /// ones, and what a reader of the code gets.
    fn doc(&self) -> Stage {
        let documents = |more: &[&str]| {
            let mut command = self.cargo(&["doc", "--workspace", "--exclude", "culm-kernel", "--no-deps"]);
            command.args(more).env("RUSTDOCFLAGS", self.strictness.rustdoc_flags());
            command
        };
        let cargo = Cargo::new(self.toolchain.clone(), &self.tree, Profile::Release);
        let mut kernel = cargo.doc(self.tree.home(), &std::iter::once("culm-kernel".to_string()).collect());
        kernel.arg("--document-private-items").env("RUSTDOCFLAGS", self.strictness.rustdoc_flags());
        Stage {
            name: "doc",
            about: "rustdoc finds nothing: no link in a comment leads nowhere",
            programs: vec![
                self.finder("rustdoc", "of public items", documents(&[])),
                self.finder("rustdoc", "of all items", documents(&["--document-private-items"])),
                self.finder("rustdoc", "of the kernel", kernel),
            ],
        }
    }

    /// A program of Rust's that looks for faults, whose findings are denied or shown.
    fn finder(&self, finder: &str, what: &str, command: Command) -> Program {
        match self.strictness {
            Strictness::Deny => program(&format!("{finder} {what}"), command),
            Strictness::Users => {
                Program { shows_findings: true, ..program(&format!("{finder} (shown only) {what}"), command) }
            }
            Strictness::Show(recorded) => {
                let version = self.toolchain.version;
                let name = format!("{finder} {version} (shown only, the recorded one is {recorded}) {what}");
                Program { shows_findings: true, ..program(&name, command) }
            }
        }
    }

    fn host(&self) -> Stage {
        let mut command = self.cargo(&["test", "--workspace", "--no-fail-fast"]);
        if self.tree.workspace.is_none() {
            command.args(["--exclude", "culm-tests-harness"]);
        }
        Stage {
            name: "host",
            about: "unit, property and golden tests on the host",
            programs: vec![program("host tests", command)],
        }
    }

    fn models(&self) -> Stage {
        let model = |package: &str, arguments: &[&str]| {
            let mut command = self.cargo(&["test", "-p", package]);
            command
                .args(arguments)
                .env("RUSTFLAGS", "--cfg loom")
                .env("CARGO_TARGET_DIR", self.tree.culm.join("target/loom"));
            // Optimised code explores the interleavings in a fraction of the time.
            command.env("CARGO_PROFILE_DEV_OPT_LEVEL", "2");
            program(&format!("models of {package}"), command)
        };
        Stage {
            name: "models",
            about: "lock-free code, for every interleaving that the memory model allows (loom)",
            programs: vec![model("culm-kernel-core", &["--test", "loom"]), model("culm-queue", &["models"])],
        }
    }

    fn fuzz(&self, soak: bool) -> Stage {
        let targets = std::fs::read_dir(self.tree.culm.join("fuzz/targets")).into_iter().flatten().flatten();
        let sources = targets.map(|entry| entry.path()).filter(|path| path.extension().is_some_and(|end| end == "rs"));
        let mut names: Vec<String> =
            sources.filter_map(|path| Some(path.file_stem()?.to_string_lossy().into_owned())).collect();
        names.sort();
        let programs = names.into_iter().map(|name| {
            let mut command = self.with_rust(&self.tree.culm.join("fuzz/run"));
            // Without `--soak` the same inputs each time, however fast the host is: what is red is
            // this change's doing.
            let bound: &[&str] =
                if soak { &["--runs", "200000", "--seconds", "30"] } else { &["--runs", "30000", "--seed", "1"] };
            command.args(bound).arg(&name);
            command.env("RUSTC_BOOTSTRAP", "1");
            program(&format!("fuzz {name}"), command)
        });
        Stage {
            name: "fuzz",
            about: "parsers and queues, fuzzed with a bounded number of inputs",
            programs: programs.collect(),
        }
    }

    fn systems(&self, quick: bool, soak: bool) -> Stage {
        let mut command = self.cargo(&["test", "-p", "culm-tests-harness", "--no-fail-fast"]);
        if quick {
            command.args(["--test", "smoke", "--test", "network"]).env("CULM_QUICK", "1");
        }
        if soak {
            command.env("CULM_SOAK", "1");
        }
        command.args(["--", "--test-threads=2"]).env("CULM", &self.tool);
        Stage {
            name: "systems",
            about: "whole systems in QEMU, with real clients",
            programs: vec![program("systems in QEMU", command)],
        }
    }

    /// Runs a stage.
    ///
    /// # Errors
    /// Where a program cannot be started or its output not be kept.
    pub fn run(&self, stage: &Stage) -> Result<Tally, Failure> {
        let mut total = Tally::default();
        for (index, program) in stage.programs.iter().enumerate() {
            let log = self.logs.join(format!("{}-{index}.log", stage.name));
            total += self.run_program(stage.name, program, &log)?;
        }
        Ok(total)
    }

    fn run_program(&self, stage: &str, program: &Program, log: &Path) -> Result<Tally, Failure> {
        let start = Instant::now();
        let writing = |error| Failure::io(format_args!("write {}", log.display()), &error);
        let mut file = File::create(log).map_err(writing)?;
        let (reader, writer) = std::io::pipe().map_err(|error| Failure::io("make a pipe", &error))?;
        let mut command = copy(&program.command);
        command.current_dir(self.tree.home()).stdin(Stdio::null());
        let twin = writer.try_clone().map_err(|error| Failure::io("copy a pipe", &error))?;
        let mut child = command
            .stdout(writer)
            .stderr(twin)
            .spawn()
            .map_err(|error| Failure::io(format_args!("run {:?}", program.command.get_program()), &error))?;
        // The parent's ends of the pipe must go, or reading never ends.
        drop(command);
        let mut show = Show::new(stage, &program.name);
        let mut tally = Tally::default();
        let mut left_out = vec![];
        for line in BufReader::new(reader).split(b'\n').map_while(Result::ok) {
            let line = String::from_utf8_lossy(&line).into_owned();
            writeln!(file, "{line}").map_err(writing)?;
            show.line(&line);
            if let Some(counts) = Tally::of_line(&line) {
                tally += counts;
            } else if Tally::is_skip(&line) {
                left_out.push(line);
            }
        }
        tally.leave_out(left_out.len() as u32);
        let status = child.wait().map_err(|error| Failure::io("wait for a program", &error))?;
        if status.success() && tally == Tally::default() {
            tally.passed = 1;
        }
        if !status.success() && tally.failed == 0 {
            tally.failed = 1;
        }
        show.end(tally, start.elapsed());
        for line in left_out {
            println!("    {line}");
        }
        if status.success() && program.shows_findings {
            let found = lint::findings(&std::fs::read_to_string(log).unwrap_or_default());
            println!("{}", if found.is_empty() { "    nothing is found" } else { &found });
        }
        if !status.success() {
            println!("{}", report::of(&std::fs::read_to_string(log).unwrap_or_default()));
        }
        Ok(tally)
    }
}

fn program(name: &str, command: Command) -> Program {
    Program { name: name.into(), command, shows_findings: false }
}

/// A command is used up when it is run; a stage can be run more than once.
fn copy(command: &Command) -> Command {
    let mut twin = Command::new(command.get_program());
    twin.args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => twin.env(name, value),
            None => twin.env_remove(name),
        };
    }
    twin
}

/// The progress that a person sees while a program runs.
struct Show {
    title: String,
    terminal: bool,
    start: Instant,
    last: Instant,
}

impl Show {
    fn new(stage: &str, name: &str) -> Self {
        let title = format!("{stage}: {name}");
        let terminal = std::io::stdout().is_terminal();
        if !terminal {
            println!("{title} …");
        }
        let now = Instant::now();
        Self { title, terminal, start: now, last: now }
    }

    fn line(&mut self, line: &str) {
        let line: String = line.trim().chars().filter(|c| !c.is_control()).take(90).collect();
        if line.is_empty() {
            return;
        }
        if self.terminal {
            print!("\r\x1b[2K{} … {line}", self.title);
            // Progress that cannot be shown is no reason to stop.
            _ = std::io::stdout().flush();
        } else if report::is_failure(&line) || self.last.elapsed() > SIGN_OF_LIFE {
            self.last = Instant::now();
            println!("    {:>4} s  {line}", self.start.elapsed().as_secs());
        }
    }

    fn end(&self, tally: Tally, time: Duration) {
        let clear = if self.terminal { "\r\x1b[2K" } else { "" };
        println!("{clear}{}: {tally} ({} s)", self.title, time.as_secs());
    }
}
