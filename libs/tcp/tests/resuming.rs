//! How a connection begins of whose SYN nothing was kept (RFC 4987, §3.6).

#[path = "common/script.rs"]
mod script;

use culm_tcp::{Settings, Span, State};
use script::{Script, settings};

#[test]
fn what_was_agreed_on_holds() {
    let wide = Settings { capacity: 400_000, ..settings() };
    let syn = "S 0+0 win 500 mss 900 sack-ok scale 3 stamps 7:0";
    let (mut script, answer) = Script::resume(wide, syn, ". 1+0 ack 1 win 250 stamps 57:1000", 50);
    assert_eq!(answer, "S. 0+0 ack 1 win 65535 mss 1000 scale 3 sack-ok stamps 1000:7");
    assert_eq!(
        (script.state(), script.connection.round_trip()),
        (State::Established, Some(Span::from_milliseconds(50)))
    );
    script.nothing();
    // Their size of segments, less timestamps, and their scale of the window: 2000 bytes.
    script.write(9000);
    script.expect(". 1+888 ack 1 win 50000 stamps 1050:57");
    script.expect(". 889+888 ack 1");
    script.nothing();
    script.inject(". 101+10 ack 1777 win 2000 stamps 60:1050");
    script.expect(". 1777+876 ack 1 blocks 101-111");
}

#[test]
fn what_was_not_offered_is_not_used() {
    let (mut script, answer) = Script::resume(settings(), "S 0+0 win 5000 mss 900", ". 1+0 ack 1 win 5000", 50);
    assert_eq!(answer, "S. 0+0 ack 1 win 60000 mss 1000");
    assert_eq!(script.connection.round_trip(), None);
    script.inject(". 101+10 ack 1 win 2000");
    script.expect(". 1+0 ack 1 win 60000");
    script.nothing();
}

/// The segment that completes the handshake may be the first that has data, or the last, with the
/// peer's end.
#[test]
fn the_first_segment_may_bring_data_and_the_end() {
    let (mut script, _) = Script::resume(settings(), "S 0+0 win 5000", "P. 1+70 ack 1 win 5000", 50);
    assert_eq!((script.state(), script.connection.readable()), (State::Established, 70));
    script.write(30);
    script.expect("P. 1+30 ack 71");
    let (mut script, _) = Script::resume(settings(), "S 0+0 win 5000", "F. 1+70 ack 1 win 5000", 50);
    assert_eq!((script.state(), script.connection.readable()), (State::CloseWait, 70));
    script.expect(". 1+0 ack 72");
}

/// A place serves one connection after the other; nothing of the first is left.
#[test]
fn a_place_is_used_again() {
    let (mut script, _) = Script::resume(settings(), "S 0+0 win 5000", ". 1+0 ack 1 win 5000", 50);
    script.write(3000);
    script.expect(". 1+536 ack 1");
    script.inject(". 101+10 ack 1 win 5000");
    script.connection.abort(|_| {});
    assert_eq!(script.state(), State::Closed);
    script.resume_in_place(settings(), "S 0+0 win 5000", ". 1+0 ack 1 win 5000", 50);
    assert_eq!((script.state(), script.connection.ending()), (State::Established, None));
    assert_eq!((script.connection.unacknowledged(), script.connection.readable()), (0, 0));
    script.nothing();
    script.write(600);
    script.expect("P. 1+600 ack 1");
    script.inject("P. 1+100 ack 601 win 5000");
    assert_eq!((script.connection.unacknowledged(), script.connection.readable()), (0, 100));
}
