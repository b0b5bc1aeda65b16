//! A connection (RFC 9293, §3.10): segments and time in, segments and deadlines out.

mod acknowledge;
mod buffer;
mod ecn;
mod path;
mod receive;
mod recovery;
mod reordering;
mod resume;
mod spurious_timeout;
mod time_wait;
mod timers;
mod transmit;
mod unreachable;

use crate::congestion::{Algorithm, Congestion};
use crate::header::{Flags, Header};
use crate::incoming::{Incoming, Island};
use crate::options::LARGEST_SCALE;
use crate::outgoing::{Full, Outgoing, Part, Piece};
use crate::round_trip::RoundTrip;
use crate::scoreboard::{FEWEST_RECORDS, Scoreboard, Sent};
use crate::sequence::Sequence;
use crate::time::{Instant, Span};
use buffer::Buffer;
use core::time::Duration;
use ecn::Ecn;
use path::Search;
use receive::Challenges;
use recovery::Recovery;
use timers::{Acknowledgement, Due, Timer};

pub use resume::answer_to;
pub use time_wait::TimeWait;
pub use transmit::Transmission;

/// The smallest maximum segment size that a peer is taken at its word for, in bytes: a smaller one
/// would have us send little else than headers.
pub const SMALLEST_SEGMENT: u16 = 88;

/// Bytes of the timestamps option in each segment, padded.
const STAMPS_LENGTH: u32 = 12;

/// The states of RFC 9293, §3.3.2, but LISTEN: what listens is no connection yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    /// A SYN was sent.
    SynSent,
    /// A SYN was received and sent.
    SynReceived,
    /// Both sides can send.
    Established,
    /// This side has closed; its FIN is not acknowledged.
    FinWait1,
    /// This side has closed, and the peer knows.
    FinWait2,
    /// The peer has closed.
    CloseWait,
    /// Both have closed at once; the peer has not acknowledged that.
    Closing,
    /// Both have closed, the peer first, which has not acknowledged that.
    LastAck,
    /// Both have closed; what may still be on the way is waited for.
    TimeWait,
    /// There is no connection.
    Closed,
}

/// How a connection ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Ending {
    /// Both sides have closed.
    Closed,
    /// The peer did not take the connection.
    Refused,
    /// The peer has reset it.
    Reset,
    /// The peer did not answer.
    TimedOut,
    /// This side has reset it.
    Aborted,
    /// The peer did not answer, and somebody on the way said that nothing gets there.
    Unreachable,
    /// This side no longer has the address that the connection is from.
    AddressLost,
}

/// When a silent peer is asked whether it is there (RFC 9293, §3.8.4).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct KeepAlive {
    /// After how much silence.
    pub idle: Duration,
    /// How long after each question comes the next.
    pub interval: Duration,
    /// After how many without an answer the connection ends. One question can get lost, so a peer
    /// that does not answer a single one may be there.
    pub questions: u8,
}

impl KeepAlive {
    /// After two hours, which no default may be less than (RFC 9293, §3.8.4), every 75 seconds, and
    /// given up eleven minutes after the first question.
    pub const USUAL: Self = Self { idle: Duration::from_secs(7200), interval: Duration::from_secs(75), questions: 9 };
}

/// What a connection is made with.
#[derive(Clone, Copy, Debug)]
pub struct Settings {
    /// This side's port.
    pub source: u16,
    /// The peer's port.
    pub destination: u16,
    /// The number of the SYN, which a stranger must not guess (RFC 6528).
    pub initial: Sequence,
    /// The longest payload in bytes that this side takes, and that its link carries, without
    /// options.
    pub segment: u16,
    /// What a peer takes that does not say (RFC 9293, §3.7.1): 536 over IPv4, 1,220 over IPv6.
    pub usual_segment: u16,
    /// The longest payload in bytes that is handed out at once, to be divided into segments by the
    /// device.
    pub longest_train: u32,
    /// Bytes that are kept for the application to read at most: 2³⁰ at most.
    pub capacity: u32,
    /// Bytes that are kept at first, and so the first window; 0 if they are `capacity` from the
    /// start. Doubles after each round trip in which the application has read half of it.
    pub first_capacity: u32,
    /// Whether explicit congestion notification is offered and agreed to (RFC 3168). Whoever sets
    /// it marks packets as [`Transmission::is_ect`] says, and tells [`Connection::receive`] which
    /// came with a mark of congestion.
    pub ecn: bool,
    /// How the congestion window moves.
    pub algorithm: Algorithm,
    /// What is added to the milliseconds of timestamps, so that they tell nobody the time (RFC
    /// 7323, §7.1).
    pub stamp_offset: u32,
    /// Whether and when a silent peer is asked.
    pub keep_alive: Option<KeepAlive>,
    /// How often in a row something is sent again after a timeout, once the connection is open; the
    /// next timeout ends it.
    pub attempts: u8,
    /// How long TIME-WAIT lasts: twice the longest life of a segment (RFC 9293, §3.4.2).
    pub time_wait: Span,
}

