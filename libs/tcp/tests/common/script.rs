//! A connection told what comes from its peer and asked what it sends, in lines as a trace has
//! them: `S. 0+0 ack 1 win 65535 mss 1460 sack-ok scale 7 stamps 5:9 blocks 10-20,30-40`.
//!
//! Numbers count from each side's SYN, which is 0. Flags are `S`, `F`, `R`, `P`, `U`, `E` for ECE,
//! `W` for CWR and `.` for ACK; `0+0` is the first number and how many bytes of payload follow.

#![allow(dead_code, reason = "each test uses a part of this")]

use culm_tcp::{
    Algorithm, Blocks, Connection, FEWEST_RECORDS, Flags, Header, Instant, Island, Options, Piece, Placement, Range,
    Sent, Sequence, Settings, Span, State, Storage, TimeWait, Timestamps, Transmission, answer_to,
};

/// The initial numbers of both sides: near the wrap, so that each script crosses it.
const OURS: Sequence = Sequence(u32::MAX - 2000);
const THEIRS: Sequence = Sequence(u32::MAX - 700);

const LETTERS: [(char, Flags); 8] = [
    ('S', Flags::SYN),
    ('F', Flags::FIN),
    ('R', Flags::RST),
    ('P', Flags::PSH),
    ('U', Flags::URG),
    ('E', Flags::ECE),
    ('W', Flags::CWR),
    ('.', Flags::ACK),
];

/// The connection of a test.
pub struct Script {
    pub connection: Connection<'static>,
    pub now: u64,
    pub released: Vec<u64>,
    given: u64,
}

/// What scripts begin with: segments of 1000 bytes besides the options, one at a time.
pub fn settings() -> Settings {
    Settings {
        source: 1,
        destination: 2,
        initial: OURS,
        segment: 1000,
        usual_segment: 536,
        longest_train: 1000,
        capacity: 60_000,
        first_capacity: 0,
        ecn: false,
        algorithm: Algorithm::Reno,
        stamp_offset: 0,
        keep_alive: None,
        attempts: 5,
        time_wait: Span::from_seconds(60),
    }
}

fn storage() -> Storage<'static> {
    Storage {
        pieces: vec![Piece::default(); 16].leak(),
        records: vec![Sent::default(); FEWEST_RECORDS.max(64)].leak(),
        islands: vec![Island::default(); 8].leak(),
    }
}

impl Script {
    /// Opens a connection.
    pub fn connect(settings: Settings) -> Self {
        let now = 1_000_000;
        let connection = Connection::connect(settings, storage(), Instant(now)).unwrap();
        Self { connection, now, released: Vec::new(), given: 0 }
    }

    /// Takes a connection that the peer opens.
    pub fn accept(settings: Settings, syn: &str) -> Self {
        let now = 1_000_000;
        let (header, _) = parse(syn);
        let connection = Connection::accept(settings, storage(), &header, Instant(now)).unwrap();
        Self { connection, now, released: Vec::new(), given: 0 }
    }

    /// Answers a SYN without keeping anything, and begins the connection with the segment that
    /// completes the handshake `round_trip` milliseconds later. Returns the answer too.
    pub fn resume(settings: Settings, syn: &str, last: &str, round_trip: u64) -> (Self, String) {
        let connection = Connection::closed(settings, storage()).unwrap();
        let mut script = Self { connection, now: 0, released: Vec::new(), given: 0 };
        let answer = script.resume_in_place(settings, syn, last, round_trip);
        (script, answer)
    }

    /// Does the same in place of a connection that is over.
    pub fn resume_in_place(&mut self, settings: Settings, syn: &str, last: &str, round_trip: u64) -> String {
        let (syn, _) = parse(syn);
        let answer = answer_to(&settings, &syn, Instant(1_000_000));
        self.now = 1_000_000 + round_trip * 1000;
        let (header, _) = parse(last);
        self.connection.resume(settings, &syn.options, &header, Instant(self.now));
        self.inject(last);
        render_header(&answer, 0)
    }

    /// A connection that is open, with SACK or not, and a round trip of 100 ms.
    pub fn open(settings: Settings, has_sack: bool) -> Self {
        let mut script = Self::connect(settings);
        script.expect("S 0+0 mss 1000 sack-ok");
        script.pass(100);
        script.inject(if has_sack {
            "S. 0+0 ack 1 win 60000 mss 1000 sack-ok"
        } else {
            "S. 0+0 ack 1 win 60000 mss 1000"
        });
        script.expect(". 1+0 ack 1");
        script.nothing();
        script
    }

