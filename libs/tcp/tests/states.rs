//! What each state does with each kind of segment, and with each call of the application's (RFC
//! 9293, §3.10).

#[path = "common/script.rs"]
mod script;

use culm_tcp::{Ending, Full, Header, Instant, Piece, Sequence, State, Storage};
use script::{Script, settings};

/// States in which both sides know each other's numbers: the peer's next one is [`theirs`], and it
/// acknowledges [`ours`].
const SYNCHRONISED: [State; 7] = [
    State::Established,
    State::FinWait1,
    State::FinWait2,
    State::CloseWait,
    State::Closing,
    State::LastAck,
    State::TimeWait,
];

/// A connection in that state; nothing is to be sent.
fn within(state: State) -> Script {
    if state == State::SynReceived {
        let mut script = Script::accept(settings(), "S 0+0 mss 1000");
        script.expect("S. 0+0 ack 1");
        return script;
    }
    let mut script = Script::open(settings(), false);
    match state {
        State::Established => {}
        State::FinWait1 | State::FinWait2 | State::Closing | State::TimeWait => {
            script.close();
            script.expect("FP. 1+0 ack 1");
            match state {
                State::FinWait2 => script.inject(". 1+0 ack 2"),
                State::Closing => script.inject("F. 1+0 ack 1"),
                State::TimeWait => script.inject("F. 1+0 ack 2"),
                _ => None,
            };
        }
        State::CloseWait | State::LastAck => {
            script.inject("F. 1+0 ack 1");
            script.expect(". 1+0 ack 2");
            if state == State::LastAck {
                script.close();
                script.expect("FP. 1+0 ack 2");
            }
        }
        other => panic!("no script leads to {other:?}"),
    }
    if matches!(state, State::Closing | State::TimeWait) {
        script.expect(". 2+0 ack 2");
    }
    script.nothing();
    assert_eq!(script.state(), state);
    script
}

/// The peer's next number in a state.
fn theirs(state: State) -> u32 {
    if matches!(state, State::CloseWait | State::Closing | State::LastAck | State::TimeWait) { 2 } else { 1 }
}

/// The number of this side's that the peer has acknowledged up to.
fn ours(state: State) -> u32 {
    if matches!(state, State::FinWait2 | State::TimeWait) { 2 } else { 1 }
}

/// The acknowledgement that answers what is not taken.
fn answer(state: State) -> String {
    let next = if matches!(state, State::Established | State::CloseWait) { 1 } else { 2 };
    format!(". {next}+0 ack {}", theirs(state))
}

/// §3.10.7.4, fourth, as RFC 5961, §4, has it: a SYN changes nothing, and asks whether it is the
/// peer's.
#[test]
fn a_syn_is_challenged_in_each_state() {
    for state in SYNCHRONISED {
        for offset in [0, 100] {
            let mut script = within(state);
            script.inject(&format!("S {}+0", theirs(state) + offset));
            script.expect(&answer(state));
            script.nothing();
            assert_eq!(script.state(), state);
        }
    }
}

/// §3.10.7.4, second, as RFC 5961, §3, has it; in TIME-WAIT, RFC 1337.
#[test]
fn the_exact_reset_ends_each_state_and_no_other_does() {
    for state in SYNCHRONISED {
        let mut script = within(state);
        script.inject(&format!("R {}+0", theirs(state) + 1));
        if state != State::TimeWait {
            script.expect(&answer(state));
        }
        script.inject("R 99999+0");
        script.nothing();
        assert_eq!(script.state(), state);
        script.inject(&format!("R {}+0", theirs(state)));
        let ends = state != State::TimeWait;
        assert_eq!(script.connection.ending(), ends.then_some(Ending::Reset), "{state:?}");
        script.nothing();
    }
    let mut script = within(State::SynReceived);
    script.inject("R 2+0");
    assert_eq!(script.state(), State::SynReceived);
    script.expect(". 1+0 ack 1");
    script.inject("R 1+0");
    assert_eq!(script.connection.ending(), Some(Ending::Refused));
}

/// §3.4.2, and RFC 9293's SHLD-2: what a reset brings besides is thrown away.
#[test]
fn a_reset_may_bring_data() {
    let mut script = within(State::Established);
    assert_eq!(script.inject("R. 1+20 ack 1"), None);
    assert_eq!((script.connection.ending(), script.connection.readable()), (Some(Ending::Reset), 0));
}

/// MUST-66: a closed window keeps no reset out.
#[test]
fn a_reset_counts_while_the_window_is_closed() {
    let mut script = within(State::Established);
    for start in (1..60_001).step_by(1000) {
        assert!(script.inject(&format!(". {start}+1000 ack 1")).is_some());
        while script.connection.transmit(Instant(script.now)).is_some() {}
    }
    script.inject("R 60001+0");
    assert_eq!(script.connection.ending(), Some(Ending::Reset));
}

