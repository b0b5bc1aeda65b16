//! A transport of byte vectors, and a small site.

#![allow(dead_code, reason = "each test file uses some of it")]

pub mod shelf;

use core::fmt::{self, Write};
use culm_http::site::{Document, File, Site};
use culm_http::{Caching, Files, Renderer, Server, Stream, Timeouts, Transport};

/// One connection in memory. `piece` is how much lies side by side, of what was received and of the
/// room for what is sent: one byte at least.
pub struct Pipe {
    pub input: Vec<u8>,
    pub ended: bool,
    pub piece: usize,
    /// Bytes of the send buffer; none if the peer acknowledges at once what is sent.
    pub buffer: Option<usize>,
    /// Bytes of it that the peer has not acknowledged. The end of this side counts as one.
    pub unacknowledged: usize,
    /// How often the transport can refer to what stays where it is, and has something
    /// unacknowledged; it copies all if this is `None`.
    pub references: Option<usize>,
    pub output: Vec<u8>,
    pub finished: bool,
    pub aborted: bool,
    pub rests: bool,
    /// Whether the transport ends connections for itself that were released, and whether it was.
    pub finishes_alone: bool,
    pub released: bool,
    /// Whether others wait for its place.
    pub is_wanted: bool,
}

impl Default for Pipe {
    fn default() -> Self {
        let input = Vec::new();
        let output = Vec::new();
        Self {
            input,
            ended: false,
            piece: usize::MAX,
            buffer: None,
            unacknowledged: 0,
            references: None,
            output,
            finished: false,
            aborted: false,
            rests: false,
            finishes_alone: false,
            released: false,
            is_wanted: false,
        }
    }
}

impl Stream for &mut Pipe {
    fn received(&mut self) -> &[u8] {
        &self.input[..self.input.len().min(self.piece.max(1))]
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
        self.input.drain(..count);
    }
    fn ended(&self) -> bool {
        self.ended
    }
    fn room(&self) -> usize {
        let room = self.buffer.map_or(usize::MAX, |size| size - self.unacknowledged);
        if self.finished { 0 } else { room }
    }
    fn unacknowledged(&self) -> usize {
        self.unacknowledged
    }
    fn send(&mut self, bytes: &[u8]) -> usize {
        assert!(!self.finished, "sent after its end");
        let count = bytes.len().min(self.room());
        self.output.extend_from_slice(&bytes[..count]);
        self.unacknowledged += if self.buffer.is_some() { count } else { 0 };
        count
    }
    fn send_static(&mut self, bytes: &'static [u8]) -> usize {
        match &mut self.references {
            Some(0) => return 0,
            Some(left) => *left -= 1,
            None => {}
        }
        self.send(bytes)
    }
    fn send_with(&mut self, count: usize, fill: impl FnOnce(&mut [u8]) -> usize) -> usize {
        let mut bytes = vec![0; count.min(self.room()).min(self.piece.max(1))];
        let written = fill(&mut bytes);
        self.send(&bytes[..written])
    }
    fn finish(&mut self) {
        self.unacknowledged += usize::from(self.buffer.is_some() && !self.finished);
        self.finished = true;
    }
    fn finishes_alone(&self) -> bool {
        self.finishes_alone
    }
    fn abort(&mut self) {
        self.aborted = true;
    }
    fn rest(&mut self) {
        self.rests = true;
    }
    fn is_over(&self) -> bool {
        self.aborted || (self.finished && self.ended && self.unacknowledged == 0)
    }
}

/// Connections in memory.
#[derive(Default)]
pub struct Pipes(pub Vec<Option<Pipe>>);

impl Transport for Pipes {
    type Stream<'t> = &'t mut Pipe;
    fn stream(&mut self, slot: usize) -> Option<&mut Pipe> {
        self.0[slot].as_mut()
    }
    fn is_crowded(&self) -> bool {
        self.0.iter().flatten().any(|pipe| pipe.is_wanted)
    }
    fn release(&mut self, slot: usize) {
        let Some(pipe) = &mut self.0[slot] else { return };
        assert!(pipe.aborted || pipe.ended || pipe.finishes_alone);
        pipe.released = true;
    }
}

/// Renders its number and the time.
pub struct Clock;

impl Renderer for Clock {
    fn render(&mut self, document: u16, now: u64, into: &mut dyn Write) -> fmt::Result {
        write!(into, "document {document} at {now}")
    }

