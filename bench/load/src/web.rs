//! An open loop of HTTP requests, each on a connection of its own.
//!
//! Connections begin when they are due, whatever has become of those before; if this generator
//! itself is too late, its report says by how much. An answer counts when it is whole, and for the
//! time at which it is. Requests that this machine could not send because no port or descriptor was
//! free are counted apart from those that the server did not answer.

use crate::engine::pin;
use crate::histogram::{Histogram, Percentiles};
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use nix::sys::socket::{
    AddressFamily, SockFlag, SockType, SockaddrIn, SockaddrIn6, SockaddrLike, connect, setsockopt, socket, sockopt,
};
use serde::Serialize;
use std::collections::VecDeque;
use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Connections that can be open at a time, if the system lets that be.
const DESCRIPTORS: u64 = 100_000;

/// Descriptors that are left to the rest of the process.
const SPARED: u64 = 256;

/// The requests to make.
#[derive(Clone, Debug)]
pub struct WebLoadSpec {
    /// The server.
    pub target: SocketAddr,
    /// The path.
    pub path: String,
    /// Requests a second.
    pub rate: f64,
    /// A request without an answer after this time is given up.
    pub patience: Duration,
    /// The processor to run on.
    pub processor: Option<usize>,
}

/// The counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct WebCounts {
    /// Connections begun.
    pub asked: u64,
    /// Answers that came whole, with status 200.
    pub answered: u64,
    /// Connections that the server reset or refused, or ended before the answer was whole.
    pub reset: u64,
    /// Given up because no answer came in time.
    pub timed_out: u64,
    /// Not even asked: this machine had no descriptor or no port left.
    pub unavailable: u64,
}

impl std::ops::Sub for WebCounts {
    type Output = WebCounts;

    fn sub(self, earlier: WebCounts) -> WebCounts {
        WebCounts {
            asked: self.asked - earlier.asked,
            answered: self.answered - earlier.answered,
            reset: self.reset - earlier.reset,
            timed_out: self.timed_out - earlier.timed_out,
            unavailable: self.unavailable - earlier.unavailable,
        }
    }
}

/// The report of a load between [`WebLoad::record`] and [`WebLoad::finish`].
#[derive(Clone, Serialize)]
pub struct WebReport {
    /// The counts of that time.
    pub counts: WebCounts,
    /// Its length.
    pub seconds: f64,
    /// From when a request was due to its answer.
    pub response: Percentiles,
    /// The longest time by which a connection began later than it was due, in microseconds.
    pub latest_us: u64,
}

#[derive(Default)]
struct Shared {
    asked: AtomicU64,
    answered: AtomicU64,
    reset: AtomicU64,
    timed_out: AtomicU64,
    unavailable: AtomicU64,
    latest_us: AtomicU64,
    record: AtomicBool,
    stop: AtomicBool,
}

/// A running load. Dropping it stops it.
pub struct WebLoad {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Histogram>>>,
    recording: (Instant, WebCounts),
}

