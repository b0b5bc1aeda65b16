//! TCP connections, as a router between their ends sees them.

use crate::make::{self, ACK, FIN, RST, SYN, Segment, tuple, v4};
use crate::tables::{SETTINGS, begin, connect, memory, pass, syn};
use culm_flow::{State, TCP, Table, Tracked, Tuple};
use proptest::prelude::*;

fn ends() -> Tuple {
    tuple(TCP, (v4([10, 0, 0, 1]), 4000), (v4([192, 0, 2, 80]), 80))
}

fn state(table: &Table<'_>) -> State {
    table.flows().next().unwrap().1.state
}

/// One segment of the client (`true`) or server, with flags, sequence and acknowledgement number.
type Step = (bool, u8, u32, u32);

/// Runs steps after a SYN of the client with number 100, and checks the state after each.
fn play(steps: &[(Step, Tracked, State)]) {
    let memory = memory(4);
    let mut table = Table::new(&SETTINGS, &memory);
    begin(&mut table, &syn(&ends()), 0).unwrap();
    for ((is_client, flags, sequence, acknowledgement), verdict, after) in steps.iter().copied() {
        let tuple = if is_client { ends() } else { ends().reversed() };
        let data = if flags & (SYN | RST | FIN) == 0 { 10 } else { 0 };
        let segment = Segment { flags, sequence, acknowledgement, window: 1000, data, ..Segment::default() };
        assert_eq!(pass(&mut table, &make::tcp(&tuple, &segment), 0), Some(verdict), "{segment:?}");
        if verdict != Tracked::Reopens {
            assert_eq!(state(&table), after, "{segment:?}");
        }
    }
}

const OPENING: [(Step, Tracked, State); 3] = [
    ((true, SYN, 100, 0), Tracked::Belongs, State::SynSent),
    ((false, SYN | ACK, 500, 101), Tracked::Belongs, State::SynReceived),
    ((true, ACK, 101, 501), Tracked::Belongs, State::Established),
];

fn after_opening(steps: &[(Step, Tracked, State)]) {
    play(&[&OPENING, steps].concat());
}

#[test]
fn a_connection_opens_and_closes() {
    after_opening(&[
        ((false, ACK, 501, 111), Tracked::Belongs, State::Established),
        ((true, FIN | ACK, 111, 511), Tracked::Belongs, State::Closing),
        ((false, ACK, 511, 112), Tracked::Belongs, State::Closing),
        ((false, FIN | ACK, 521, 112), Tracked::Belongs, State::Closing),
        ((true, RST | ACK, 112, 522), Tracked::Belongs, State::Closed),
        ((true, SYN, 9000, 0), Tracked::Reopens, State::SynSent),
    ]);
}

#[test]
fn both_fins_that_are_acknowledged_end_it() {
    after_opening(&[
        ((true, FIN | ACK, 111, 501), Tracked::Belongs, State::Closing),
        ((false, FIN | ACK, 501, 111), Tracked::Belongs, State::Closing),
        ((false, FIN | ACK, 501, 112), Tracked::Belongs, State::Closing),
        ((true, FIN | ACK, 111, 502), Tracked::Belongs, State::Closed),
    ]);
}

#[test]
fn both_may_begin_at_once() {
    play(&[
        ((false, SYN, 500, 0), Tracked::Belongs, State::SynReceived),
        ((true, SYN | ACK, 100, 501), Tracked::Belongs, State::SynReceived),
        ((false, SYN | ACK, 500, 101), Tracked::Belongs, State::Established),
    ]);
}

#[test]
fn a_reset_counts_if_it_names_the_next_number() {
    // Nobody has seen the connection who does not know its number.
    for (is_client, sequence) in [(true, 900), (true, 112), (false, 502), (false, 1000)] {
        let step = (is_client, RST, sequence, 0);
        after_opening(&[(step, Tracked::Belongs, State::Established)]);
    }
    for (is_client, sequence) in [(true, 1102), (true, 0x8000_0000), (false, 1502), (false, u32::MAX - 600)] {
        let step = (is_client, RST, sequence, 0);
        after_opening(&[(step, Tracked::Outside, State::Established)]);
    }
    for (is_client, sequence) in [(true, 101), (true, 111), (false, 501)] {
        let step = (is_client, RST, sequence, 0);
        after_opening(&[(step, Tracked::Belongs, State::Closed)]);
    }
}

#[test]
fn a_refusal_names_the_syn() {
    play(&[((false, RST | ACK, 0, 101), Tracked::Belongs, State::Closed)]);
    play(&[((false, RST | ACK, 0, 100), Tracked::Outside, State::SynSent)]);
    play(&[((false, RST, 101, 0), Tracked::Outside, State::SynSent)]);
}

