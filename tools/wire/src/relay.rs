//! A wire with faults: frames between a TAP device and a machine go through this process, which
//! delays, loses, duplicates and reorders them, or stands for a router with a narrow link behind
//! it.
//!
//! Linux's `netem` does the like, where a kernel has it; this needs none. What happens to a frame
//! is drawn from a seed, so that the faults of one run are those of the next for the same frames.

use crate::narrow;
use anyhow::{Context, Result};
use nix::errno::Errno;
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::fs::File;
use std::io::{ErrorKind, Read, Write};
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::net::UnixDatagram;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Frames that are under way at most; more are lost, as in a router's queue.
const MOST_FRAMES: usize = 20_000;

/// Bytes of the longest frame.
const LONGEST_FRAME: usize = 65_550;

/// How often the relay looks whether it is to end, in milliseconds.
const LOOK: u16 = 100;

/// What the wire does. By default nothing.
///
/// The machine is who serves, so faults other than the delay befall what it sends: its data.
#[derive(Clone, Copy, Debug, Default)]
pub struct Faults {
    /// The time that a frame takes, each way.
    pub delay: Duration,
    /// Of the machine's frames, how many in a thousand are lost.
    pub loses: u32,
    /// How many arrive twice.
    pub duplicates: u32,
    /// How many take no time, and so overtake those before them.
    pub reorders: u32,
    /// The longest IPv4 packet of the machine's that a link carries, in bytes; 0 if there is no
    /// limit. Longer ones get a router's answer (RFC 792, RFC 1191).
    pub carries: u16,
}

/// A frame under way: when it arrives, a number that keeps the order, whether it goes to the
/// machine.
type Flying = Reverse<(Instant, u64, bool, Vec<u8>)>;

/// The wire, for as long as it exists.
#[derive(Debug)]
pub struct Relay {
    faults: Arc<Mutex<Faults>>,
    ends: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// Begins to pass frames between `tap`, a TAP device without header of virtio's, and `machine`,
    /// one end of a pair of datagram sockets. `begin` runs in the relay's thread first.
    pub fn start(tap: OwnedFd, machine: UnixDatagram, begin: impl FnOnce() + Send + 'static) -> Self {
        let (faults, ends) = (Arc::<Mutex<Faults>>::default(), Arc::<AtomicBool>::default());
        let mut wire = Wire {
            tap: tap.into(),
            machine,
            faults: faults.clone(),
            flying: BinaryHeap::new(),
            waiting: VecDeque::new(),
            count: 0,
            dice: 0x9e37_79b9_7f4a_7c15,
        };
        // A machine that takes nothing at present must not keep the relay from reading what it
        // sends: it may take nothing because it cannot send.
        let set_up = wire.machine.set_nonblocking(true);
        let is_over = ends.clone();
        let thread = std::thread::spawn(move || {
            begin();
            if let Err(error) = set_up {
                eprintln!("the wire does not begin: {error}");
                return;
            }
            while !is_over.load(Relaxed) {
                if let Err(error) = wire.turn() {
                    eprintln!("the wire ends: {error:#}");
                    return;
                }
            }
        });
        Self { faults, ends, thread: Some(thread) }
    }

