//! The loop that sends and receives, on a thread of its own.

use crate::batch::Batch;
use crate::histogram::{Histogram, Percentiles};
use crate::packet::{HEADER, LARGEST, Pattern};
use anyhow::{Context, Result, bail};
use serde::Serialize;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// How packets are paced.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// So many packets are in flight at any time; an answer or a time-out lets the next one go.
    Window(usize),
    /// So many packets per second are sent, whatever comes back.
    Rate(f64),
}

/// The load to send.
#[derive(Clone, Debug)]
pub struct LoadSpec {
    /// The echo servers; packets go to each in turn.
    pub targets: Vec<SocketAddr>,
    /// Bytes of UDP payload, `HEADER` to `LARGEST`.
    pub size: usize,
    /// The pace.
    pub mode: Mode,
    /// A packet without an answer after this time is lost.
    pub patience: Duration,
    /// The processor to run on.
    pub processor: Option<usize>,
}

/// The counts so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize)]
pub struct Counts {
    /// Packets sent.
    pub sent: u64,
    /// Answers that were whole and counted for the first time.
    pub answered: u64,
    /// Packets without an answer within the patience.
    pub lost: u64,
    /// Further answers to packets that were answered before.
    pub duplicates: u64,
    /// Answers to packets that were given up before.
    pub late: u64,
    /// Answers that are not what was sent.
    pub corrupt: u64,
}

impl std::ops::Sub for Counts {
    type Output = Counts;

    fn sub(self, earlier: Counts) -> Counts {
        Counts {
            sent: self.sent - earlier.sent,
            answered: self.answered - earlier.answered,
            lost: self.lost - earlier.lost,
            duplicates: self.duplicates - earlier.duplicates,
            late: self.late - earlier.late,
            corrupt: self.corrupt - earlier.corrupt,
        }
    }
}

/// The report of a load from its last [`Load::record`] to its end.
#[derive(Clone, Serialize)]
pub struct Report {
    /// Since the start of the recording.
    pub counts: Counts,
    /// Length of the recording.
    pub seconds: f64,
    /// Round trips.
    pub round_trip: Percentiles,
    /// The same as points of a plot: (nanoseconds, share of packets up to there).
    #[serde(skip)]
    pub distribution: Vec<(u64, f64)>,
}

#[derive(Default)]
struct Shared {
    sent: AtomicU64,
    answered: AtomicU64,
    lost: AtomicU64,
    duplicates: AtomicU64,
    late: AtomicU64,
    corrupt: AtomicU64,
    record: AtomicBool,
    stop: AtomicBool,
}

impl Shared {
    fn counts(&self) -> Counts {
        Counts {
            sent: self.sent.load(Relaxed),
            answered: self.answered.load(Relaxed),
            lost: self.lost.load(Relaxed),
            duplicates: self.duplicates.load(Relaxed),
            late: self.late.load(Relaxed),
            corrupt: self.corrupt.load(Relaxed),
        }
    }
}

/// A running load. Dropping it stops it.
pub struct Load {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<Result<Histogram>>>,
    recording: (Instant, Counts),
}

impl Load {
    /// Starts sending. Sockets are opened on the calling thread, in its network namespace.
    pub fn start(spec: &LoadSpec) -> Result<Load> {
        if !(HEADER..=LARGEST).contains(&spec.size) {
            bail!("a packet of {} bytes: the load generator sends {HEADER} to {LARGEST}", spec.size);
        }
        match spec.mode {
            Mode::Window(window) if !(1..=65536).contains(&window) => {
                bail!("a window of {window} packets: 1 to 65536 are possible")
            }
            Mode::Rate(rate) if !(rate > 0.0 && rate <= 1e8) => bail!("a rate of {rate} packets/s is not possible"),
            _ => {}
        }
        if spec.targets.is_empty() {
            bail!("a load without an echo server to send to");
        }
        let sockets = spec.targets.iter().map(|target| connected(*target)).collect::<Result<Vec<_>>>()?;
        let shared = Arc::new(Shared::default());
        let (spec, theirs) = (spec.clone(), shared.clone());
        let thread = std::thread::Builder::new().name("load".into()).spawn(move || {
            pin(spec.processor);
            Engine::new(spec, sockets, theirs).run()
        })?;
        Ok(Load { shared, thread: Some(thread), recording: (Instant::now(), Counts::default()) })
    }

    /// Returns the counts since the start.
    pub fn counts(&self) -> Counts {
        self.shared.counts()
    }

    /// Begins to record: the report will hold what happens from here on.
    pub fn record(&mut self) {
        self.shared.record.store(true, Relaxed);
        self.recording = (Instant::now(), self.counts());
    }