#[test]
fn what_was_not_sent_is_not_acknowledged() {
    play(&[((false, SYN | ACK, 500, 102), Tracked::Outside, State::SynSent)]);
    play(&[((false, ACK, 500, 101), Tracked::Outside, State::SynSent)]);
    play(&[((true, ACK, 101, 501), Tracked::Outside, State::SynSent)]);
    after_opening(&[
        ((false, ACK, 501, 112), Tracked::Outside, State::Established),
        ((false, ACK, 501, 111_u32.wrapping_sub(200_000)), Tracked::Outside, State::Established),
        ((true, ACK, 1102, 501), Tracked::Outside, State::Established),
        ((true, ACK, 101_u32.wrapping_sub(1100), 501), Tracked::Outside, State::Established),
    ]);
}

/// RFC 9293 §3.8.6.1: whoever meets a closed window sends one byte beyond it now and then.
#[test]
fn a_closed_window_can_be_probed() {
    for (data, verdict) in [(1, Tracked::Belongs), (2, Tracked::Outside)] {
        let memory = memory(4);
        let mut table = Table::new(&SETTINGS, &memory);
        begin(&mut table, &syn(&ends()), 0).unwrap();
        assert!(connect(&mut table, &ends(), 0));
        let probe = Segment { flags: ACK, sequence: 1101, acknowledgement: 501, window: 9, data, ..Segment::default() };
        assert_eq!(pass(&mut table, &make::tcp(&ends(), &probe), 0), Some(verdict));
    }
}

/// RFC 5961 §4: the end answers a SYN by an acknowledgement, whose reset names the right number.
#[test]
fn who_has_forgotten_a_connection_can_begin_anew() {
    after_opening(&[
        ((false, ACK, 501, 111), Tracked::Belongs, State::Established),
        ((true, SYN, 77_000, 0), Tracked::Belongs, State::Established),
        ((false, ACK, 511, 111), Tracked::Belongs, State::Established),
        ((true, RST, 111, 0), Tracked::Belongs, State::Closed),
        ((true, SYN, 77_000, 0), Tracked::Reopens, State::Closed),
    ]);
}

/// A device that was switched off begins at the same port again, when its peer has given up, too.
#[test]
fn both_may_have_forgotten_a_connection() {
    let asks = ((true, SYN, 77_000, 0), Tracked::Belongs, State::Established);
    let answer = (false, SYN | ACK, 9000, 77_001);
    after_opening(&[asks, (answer, Tracked::Reopens, State::Established)]);
    after_opening(&[asks, ((false, RST | ACK, 0, 77_001), Tracked::Belongs, State::Closed)]);
    // Nobody has asked that, or the peer has shown since that it has not forgotten.
    after_opening(&[(answer, Tracked::Outside, State::Established)]);
    after_opening(&[asks, ((false, SYN | ACK, 9000, 77_002), Tracked::Outside, State::Established)]);
    after_opening(&[asks, ((true, SYN | ACK, 9000, 77_001), Tracked::Outside, State::Established)]);
    after_opening(&[
        asks,
        ((false, ACK, 501, 111), Tracked::Belongs, State::Established),
        (answer, Tracked::Outside, State::Established),
        ((false, RST | ACK, 0x8000_0000, 77_001), Tracked::Outside, State::Established),
    ]);
}

/// RFC 7413 §4.2: data in a SYN is answered before its sender acknowledges the answering SYN.
#[test]
fn the_answering_end_may_send_at_once() {
    let answered = &OPENING[..2];
    let data = ((false, ACK, 501, 101), Tracked::Belongs, State::SynReceived);
    play(&[answered, &[data, ((true, ACK, 101, 511), Tracked::Belongs, State::Established)]].concat());
    play(&[answered, &[data, OPENING[1], ((true, ACK, 101, 511), Tracked::Belongs, State::Established)]].concat());
    play(&[answered, &[((false, ACK, 1501, 101), Tracked::Outside, State::SynReceived)]].concat());
}

