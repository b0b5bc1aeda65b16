//! HTTP over many connections that take turns: a closed loop in which the same number of requests
//! is under way however many connections there are.
//!
//! The request that follows an answer goes out on the connection that was silent longest. Each
//! answer is acknowledged by itself, at once (`TCP_QUICKACK`): where the next request comes soon it
//! would carry the acknowledgement, where it comes late a segment more would be sent. So a server
//! is sent the same segments, in the same batches, with few connections as with many.

use crate::engine::pin;
use crate::web::{Connection, State, open, raise_limit};
use anyhow::{Context, Result, bail};
use nix::errno::Errno;
use nix::sys::epoll::{Epoll, EpollCreateFlags, EpollEvent, EpollFlags, EpollTimeout};
use std::collections::VecDeque;
use std::net::{SocketAddr, TcpStream};
use std::os::fd::AsRawFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The requests to make.
#[derive(Clone, Debug)]
pub struct TurnsSpec {
    /// The server.
    pub target: SocketAddr,
    /// The path.
    pub path: String,
    /// Connections, all of which stay open.
    pub connections: usize,
    /// Requests under way at a time, each on another connection.
    pub under_way: usize,
    /// A request without an answer after this time ends the load as failed.
    pub patience: Duration,
    /// The processor to run on.
    pub processor: Option<usize>,
}

#[derive(Default)]
struct Shared {
    open: AtomicU64,
    answered: AtomicU64,
    stop: AtomicBool,
}

/// A running load. Dropping it stops it and ends all connections.
pub struct Turns {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<()>>>,
    connections: u64,
}

impl Turns {
    /// Begins to open connections, in the network namespace of the calling thread. Each asks once
    /// as soon as it is open; when all were answered, they take turns.
    ///
    /// # Errors
    /// Where the system does not let so many files be open.
    pub fn start(spec: &TurnsSpec) -> Result<Turns> {
        let (most, wanted) = (raise_limit(), spec.connections);
        if most < wanted {
            bail!("{wanted} connections are more than the {most} that this process may have open: raise `ulimit -Hn`");
        }
        if spec.under_way == 0 || spec.under_way > wanted {
            bail!("{} requests cannot be under way on {wanted} connections", spec.under_way);
        }
        let shared = Arc::new(Shared::default());
        let (spec, theirs, connections) = (spec.clone(), shared.clone(), spec.connections as u64);
        let thread = std::thread::Builder::new().name("turns".into()).spawn(move || {
            pin(spec.processor);
            Engine::new(spec, theirs)?.run()
        })?;
        Ok(Turns { shared, thread: Some(thread), connections })
    }

    /// Waits until all connections are open and each was answered once.
    ///
    /// # Errors
    /// If they are not within `patience`, or the load has failed.
    pub fn wait_until_open(&mut self, patience: Duration) -> Result<()> {
        let end = Instant::now() + patience;
        loop {
            let open = self.shared.open.load(Relaxed);
            if open == self.connections {
                return Ok(());
            }
            if self.thread.as_ref().is_none_or(JoinHandle::is_finished) {
                return self.end();
            }
            if Instant::now() > end {
                bail!("only {open} of {} connections were open after {patience:?}", self.connections);
            }
            std::thread::sleep(Duration::from_millis(1));
        }
    }

    /// Returns how many requests were answered since the start, each whole and with status 200.
    pub fn answered(&self) -> u64 {
        self.shared.answered.load(Relaxed)
    }

    /// Stops.
    ///
    /// # Errors
    /// If a connection ended, or a request was not answered in time.
    pub fn finish(mut self) -> Result<()> {
        self.end()
    }

    fn end(&mut self) -> Result<()> {
        self.shared.stop.store(true, Relaxed);
        let thread = self.thread.take().context("the load was finished before")?;
        thread.join().map_err(|_| anyhow::anyhow!("the load generator's thread panicked"))?
    }
}

impl Drop for Turns {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Engine {
    spec: TurnsSpec,
    shared: Arc<Shared>,
    epoll: Epoll,
    /// By a number that is in the events of the connection's socket.
    connections: Vec<Connection>,
    /// Those that are open and ask nothing, longest first.
    resting: VecDeque<usize>,
    under_way: Vec<usize>,
    request: Vec<u8>,
    start: Instant,
}

impl Engine {
    fn new(spec: TurnsSpec, shared: Arc<Shared>) -> Result<Engine> {
        Ok(Engine {
            request: format!("GET {} HTTP/1.1\r\nHost: guest\r\n\r\n", spec.path).into_bytes(),
            epoll: Epoll::new(EpollCreateFlags::empty()).context("no epoll")?,
            connections: Vec::with_capacity(spec.connections),
            resting: VecDeque::with_capacity(spec.connections),
            under_way: Vec::with_capacity(spec.under_way),
            start: Instant::now(),
            spec,
            shared,
        })
    }

    fn run(mut self) -> Result<()> {
        let mut events = vec![EpollEvent::empty(); 512];
        let nap = EpollTimeout::from(1_u8);
        while !self.shared.stop.load(Relaxed) {
            while self.under_way.len() < self.spec.under_way && self.begin()? {}
            let count = match self.epoll.wait(&mut events, nap) {
                Ok(count) => count,
                Err(Errno::EINTR) => 0,
                Err(error) => return Err(error).context("waiting for sockets failed"),
            };
            for event in &events[..count] {
                self.serve(event.data() as usize)?;
            }
            self.check_patience()?;
        }
        Ok(())
    }

    fn now(&self) -> u64 {
        self.start.elapsed().as_nanos() as u64
    }