    /// Sets what the wire does from now on. Frames under way stay.
    pub fn set(&self, faults: Faults) {
        *self.faults.lock().unwrap_or_else(PoisonError::into_inner) = faults;
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.ends.store(true, Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

struct Wire {
    tap: File,
    machine: UnixDatagram,
    faults: Arc<Mutex<Faults>>,
    flying: BinaryHeap<Flying>,
    /// Frames that have arrived at the machine, which it has not taken yet.
    waiting: VecDeque<Vec<u8>>,
    count: u64,
    dice: u64,
}

impl Wire {
    /// Waits for a frame or the time of one, and passes what there is.
    fn turn(&mut self) -> Result<()> {
        let now = Instant::now();
        let wait = self
            .flying
            .peek()
            .map_or(Duration::from_millis(LOOK.into()), |next| next.0.0.saturating_duration_since(now));
        // Rounded down, and looked at without waiting in the last millisecond: a timeout has no
        // finer unit.
        let milliseconds = wait.as_millis().min(LOOK.into()) as u16;
        let of_machine =
            if self.waiting.is_empty() { PollFlags::POLLIN } else { PollFlags::POLLIN | PollFlags::POLLOUT };
        let mut ready =
            [PollFd::new(self.tap.as_fd(), PollFlags::POLLIN), PollFd::new(self.machine.as_fd(), of_machine)];
        match poll(&mut ready, PollTimeout::from(milliseconds)) {
            Ok(_) | Err(Errno::EINTR) => {}
            Err(error) => return Err(error).context("cannot wait for frames"),
        }
        let [from_tap, from_machine] = ready.map(|ready| ready.any().unwrap_or(false));
        let faults = *self.faults.lock().unwrap_or_else(PoisonError::into_inner);
        let mut frame = [0; LONGEST_FRAME];
        if from_tap {
            match self.tap.read(&mut frame) {
                Ok(length) => self.fly(Instant::now() + faults.delay, true, frame[..length].to_vec()),
                Err(error) if is_idle(&error) => {}
                Err(error) => return Err(error).context("cannot read from the TAP device"),
            }
        }
        if from_machine {
            match self.machine.recv(&mut frame) {
                Ok(length) => self.take(&frame[..length], &faults),
                Err(error) if is_idle(&error) => {}
                Err(error) => return Err(error).context("cannot read what the machine sends"),
            }
        }
        self.land()
    }

    /// Takes a frame of the machine's, and draws what happens to it.
    fn take(&mut self, frame: &[u8], faults: &Faults) {
        let now = Instant::now();
        if faults.carries > 0
            && let Some(answer) = narrow::answer(frame, faults.carries)
        {
            return self.fly(now + faults.delay, true, answer);
        }
        let (lost, twice, early) = (self.draw(faults.loses), self.draw(faults.duplicates), self.draw(faults.reorders));
        if lost {
            return;
        }
        let at = if early { now } else { now + faults.delay };
        if twice {
            self.fly(at, false, frame.to_vec());
        }
        self.fly(at, false, frame.to_vec());
    }

    /// Returns whether something happens that does so `per_mille` times in a thousand.
    fn draw(&mut self, per_mille: u32) -> bool {
        self.dice ^= self.dice << 13;
        self.dice ^= self.dice >> 7;
        self.dice ^= self.dice << 17;
        (self.dice >> 20) % 1000 < per_mille.into()
    }

    fn fly(&mut self, at: Instant, is_for_machine: bool, frame: Vec<u8>) {
        if self.flying.len() < MOST_FRAMES {
            self.count += 1;
            self.flying.push(Reverse((at, self.count, is_for_machine, frame)));
        }
    }

    /// Hands over the frames whose time has come.
    fn land(&mut self) -> Result<()> {
        let now = Instant::now();
        while self.flying.peek().is_some_and(|next| next.0.0 <= now) {
            let Some(Reverse((_, _, is_for_machine, frame))) = self.flying.pop() else { break };
            if is_for_machine {
                if self.waiting.len() < MOST_FRAMES {
                    self.waiting.push_back(frame);
                }
            } else {
                pass(self.tap.write(&frame))?;
            }
        }
        while let Some(frame) = self.waiting.front() {
            if !pass(self.machine.send(frame))? {
                break;
            }
            self.waiting.pop_front();
        }
        Ok(())
    }
}

/// Returns whether a frame was taken, or lost: by a machine that has ended, by a device without
/// room. It was not by a machine that has none.
fn pass(result: std::io::Result<usize>) -> Result<bool> {
    match result {
        Ok(_) => Ok(true),
        Err(error) if is_idle(&error) => Ok(false),
        Err(error) if matches!(error.kind(), ErrorKind::ConnectionRefused | ErrorKind::NotConnected) => Ok(true),
        Err(error) => Err(error).context("cannot hand a frame over"),
    }
}

fn is_idle(error: &std::io::Error) -> bool {
    matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    /// A wire with sockets at both ends: the TAP device's, and the machine's.
    fn wire(faults: Faults) -> (Relay, UnixDatagram, UnixDatagram) {
        let (tap, ours) = UnixDatagram::pair().expect("sockets");
        let (machine, theirs) = UnixDatagram::pair().expect("sockets");
        for socket in [&ours, &theirs] {
            socket.set_read_timeout(Some(Duration::from_millis(500))).expect("a socket");
        }
        let relay = Relay::start(tap.into(), machine, || {});
        relay.set(faults);
        (relay, ours, theirs)
    }

    /// Sends 400 numbered frames from the machine's end, and returns what arrives at the other.
    fn arrivals(faults: Faults) -> Vec<u32> {
        let (_relay, ours, theirs) = wire(faults);
        let mut arrived = Vec::new();
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for number in 0_u32..400 {
                    theirs.send(&number.to_be_bytes()).expect("a frame is taken");
                }
            });
            let mut frame = [0; 4];
            while ours.recv(&mut frame).is_ok() {
                arrived.push(u32::from_be_bytes(frame));
            }
        });
        arrived
    }

    #[test]
    fn frames_arrive_in_order_after_their_time() {
        let begin = Instant::now();
        let arrived = arrivals(Faults { delay: Duration::from_millis(50), ..Faults::default() });
        assert!(begin.elapsed() >= Duration::from_millis(50));
        assert_eq!(arrived, (0..400).collect::<Vec<_>>());
        let (_relay, ours, theirs) = wire(Faults::default());
        ours.send(b"to the machine").expect("a frame is taken");
        assert_eq!(theirs.recv(&mut [0; 64]).expect("it arrives"), 14);
    }

    /// A machine that cannot send what it has may take nothing until then.
    #[test]
    fn a_machine_that_takes_nothing_is_still_heard() {
        let (_relay, ours, theirs) = wire(Faults::default());
        for _ in 0..2000 {
            ours.send(&[0; 1000]).expect("the wire takes what comes");
        }
        theirs.send(b"heard").expect("a frame is taken");
        assert_eq!(ours.recv(&mut [0; 64]).expect("it arrives"), 5);
        for _ in 0..2000 {
            theirs.recv(&mut [0; 2000]).expect("what came before arrives");
        }
    }

    #[test]
    fn faults_come_as_often_as_they_are_asked_for() {
        let lost = 400 - arrivals(Faults { loses: 100, ..Faults::default() }).len();
        assert!((15..80).contains(&lost), "{lost}");
        let twice = arrivals(Faults { duplicates: 100, ..Faults::default() });
        assert_eq!(twice.iter().collect::<BTreeSet<_>>().len(), 400);
        assert!((415..480).contains(&twice.len()), "{}", twice.len());
        let early = arrivals(Faults { delay: Duration::from_millis(100), reorders: 100, ..Faults::default() });
        assert_eq!(early.iter().collect::<BTreeSet<_>>().len(), 400);
        assert!(early[0] > 0, "{early:?}");
    }
}
