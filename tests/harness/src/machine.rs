//! Starting, watching and ending a machine.

use crate::client::Status;
use crate::dhcp::Server;
use crate::{PATIENCE, artefacts, root, wire};
use culm_wire::GUEST;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;
use std::collections::HashMap;
use std::fs::File;
use std::io::{BufRead, BufReader, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener};
use std::path::PathBuf;
use std::process::{Child, ChildStdin, Command, ExitStatus, Stdio};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// How a machine is to be started.
#[derive(Clone, Debug)]
pub struct Boot {
    system: String,
    /// Options of building and running.
    arguments: Vec<String>,
    /// Options of running alone.
    run_arguments: Vec<String>,
}

/// How the guest is reached.
#[derive(Debug)]
enum Reach {
    /// By ports of this host, which lead to ports of the guest: pairs of guest's and host's.
    Forwards(Vec<(u16, u16)>),
    /// Directly, at the address that the server gives.
    Wire(Server),
    /// Directly, at addresses that its description gives it.
    Wires,
}

impl Boot {
    /// A system by its name in `systems/`, or by the path of its file.
    pub fn system(system: impl Into<String>) -> Self {
        Self { system: system.into(), arguments: vec![], run_arguments: vec![] }
    }

    /// On another board than the system names.
    #[must_use]
    pub fn board(mut self, board: &str) -> Self {
        self.arguments.extend(["--board".into(), board.into()]);
        self
    }

    /// Built fast, with checks for overflow.
    #[must_use]
    pub fn debug(mut self) -> Self {
        self.arguments.push("--debug".into());
        self
    }

    /// On another processor of QEMU's than the board names.
    #[must_use]
    pub fn processor(self, name: &str) -> Self {
        self.option(&["--qemu=-cpu", &format!("--qemu={name}")])
    }

    /// With any options of `./culm run`.
    #[must_use]
    pub fn option(mut self, arguments: &[&str]) -> Self {
        self.run_arguments.extend(arguments.iter().map(ToString::to_string));
        self
    }

    /// Builds its image and does not start it. A build takes what it takes: nobody's patience
    /// counts it.
    ///
    /// # Panics
    /// Where it cannot be built.
    pub fn build(&self) {
        let mut command = self.command("build");
        let output = command.output().expect("`./culm` starts");
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }

    /// Starts it, with host ports of its own forwarded to these TCP ports of the guest.
    pub fn start(self, ports: &[u16]) -> Machine {
        self.build();
        self.start_again(ports)
    }

    /// The same, where an image was built before.
    pub fn start_again(self, ports: &[u16]) -> Machine {
        let forwards: Vec<_> = ports.iter().map(|port| (*port, free_port())).collect();
        let mut command = self.command("run");
        for (guest, host) in &forwards {
            command.arg("--forward").arg(format!("{host}:{guest}"));
        }
        self.launch(command, Reach::Forwards(forwards))
    }

    /// Starts it on a TAP device, at which this server gives addresses.
    pub(crate) fn start_on(self, device: &str, server: Server) -> Machine {
        let mut command = self.command("run");
        command.args(["--tap", device]);
        self.launch(command, Reach::Wire(server))
    }

    /// Starts it with its cards on these TAP devices, in their order.
    pub(crate) fn start_on_all(self, devices: &[&str]) -> Machine {
        let mut command = self.command("run");
        for device in devices {
            command.args(["--tap", device]);
        }
        self.launch(command, Reach::Wires)
    }

    /// The command that runs it, for who starts it in another way than [`Self::start`].
    pub fn run_command(&self) -> Command {
        self.command("run")
    }

    fn command(&self, verb: &str) -> Command {
        let tool = std::env::var("CULM").map_or_else(|_| root().join("culm"), PathBuf::from);
        let mut command = Command::new(tool);
        command.arg(verb).arg(&self.system).args(&self.arguments).current_dir(root());
        if verb == "run" {
            command.args(&self.run_arguments);
        }
        command
    }