/// The first fragment does not tell how long the segment is.
#[test]
fn a_segment_in_fragments_is_acknowledged_whole() {
    let memory = memory(4);
    let mut table = Table::new(&SETTINGS, &memory);
    begin(&mut table, &syn(&ends()), 0).unwrap();
    assert!(connect(&mut table, &ends(), 0));
    let ack = Segment { flags: ACK, sequence: 101, acknowledgement: 501, window: 1000, ..Segment::default() };
    let whole = make::tcp(&ends(), &Segment { data: 900, ..ack.clone() });
    let answer =
        |acknowledgement| make::tcp(&ends().reversed(), &Segment { sequence: 501, acknowledgement, ..ack.clone() });
    assert_eq!(pass(&mut table, &answer(1001), 0), Some(Tracked::Outside));
    assert_eq!(pass(&mut table, &make::fragment(&whole, 0, 400, 9), 0), Some(Tracked::Belongs));
    assert_eq!(pass(&mut table, &answer(1001), 0), Some(Tracked::Belongs));
    assert_eq!(pass(&mut table, &answer(1001 + 70_000), 0), Some(Tracked::Outside), "longer than any packet");
    let reset = Segment { flags: RST, sequence: 1001, ..Segment::default() };
    assert_eq!(pass(&mut table, &make::tcp(&ends(), &reset), 0), Some(Tracked::Belongs));
    assert_eq!(state(&table), State::Closed);
}

#[test]
fn windows_are_scaled_if_both_offer_it() {
    for (answer, is_far_let_through) in [(vec![3, 3, 4], true), (vec![], false)] {
        let memory = memory(4);
        let mut table = Table::new(&SETTINGS, &memory);
        let client = |segment: Segment| make::tcp(&ends(), &segment);
        let server = |segment: Segment| make::tcp(&ends().reversed(), &segment);
        let (window, data) = (1000, 1000);
        let first = Segment { flags: SYN, sequence: 100, window, options: vec![3, 3, 7], ..Segment::default() };
        begin(&mut table, &client(first), 0).unwrap();
        let second =
            Segment { flags: SYN | ACK, sequence: 500, acknowledgement: 101, window, options: answer, data: 0 };
        pass(&mut table, &server(second), 0).unwrap();
        let ack = Segment { flags: ACK, sequence: 101, acknowledgement: 501, window, ..Segment::default() };
        pass(&mut table, &client(ack.clone()), 0).unwrap();
        let far = Segment { sequence: 501 + 50_000, acknowledgement: 101, data, ..ack };
        assert_eq!(pass(&mut table, &server(far), 0) == Some(Tracked::Belongs), is_far_let_through);
    }
}

/// An end of a connection that takes segments in order, and sends again from the first one that is
/// not acknowledged.
#[derive(Clone, Debug)]
struct End {
    first: u32,
    next: u32,
    acked: u32,
    received: Option<u32>,
    window: u16,
    scale: u8,
    peer_window: u32,
    left: u32,
    is_closed: bool,
}

impl End {
    fn new(first: u32, window: u16, scale: u8, left: u32) -> Self {
        Self { first, next: first, acked: first, received: None, window, scale, peer_window: 0, left, is_closed: false }
    }

    fn segment(&self, flags: u8, sequence: u32, data: u32) -> Segment {
        let is_syn = flags & SYN != 0;
        Segment {
            flags: flags | if self.received.is_some() { ACK } else { 0 },
            sequence,
            acknowledgement: self.received.unwrap_or(0),
            window: self.window,
            options: if is_syn { vec![3, 3, self.scale] } else { vec![] },
            data: data as usize,
        }
    }

    /// Sends a SYN, data or FIN; or, if `again`, what is not acknowledged; or an acknowledgement.
    fn send(&mut self, again: bool, size: u32) -> Segment {
        if self.acked == self.first || self.next == self.first {
            self.next = self.first.wrapping_add(1);
            return self.segment(SYN, self.first, 0);
        }
        let from = if again { self.acked } else { self.next };
        let room = self.peer_window.saturating_sub(from.wrapping_sub(self.acked));
        let is_open = self.received.is_some();
        let end = self.first.wrapping_add(1).wrapping_add(self.left);
        let data = size.min(room).min(end.wrapping_sub(from).min(self.left));
        if is_open && data > 0 && end.wrapping_sub(from) <= self.left {
            let until = from.wrapping_add(data);
            if until.wrapping_sub(self.next).cast_signed() > 0 {
                self.next = until;
            }
            return self.segment(0, from, data);
        }
        if is_open && from == end && room > 0 {
            self.next = end.wrapping_add(1);
            return self.segment(FIN, end, 0);
        }
        self.segment(0, self.next, 0)
    }

    fn receive(&mut self, segment: &Segment) {
        let advance = segment.data as u32 + u32::from(segment.flags & SYN != 0) + u32::from(segment.flags & FIN != 0);
        match self.received {
            None if segment.flags & SYN != 0 => self.received = Some(segment.sequence.wrapping_add(1)),
            Some(next) if segment.sequence == next => {
                self.received = Some(next.wrapping_add(advance));
                self.is_closed |= segment.flags & FIN != 0;
            }
            _ => {}
        }
        let is_new = segment.acknowledgement.wrapping_sub(self.acked) <= self.next.wrapping_sub(self.acked);
        if segment.flags & ACK != 0 && is_new {
            self.acked = segment.acknowledgement;
            self.peer_window = u32::from(segment.window) << if segment.flags & SYN != 0 { 0 } else { 5 };
        }
    }