    /// Begins the next request: on a new connection until there are all, then on the one that is
    /// next. Returns false if none is free.
    fn begin(&mut self) -> Result<bool> {
        let due = self.now();
        if self.connections.len() < self.spec.connections {
            let number = self.connections.len();
            let stream = open(self.spec.target).with_context(|| format!("cannot open connection {number}"))?;
            let flags = EpollFlags::EPOLLIN | EpollFlags::EPOLLOUT | EpollFlags::EPOLLET;
            self.epoll.add(&stream, EpollEvent::new(flags, number as u64)).context("cannot watch a socket")?;
            self.connections.push(Connection::new(stream, due));
            self.under_way.push(number);
            return Ok(true);
        }
        // Waits until each connection has asked once.
        if self.shared.open.load(Relaxed) < self.spec.connections as u64 {
            return Ok(false);
        }
        let Some(number) = self.resting.pop_front() else { return Ok(false) };
        self.connections[number].ask_again(due);
        self.under_way.push(number);
        self.serve(number)?;
        Ok(true)
    }

    /// Goes on with a connection of which there is news, or which has its turn.
    fn serve(&mut self, number: usize) -> Result<()> {
        let connection = &mut self.connections[number];
        let place = self.under_way.iter().position(|other| *other == number);
        match (connection.advance(&self.request), place) {
            (State::Answered, Some(place)) => {
                acknowledge(&connection.stream)?;
                self.under_way.swap_remove(place);
                self.resting.push_back(number);
                self.shared.answered.fetch_add(1, Relaxed);
                if self.shared.open.load(Relaxed) < self.spec.connections as u64 {
                    self.shared.open.fetch_add(1, Relaxed);
                }
            }
            (State::Waiting, _) => {}
            (State::Answered, None) => bail!("connection {number} was answered without a request"),
            (State::Lost, _) => bail!(
                "connection {number} of {} ended, or was answered wrongly, after {} answers",
                self.spec.connections,
                self.shared.answered.load(Relaxed)
            ),
        }
        Ok(())
    }

    fn check_patience(&self) -> Result<()> {
        let limit = self.now().saturating_sub(self.spec.patience.as_nanos() as u64);
        match self.under_way.iter().find(|number| self.connections[**number].due < limit) {
            Some(number) => bail!("no answer on connection {number} within {:?}", self.spec.patience),
            None => Ok(()),
        }
    }
}

/// Has the system acknowledge what has come on a connection at once.
fn acknowledge(stream: &TcpStream) -> Result<()> {
    let on: libc::c_int = 1;
    // SAFETY: the option takes an integer, which lives during the call.
    let result = unsafe {
        libc::setsockopt(
            stream.as_raw_fd(),
            libc::IPPROTO_TCP,
            libc::TCP_QUICKACK,
            (&raw const on).cast(),
            size_of::<libc::c_int>() as libc::socklen_t,
        )
    };
    Errno::result(result).context("cannot acknowledge at once")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write};
    use std::net::TcpListener;
    use std::sync::Mutex;

    /// Starts a server that answers so many requests on each connection, and then ends it. Keeps
    /// the numbers of connections in the order of their requests.
    fn server(answers: usize) -> (SocketAddr, Arc<Mutex<Vec<usize>>>) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = listener.local_addr().expect("an address");
        let order = Arc::new(Mutex::new(Vec::new()));
        let seen = order.clone();
        std::thread::spawn(move || {
            for (number, stream) in listener.incoming().enumerate() {
                let (Ok(mut stream), seen) = (stream, seen.clone()) else { return };
                std::thread::spawn(move || {
                    let mut request = [0; 1024];
                    for _ in 0..answers {
                        if stream.read(&mut request).is_ok_and(|count| count > 0) {
                            seen.lock().expect("whole").push(number);
                            let _ = stream.write_all(b"HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
                        }
                    }
                });
            }
        });
        (target, order)
    }

    fn spec(target: SocketAddr, connections: usize, under_way: usize) -> TurnsSpec {
        let patience = Duration::from_secs(60);
        TurnsSpec { target, path: "/".into(), connections, under_way, patience, processor: None }
    }

    #[test]
    fn all_connections_ask_in_turn() {
        let (target, order) = server(usize::MAX);
        let mut load = Turns::start(&spec(target, 20, 1)).expect("it starts");
        load.wait_until_open(Duration::from_secs(60)).expect("they open");
        while load.answered() < 100 {
            std::thread::sleep(Duration::from_millis(1));
        }
        load.finish().expect("nothing fails");
        let order = order.lock().expect("whole");
        let rounds: Vec<&[usize]> = order[..100].chunks(20).collect();
        assert!(rounds.iter().all(|round| *round == rounds[0]), "{rounds:?}");
        assert!((0..20).all(|number| rounds[0].contains(&number)), "{rounds:?}");
    }

    #[test]
    fn a_connection_that_ends_is_told() {
        let (target, _) = server(2);
        let mut load = Turns::start(&spec(target, 4, 2)).expect("it starts");
        load.wait_until_open(Duration::from_secs(60)).expect("they open");
        let end = Instant::now() + Duration::from_secs(60);
        while load.thread.as_ref().is_some_and(|thread| !thread.is_finished()) && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(1));
        }
        let error = load.finish().expect_err("they end");
        assert!(error.to_string().contains("ended"), "{error}");
        assert!(Turns::start(&spec(target, 2, 3)).is_err() && Turns::start(&spec(target, 2, 0)).is_err());
    }

    #[test]
    fn silence_is_told() {
        let silent = TcpListener::bind("127.0.0.1:0").expect("a free port");
        let target = silent.local_addr().expect("an address");
        let mut load =
            Turns::start(&TurnsSpec { patience: Duration::from_millis(10), ..spec(target, 2, 1) }).expect("it starts");
        let error = load.wait_until_open(Duration::from_secs(60)).expect_err("nobody answers");
        assert!(error.to_string().contains("no answer"), "{error}");
    }
}