/// What a connection remembers things in. The lengths are its bounds.
#[derive(Debug)]
pub struct Storage<'s> {
    /// What the application sends.
    pub pieces: &'s mut [Piece],
    /// What was sent and is not acknowledged: at least [`FEWEST_RECORDS`].
    pub records: &'s mut [Sent],
    /// What has arrived before its turn.
    pub islands: &'s mut [Island],
}

/// One side of a connection.
///
/// Whoever has it gives it what comes from the peer ([`Self::receive`]), takes what is to go there
/// ([`Self::transmit`], until there is nothing more) after each call of any other method, and calls
/// [`Self::pass_time`] at [`Self::deadline`].
///
/// There is no Nagle algorithm (RFC 9293, §3.7.4, asks for a way to turn it off: it always is):
/// what is to go together is to be given before [`Self::transmit`] is called.
#[derive(Debug)]
pub struct Connection<'s> {
    settings: Settings,
    state: State,
    ending: Option<Ending>,

    /// The first number that is not acknowledged (SND.UNA), and the next to be sent (SND.NXT).
    una: Sequence,
    nxt: Sequence,
    /// The peer's window, in bytes from `una`; the largest ever; the segment that told it (SND.WL1,
    /// SND.WL2).
    window: u32,
    largest_window: u32,
    window_from: (Sequence, Sequence),
    /// When the peer closed its window last.
    closed_at: Instant,
    send_scale: u8,
    receive_scale: u8,
    has_sack: bool,
    has_stamps: bool,
    /// Bytes of payload and options that go in a segment.
    segment: u32,
    outgoing: Outgoing<'s>,
    board: Scoreboard<'s>,
    /// Whether the application has sent all, and whether the FIN that says so was sent.
    is_closing: bool,
    is_fin_sent: bool,
    congestion: Congestion,
    round_trip: RoundTrip,
    recovery: Recovery,
    ecn: Ecn,
    search: Search,
    /// Whether the congestion window is what holds data back.
    is_limited: bool,
    /// Whether data that is worth a train is held back, and whether some was.
    is_train_awaited: bool,
    is_held: bool,
    sent_at: Instant,
    /// Whether the SYN was sent again because the peer's came again.
    is_syn_repeated: bool,

    incoming: Incoming<'s>,
    /// Bytes in order that the application has not read.
    unread: u32,
    buffer: Buffer,
    /// The end of the window that the peer was told of.
    announced: Sequence,
    /// The number that was acknowledged last.
    acknowledged: Sequence,
    /// The number of the peer's FIN.
    fin: Option<Sequence>,
    /// The largest payload that came.
    received_segment: u32,
    /// The peer's timestamp that is echoed, and when it came (TS.Recent).
    recent_stamp: u32,
    recent_at: Instant,
    acknowledgement: Acknowledgement,

    timer: Option<(Instant, Timer)>,
    /// When the retransmission timeout passes, whatever else the timer waits for before.
    timeout_at: Instant,
    due: Option<Due>,
    /// Timeouts since the peer acknowledged something.
    timeouts: u8,
    heard_at: Instant,
    /// When somebody said last that nothing gets to the peer.
    unreachable_at: Option<Instant>,
    /// How often the peer was asked whether it is there, since it was heard.
    questions: u8,
    /// When it was asked last.
    asked_at: Instant,
    reset: Option<Header>,
    challenges: Challenges,
}

impl<'s> Connection<'s> {
    /// Opens a connection: a SYN is to be sent. `None` if there are too few records.
    pub fn connect(settings: Settings, storage: Storage<'s>, now: Instant) -> Option<Self> {
        let mut connection = Self::new(settings, storage, now)?;
        (connection.has_sack, connection.has_stamps) = (true, true);
        Some(connection)
    }

