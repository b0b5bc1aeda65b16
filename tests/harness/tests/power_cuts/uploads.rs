//! Clients that put files on the web server's disk, replace and remove them, and what may be there
//! of it.

use culm_tests_harness::PATIENCE;
use culm_tests_harness::frames::Random;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

const TOKEN: &str = "open-sesame";
/// The token's SHA-256.
pub const HASH: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
/// Clients at work, and files of each.
pub const CLIENTS: usize = 4;
const FILES: usize = 8;

/// A file's content: bytes that follow from a number of its own.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Content {
    pub version: u64,
    pub length: usize,
}

impl Content {
    pub fn bytes(self) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(self.length + 8);
        for word in 0..=self.length as u64 / 8 {
            let word = (word ^ self.version << 32).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(17);
            bytes.extend_from_slice(&word.to_le_bytes());
        }
        bytes.truncate(self.length);
        bytes
    }
}

/// The content that a file may have; none if it is not there.
pub type State = Option<Content>;

/// A client's request to change a file. Places are those of the record: its length, in bytes.
#[derive(Debug)]
pub struct Change {
    /// The file's new state.
    pub to: State,
    /// Where the record ended before the request was sent.
    pub begun: u64,
    /// Where it ended after the answer had come that it is done.
    pub done: Option<u64>,
}

/// A file, and what has happened to it since the machine was started.
#[derive(Debug, Default)]
pub struct History {
    pub start: State,
    pub changes: Vec<Change>,
}

impl History {
    /// Returns what may be there if the record ends at a place.
    pub fn states(&self, end: u64) -> Vec<State> {
        let mut states = vec![self.start];
        for change in &self.changes {
            match change.done {
                Some(done) if done <= end => states = vec![change.to],
                _ if change.begun <= end => states.push(change.to),
                _ => {}
            }
        }
        states
    }
}

/// All files, by their paths.
pub type Files = BTreeMap<String, History>;

pub fn paths(client: usize) -> impl Iterator<Item = String> {
    (0..FILES).map(move |file| match file % 4 {
        0 => format!("/{client}-{file}"),
        1 => format!("/folder/{client}-{file}.txt"),
        2 => format!("/folder/file-{file}-of-client-{client}-with-a-name-that-takes-many-entries.html"),
        _ => format!("/the-long-name-of-file-{file}-of-client-{client}.bin"),
    })
}

/// A connection to the web server.
pub struct Connection {
    stream: BufReader<TcpStream>,
    is_closed: bool,
}

impl Connection {
    pub fn open(address: SocketAddr) -> Option<Self> {
        let stream = TcpStream::connect_timeout(&address, PATIENCE).ok()?;
        stream.set_read_timeout(Some(PATIENCE)).ok()?;
        Some(Self { stream: BufReader::new(stream), is_closed: false })
    }

    /// Sends a request and returns the answer's status and content; none if the connection breaks.
    pub fn ask(&mut self, method: &str, path: &str, content: &[u8]) -> Option<(u16, Vec<u8>)> {
        let length = content.len();
        let length = if method == "PUT" { format!("Content-Length: {length}\r\n") } else { String::new() };
        let head = format!("{method} {path} HTTP/1.1\r\nHost: disk\r\nAuthorization: Bearer {TOKEN}\r\n{length}\r\n");
        self.stream.get_mut().write_all(head.as_bytes()).ok()?;
        self.stream.get_mut().write_all(content).ok()?;
        let mut line = String::new();
        self.stream.read_line(&mut line).ok()?;
        let status = line.split(' ').nth(1)?.parse().ok()?;
        let mut length = 0;
        loop {
            line.clear();
            self.stream.read_line(&mut line).ok()?;
            let Some((name, value)) = line.split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().ok()?;
            }
            self.is_closed |= name.eq_ignore_ascii_case("connection") && value.contains("close");
        }
        let mut body = vec![0; length];
        self.stream.read_exact(&mut body).ok()?;
        Some((status, body))
    }
}

/// State that the clients of a machine share.
pub struct Load<'a> {
    pub address: SocketAddr,
    pub record: &'a Path,
    pub is_cut: &'a AtomicBool,
}

impl Load<'_> {
    /// Where the record ends now.
    pub fn place(&self) -> u64 {
        std::fs::metadata(self.record).expect("QEMU keeps a record").len()
    }

    /// A client: changes its files until the machine is gone. `version` is the first of a range of
    /// its own.
    pub fn work(&self, mut connection: Connection, mut files: Files, mut version: u64, mut random: Random) -> Files {
        let names: Vec<String> = files.keys().cloned().collect();
        loop {
            let path = &names[random.below(names.len())];
            let history = files.get_mut(path).expect("it has a history");
            let length = match random.below(8) {
                0 => 0,
                1..=3 => random.below(3_000),
                4..=6 => random.below(60_000),
                _ => random.below(300_000),
            };
            version += 1;
            let to = (random.below(4) != 0).then_some(Content { version, length });
            let (method, content) = to.map_or(("DELETE", vec![]), |content| ("PUT", content.bytes()));
            let before = history.states(u64::MAX);
            history.changes.push(Change { to, begun: self.place(), done: None });
            let answer = connection.ask(method, path, &content);
            let Some((status, body)) = answer else {
                assert!(self.is_cut.load(Ordering::SeqCst), "{method} {path}: the connection broke before the cut");
                return files;
            };
            let was_there = |there: bool| before.iter().any(|state| state.is_some() == there);
            let is_done = match (method, status) {
                ("PUT", 201) | ("DELETE", 404) => was_there(false),
                ("PUT" | "DELETE", 204) => was_there(true),
                // Too much at once.
                (_, 503) => true,
                _ => false,
            };
            assert!(is_done, "{method} {path}: {status} {}, after {before:?}", String::from_utf8_lossy(&body));
            if status != 503 {
                let change = history.changes.last_mut().expect("this one");
                change.done = Some(self.place());
            }
            if connection.is_closed {
                let Some(other) = Connection::open(self.address) else { continue };
                connection = other;
            }
        }
    }
}