impl WebLoad {
    /// Starts asking, in the network namespace of the calling thread.
    pub fn start(spec: &WebLoadSpec) -> Result<WebLoad> {
        if !(spec.rate > 0.0 && spec.rate <= 1e6) {
            bail!("a rate of {} requests/s is not possible", spec.rate);
        }
        let shared = Arc::new(Shared::default());
        let (spec, theirs) = (spec.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("web load".into()).spawn(move || {
            pin(spec.processor);
            Engine::new(spec, theirs, raise_limit())?.run()
        })?;
        Ok(WebLoad { shared, thread: Some(thread), recording: (Instant::now(), WebCounts::default()) })
    }

    /// Returns the counts since the start.
    pub fn counts(&self) -> WebCounts {
        let shared = &self.shared;
        WebCounts {
            asked: shared.asked.load(Relaxed),
            answered: shared.answered.load(Relaxed),
            reset: shared.reset.load(Relaxed),
            timed_out: shared.timed_out.load(Relaxed),
            unavailable: shared.unavailable.load(Relaxed),
        }
    }

    /// Begins to record.
    pub fn record(&mut self) {
        self.shared.latest_us.store(0, Relaxed);
        self.shared.record.store(true, Relaxed);
        self.recording = (Instant::now(), self.counts());
    }

    /// Returns the counts since the last [`WebLoad::record`].
    pub fn recorded(&self) -> WebCounts {
        self.counts() - self.recording.1
    }

    /// Stops, and says what happened since the last [`WebLoad::record`].
    pub fn finish(mut self) -> Result<WebReport> {
        let (counts, seconds) = (self.counts() - self.recording.1, self.recording.0.elapsed().as_secs_f64());
        let latest_us = self.shared.latest_us.load(Relaxed);
        self.shared.stop.store(true, Relaxed);
        let thread = self.thread.take().context("the load was finished before")?;
        let histogram = thread.join().map_err(|_| anyhow::anyhow!("the load generator's thread panicked"))??;
        Ok(WebReport { counts, seconds, response: histogram.percentiles(), latest_us })
    }
}

impl Drop for WebLoad {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// As many descriptors as the system grants; returns how many connections may be open at a time.
pub(crate) fn raise_limit() -> usize {
    use nix::sys::resource::{Resource, getrlimit, setrlimit};
    if let Ok((soft, hard)) = getrlimit(Resource::RLIMIT_NOFILE) {
        // Root may go beyond; where that is refused, what lacks is counted as unavailable.
        let all = DESCRIPTORS.max(soft);
        if setrlimit(Resource::RLIMIT_NOFILE, all, all.max(hard)).is_err() {
            let _ = setrlimit(Resource::RLIMIT_NOFILE, hard, hard);
        }
    }
    let granted = getrlimit(Resource::RLIMIT_NOFILE).map_or(DESCRIPTORS, |(soft, _)| soft);
    granted.saturating_sub(SPARED) as usize
}

/// A connection and what has come on it.
pub(crate) struct Connection {
    pub(crate) stream: TcpStream,
    /// When its request was due, in nanoseconds.
    pub(crate) due: u64,
    begun: bool,
    received: usize,
    head: Vec<u8>,
    /// Bytes of the whole answer, when its head is known.
    length: Option<usize>,
}

/// The state of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum State {
    Waiting,
    Answered,
    Lost,
}

struct Engine {
    spec: WebLoadSpec,
    shared: Arc<Shared>,
    epoll: Epoll,
    /// By a number that is in the events of the connection's socket.
    clients: Vec<Option<Connection>>,
    /// So many of them may be open at a time.
    most: usize,
    free: Vec<usize>,
    /// Numbers with the times at which they were due, oldest first, some of them over already.
    order: VecDeque<(usize, u64)>,
    request: Vec<u8>,
    histogram: Histogram,
    recording: bool,
    start: Instant,
    next: u64,
}

impl Engine {
    fn new(spec: WebLoadSpec, shared: Arc<Shared>, most: usize) -> Result<Self> {
        let request = format!("GET {} HTTP/1.1\r\nHost: guest\r\nConnection: close\r\n\r\n", spec.path).into_bytes();
        let epoll = Epoll::new(EpollCreateFlags::empty()).context("no epoll")?;
        Ok(Self {
            spec,
            shared,
            epoll,
            clients: Vec::new(),
            most,
            free: Vec::new(),
            order: VecDeque::new(),
            request,
            histogram: Histogram::default(),
            recording: false,
            start: Instant::now(),
            next: 0,
        })
    }

    fn run(mut self) -> Result<Histogram> {
        let mut events = vec![EpollEvent::empty(); 512];
        while !self.shared.stop.load(Relaxed) {
            if !self.recording && self.shared.record.load(Relaxed) {
                self.recording = true;
                self.histogram = Histogram::default();
            }
            self.begin_due()?;
            let count = match self.epoll.wait(&mut events, EpollTimeout::ZERO) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error).context("waiting for sockets failed"),
            };
            for event in &events[..count] {
                self.serve(event.data() as usize);
            }
            self.give_up();
        }
        Ok(self.histogram)
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Begins the connections that are due.
    fn begin_due(&mut self) -> Result<()> {
        // Answers that came are looked after in between, also where this machine cannot keep up.
        for _ in 0..64 {
            let due = (self.next as f64 * 1e9 / self.spec.rate) as u64;
            let now = self.now();
            if due > now {
                return Ok(());
            }
            self.next += 1;
            self.shared.latest_us.fetch_max((now - due) / 1000, Relaxed);
            self.shared.asked.fetch_add(1, Relaxed);
            self.begin(due)?;
        }
        Ok(())
    }