    /// Stops, and says what happened since the last [`Load::record`].
    pub fn finish(mut self) -> Result<Report> {
        let (counts, seconds) = (self.counts() - self.recording.1, self.recording.0.elapsed().as_secs_f64());
        self.shared.stop.store(true, Relaxed);
        let thread = self.thread.take().context("the load was finished before")?;
        let histogram = thread.join().map_err(|_| anyhow::anyhow!("the load generator's thread panicked"))??;
        Ok(Report { counts, seconds, round_trip: histogram.percentiles(), distribution: histogram.distribution() })
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.shared.stop.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

fn connected(target: SocketAddr) -> Result<UdpSocket> {
    let any: SocketAddr = if target.is_ipv4() { ([0; 4], 0).into() } else { ([0u16; 8], 0).into() };
    let socket = UdpSocket::bind(any).context("cannot open a UDP socket")?;
    socket.connect(target).with_context(|| format!("no way to {target}"))?;
    enlarge_buffers(&socket);
    Ok(socket)
}

/// Packets of which it is remembered that they were answered.
const HISTORY: usize = 1 << 16;

/// One packet in flight.
#[derive(Clone, Copy, Default)]
struct Slot {
    sequence: u64,
    sent: u64,
    waiting: bool,
}

struct Engine {
    spec: LoadSpec,
    /// One for each target; the slot of a packet decides which.
    sockets: Vec<UdpSocket>,
    shared: Arc<Shared>,
    pattern: Pattern,
    start: Instant,
    slots: Vec<Slot>,
    /// Slots that are free to send, in a closed loop.
    free: Vec<usize>,
    next: u64,
    /// All packets before this one are answered or given up, in an open loop.
    oldest: u64,
    /// Numbers of answered packets plus one, each at its number modulo [`HISTORY`].
    answered: Vec<u64>,
    /// The packets that go out over each socket.
    outgoing: Vec<Batch>,
    incoming: Batch,
    histogram: Histogram,
    patience: u64,
    last_check: u64,
}

impl Engine {
    fn new(spec: LoadSpec, sockets: Vec<UdpSocket>, shared: Arc<Shared>) -> Self {
        let slots = match spec.mode {
            Mode::Window(window) => window,
            Mode::Rate(rate) => ((rate * spec.patience.as_secs_f64() * 2.0) as usize).clamp(1024, 1 << 20),
        };
        let free = if matches!(spec.mode, Mode::Window(_)) { (0..slots).rev().collect() } else { Vec::new() };
        Self {
            patience: spec.patience.as_nanos() as u64,
            spec,
            outgoing: sockets.iter().map(|_| Batch::default()).collect(),
            sockets,
            shared,
            pattern: Pattern::default(),
            start: Instant::now(),
            slots: vec![Slot::default(); slots],
            free,
            next: 0,
            oldest: 0,
            answered: vec![0; HISTORY],
            incoming: Batch::default(),
            histogram: Histogram::default(),
            last_check: 0,
        }
    }

    /// Spins rather than sleeps: it has a processor of its own, and a sleep would show in the round
    /// trips.
    fn run(mut self) -> Result<Histogram> {
        while !self.shared.stop.load(Relaxed) {
            if self.shared.record.swap(false, Relaxed) {
                self.histogram.clear();
            }
            let now = self.start.elapsed().as_nanos() as u64;
            match self.spec.mode {
                Mode::Window(_) => self.send_window(now)?,
                Mode::Rate(rate) => self.send_due(now, rate)?,
            }
            for index in 0..self.sockets.len() {
                while self.receive(index)? {}
            }
            if now - self.last_check > 1_000_000 {
                self.last_check = now;
                self.give_up(now);
            }
        }
        Ok(self.histogram)
    }

    fn push(&mut self, slot: usize, sequence: u64, due: u64) {
        self.slots[slot] = Slot { sequence, sent: due, waiting: true };
        let socket = slot % self.outgoing.len();
        self.pattern.write(self.outgoing[socket].push(self.spec.size), sequence, due);
    }

    fn full(&self) -> bool {
        self.outgoing.iter().any(Batch::full)
    }

    fn flush(&mut self) -> Result<()> {
        for (batch, socket) in self.outgoing.iter_mut().zip(&self.sockets) {
            let sent = batch.send(socket).context("sending failed")?;
            self.shared.sent.fetch_add(sent as u64, Relaxed);
        }
        Ok(())
    }

    fn send_window(&mut self, now: u64) -> Result<()> {
        if self.free.is_empty() {
            return Ok(());
        }
        while let Some(slot) = self.free.pop() {
            // The slot is part of the sequence number, so that an answer finds it.
            let sequence = self.next * self.slots.len() as u64 + slot as u64;
            self.next += 1;
            self.push(slot, sequence, now);
            if self.full() {
                self.flush()?;
            }
        }
        self.flush()
    }

    fn send_due(&mut self, now: u64, rate: f64) -> Result<()> {
        let due = due_until(now, rate);
        while self.next < due && !self.full() {
            let slot = (self.next % self.slots.len() as u64) as usize;
            if self.slots[slot].waiting {
                self.shared.lost.fetch_add(1, Relaxed);
            }
            let due = (self.next as f64 * 1e9 / rate) as u64;
            self.push(slot, self.next, due);
            self.next += 1;
        }
        self.flush()
    }

    /// Takes one batch of answers from a socket; says whether there was one.
    fn receive(&mut self, socket: usize) -> Result<bool> {
        let count = self.incoming.receive(&self.sockets[socket]).context("receiving failed")?;
        if count == 0 {
            return Ok(false);
        }
        let now = self.start.elapsed().as_nanos() as u64;
        let closed = matches!(self.spec.mode, Mode::Window(_));
        let (mut answered, mut duplicates, mut late, mut corrupt) = (0, 0, 0, 0);
        for packet in self.incoming.iter() {
            let Some((sequence, due)) = self.pattern.read(packet, self.spec.size) else {
                corrupt += 1;
                continue;
            };
            let slots = self.slots.len() as u64;
            let index = (sequence % slots) as usize;
            let number = if closed { sequence / slots } else { sequence };
            let history = &mut self.answered[(number % HISTORY as u64) as usize];
            let slot = &mut self.slots[index];
            if !slot.waiting || slot.sequence != sequence || slot.sent != due {
                let known = *history == number + 1;
                duplicates += u64::from(known);
                late += u64::from(!known);
                continue;
            }
            slot.waiting = false;
            *history = number + 1;
            answered += 1;
            self.histogram.record(now.saturating_sub(due));
            if closed {
                self.free.push(index);
            }
        }
        self.shared.answered.fetch_add(answered, Relaxed);
        self.shared.duplicates.fetch_add(duplicates, Relaxed);
        self.shared.late.fetch_add(late, Relaxed);
        self.shared.corrupt.fetch_add(corrupt, Relaxed);
        Ok(true)
    }

    /// Counts packets that waited too long as lost; in a closed loop their place is given to the
    /// next packet.
    fn give_up(&mut self, now: u64) {
        if matches!(self.spec.mode, Mode::Window(_)) {
            for index in 0..self.slots.len() {
                if self.give_up_slot(index, now) {
                    self.free.push(index);
                }
            }
            return;
        }
        // In an open loop packets are in the order of their numbers, so only the oldest need a
        // look.
        while self.oldest < self.next {
            let index = (self.oldest % self.slots.len() as u64) as usize;
            let slot = self.slots[index];
            if slot.sequence == self.oldest && slot.waiting && !self.give_up_slot(index, now) {
                return;
            }
            self.oldest += 1;
        }
    }

    /// Gives a packet up where it has waited too long.
    fn give_up_slot(&mut self, index: usize, now: u64) -> bool {
        let slot = &mut self.slots[index];
        let expired = slot.waiting && slot.sent + self.patience < now;
        if expired {
            slot.waiting = false;
            self.shared.lost.fetch_add(1, Relaxed);
        }
        expired
    }
}

/// How many packets are due at `now`, in nanoseconds: packet `n` at `n / rate`, so the first one at
/// once.
pub(crate) fn due_until(now: u64, rate: f64) -> u64 {
    (now as f64 * rate / 1e9) as u64 + 1
}

/// Keeps the calling thread on one processor; where that is refused, the figures are only noisier.
pub(crate) fn pin(processor: Option<usize>) {
    let Some(processor) = processor.filter(|processor| *processor < libc::CPU_SETSIZE as usize) else { return };
    // SAFETY: a zeroed set is an empty one; the kernel reads it during the call.
    unsafe {
        let mut set: libc::cpu_set_t = std::mem::zeroed();
        libc::CPU_SET(processor, &mut set);
        libc::sched_setaffinity(0, size_of::<libc::cpu_set_t>(), &set);
    }
}

/// Room for a whole window of the largest packets; the system may grant less.
pub(crate) fn enlarge_buffers(socket: &UdpSocket) {
    use std::os::fd::AsRawFd;
    let size: libc::c_int = 8 << 20;
    for (forced, polite) in [(libc::SO_RCVBUFFORCE, libc::SO_RCVBUF), (libc::SO_SNDBUFFORCE, libc::SO_SNDBUF)] {
        // SAFETY: the kernel reads the integer during the call.
        let set = |option| unsafe {
            let length = size_of_val(&size) as libc::socklen_t;
            libc::setsockopt(socket.as_raw_fd(), libc::SOL_SOCKET, option, (&raw const size).cast(), length)
        };
        if set(forced) != 0 {
            set(polite);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_packet_goes_when_it_is_due() {
        assert_eq!(due_until(0, 1000.0), 1);
        assert_eq!(due_until(999_999, 1000.0), 1);
        assert_eq!(due_until(1_000_000, 1000.0), 2);
    }
}