    /// Takes a connection that a peer opens by `syn`, which came for a port that is listened on:
    /// a SYN with ACK is to be sent. `None` if `syn` opens none (RFC 9293, §3.10.7.2), or if there
    /// are too few records.
    pub fn accept(settings: Settings, storage: Storage<'s>, syn: &Header, now: Instant) -> Option<Self> {
        let other = Flags::RST.with(Flags::ACK).with(Flags::FIN);
        if !syn.flags.has(Flags::SYN) || syn.flags.without(other) != syn.flags {
            return None;
        }
        let mut connection = Self::new(settings, storage, now)?;
        connection.take_opening(syn, now);
        Some(connection)
    }

    /// Takes the SYN by which the peer opens the connection.
    fn take_opening(&mut self, syn: &Header, now: Instant) {
        (self.has_sack, self.has_stamps) = (true, true);
        self.take_syn(syn, now);
        self.ecn.agree(self.settings.ecn && Ecn::is_offered(syn.flags));
        self.state = State::SynReceived;
    }

    fn new(settings: Settings, storage: Storage<'s>, now: Instant) -> Option<Self> {
        (storage.records.len() >= FEWEST_RECORDS).then(|| Self::fresh(settings, storage, now))
    }

    /// A connection of which nothing is known; `storage` has enough records.
    #[inline(always)]
    fn fresh(settings: Settings, storage: Storage<'s>, now: Instant) -> Self {
        let settings = Settings { capacity: settings.capacity.min(1 << 30), ..settings };
        let segment = u32::from(settings.segment.max(SMALLEST_SEGMENT));
        Self {
            state: State::SynSent,
            ending: None,
            una: settings.initial,
            nxt: settings.initial + 1,
            window: 0,
            largest_window: 0,
            window_from: (Sequence(0), Sequence(0)),
            closed_at: now,
            send_scale: 0,
            receive_scale: scale_of(settings.capacity),
            has_sack: false,
            has_stamps: false,
            segment,
            outgoing: Outgoing::new(storage.pieces),
            board: Scoreboard::new(storage.records),
            is_closing: false,
            is_fin_sent: false,
            congestion: Congestion::new(settings.algorithm, segment),
            round_trip: RoundTrip::new(),
            recovery: Recovery::default(),
            ecn: Ecn::default(),
            search: Search::default(),
            is_limited: false,
            is_train_awaited: false,
            is_held: false,
            sent_at: now,
            is_syn_repeated: false,
            incoming: Incoming::new(Sequence(0), storage.islands),
            unread: 0,
            buffer: Buffer::new(&settings),
            announced: Sequence(0),
            acknowledged: Sequence(0),
            fin: None,
            received_segment: u32::from(settings.usual_segment).min(segment),
            recent_stamp: 0,
            recent_at: now,
            acknowledgement: Acknowledgement::None,
            timer: None,
            timeout_at: now,
            due: Some(Due::Syn),
            timeouts: 0,
            heard_at: now,
            unreachable_at: None,
            questions: 0,
            asked_at: now,
            reset: None,
            challenges: Challenges::default(),
            settings,
        }
    }

    /// Takes what a SYN says: the peer's first number and options (RFC 7323, §1.3, §3.2: what it
    /// does not offer is not used).
    fn take_syn(&mut self, syn: &Header, now: Instant) {
        let options = &syn.options;
        self.incoming.next = syn.sequence + 1;
        self.announced = self.incoming.next;
        self.acknowledged = self.incoming.next;
        (self.send_scale, self.receive_scale) = match options.window_scale {
            Some(scale) => (scale, self.receive_scale),
            None => (0, 0),
        };
        self.has_sack &= options.sack_permitted;
        self.has_stamps &= options.timestamps.is_some();
        if let Some(stamps) = options.timestamps {
            (self.recent_stamp, self.recent_at) = (stamps.value, now);
        }
        let peers = options.mss.unwrap_or(self.settings.usual_segment).max(SMALLEST_SEGMENT);
        self.segment = self.segment.min(peers.into());
        self.congestion = Congestion::new(self.settings.algorithm, self.segment - self.fixed_options());
        // The window of a SYN is never scaled (RFC 7323, §2.2).
        self.window = syn.window.into();
        self.largest_window = self.window;
        self.window_from = (syn.sequence, syn.acknowledgement);
    }