    fn longest(&self) -> usize {
        32
    }
}

pub const TIMEOUTS: Timeouts =
    Timeouts { idle: 1000, request: 100, response: 200, linger: 50, farewell: 300, fresh: 5 };

pub static BIG: [u8; 100_000] = {
    let mut bytes = [0; 100_000];
    let mut at = 0;
    while at < bytes.len() {
        bytes[at] = (at % 251) as u8;
        at += 1;
    }
    bytes
};

/// A file that comes in two forms. What the second one is does not matter to the server.
pub const PLAIN: &[u8] = b"as it is, and so longer";
pub const PACKED: &[u8] = b"as gzip";

pub fn site() -> Site {
    let plain: [(&str, &[u8]); 7] = [
        ("404.html", b"nothing here\n"),
        ("a b.txt", b"spaced"),
        ("big.bin", &BIG),
        ("docs/index.html", b"<p>docs"),
        ("empty.css", b""),
        ("hello.txt", b"hello, world"),
        ("index.html", b"<p>start"),
    ];
    let packed = File { path: "packed.txt", content: PLAIN, gzip: Some(PACKED) };
    let files = plain.into_iter().map(File::from).chain([packed]);
    let caching =
        Caching::new([("*.bin", "public, max-age=31536000, immutable"), ("/packed*", "no-store")].into_iter());
    Site::new(files, &caching, &[], &[Document { path: "/now", media: "text/plain" }])
}

pub fn server(capacity: usize) -> Server<Clock> {
    Server::new(site(), Clock, capacity, TIMEOUTS)
}

/// Returns what a server answers to `input`, given in the pieces that `cuts` make, with the
/// client's end after it. The receive buffer gives `piece` bytes at a time; the send buffer has
/// `room` for as many, of which a head needs 2,048.
pub fn exchange(input: &[u8], cuts: &[usize], piece: usize, room: usize) -> Vec<u8> {
    exchange_with(server(1), input, cuts, piece, room)
}

/// [`exchange`] with a server of one place.
pub fn exchange_with<F: Files>(
    mut server: Server<Clock, F>,
    input: &[u8],
    cuts: &[usize],
    piece: usize,
    room: usize,
) -> Vec<u8> {
    let mut pipes = Pipes(vec![Some(Pipe { piece, buffer: Some(room), ..Pipe::default() })]);
    server.opened(0, 0);
    let mut output = Vec::new();
    let mut start = 0;
    let ends = cuts.iter().copied().chain([input.len()]);
    for end in ends {
        let end = end.clamp(start, input.len());
        pipes.0[0].as_mut().unwrap().input.extend_from_slice(&input[start..end]);
        start = end;
        run_until_quiet(&mut server, &mut pipes, &mut output);
    }
    pipes.0[0].as_mut().unwrap().ended = true;
    run_until_quiet(&mut server, &mut pipes, &mut output);
    assert_eq!(server.open(), 0, "the connection did not end");
    output
}

/// Runs until nothing changes, taking what is sent. Files may answer when they are asked for the
/// [`shelf::PATIENCE`]th time.
fn run_until_quiet<F: Files>(server: &mut Server<Clock, F>, pipes: &mut Pipes, output: &mut Vec<u8>) {
    let mut quiet = 0;
    while quiet < shelf::PATIENCE {
        let before = pipes.0[0].as_ref().unwrap().input.len();
        server.ready(0);
        while server.run(pipes, 0, 1) {}
        let pipe = pipes.0[0].as_mut().unwrap();
        if pipe.output.is_empty() && pipe.unacknowledged == 0 && pipe.input.len() == before {
            quiet += if server.files().offer() == culm_http::files::Offer::Nothing { shelf::PATIENCE } else { 1 };
            continue;
        }
        quiet = 0;
        output.append(&mut pipe.output);
        pipe.unacknowledged = 0;
    }
}

/// The response to one request, as text.
pub fn get(request: &str) -> String {
    String::from_utf8_lossy(&exchange(request.as_bytes(), &[], usize::MAX, usize::MAX)).into_owned()
}

/// The status of the response to one request.
pub fn status(request: &str) -> u16 {
    let response = get(request);
    response.get(9..12).and_then(|status| status.parse().ok()).unwrap_or_else(|| panic!("no response: {response:?}"))
}