    /// Whether a segment tells this end anything that it does not know.
    fn can_use(&self, segment: &Segment) -> bool {
        let advance = segment.data as u32 + u32::from(segment.flags & (SYN | FIN) != 0);
        let is_next = self.received.is_none_or(|next| segment.sequence == next && advance > 0);
        is_next || segment.flags & ACK != 0 && segment.acknowledgement.wrapping_sub(self.acked).cast_signed() > 0
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    /// Over a way that loses, doubles and reorders on both sides of the router, no segment is
    /// refused that its receiver can use, and the state at the end is that of the ends.
    #[test]
    fn no_segment_is_refused_that_is_of_use(
        numbers in any::<[u32; 2]>(), window in 20..2000_u16, left in any::<[u8; 2]>(),
        steps in prop::collection::vec((any::<bool>(), 0..12_u8, 0..900_u32), 50..600),
    ) {
        let memory = memory(4);
        let mut table = Table::new(&SETTINGS, &memory);
        let mut ends = [0, 1].map(|side| End::new(numbers[side], window, 5, left[side].into()));
        let tuples = [self::ends(), self::ends().reversed()];
        // Segments on their way to the router, and from it.
        let (mut before, mut behind): ([Vec<Segment>; 2], [Vec<Segment>; 2]) = Default::default();
        let first = ends[0].send(false, 0);
        begin(&mut table, &make::tcp(&tuples[0], &first), 0).unwrap();
        before[0].push(first);
        let calm = [(2, 500), (8, 0), (10, 0)];
        let calm = (0..2400).map(|index| (index % 6 > 2, calm[index % 3].0, calm[index % 3].1));
        let unruly = steps.len();
        for (index, (side, step, size)) in steps.into_iter().chain(calm).enumerate() {
            let side = usize::from(side);
            match step {
                // The server sends nothing before it was asked.
                0..=3 if side == 0 || ends[1].received.is_some() => {
                    let segment = ends[side].send(step >= 2, size);
                    before[side].push(segment);
                }
                4 | 5 if index < unruly => {
                    let way = if step == 4 { &mut before[side] } else { &mut behind[side] };
                    way.pop();
                }
                6 | 7 => {
                    let way = if step == 6 { &mut before[side] } else { &mut behind[side] };
                    way.extend(way.first().cloned());
                }
                8 | 9 if !before[side].is_empty() => {
                    let at = size as usize % before[side].len();
                    let segment = before[side].remove(at);
                    match pass(&mut table, &make::tcp(&tuples[side], &segment), 0).unwrap() {
                        Tracked::Belongs => behind[side].push(segment),
                        _ => prop_assert!(!ends[1 - side].can_use(&segment), "{segment:?} to {:?}", ends[1 - side]),
                    }
                }
                10 | 11 if !behind[side].is_empty() => {
                    let at = size as usize % behind[side].len();
                    let segment = behind[side].remove(at);
                    ends[1 - side].receive(&segment);
                }
                _ => {}
            }
        }
        prop_assert!(ends.iter().all(|end| end.is_closed), "{ends:?}");
        prop_assert_eq!(state(&table), State::Closed);
    }

    /// Who does not see a connection changes nothing of it, unless he guesses a number.
    #[test]
    fn blind_segments_change_nothing(
        is_client in any::<bool>(), flags in prop::sample::select(vec![ACK, RST, RST | ACK, FIN | ACK, SYN, SYN | ACK]),
        sequence in 3000..0xffff_0000_u32, acknowledgement in 3000..0xfff0_0000_u32,
    ) {
        let memory = memory(4);
        let mut table = Table::new(&SETTINGS, &memory);
        begin(&mut table, &syn(&ends()), 0).unwrap();
        prop_assert!(connect(&mut table, &ends(), 0));
        let tuple = if is_client { ends() } else { ends().reversed() };
        let bytes = make::tcp(&tuple, &Segment { flags, sequence, acknowledgement, window: 9, ..Segment::default() });
        let verdict = pass(&mut table, &bytes, 0);
        prop_assert_eq!(verdict == Some(Tracked::Belongs), flags == SYN, "a SYN is answered by the end itself");
        prop_assert_eq!(state(&table), State::Established);
    }
}