    fn launch(&self, mut command: Command, reach: Reach) -> Machine {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("`./culm` starts");
        let (sender, lines) = channel();
        for pipe in [
            child.stdout.take().map(|pipe| Box::new(pipe) as Box<dyn std::io::Read + Send>),
            child.stderr.take().map(|pipe| Box::new(pipe) as Box<dyn std::io::Read + Send>),
        ]
        .into_iter()
        .flatten()
        {
            let sender = sender.clone();
            thread::spawn(move || {
                for line in BufReader::new(pipe).split(b'\n').map_while(Result::ok) {
                    let line = String::from_utf8_lossy(&line).trim_end().to_string();
                    if sender.send(line).is_err() {
                        return;
                    }
                }
            });
        }
        let stem = PathBuf::from(&self.system).file_stem().unwrap_or_default().to_string_lossy().into_owned();
        let log = File::create(artefacts().join(format!("{stem}-{}.log", child.id()))).expect("artefacts are writable");
        Machine {
            _input: child.stdin.take(),
            child,
            lines,
            console: vec![],
            read: 0,
            counts: HashMap::new(),
            log,
            reach,
        }
    }
}

/// A port that nobody uses at the moment.
pub fn free_port() -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").expect("loopback has a free port");
    listener.local_addr().expect("a bound socket has an address").port()
}

/// A running machine. Dropping it ends it.
#[derive(Debug)]
pub struct Machine {
    child: Child,
    /// The console's input, with nothing to be read: it ends with the machine, and not before.
    _input: Option<ChildStdin>,
    lines: Receiver<String>,
    console: Vec<String>,
    /// Lines that [`Self::expect`] has passed.
    read: usize,
    /// Of each text that [`Self::count`] looked for, the lines it has looked at, and those with it.
    counts: HashMap<String, (usize, usize)>,
    log: File,
    reach: Reach,
}

impl Machine {
    /// Where a TCP port of the guest is reached.
    ///
    /// # Panics
    /// Where the guest is on several wires, or the port is not forwarded.
    pub fn address(&self, guest: u16) -> SocketAddr {
        match &self.reach {
            Reach::Forwards(forwards) => {
                let forward = forwards.iter().find(|(port, _)| *port == guest).expect("the port is forwarded");
                SocketAddr::from((Ipv4Addr::LOCALHOST, forward.1))
            }
            Reach::Wire(_) => SocketAddr::from((GUEST, guest)),
            Reach::Wires => panic!("a machine on several wires has an address on each"),
        }
    }

