//! The server over a host's sockets: the same connections, site and status pages, with the host's
//! TCP in the network's place.
//!
//! For tests with real clients and for work on the pages. One thread and `poll`, as in the
//! component.

use culm_http::{Renderer, Server, Stream, Transport, limits};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::os::fd::AsFd;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::Instant;

/// Bytes of a connection's send buffer, as the component has by default.
const SEND_BUFFER: usize = 32 * 1024;

/// A connection.
pub struct Socket {
    socket: TcpStream,
    input: Vec<u8>,
    output: Vec<u8>,
    /// Nothing more will come.
    ended: bool,
    /// Nothing more is to be sent after `output`.
    finishing: bool,
    /// The end was sent.
    finished: bool,
    over: bool,
    /// No request is under way.
    rests: bool,
    /// When there was news for the last time.
    since: Instant,
}

impl Socket {
    fn new(socket: TcpStream) -> std::io::Result<Self> {
        socket.set_nonblocking(true)?;
        socket.set_nodelay(true)?;
        let (input, output) = (Vec::with_capacity(limits::HEAD), Vec::with_capacity(SEND_BUFFER));
        let (ended, finishing, finished, over, rests) = (false, false, false, false, false);
        Ok(Self { socket, input, output, ended, finishing, finished, over, rests, since: Instant::now() })
    }

    fn interest(&self) -> PollFlags {
        let mut flags = PollFlags::empty();
        flags.set(PollFlags::POLLIN, !self.ended && self.input.len() < limits::HEAD);
        flags.set(PollFlags::POLLOUT, !self.output.is_empty());
        flags
    }

    fn fill(&mut self) {
        (self.rests, self.since) = (false, Instant::now());
        let mut buffer = [0; limits::HEAD];
        let room = limits::HEAD - self.input.len();
        match self.socket.read(&mut buffer[..room]) {
            Ok(0) => self.ended |= room > 0,
            Ok(count) => self.input.extend_from_slice(&buffer[..count]),
            Err(error) => self.over |= error.kind() != ErrorKind::WouldBlock,
        }
    }

    fn flush(&mut self) {
        if !self.output.is_empty() {
            match self.socket.write(&self.output) {
                Ok(count) => drop(self.output.drain(..count)),
                Err(error) => self.over |= error.kind() != ErrorKind::WouldBlock,
            }
        }
        if self.finishing && !self.finished && self.output.is_empty() {
            self.over |= self.socket.shutdown(Shutdown::Write).is_err();
            self.finished = true;
        }
    }
}

impl Stream for &mut Socket {
    fn received(&mut self) -> &[u8] {
        &self.input
    }
    fn received_count(&self) -> usize {
        self.input.len()
    }
    fn copy_received(&mut self, into: &mut [u8]) -> usize {
        let count = into.len().min(self.input.len());
        into[..count].copy_from_slice(&self.input[..count]);
        count
    }
    fn consume(&mut self, count: usize) {
        self.input.drain(..count.min(self.input.len()));
    }
    fn ended(&self) -> bool {
        self.ended
    }
    fn room(&self) -> usize {
        if self.finishing { 0 } else { SEND_BUFFER - self.output.len() }
    }
    /// Returns the count of bytes that are not acknowledged. What the host's TCP has taken over
    /// counts as acknowledged. It takes over the end together with the last byte.
    fn unacknowledged(&self) -> usize {
        self.output.len()
    }
    fn send(&mut self, bytes: &[u8]) -> usize {
        let count = bytes.len().min(self.room());
        self.output.extend_from_slice(&bytes[..count]);
        count
    }
    fn send_with(&mut self, count: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        let (length, count) = (self.output.len(), count.min(self.room()));
        self.output.resize(length + count, 0);
        let written = fill(&mut self.output[length..]).min(count);
        self.output.truncate(length + written);
        written
    }
    fn finish(&mut self) {
        self.finishing = true;
    }
    fn abort(&mut self) {
        self.over = true;
    }
    fn rest(&mut self) {
        self.rests = true;
    }
    fn is_over(&self) -> bool {
        self.over || (self.finished && self.ended)
    }
}

/// All connections.
struct Sockets(Vec<Option<Socket>>);

impl Transport for Sockets {
    type Stream<'t> = &'t mut Socket;
    fn stream(&mut self, slot: usize) -> Option<&mut Socket> {
        self.0.get_mut(slot)?.as_mut()
    }
    fn release(&mut self, slot: usize) {
        self.0[slot] = None;
    }
}