    fn begin(&mut self, due: u64) -> Result<()> {
        if self.clients.len() - self.free.len() >= self.most {
            self.shared.unavailable.fetch_add(1, Relaxed);
            return Ok(());
        }
        let stream = match open(self.spec.target) {
            Ok(stream) => stream,
            Err(Errno::EMFILE | Errno::ENFILE | Errno::EADDRNOTAVAIL | Errno::ENOBUFS | Errno::EAGAIN) => {
                self.shared.unavailable.fetch_add(1, Relaxed);
                return Ok(());
            }
            Err(error) => return Err(error).context("cannot open a connection"),
        };
        let number = self.free.pop().unwrap_or_else(|| {
            self.clients.push(None);
            self.clients.len() - 1
        });
        let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
        self.epoll.add(&stream, EpollEvent::new(flags, number as u64)).context("cannot watch a socket")?;
        self.clients[number] = Some(Connection::new(stream, due));
        self.order.push_back((number, due));
        Ok(())
    }

    /// There is news of a client.
    fn serve(&mut self, number: usize) {
        let Some(client) = self.clients.get_mut(number).and_then(Option::as_mut) else { return };
        match client.advance(&self.request) {
            State::Waiting => return,
            State::Answered => {
                self.shared.answered.fetch_add(1, Relaxed);
                let due = client.due;
                let now = self.now();
                if self.recording {
                    self.histogram.record(now.saturating_sub(due));
                }
            }
            State::Lost => {
                self.shared.reset.fetch_add(1, Relaxed);
            }
        }
        self.end(number);
    }

    fn end(&mut self, number: usize) {
        self.clients[number] = None;
        self.free.push(number);
    }

    /// Gives up those that have waited too long.
    fn give_up(&mut self) {
        let limit = self.now().saturating_sub(self.spec.patience.as_nanos() as u64);
        while let Some(&(number, due)) = self.order.front().filter(|(_, due)| *due < limit) {
            self.order.pop_front();
            if self.clients[number].as_ref().is_some_and(|client| client.due == due) {
                self.shared.timed_out.fetch_add(1, Relaxed);
                self.end(number);
            }
        }
    }
}

impl Connection {
    /// A connection that may still be opening, whose first request is due at `due`.
    pub(crate) fn new(stream: TcpStream, due: u64) -> Connection {
        Connection { stream, due, begun: false, received: 0, head: Vec::new(), length: None }
    }

    /// Has it ask again, after it was answered.
    pub(crate) fn ask_again(&mut self, due: u64) {
        (self.due, self.begun, self.received, self.length) = (due, false, 0, None);
        self.head.clear();
    }

    /// Sends its request, if that was not done yet, and reads what has come.
    pub(crate) fn advance(&mut self, request: &[u8]) -> State {
        if !self.begun {
            match self.stream.write(request) {
                Ok(count) if count == request.len() => self.begun = true,
                Err(error) if error.kind() == ErrorKind::WouldBlock || error.kind() == ErrorKind::NotConnected => {
                    return State::Waiting;
                }
                _ => return State::Lost,
            }
        }
        let mut buffer = [0; 16 * 1024];
        loop {
            match self.stream.read(&mut buffer) {
                Ok(0) => return State::Lost,
                Ok(count) => {
                    self.take(&buffer[..count]);
                    if self.length.is_some_and(|length| self.received >= length) {
                        return State::Answered;
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return State::Waiting,
                Err(_) => return State::Lost,
            }
        }
    }

    fn take(&mut self, bytes: &[u8]) {
        self.received += bytes.len();
        if self.length.is_none() {
            self.head.extend_from_slice(bytes);
            self.length = whole(&self.head);
        }
    }
}

/// Bytes of the answer that begins with `head`, once its head is there; never reached where it is
/// not what was asked for.
fn whole(head: &[u8]) -> Option<usize> {
    let end = head.windows(4).position(|window| window == b"\r\n\r\n")?;
    let text = std::str::from_utf8(&head[..end]).ok()?;
    let mut lines = text.split("\r\n");
    let is_good = lines.next().is_some_and(|line| line.starts_with("HTTP/1.1 200 "));
    let length = lines.find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("content-length").then(|| value.trim().parse::<usize>().ok())?
    });
    if is_good { Some(end + 4 + length?) } else { Some(usize::MAX) }
}