    /// The URL of a path on the guest's port 80.
    pub fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address(80))
    }

    /// Returns what the system says of itself.
    pub fn status(&self) -> Status {
        Status::ask(&self.url("/_status.json"))
    }

    /// Fails where a component has faulted.
    ///
    /// # Panics
    /// Where one has.
    pub fn is_unharmed(&self) {
        let status = self.status();
        assert!(status.faulted().is_empty(), "{:?} faulted:\n{}", status.faulted(), self.tail());
    }

    /// The guest's hardware address.
    ///
    /// # Panics
    /// Where the guest is not on a wire, or says nothing there.
    pub fn mac(&self) -> [u8; 6] {
        let Reach::Wire(server) = &self.reach else { panic!("there is no wire") };
        server.first_client().expect("the guest asks for an address")
    }

    /// The guest's link-local address, with the wire's device.
    ///
    /// # Panics
    /// As [`Self::mac`].
    pub fn link_local(&self) -> String {
        format!("{}%{}", wire::link_local(self.mac()), wire::DEVICE)
    }

    fn next_line(&mut self, until: Instant) -> Option<String> {
        match self.lines.recv_timeout(until.saturating_duration_since(Instant::now())) {
            Ok(line) => {
                writeln!(self.log, "{line}").expect("artefacts are writable");
                self.console.push(line.clone());
                Some(line)
            }
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => None,
        }
    }

    /// Waits for a line with this text, from where the last such wait ended.
    ///
    /// # Panics
    /// Where it does not come.
    pub fn expect(&mut self, text: &str) -> String {
        let until = Instant::now() + PATIENCE;
        loop {
            while self.read < self.console.len() {
                self.read += 1;
                if self.console[self.read - 1].contains(text) {
                    return self.console[self.read - 1].clone();
                }
            }
            if self.next_line(until).is_none() {
                panic!("no line with {text:?} on the console; its last lines:\n{}", self.tail());
            }
        }
    }

    /// Waits for a line with this text, wherever in the console it comes or came: for lines whose
    /// order is open.
    ///
    /// # Panics
    /// Where it does not come.
    pub fn expect_anywhere(&mut self, text: &str) {
        let until = Instant::now() + PATIENCE;
        while !self.saw(text) {
            assert!(Instant::now() < until, "no line with {text:?} on the console; its last lines:\n{}", self.tail());
            thread::sleep(Duration::from_millis(100));
        }
    }

    /// Whether a line with this text has come so far, in all of the console.
    pub fn saw(&mut self, text: &str) -> bool {
        while self.next_line(Instant::now()).is_some() {}
        self.console.iter().any(|line| line.contains(text))
    }

    /// All of the console so far.
    pub fn console(&mut self) -> String {
        while self.next_line(Instant::now()).is_some() {}
        self.console.join("\n")
    }

    /// Returns all that the console has said, once the machine has ended.
    pub fn all_said(mut self) -> String {
        let until = Instant::now() + PATIENCE;
        while self.next_line(until).is_some() {}
        self.console.join("\n")
    }

    /// Counts the lines with this text that have come so far. It looks at each line once, however
    /// often it is asked.
    pub fn count(&mut self, text: &str) -> usize {
        while self.next_line(Instant::now()).is_some() {}
        let (looked_at, found) = self.counts.entry(text.to_string()).or_default();
        *found += self.console[*looked_at..].iter().filter(|line| line.contains(text)).count();
        *looked_at = self.console.len();
        *found
    }

    /// The console's last lines.
    pub fn tail(&self) -> String {
        self.console[self.console.len().saturating_sub(40)..].join("\n")
    }

    /// Waits until the web server answers.
    pub fn wait_for_web(&mut self) {
        self.wait_for_tcp(80, b"HEAD / HTTP/1.0\r\n\r\n");
    }

    /// Waits until a TCP port of the guest answers `hello` with anything.
    pub fn wait_for_tcp(&mut self, guest: u16, hello: &[u8]) {
        let until = Instant::now() + PATIENCE;
        let address = self.address(guest);
        while Instant::now() < until {
            while self.next_line(Instant::now()).is_some() {}
            if let Ok(status) = self.child.try_wait()
                && let Some(status) = status
            {
                panic!("the machine ended ({status}) before it served; its last lines:\n{}", self.tail());
            }
            if crate::client::exchange_within(Duration::from_secs(10), address, hello)
                .is_some_and(|answer| !answer.is_empty())
            {
                return;
            }
            thread::sleep(Duration::from_millis(200));
        }
        panic!("nothing answers on port {guest}; the console's last lines:\n{}", self.tail());
    }

    /// Waits until the machine ends by itself.
    pub fn wait(mut self) -> ExitStatus {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            while self.next_line(Instant::now() + Duration::from_millis(100)).is_some() {}
            if let Some(status) = self.child.try_wait().expect("the child can be waited for") {
                return status;
            }
        }
        panic!("the machine does not end; its last lines:\n{}", self.tail());
    }

    /// Ends it as Ctrl-C does.
    pub fn interrupt(mut self) -> ExitStatus {
        self.signal(Signal::SIGINT);
        self.child.wait().expect("the child can be waited for")
    }

    /// The process of `./culm run`.
    pub fn process(&self) -> u32 {
        self.child.id()
    }

    fn signal(&self, signal: Signal) {
        let process = i32::try_from(self.child.id()).expect("a process number fits");
        // It may have ended already: then there is nobody to tell.
        _ = kill(Pid::from_raw(process), signal);
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        if self.child.try_wait().is_ok_and(|status| status.is_some()) {
            return;
        }
        self.signal(Signal::SIGINT);
        for _ in 0..50 {
            if self.child.try_wait().is_ok_and(|status| status.is_some()) {
                return;
            }
            thread::sleep(Duration::from_millis(100));
        }
        _ = self.child.kill();
        _ = self.child.wait();
    }
}