    /// The same with timestamps, which are milliseconds: of this side from 1000 on, of the peer as
    /// the segments say.
    pub fn open_with_stamps(settings: Settings) -> Self {
        let mut script = Self::connect(settings);
        script.expect("S 0+0 stamps 1000:0");
        script.pass(100);
        script.inject("S. 0+0 ack 1 win 60000 mss 1000 sack-ok stamps 5000:1000");
        script.expect(". 1+0 ack 1 stamps 1100:5000");
        script
    }

    /// Gives bytes to be sent.
    pub fn write(&mut self, length: u32) {
        self.connection.send(Piece { token: self.given, length }).unwrap();
        self.given += 1;
    }

    /// Has a segment come.
    pub fn inject(&mut self, line: &str) -> Option<Placement> {
        self.receive(line, false)
    }

    /// Has a segment come that a router has marked (CE).
    pub fn inject_marked(&mut self, line: &str) -> Option<Placement> {
        self.receive(line, true)
    }

    fn receive(&mut self, line: &str, is_marked: bool) -> Option<Placement> {
        let (header, length) = parse(line);
        let released = &mut self.released;
        self.connection.receive(&header, length, is_marked, Instant(self.now), |token| released.push(token))
    }

    /// Has the application read.
    pub fn read(&mut self, bytes: u32) {
        self.connection.read(bytes);
    }

    /// Returns whether a SYN opens a connection in place of this one, and the least first number.
    pub fn succeeded_by(&self, line: &str) -> Option<u32> {
        self.connection.time_wait()?.succeeded_by(&parse(line).0).map(|first| first.since(OURS) as u32)
    }

    /// Returns the next segment that is sent.
    pub fn sent(&mut self) -> Option<String> {
        self.connection.transmit(Instant(self.now)).map(|sent| render(&sent))
    }

    /// Returns what `kept` answers to a segment.
    pub fn answer(&self, kept: &mut TimeWait, line: &str) -> Option<String> {
        let (header, length) = parse(line);
        kept.answer(&header, length, Instant(self.now)).map(|answer| render_header(&answer, 0))
    }

    /// Returns whether a segment that `kept` has answered is the peer's end.
    pub fn is_end(&self, kept: &TimeWait, line: &str) -> bool {
        let (header, length) = parse(line);
        kept.is_end(&header, length)
    }

    /// Returns whether a segment goes on where the connection of `kept` has stopped.
    pub fn is_continued(&self, kept: &TimeWait, line: &str) -> bool {
        kept.is_continued_by(&parse(line).0)
    }

    /// Checks the next segment that is sent: all that `line` says of it.
    #[track_caller]
    pub fn expect(&mut self, line: &str) {
        let Some(sent) = self.connection.transmit(Instant(self.now)) else {
            panic!("nothing is sent, in place of {line:?}: {:?}", self.connection);
        };
        let found = render(&sent);
        let words: Vec<_> = found.split(' ').collect();
        let wanted: Vec<_> = line.split(' ').collect();
        let is_there = |piece: &[&str]| words.windows(piece.len()).any(|window| window == piece);
        let mut rest = wanted.get(2..).unwrap_or(&[]);
        let mut is_as_told = words[..2] == wanted[..2];
        while let [word, ..] = rest {
            let count = if ["sack-ok", "ect"].contains(word) { 1 } else { 2 };
            is_as_told &=
                if rest.starts_with(&["blocks", "none"]) { !words.contains(word) } else { is_there(&rest[..count]) };
            rest = &rest[count..];
        }
        assert!(is_as_told, "sent {found:?}, in place of {line:?}");
    }

    /// Checks that nothing is sent now.
    #[track_caller]
    pub fn nothing(&mut self) {
        if let Some(sent) = self.connection.transmit(Instant(self.now)) {
            panic!("sent {:?}, in place of nothing", render(&sent));
        }
    }

    /// Has so many milliseconds pass, in which nothing must be due.
    #[track_caller]
    pub fn pass(&mut self, milliseconds: u64) {
        self.now += milliseconds * 1000;
        let deadline = self.connection.deadline();
        assert!(deadline.is_none_or(|at| at.0 > self.now), "something is due before: {deadline:?}");
    }