/// §3.10.7.4, fifth: what acknowledges something that was not sent is not taken, whatever it
/// brings.
#[test]
fn an_acknowledgement_of_the_future_is_answered_in_each_state() {
    for state in SYNCHRONISED {
        let mut script = within(state);
        assert_eq!(script.inject(&format!("F. {}+10 ack 3", theirs(state))), None);
        script.expect(&answer(state));
        assert_eq!((script.state(), script.connection.readable()), (state, 0), "{state:?}");
    }
    let mut script = within(State::SynReceived);
    script.inject(". 1+10 ack 3");
    script.expect("R 3+0");
    assert_eq!(script.state(), State::SynReceived);
}

/// §3.10.7.4, fifth: without ACK nothing is taken.
#[test]
fn a_segment_without_acknowledgement_is_dropped_in_each_state() {
    for state in SYNCHRONISED.into_iter().chain([State::SynReceived]) {
        let mut script = within(state);
        let line = format!("FP {}+10", theirs(state)).replace("FP", "P");
        assert_eq!(script.inject(&line), None);
        script.nothing();
        assert_eq!((script.state(), script.connection.readable()), (state, 0), "{state:?}");
    }
}

/// §3.10.7.4, first.
#[test]
fn what_is_out_of_the_window_is_answered_and_not_taken_in_each_state() {
    for state in SYNCHRONISED {
        for sequence in [theirs(state) - 1, theirs(state) + 70_000] {
            let mut script = within(state);
            let line = format!(". {sequence}+1 ack {}", ours(state));
            assert_eq!(script.inject(&line), None, "{state:?} {line}");
            script.expect(&answer(state));
            assert_eq!((script.state(), script.connection.readable()), (state, 0));
        }
    }
}

/// §3.10.7.4, seventh: whoever has ended sends nothing more.
#[test]
fn data_is_taken_in_the_states_that_expect_some() {
    for state in SYNCHRONISED {
        let mut script = within(state);
        let line = format!("P. {}+10 ack {}", theirs(state), ours(state));
        let takes = matches!(state, State::Established | State::FinWait1 | State::FinWait2);
        assert_eq!(script.inject(&line).is_some(), takes, "{state:?}");
        assert_eq!(script.connection.readable(), if takes { 10 } else { 0 });
        assert_eq!(script.state(), state);
    }
    let mut script = within(State::SynReceived);
    assert!(script.inject("P. 1+10 ack 1").is_some());
    assert_eq!((script.state(), script.connection.readable()), (State::Established, 10));
}

/// §3.10.7.4, eighth.
#[test]
fn a_fin_leads_from_each_state_to_the_next() {
    let next = [
        (State::Established, 1, State::CloseWait),
        (State::FinWait1, 1, State::Closing),
        (State::FinWait1, 2, State::TimeWait),
        (State::FinWait2, 2, State::TimeWait),
        (State::SynReceived, 1, State::CloseWait),
    ];
    for (state, acknowledges, next) in next {
        let mut script = within(state);
        script.inject(&format!("F. 1+0 ack {acknowledges}"));
        assert_eq!(script.state(), next, "{state:?}");
        let sent = if matches!(state, State::Established | State::SynReceived) { 1 } else { 2 };
        script.expect(&format!(". {sent}+0 ack 2"));
        script.nothing();
    }
    // The same again, because its acknowledgement was lost.
    for state in [State::CloseWait, State::Closing, State::LastAck, State::TimeWait] {
        let mut script = within(state);
        script.inject(&format!("F. 1+0 ack {}", ours(state)));
        script.expect(&answer(state));
        assert_eq!(script.state(), state);
    }
}

/// §3.10.7.3, sixth, and §3.10.7.2: before there is a SYN, there is no end.
#[test]
fn a_fin_before_the_syn_is_nothing() {
    let mut script = Script::connect(settings());
    script.expect("S 0+0");
    for line in ["F 1+0", "F. 1+0 ack 1", ". 1+10 ack 1", "P 1+10"] {
        script.inject(line);
        script.nothing();
        assert_eq!(script.state(), State::SynSent, "{line}");
    }
}

/// §3.6 and §3.10.7.4, fifth: the acknowledgement of the FIN.
#[test]
fn the_acknowledgement_of_the_end_leads_on() {
    for (state, next) in
        [(State::FinWait1, State::FinWait2), (State::Closing, State::TimeWait), (State::LastAck, State::Closed)]
    {
        let mut script = within(state);
        script.inject(&format!(". {}+0 ack 1", theirs(state)));
        assert_eq!(script.state(), state, "an old one");
        script.inject(&format!(". {}+0 ack 2", theirs(state)));
        assert_eq!(script.state(), next);
        script.nothing();
    }
}

