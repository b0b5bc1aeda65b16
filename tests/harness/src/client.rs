//! Clients: small ones of our own for odd behaviour, and standard programs for everything else.

use crate::{PATIENCE, require};
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Sends `request`, reads until the peer is done. None where the connection fails.
pub fn exchange(address: SocketAddr, request: &[u8]) -> Option<Vec<u8>> {
    exchange_within(PATIENCE, address, request)
}

/// The same, but a peer that is silent for so long is done too: for callers that ask again.
pub fn exchange_within(patience: Duration, address: SocketAddr, request: &[u8]) -> Option<Vec<u8>> {
    let mut stream = TcpStream::connect_timeout(&address, patience).ok()?;
    stream.set_read_timeout(Some(patience)).ok()?;
    stream.write_all(request).ok()?;
    let mut answer = vec![];
    let mut buffer = [0; 4096];
    loop {
        match stream.read(&mut buffer) {
            Ok(0) | Err(_) => return Some(answer),
            Ok(length) => answer.extend_from_slice(&buffer[..length]),
        }
    }
}

/// Runs a program to its end, at most `seconds`; its output must say that it ended well.
///
/// # Panics
/// Where it does not.
pub fn run(seconds: u32, program: &str, arguments: &[&str]) -> String {
    let output = try_run(seconds, program, arguments);
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    assert!(
        output.status.success(),
        "`{program} {}` failed ({}):\n{text}{}",
        arguments.join(" "),
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
    text
}

/// As [`run`], whatever its end.
pub fn try_run(seconds: u32, program: &str, arguments: &[&str]) -> Output {
    require(program);
    Command::new("timeout")
        .arg(seconds.to_string())
        .arg(program)
        .args(arguments)
        .output()
        .unwrap_or_else(|error| panic!("`{program}` cannot be started: {error}"))
}

/// Waits until a station answers a ping, however long it takes to come up.
///
/// # Panics
/// Where it does not within [`PATIENCE`].
pub fn wait_for_ping(address: &str) {
    let until = Instant::now() + PATIENCE;
    while !try_run(5, "ping", &["-n", "-c", "1", "-W", "1", address]).status.success() {
        assert!(Instant::now() < until, "{address} does not answer");
    }
}

/// Asks for echoes and checks that all of them come, whole, of so many bytes each.
///
/// # Panics
/// Where they do not.
pub fn answers_pings(address: &str, size: usize) {
    let said = run(120, "ping", &["-n", "-c", "20", "-i", "0.05", "-W", "30", "-s", &size.to_string(), address]);
    assert!(said.contains("20 packets transmitted, 20 received") && !said.contains("DUP"), "{said}");
    // Where content does not come back as it was, it says which byte.
    assert!(!said.contains("wrong data"), "{said}");
}

/// Options of chromium for a test: it needs no screen, and asks nobody but whom it is told to.
pub const HEADLESS: [&str; 8] = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
];

/// A program that goes on beside the test. Dropping it ends it.
#[derive(Debug)]
pub struct Background {
    child: Child,
}

impl Background {
    /// Starts a program.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn start(program: &str, arguments: &[&str]) -> Self {
        require(program);
        let child = Command::new(program)
            .args(arguments)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("`{program}` cannot be started: {error}"));
        Self { child }
    }

    /// Starts dnsmasq with nothing but these options: it reads no configuration of the host's, and
    /// knows no names but those that it is told.
    ///
    /// # Panics
    /// Where it cannot be started.
    pub fn dnsmasq(options: &[&str]) -> Self {
        let own = [
            "--keep-in-foreground",
            "--conf-file=/dev/null",
            "--no-resolv",
            "--no-hosts",
            "--user=root",
            "--pid-file=",
        ];
        Self::start("dnsmasq", &[&own[..], options].concat())
    }

    /// Whether it has not ended yet.
    pub fn is_running(&mut self) -> bool {
        self.child.try_wait().is_ok_and(|status| status.is_none())
    }
}

impl Drop for Background {
    fn drop(&mut self) {
        // It may have ended by itself.
        _ = self.child.kill();
        _ = self.child.wait();
    }
}

/// The state of a system, as it says at `/_status.json`.
#[derive(Debug)]
pub struct Status(serde_json::Value);

impl Status {
    /// Asks the web server at this URL.
    ///
    /// # Panics
    /// Where the answer is no status.
    pub fn ask(url: &str) -> Self {
        Self(serde_json::from_slice(&curl(url, &[]).body).expect("the status is JSON"))
    }

    /// The protection domains.
    ///
    /// # Panics
    /// Where the status lacks them.
    pub fn components(&self) -> &[serde_json::Value] {
        self.0["components"].as_array().expect("the status lists components")
    }

    /// The domain of this name.
    ///
    /// # Panics
    /// Where there is none.
    pub fn component(&self, name: &str) -> &serde_json::Value {
        let found = self.components().iter().find(|component| component["name"] == name);
        found.unwrap_or_else(|| panic!("there is no component {name}"))
    }

    /// A counter of a domain.
    ///
    /// # Panics
    /// Where there is none.
    pub fn counter(&self, component: &str, name: &str) -> u64 {
        let value = self.component(component)["counters"][name].as_u64();
        value.unwrap_or_else(|| panic!("{component} has no counter {name}"))
    }

    /// Names of the domains that have faulted.
    pub fn faulted(&self) -> Vec<&str> {
        let faulted = self.components().iter().filter(|component| component["faults"] != 0);
        faulted.filter_map(|component| component["name"].as_str()).collect()
    }
}

/// An answer, as curl sees it.
#[derive(Debug)]
pub struct Answer {
    /// Status code.
    pub status: u16,
    /// Header lines, names in lower case.
    pub headers: Vec<(String, String)>,
    /// Content.
    pub body: Vec<u8>,
}

impl Answer {
    /// The first header of this name (lower case).
    pub fn header(&self, name: &str) -> Option<&str> {
        self.headers.iter().find(|(own, _)| own == name).map(|(_, value)| value.as_str())
    }

    /// Content as text.
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Asks with curl, with more options before the URL.
pub fn curl(url: &str, options: &[&str]) -> Answer {
    let mut arguments = vec!["--silent", "--show-error", "--include", "--max-time", "180", "--path-as-is"];
    arguments.extend(options);
    arguments.push(url);
    let output = try_run(200, "curl", &arguments);
    assert!(output.status.success(), "curl {url}: {}", String::from_utf8_lossy(&output.stderr));
    let split = output.stdout.windows(4).position(|window| window == b"\r\n\r\n").expect("an answer has a head");
    let head = String::from_utf8_lossy(&output.stdout[..split]).into_owned();
    let mut lines = head.split("\r\n");
    let status = lines.next().and_then(|line| line.split(' ').nth(1)).and_then(|code| code.parse().ok());
    Answer {
        status: status.expect("an answer has a status"),
        headers: lines
            .filter_map(|line| line.split_once(':'))
            .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_string()))
            .collect(),
        body: output.stdout[split + 4..].to_vec(),
    }
}