    /// Has the time pass until something is due, and that happen; returns the milliseconds.
    #[track_caller]
    pub fn wait(&mut self) -> u64 {
        let at = self.connection.deadline().expect("something is due");
        let passed = at.0.saturating_sub(self.now);
        self.now = self.now.max(at.0);
        let released = &mut self.released;
        self.connection.pass_time(Instant(self.now), |token| released.push(token));
        passed / 1000
    }

    /// Has a router say that the segment of this number was too big.
    pub fn too_big(&mut self, sequence: u32, segment: u16) -> bool {
        self.connection.too_big(OURS + sequence, segment, Instant(self.now))
    }

    /// Has somebody say that the segment of this number does not get to the peer.
    pub fn unreachable(&mut self, sequence: u32, is_final: bool) -> bool {
        let released = &mut self.released;
        self.connection.unreachable(OURS + sequence, is_final, Instant(self.now), |token| released.push(token))
    }

    pub fn close(&mut self) {
        let released = &mut self.released;
        self.connection.close(|token| released.push(token));
    }

    pub fn state(&self) -> State {
        self.connection.state()
    }
}

/// Gives `bytes` and takes the segments of 1000 bytes that go out from `first` on.
#[track_caller]
pub fn write_and_expect(script: &mut Script, bytes: u32, first: u32, segments: u32) {
    script.write(bytes);
    for number in 0..segments {
        let is_last = (number + 1) * 1000 >= bytes;
        script.expect(&format!("{} {}+1000 ack 1", if is_last { "P." } else { "." }, first + number * 1000));
    }
    script.nothing();
}

fn numbers(text: &str, separator: char) -> (u32, u32) {
    let (one, other) = text.split_once(separator).unwrap();
    (one.parse().unwrap(), other.parse().unwrap())
}

/// Reads a segment of the peer's.
fn parse(line: &str) -> (Header, u32) {
    let mut words = line.split(' ');
    let letters = words.next().unwrap();
    let flag = |letter| LETTERS.iter().find(|(known, _)| *known == letter).unwrap().1;
    let flags = letters.chars().map(flag).fold(Flags::default(), Flags::with);
    let (sequence, length) = numbers(words.next().unwrap(), '+');
    let mut header =
        Header { source: 2, destination: 1, sequence: THEIRS + sequence, flags, window: 60_000, ..Header::default() };
    let options: &mut Options = &mut header.options;
    while let Some(word) = words.next() {
        let mut value = || words.next().unwrap();
        match word {
            "ack" => header.acknowledgement = OURS + value().parse().unwrap(),
            "win" => header.window = value().parse().unwrap(),
            "mss" => options.mss = Some(value().parse().unwrap()),
            "scale" => options.window_scale = Some(value().parse().unwrap()),
            "sack-ok" => options.sack_permitted = true,
            "stamps" => {
                let (value, echo) = numbers(value(), ':');
                options.timestamps = Some(Timestamps { value, echo });
            }
            "blocks" => {
                let mut blocks = Blocks::default();
                for block in value().split(',') {
                    let (start, end) = numbers(block, '-');
                    blocks.push(Range { start: OURS + start, end: OURS + end });
                }
                options.sack = blocks;
            }
            word => panic!("no such word: {word}"),
        }
    }
    (header, length)
}

/// Writes a segment of this side's.
pub fn render(sent: &Transmission) -> String {
    render_header(&sent.header, sent.length) + if sent.is_ect { " ect" } else { "" }
}

fn render_header(header: &Header, length: u32) -> String {
    let Header { sequence, acknowledgement, flags, window, options, .. } = *header;
    let letters: String = LETTERS.iter().filter(|(_, flag)| flags.has(*flag)).map(|(letter, _)| letter).collect();
    let mut line = format!("{letters} {}+{}", sequence.since(OURS), length);
    if flags.has(Flags::ACK) {
        line += &format!(" ack {}", acknowledgement.since(THEIRS));
    }
    line += &format!(" win {window}");
    if let Some(mss) = options.mss {
        line += &format!(" mss {mss}");
    }
    if let Some(scale) = options.window_scale {
        line += &format!(" scale {scale}");
    }
    if options.sack_permitted {
        line += " sack-ok";
    }
    if let Some(stamps) = options.timestamps {
        line += &format!(" stamps {}:{}", stamps.value, stamps.echo);
    }
    let blocks: Vec<_> = options
        .sack
        .as_slice()
        .iter()
        .map(|block| format!("{}-{}", block.start.since(THEIRS), block.end.since(THEIRS)))
        .collect();
    if !blocks.is_empty() {
        line += &format!(" blocks {}", blocks.join(","));
    }
    line
}