/// §3.10.7.4, eighth: in TIME-WAIT the peer's FIN begins the time anew, and nothing else does.
#[test]
fn only_an_end_that_is_repeated_makes_the_last_wait_longer() {
    let mut script = within(State::TimeWait);
    let until = script.connection.deadline();
    script.pass(1000);
    script.inject(". 2+0 ack 2");
    script.inject("S 2+0");
    assert_eq!(script.connection.deadline(), until);
    script.inject("F. 1+0 ack 2");
    assert!(script.connection.deadline() > until);
    assert_eq!(script.wait(), 60_000, "twice the longest life of a segment");
    assert_eq!(script.connection.ending(), Some(Ending::Closed));
}

/// §3.10.7.2: what listens takes a SYN and nothing else.
#[test]
fn only_a_syn_opens() {
    use culm_tcp::{Connection, FEWEST_RECORDS, Flags, Sent};
    let header = Header { source: 2, destination: 1, sequence: Sequence(7), window: 1000, ..Header::default() };
    let opens = |flags| {
        let storage = Storage {
            pieces: &mut [Piece::default()],
            records: &mut [Sent::default(); FEWEST_RECORDS],
            islands: &mut [],
        };
        Connection::accept(settings(), storage, &Header { flags, ..header }, Instant(0)).is_some()
    };
    assert!(opens(Flags::SYN) && opens(Flags::SYN.with(Flags::PSH)) && opens(Flags::SYN.with(Flags::URG)));
    for other in [Flags::ACK, Flags::FIN, Flags::RST, Flags::PSH, Flags::default()] {
        assert!(!opens(other));
    }
    for other in [Flags::ACK, Flags::FIN, Flags::RST] {
        assert!(!opens(Flags::SYN.with(other)));
    }
}

/// §3.10.4.
#[test]
fn closing_in_each_state_does_what_is_left_to_do() {
    let mut script = Script::connect(settings());
    script.close();
    assert_eq!(script.connection.ending(), Some(Ending::Closed));
    script.nothing();

    // The end waits until there is a connection.
    let mut script = within(State::SynReceived);
    script.write(5);
    script.close();
    script.nothing();
    script.inject(". 1+0 ack 1");
    assert_eq!(script.state(), State::FinWait1);
    script.expect("FP. 1+5 ack 1");

    for (state, next) in [(State::Established, State::FinWait1), (State::CloseWait, State::LastAck)] {
        let mut script = within(state);
        script.close();
        assert_eq!(script.state(), next);
    }
    for state in [State::FinWait1, State::FinWait2, State::Closing, State::LastAck, State::TimeWait] {
        let mut script = within(state);
        script.close();
        script.nothing();
        assert_eq!(script.state(), state);
    }
}

/// §3.10.2: what is closed takes nothing more to be sent.
#[test]
fn nothing_can_be_sent_after_the_end() {
    for state in SYNCHRONISED {
        let mut script = within(state);
        let may_send = matches!(state, State::Established | State::CloseWait);
        let given = script.connection.send(Piece { token: 1, length: 10 });
        assert_eq!(given, if may_send { Ok(()) } else { Err(Full) }, "{state:?}");
    }
}

/// §3.10.5.
#[test]
fn aborting_in_each_state_tells_a_peer_that_waits() {
    let told = [
        (State::SynReceived, "R. 1+0 ack 1"),
        (State::Established, "R. 1+0 ack 1"),
        (State::FinWait1, "R. 2+0 ack 1"),
        (State::FinWait2, "R. 2+0 ack 1"),
        (State::CloseWait, "R. 1+0 ack 2"),
    ];
    for (state, reset) in told {
        let mut script = within(state);
        script.connection.abort(|_| {});
        script.expect(reset);
        assert_eq!(script.connection.ending(), Some(Ending::Aborted), "{state:?}");
    }
    let mut script = Script::connect(settings());
    script.connection.abort(|_| {});
    script.nothing();
    let mut script = within(State::TimeWait);
    script.connection.abort(|_| {});
    script.nothing();
}

/// §3.5, figures 8 and 9: what is left of an old connection finds no new one.
#[test]
fn an_old_segment_opens_nothing() {
    // An old SYN is answered, and its sender, who knows nothing of it, resets.
    let mut script = Script::accept(settings(), "S 500+0 mss 1000");
    script.expect("S. 0+0 ack 501");
    script.inject("R 501+0");
    assert_eq!(script.connection.ending(), Some(Ending::Refused));
    // A side that has forgotten its connection asks for one, and is told of the old one.
    let mut script = within(State::Established);
    script.inject("S 400+0");
    script.expect(". 1+0 ack 1");
    script.inject("R 1+0");
    assert_eq!(script.connection.ending(), Some(Ending::Reset));
}