    /// Returns the state.
    #[inline]
    pub fn state(&self) -> State {
        self.state
    }

    /// Returns the number of this side's SYN.
    pub fn initial(&self) -> Sequence {
        self.settings.initial
    }

    /// Returns how it ended, once it is [`State::Closed`].
    pub fn ending(&self) -> Option<Ending> {
        self.ending
    }

    /// Returns whether the peer has sent all, and all of that is in order.
    pub fn is_peer_done(&self) -> bool {
        matches!(self.state, State::CloseWait | State::Closing | State::LastAck | State::TimeWait)
    }

    /// Returns how many bytes are in order and not read.
    #[inline]
    pub fn readable(&self) -> u32 {
        self.unread
    }

    /// Returns how many bytes were given to be sent and are not acknowledged.
    #[inline]
    pub fn unacknowledged(&self) -> u32 {
        self.outgoing.length()
    }

    /// Returns the congestion window in bytes.
    pub fn congestion_window(&self) -> u32 {
        self.congestion.window()
    }

    /// Returns the smoothed round-trip time; `None` before the first measurement.
    pub fn round_trip(&self) -> Option<Span> {
        self.round_trip.smoothed()
    }

    /// Returns how many more bytes are worth giving to be sent now: with those that are not
    /// acknowledged, twice the congestion window. More would only wait, and fewer would leave a
    /// window that doubles unfilled. Whoever has to copy what it sends keeps to this and to a limit
    /// of its own; pieces of memory that stays may be given as they come.
    #[inline]
    pub fn room(&self) -> u32 {
        self.congestion.window().saturating_mul(2).saturating_sub(self.outgoing.length())
    }

    /// Gives a piece to be sent. It is refused if there is no place, and after [`Self::close`].
    pub fn send(&mut self, piece: Piece) -> Result<(), Full> {
        if self.is_closing || self.state == State::Closed {
            return Err(Full);
        }
        self.outgoing.push(piece)
    }

    /// Makes the piece that was given last longer by `bytes`, which lie behind it. It is refused if
    /// that piece is acknowledged already, and where [`Self::send`] would be.
    pub fn send_more(&mut self, bytes: u32) -> Result<(), Full> {
        if self.is_closing || self.state == State::Closed {
            return Err(Full);
        }
        self.outgoing.extend(bytes)
    }

    /// Returns whether one more piece can be given.
    #[inline]
    pub fn has_place(&self) -> bool {
        !self.is_closing && self.state != State::Closed && !self.outgoing.is_full()
    }

    /// Returns whether the application can still give something to be sent.
    #[inline]
    pub fn can_send(&self) -> bool {
        !self.is_closing && self.state != State::Closed
    }

    /// Returns the token of the first piece that is not acknowledged whole, and how many of its
    /// bytes are: those are not needed any more.
    #[inline]
    pub fn first_piece(&self) -> Option<(u64, u32)> {
        self.outgoing.first()
    }

    /// Sets how many bytes of payload [`Self::transmit`] hands out at once at most. Whoever sends
    /// knows only then whether the device divides what is longer than a segment, and whether there
    /// is a buffer for it.
    #[inline]
    pub fn set_longest_train(&mut self, bytes: u32) {
        self.settings.longest_train = bytes;
    }

    /// Sets whether [`Self::transmit`] holds back what is worth a train, for as long as something
    /// is on the way whose acknowledgement brings the connection on. Whoever can send trains, but
    /// has no buffer for one now, pays less if it waits for one than for as many single segments.
    #[inline]
    pub fn set_train_awaited(&mut self, is_awaited: bool) {
        (self.is_train_awaited, self.is_held) = (is_awaited, false);
    }

    /// Sets whether and when a silent peer is asked whether it is there.
    pub fn set_keep_alive(&mut self, keep_alive: Option<KeepAlive>) {
        self.settings.keep_alive = keep_alive;
    }

    /// Sets how often in a row something is sent again after a timeout, once the connection is
    /// open; the next timeout ends it.
    pub fn set_attempts(&mut self, attempts: u8) {
        self.settings.attempts = attempts;
    }

