//! A server whose files are in memory, behind the class's queues, and its clients.

use crate::common::{Clock, Pipe, Pipes, TIMEOUTS};
use culm_file::testing::{RamFiles, connection};
use culm_file::{Operation, Taken, Volume};
use culm_guard::{Guard, read_hash};
use culm_http::{Caching, Server, Site};
use http::store::Store;

pub const HASH: &str = "d7ecdf25eaf3deba0f2628771dbdd22d4138ab6cf38f91ed02a2ca0dec7c8ab7";
pub const TOKEN: &str = "open-sesame";
pub const LIMIT: u64 = 4 << 20;
pub const VOLUME: Volume = Volume::new(1, false);

/// A server, its files, and its clients.
pub struct World {
    pub server: Server<Clock, Option<Store>>,
    pub files: Option<RamFiles>,
    pub pipes: Pipes,
    pub now: u64,
    /// Requests for bytes that the files have answered in [`World::run`].
    pub reads: usize,
    /// Whether what is open is looked through in each round; a component does so each second.
    pub is_patrolled: bool,
}

impl World {
    /// With so many clients and so much memory for their files, which serve all who ask at the same
    /// time.
    pub fn new(clients: usize, memory: usize) -> Self {
        Self::with_fresh(clients, memory, 1)
    }

    /// With files that serve all who ask within that time.
    pub fn with_fresh(clients: usize, memory: usize, fresh: u64) -> Self {
        let connection = connection(16, memory, 1);
        let mut files = RamFiles::new(&connection, VOLUME);
        files.put("/index.html", b"<p>start");
        files.put("/album/index.html", b"<p>album");
        files.put("/large", &large(300_000));
        let uploads = Some((Guard::new(read_hash(HASH).expect("a hash"), 1, [0; 4]), LIMIT));
        let caching = Caching::new([("*.bin", "no-store")].into_iter());
        let mut store = Store::connect(&connection, clients, uploads, caching, fresh);
        store.set_today(1_800_000_000);
        let site = Site::new(std::iter::empty::<(&str, &[u8])>(), &Caching::default(), &[], &[]);
        let mut server = Server::with_files(site, Clock, Some(store), clients, TIMEOUTS);
        (0..clients).for_each(|slot| server.opened(slot, 0));
        let pipes = Pipes((0..clients).map(|_| Some(Pipe { buffer: Some(32 * 1024), ..Pipe::default() })).collect());
        Self { server, files: Some(files), pipes, now: 0, reads: 0, is_patrolled: true }
    }

    pub fn files(&mut self) -> &mut RamFiles {
        self.files.as_mut().expect("there are files")
    }

    pub fn pipe(&mut self, slot: usize) -> &mut Pipe {
        self.pipes.0[slot].as_mut().expect("a client")
    }

    /// Begins a round of the server's files.
    fn begin_round(&mut self) {
        let store = self.server.files().as_mut().expect("a store");
        store.begin_round(self.now);
        if self.is_patrolled {
            store.patrol();
        }
    }

    /// A round of the server.
    pub fn serve(&mut self) {
        self.begin_round();
        while let Some(slot) = self.server.files().as_mut().and_then(Store::news) {
            self.server.ready(slot);
        }
        while self.server.run(&mut self.pipes, self.now, 1) {}
        let _ = self.server.files().as_mut().expect("a store").end_round();
    }

    /// Rounds of both sides until nothing happens. Clients take at once what is sent; the files
    /// finish what they have taken in an order that `order` decides.
    pub fn run(&mut self, mut order: impl FnMut(usize) -> usize) {
        let mut quiet = 0;
        while quiet < 6 {
            let (before, mut is_idle) = (self.state(), true);
            for slot in 0..self.pipes.0.len() {
                let pipe = self.pipe(slot);
                pipe.unacknowledged = 0;
                self.server.ready(slot);
            }
            self.serve();
            if let Some(files) = &mut self.files {
                files.take();
                if !files.taken.is_empty() {
                    let mut index = order(files.taken.len()) % files.taken.len();
                    // Changes keep their order.
                    let is_change = |taken: &Taken| taken.request.operation.changes_files();
                    if is_change(&files.taken[index]) {
                        index = files.taken.iter().position(is_change).unwrap_or(index);
                    }
                    self.reads += usize::from(files.taken[index].request.operation == Operation::Read);
                    files.finish(index);
                    is_idle = false;
                }
                let _ = files.end_round();
            }
            quiet = if is_idle && self.state() == before { quiet + 1 } else { 0 };
        }
    }

    pub fn state(&mut self) -> Vec<usize> {
        let mut state: Vec<_> =
            self.pipes.0.iter().flatten().flat_map(|it| [it.input.len(), it.output.len()]).collect();
        state.push(self.files.as_ref().map_or(0, |files| files.taken.len()));
        state
    }

    pub fn ask(&mut self, slot: usize, request: &str) -> (u16, Vec<u8>) {
        self.pipe(slot).input.extend(request.bytes());
        self.run(|_| 0);
        let head = String::from_utf8_lossy(&self.pipe(slot).output).into_owned();
        let (status, content) = self.answer(slot);
        let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
        let is_told = request.starts_with("HEAD") || length.is_none_or(|length| length == content.len().to_string());
        assert!(is_told, "{} bytes of content: {head}", content.len());
        (status, content)
    }

    /// Takes the answer that a client got: its status, and what came behind its head.
    pub fn answer(&mut self, slot: usize) -> (u16, Vec<u8>) {
        let output = std::mem::take(&mut self.pipe(slot).output);
        let text = String::from_utf8_lossy(&output[..output.len().min(300)]).into_owned();
        let end = output.windows(4).position(|four| four == b"\r\n\r\n").unwrap_or_else(|| panic!("no answer: {text}"));
        (text[9..12].parse().expect("a status"), output[end + 4..].to_vec())
    }
}

pub fn large(length: usize) -> Vec<u8> {
    (0..length).map(|at| (at % 251) as u8).collect()
}

pub fn get(path: &str) -> String {
    format!("GET {path} HTTP/1.1\r\nHost: a\r\n\r\n")
}

pub fn put(path: &str, content: &str) -> String {
    let length = content.len();
    format!(
        "PUT {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\nContent-Length: {length}\r\n\r\n{content}"
    )
}

pub fn delete(path: &str) -> String {
    format!("DELETE {path} HTTP/1.1\r\nHost: a\r\nAuthorization: Bearer {TOKEN}\r\n\r\n")
}

/// A round in which each connection has a turn at most; returns whether some have more to do.
pub fn short_round(world: &mut World) -> bool {
    world.begin_round();
    while let Some(slot) = world.server.files().as_mut().and_then(Store::news) {
        world.server.ready(slot);
    }
    let more = world.server.run(&mut world.pipes, world.now, 64);
    let asleep = world.server.files().as_mut().expect("a store").end_round().is_asleep();
    more || !asleep
}

/// Rounds after which everybody has what there is to have, while clients take nothing.
pub fn settle(world: &mut World) {
    for _ in 0..60 {
        (0..world.pipes.0.len()).for_each(|slot| world.server.ready(slot));
        let _ = short_round(world);
        let _ = world.files().round();
    }
}