/// A connection that is being opened. Its end, when it is given up, is a reset, so that its port is
/// free again at once.
pub(crate) fn open(target: SocketAddr) -> Result<TcpStream, Errno> {
    let family = if target.is_ipv4() { AddressFamily::Inet } else { AddressFamily::Inet6 };
    let socket = socket(family, SockType::Stream, SockFlag::SOCK_NONBLOCK | SockFlag::SOCK_CLOEXEC, None)?;
    let linger = nix::libc::linger { l_onoff: 1, l_linger: 0 };
    setsockopt(&socket, sockopt::Linger, &linger)?;
    let address: &dyn SockaddrLike = match target {
        SocketAddr::V4(target) => &SockaddrIn::from(target),
        SocketAddr::V6(target) => &SockaddrIn6::from(target),
    };
    match connect(socket.as_raw_fd(), address) {
        Ok(()) | Err(Errno::EINPROGRESS) => Ok(TcpStream::from(socket)),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;

    #[test]
    fn an_answers_length_is_found() {
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n"), None);
        assert_eq!(whole(b"HTTP/1.1 200 OK\r\ncontent-length: 5\r\n\r\nhe"), Some(43));
        assert_eq!(whole(b"HTTP/1.1 503 No\r\nContent-Length: 5\r\n\r\n"), Some(usize::MAX));
    }

    /// A server that answers every other request, and resets the rest.
    #[test]
    fn what_becomes_of_requests_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = listener.local_addr().expect("an address");
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let Ok(mut stream) = stream else { return };
                let mut request = [0; 1024];
                let _ = stream.read(&mut request);
                if number % 2 == 0 {
                    let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                }
            }
        });
        let patience = Duration::from_secs(60);
        let spec = WebLoadSpec { target, path: "/".into(), rate: 500.0, patience, processor: None };
        let mut load = WebLoad::start(&spec).expect("it starts");
        load.record();
        while load.counts().answered < 20 || load.counts().reset < 20 {
            std::thread::sleep(Duration::from_millis(1));
        }
        let report = load.finish().expect("it ends");
        let counts = report.counts;
        assert_eq!((counts.unavailable, counts.timed_out), (0, 0));
        assert!(counts.asked >= counts.answered + counts.reset, "{counts:?}");
        assert!(counts.answered.abs_diff(counts.reset) < 20, "{counts:?}");
    }

    /// One that waited for answers, or let only so many be open, would soon ask no more.
    #[test]
    fn a_server_that_stalls_is_asked_all_the_same() {
        const STALLED: u64 = 600;
        // It lets clients connect, as many as its queue holds, and looks at none.
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = listener.local_addr().expect("an address");
        let patience = Duration::from_secs(3600);
        let spec = WebLoadSpec { target, path: "/".into(), rate: 1000.0, patience, processor: None };
        let load = WebLoad::start(&spec).expect("it starts");
        let until = Instant::now() + Duration::from_secs(120);
        while load.counts().asked < STALLED {
            assert!(Instant::now() < until, "{:?}", load.counts());
            std::thread::sleep(Duration::from_millis(1));
        }
        let counts = load.counts();
        let over = counts.answered + counts.reset + counts.timed_out + counts.unavailable;
        assert_eq!(over, 0, "all are under way: {counts:?}");
    }

    #[test]
    fn who_is_silent_is_given_up() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = listener.local_addr().expect("an address");
        let patience = Duration::from_millis(10);
        let spec = WebLoadSpec { target, path: "/".into(), rate: 500.0, patience, processor: None };
        let load = WebLoad::start(&spec).expect("it starts");
        while load.counts().timed_out < 5 {
            std::thread::sleep(Duration::from_millis(1));
        }
        assert_eq!(load.counts().answered, 0);
    }
}