    /// Returns whether [`Self::transmit`] has held something back, since
    /// [`Self::set_train_awaited`].
    #[inline]
    pub fn is_held(&self) -> bool {
        self.is_held
    }

    /// Notes that the application has read `bytes`, or has thrown them away: that much more may
    /// come. Tells the peer once it is worth a segment (RFC 9293, §3.8.6.2.2).
    pub fn read(&mut self, bytes: u32) {
        let bytes = bytes.min(self.unread);
        self.unread -= bytes;
        self.buffer.note_read(bytes);
        let more = (self.incoming.next + self.free()).since(self.announced);
        if more >= self.worthwhile() as i32 && self.can_receive() {
            self.acknowledgement = Acknowledgement::Now;
        }
    }

    /// Notes that the application sends no more: a FIN follows what it has given. The peer may go
    /// on sending, and [`State::FinWait2`] lasts until it ends or a keep-alive finds it gone; who
    /// does not want to read any more calls [`Self::abort`].
    pub fn close(&mut self, release: impl FnMut(u64)) {
        match self.state {
            State::SynSent => self.end(Ending::Closed, release),
            State::Established => self.state = State::FinWait1,
            State::CloseWait => self.state = State::LastAck,
            _ => {}
        }
        self.is_closing = true;
    }

    /// Resets the connection, if there is one (RFC 9293, §3.10.5). All tokens go to `release`.
    pub fn abort(&mut self, release: impl FnMut(u64)) {
        let is_known = !matches!(self.state, State::SynSent | State::TimeWait | State::Closed);
        if is_known {
            let flags = Flags::RST.with(Flags::ACK);
            self.reset = Some(Header {
                source: self.settings.source,
                destination: self.settings.destination,
                sequence: self.next_without_content(),
                acknowledgement: self.incoming.next,
                flags,
                ..Header::default()
            });
        }
        if self.state != State::Closed {
            self.end(Ending::Aborted, release);
        }
    }

    /// Names the parts of the application's memory that are a transmission's payload.
    #[inline]
    pub fn parts(&mut self, transmission: &Transmission, take: impl FnMut(Part)) {
        self.outgoing.parts(transmission.offset, transmission.length, take);
    }

    fn end(&mut self, ending: Ending, release: impl FnMut(u64)) {
        self.state = State::Closed;
        self.ending = Some(ending);
        self.outgoing.clear(release);
        (self.timer, self.due, self.acknowledgement) = (None, None, Acknowledgement::None);
    }

    /// Returns whether the peer can still send something.
    fn can_receive(&self) -> bool {
        matches!(self.state, State::Established | State::FinWait1 | State::FinWait2)
    }

    /// Returns for how many bytes there is space.
    #[inline]
    fn free(&self) -> u32 {
        self.buffer.size().saturating_sub(self.unread)
    }

    /// Returns by how many bytes a window must grow before the peer is told.
    #[inline]
    fn worthwhile(&self) -> u32 {
        (self.buffer.size() / 2).min(2 * self.received_segment).max(1)
    }

    /// Returns the number behind all that is to be sent, a FIN included.
    #[inline]
    fn limit(&self) -> Sequence {
        if self.is_fin_sent {
            return self.nxt;
        }
        self.una + self.outgoing.length() + u32::from(self.is_closing)
    }
}

/// Returns the scale by which windows of up to `capacity` bytes fit 16 bits.
fn scale_of(capacity: u32) -> u8 {
    let bits = u32::BITS - capacity.leading_zeros();
    (bits.saturating_sub(16) as u8).min(LARGEST_SCALE)
}

/// Returns the reset that answers a segment for which there is no connection, of `length` bytes of
/// payload (RFC 9293, §3.10.7.1); `None` if it is one itself.
pub fn reset_for(header: &Header, length: u32) -> Option<Header> {
    if header.flags.has(Flags::RST) {
        return None;
    }
    let answer =
        Header { source: header.destination, destination: header.source, flags: Flags::RST, ..Header::default() };
    if header.flags.has(Flags::ACK) {
        return Some(Header { sequence: header.acknowledgement, ..answer });
    }
    let occupied = length + u32::from(header.flags.has(Flags::SYN)) + u32::from(header.flags.has(Flags::FIN));
    Some(Header { acknowledgement: header.sequence + occupied, flags: Flags::RST.with(Flags::ACK), ..answer })
}