/// Serves until `stop` is set, which is looked at ten times a second. Time is in nanoseconds from
/// the start.
pub fn serve<R: Renderer>(listener: &TcpListener, server: &mut Server<R>, stop: &AtomicBool) -> std::io::Result<()> {
    listener.set_nonblocking(true)?;
    let started = Instant::now();
    let mut sockets = Sockets((0..server.capacity()).map(|_| None).collect());
    while !stop.load(Relaxed) {
        let now = started.elapsed().as_nanos() as u64;
        accept(listener, server, &mut sockets, now)?;
        server.expire(&mut sockets, now);
        let mut more = server.run(&mut sockets, now, server.capacity());
        for (slot, place) in sockets.0.iter_mut().enumerate() {
            let Some(socket) = place else { continue };
            let full = !socket.output.is_empty();
            socket.flush();
            if full && socket.output.is_empty() {
                server.ready(slot);
                more = true;
            }
        }
        wait(listener, server, &mut sockets, if more { 0u8 } else { 100 })?;
    }
    Ok(())
}

impl Sockets {
    /// A free slot, or that of the connection which rests longest.
    fn place(&self) -> Option<usize> {
        let at_rest = |socket: &&Socket| socket.rests && socket.output.is_empty();
        let resting =
            self.0.iter().enumerate().filter_map(|(slot, place)| Some((slot, place.as_ref().filter(at_rest)?)));
        let free = self.0.iter().position(Option::is_none);
        free.or_else(|| resting.min_by_key(|(_, socket)| socket.since).map(|(slot, _)| slot))
    }
}

/// Takes in new connections, while there are slots, or connections that rest.
fn accept<R: Renderer>(
    listener: &TcpListener,
    server: &mut Server<R>,
    sockets: &mut Sockets,
    now: u64,
) -> std::io::Result<()> {
    loop {
        let mut waits = [PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
        if poll(&mut waits, PollTimeout::ZERO)? == 0 {
            return Ok(());
        }
        let Some(slot) = sockets.place() else { return Ok(()) };
        match listener.accept() {
            Ok((socket, _)) => {
                sockets.0[slot] = Some(Socket::new(socket)?);
                server.opened(slot, now);
            }
            // The peer went before it was let in.
            Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::ConnectionAborted) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Waits for news of any connection, and takes them in.
fn wait<R: Renderer>(
    listener: &TcpListener,
    server: &mut Server<R>,
    sockets: &mut Sockets,
    milliseconds: u8,
) -> std::io::Result<()> {
    let mut slots = vec![usize::MAX];
    let mut waits = vec![PollFd::new(listener.as_fd(), PollFlags::POLLIN)];
    for (slot, socket) in sockets.0.iter().enumerate() {
        if let Some(socket) = socket {
            slots.push(slot);
            waits.push(PollFd::new(socket.socket.as_fd(), socket.interest()));
        }
    }
    poll(&mut waits, PollTimeout::from(milliseconds))?;
    let news: Vec<_> = waits.iter().map(|wait| wait.revents().unwrap_or(PollFlags::empty())).collect();
    for (&slot, news) in slots.iter().zip(news).skip(1) {
        let Some(socket) = &mut sockets.0[slot] else { continue };
        if news.intersects(PollFlags::POLLIN | PollFlags::POLLHUP | PollFlags::POLLERR) {
            socket.fill();
            server.ready(slot);
        }
        if news.contains(PollFlags::POLLOUT) {
            socket.flush();
            server.ready(slot);
        }
    }
    Ok(())
}

/// The files of a folder and its folders, with paths as a packed folder has them.
///
/// # Errors
/// As the packing does, where there is a link, or anything else that is neither file nor folder: a
/// link may lead out of the folder, and reading a pipe may never end.
pub fn read_folder(folder: &Path) -> std::io::Result<Vec<(String, Vec<u8>)>> {
    let mut files = Vec::new();
    let mut folders = vec![folder.to_path_buf()];
    while let Some(next) = folders.pop() {
        for entry in std::fs::read_dir(next)? {
            let entry = entry?;
            let (path, kind) = (entry.path(), entry.file_type()?);
            if kind.is_dir() {
                folders.push(path);
            } else if !kind.is_file() {
                let problem = format!("{} is neither a file nor a folder", path.display());
                return Err(std::io::Error::new(ErrorKind::InvalidInput, problem));
            } else if let Some(name) = path.strip_prefix(folder).ok().and_then(Path::to_str) {
                files.push((name.to_owned(), std::fs::read(&path)?));
            }
        }
    }
    files.sort();
    Ok(files)
}
