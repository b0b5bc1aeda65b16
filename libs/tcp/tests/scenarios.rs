//! Whole courses of events, each as a table ([`table`]): what RFCs say of losses that come
//! together, timers that start anew, and segments that come late or again. Rules one by one are in
//! the other files.

#[path = "common/script.rs"]
mod script;
#[path = "common/table.rs"]
mod table;

use script::{Script, settings};
use table::play;

/// Plays a course on an open connection on which SACK was agreed on.
#[track_caller]
fn with_sack(course: &str) {
    play(&mut Script::open(settings(), true), course);
}

/// Plays a course on an open connection of a peer without SACK.
#[track_caller]
fn without_sack(course: &str) {
    play(&mut Script::open(settings(), false), course);
}

/// RFC 6582, §3.2, steps 2 to 5: each acknowledgement of a part shows the next loss, which goes at
/// once; that of all ends the recovery with half the window.
#[test]
fn newreno_repairs_a_loss_each_round_trip() {
    without_sack(
        "
          0  write 10000
          0  > . 1+1000 x9 ack 1
          0  > P. 9001+1000 ack 1
        100  < . 1+0 ack 1 x2
        100  < . 1+0 ack 1
        100  > . 1+1000 ack 1
        100  < . 1+0 ack 1 x4
        200  < . 1+0 ack 4001
        200  > . 4001+1000 ack 1
        300  < . 1+0 ack 7001
        300  > . 7001+1000 ack 1
        400  < . 1+0 ack 10001
        400  window 5000
        ",
    );
}

/// RFC 6582, §3.2, step 1, and RFC 5681, §3.1: after a timeout duplicates tell nothing new, and the
/// window stays one segment until something is acknowledged.
#[test]
fn duplicates_after_a_timeout_send_nothing() {
    without_sack(
        "
          0  write 10000
          0  > . 1+1000 x9 ack 1
          0  > P. 9001+1000 ack 1
        300  > . 1+1000 ack 1
        310  < . 1+0 ack 1 x5
        310  window 1000
        400  < . 1+0 ack 1001
        400  > . 1001+1000 x2 ack 1
        ",
    );
}

/// RFC 3042, §2: without SACK too the first two duplicates let one new segment go each.
#[test]
fn two_duplicates_let_two_new_segments_go() {
    without_sack(
        "
          0  write 40000
          0  > . 1+1000 x10 ack 1
        100  < . 1+0 ack 1
        100  > . 10001+1000 ack 1
        100  < . 1+0 ack 1
        100  > . 11001+1000 ack 1
        100  < . 1+0 ack 1
        100  > . 1+1000 ack 1
        ",
    );
}

/// RFC 3042, §2, first condition: the peer's window has to allow it.
#[test]
fn limited_transmit_keeps_to_the_peers_window() {
    without_sack(
        "
          0  < . 1+0 ack 1 win 10000
          0  write 40000
          0  > . 1+1000 x10 ack 1
        100  < . 1+0 ack 1 win 10000 x2
        100  < . 1+0 ack 1 win 10000
        100  > . 1+1000 ack 1
        ",
    );
}

/// RFC 8985, §6.2, step 5: what was sent again and is lost again is found by what was sent after
/// it, a round trip later and without a timeout.
#[test]
fn a_lost_retransmission_is_sent_again_without_a_timeout() {
    with_sack(
        "
          0  write 20000
          0  > . 1+1000 x10 ack 1
        100  < . 1+0 ack 1 blocks 1001-4001
        100  > . 1+1000 ack 1
        100  < . 1+0 ack 1 blocks 1001-10001
        100  > . 10001+1000 x4 ack 1
        200  < . 1+0 ack 1 blocks 1001-11001
        200  > . 1+1000 ack 1
        200  > . 14001+1000 ack 1
        ",
    );
}

/// RFC 6298, §5.3: an acknowledgement of something new starts the timer anew, with the round trip
/// that it has measured: 112.5 ms + 4 × 62.5 ms.
#[test]
fn an_acknowledgement_starts_the_timeout_anew() {
    without_sack(
        "
            0    write 2000
            0    > . 1+1000 ack 1
            0    > P. 1001+1000 ack 1
          200    < . 1+0 ack 1001
          562.5  > P. 1001+1000 ack 1
        ",
    );
}

/// RFC 5681, §3.1: after a timeout slow start ends at half of what was on the way, however much one
/// acknowledgement tells of. From there on the window grows by a segment in a round trip.
#[test]
fn slow_start_after_a_timeout_ends_at_half_of_what_was_on_the_way() {
    without_sack(
        "
           0  write 60000
           0  > . 1+1000 x10 ack 1
         300  > . 1+1000 ack 1
         400  < . 1+0 ack 10001
         400  > . 10001+1000 x5 ack 1
         400  window 5000
         500  < . 1+0 ack 15001
         500  > . 15001+1000 x6 ack 1
         500  window 6000
        ",
    );
}

/// RFC 8985, §7.4.2: a probe that has repaired the loss of the tail lowers the window, which the
/// first acknowledgement beyond it shows.
#[test]
fn a_tail_that_a_probe_repairs_is_a_loss() {
    with_sack(
        "
          0  write 3000
          0  > . 1+1000 x2 ack 1
          0  > P. 2001+1000 ack 1
        100  < . 1+0 ack 2001
        350  > P. 2001+1000 ack 1
        450  < . 1+0 ack 3001
        450  window 10000
        450  write 1000
        450  > P. 3001+1000 ack 1
        550  < . 1+0 ack 4001
        550  window 2000
        ",
    );
}

/// RFC 8985, §7.4.2, with RFC 2883: a probe of what had arrived is reported as a duplicate, and
/// nothing was lost.
#[test]
fn a_tail_that_had_arrived_is_no_loss() {
    with_sack(
        "
          0  write 3000
          0  > . 1+1000 x2 ack 1
          0  > P. 2001+1000 ack 1
        100  < . 1+0 ack 2001
        350  > P. 2001+1000 ack 1
        360  < . 1+0 ack 3001
        450  < . 1+0 ack 3001 blocks 2001-3001
        450  write 1000
        450  > P. 3001+1000 ack 1
        550  < . 1+0 ack 4001
        550  window 10000
        ",
    );
}

/// RFC 6928, §2: one lost SYN leaves the initial window, a second one leaves a segment of it.
#[test]
fn lost_syns_make_the_initial_window_small() {
    let mut script = Script::connect(settings());
    play(
        &mut script,
        "
           0  > S 0+0 mss 1000
           0  write 20000
        1000  > S 0+0 mss 1000
        1100  < S. 0+0 ack 1 mss 1000
        1100  > . 1+1000 x10 ack 1
        ",
    );
    let mut script = Script::connect(settings());
    play(
        &mut script,
        "
           0  > S 0+0 mss 1000
           0  write 20000
        1000  > S 0+0 mss 1000
        3000  > S 0+0 mss 1000
        3100  < S. 0+0 ack 1 mss 1000
        3100  > . 1+1000 ack 1
        ",
    );
}

/// RFC 6298, §5: the answer to a SYN is sent again as a SYN is.
#[test]
fn an_answer_to_a_syn_is_sent_again_ever_more_seldom() {
    let mut script = Script::accept(settings(), "S 0+0 mss 1000");
    play(
        &mut script,
        "
           0  > S. 0+0 ack 1 mss 1000
        1000  > S. 0+0 ack 1 mss 1000
        3000  > S. 0+0 ack 1 mss 1000
        7000  > S. 0+0 ack 1 mss 1000
        7100  < . 1+0 ack 1
        7100  state Established
        ",
    );
}

/// RFC 9293, §3.10.7.2: what a SYN brings besides may be left to be sent again.
#[test]
fn data_with_a_syn_is_taken_when_it_comes_again() {
    let mut script = Script::accept(settings(), "S 0+100 mss 1000");
    play(
        &mut script,
        "
          0  > S. 0+0 ack 1
        100  < . 1+0 ack 1
        100  < P. 1+100 ack 1
        100  readable 100
        140  > . 1+0 ack 101
        ",
    );
}

/// RFC 9293, §3.10.7.4, fifth (SND.WL1, SND.WL2): a segment that was overtaken does not tell of a
/// window that is over.
#[test]
fn an_overtaken_segment_does_not_open_the_window() {
    without_sack(
        "
          0  < P. 11+10 ack 1 win 2000
          0  > . 1+0 ack 1
          0  < P. 1+10 ack 1 win 60000
          0  > . 1+0 ack 21
          0  write 9000
          0  > . 1+1000 x2 ack 21
        ",
    );
}

/// RFC 5961, §5.2: an acknowledgement from before the largest window that the peer has had is not
/// the peer's, nor is what comes with it.
#[test]
fn an_acknowledgement_of_long_ago_is_challenged() {
    let mut script = Script::connect(settings());
    play(
        &mut script,
        "
          0  > S 0+0 mss 1000
        100  < S. 0+0 ack 1 mss 1000 win 2000
        100  > . 1+0 ack 1
        100  write 6000
        100  > . 1+1000 x2 ack 1
        200  < . 1+0 ack 2001 win 2000
        200  > . 2001+1000 x2 ack 1
        300  < . 1+0 ack 4001 win 2000
        300  > . 4001+1000 ack 1
        300  > P. 5001+1000 ack 1
        400  < . 1+0 ack 6001 win 2000
        400  < P. 1+10 ack 4000 win 2000
        400  > . 6001+0 ack 1
        400  readable 0
        400  < P. 1+10 ack 4001 win 2000
        400  readable 10
        440  > . 6001+0 ack 11
        ",
    );
}

/// RFC 9293, §3.8.6.1: the end of the data waits for the window as data does, and is what asks for
/// it.
#[test]
fn a_fin_asks_for_a_closed_window() {
    with_sack(
        "
          0  < . 1+0 ack 1 win 0
          0  close
        300  > FP. 1+0 ack 1
        400  < . 1+0 ack 2 win 0
        400  state FinWait2
        ",
    );
}

/// RFC 9293, §3.6 and §3.8.1: the end is repaired as data is, with the data that was lost before
/// it.
#[test]
fn a_fin_is_sent_again_with_the_data_before_it() {
    without_sack(
        "
          0  write 1500
          0  close
          0  > . 1+1000 ack 1
          0  > FP. 1001+500 ack 1
        300  > . 1+1000 ack 1
        400  < . 1+0 ack 1001
        400  > FP. 1001+500 ack 1
        500  < . 1+0 ack 1502
        500  state FinWait2
        ",
    );
}

/// RFC 2883, §4.1: what had been acknowledged already is reported as a duplicate, once; a part of a
/// segment too, where the rest is new.
#[test]
fn what_was_acknowledged_and_comes_again_is_reported() {
    with_sack(
        "
          0  < P. 1+500 ack 1
         40  > . 1+0 ack 501
         50  < P. 1+500 ack 1
         50  > . 1+0 ack 501 blocks 1-501
         60  < P. 1+1000 ack 1
         60  > . 1+0 ack 1001 blocks 1-501
         60  < . 1001+1000 ack 1
        100  > . 1+0 ack 2001 blocks none
        ",
    );
}

/// RFC 6937, §3: while twice as much is on the way as is to remain, one segment goes for every two
/// that arrive.
#[test]
fn a_recovery_sends_one_segment_for_every_two_that_arrive() {
    with_sack(
        "
          0  write 60000
          0  > . 1+1000 x10 ack 1
        100  < . 1+0 ack 5001
        100  > . 10001+1000 x10 ack 1
        110  < . 1+0 ack 10001
        110  > . 20001+1000 x10 ack 1
        200  < . 1+0 ack 10001 blocks 11001-12001
        200  > . 30001+1000 ack 1
        200  < . 1+0 ack 10001 blocks 11001-13001
        200  > . 31001+1000 ack 1
        200  < . 1+0 ack 10001 blocks 11001-14001
        200  > . 10001+1000 ack 1
        200  < . 1+0 ack 10001 blocks 11001-15001
        200  < . 1+0 ack 10001 blocks 11001-16001
        200  < . 1+0 ack 10001 blocks 11001-17001
        200  > . 32001+1000 ack 1
        200  < . 1+0 ack 10001 blocks 11001-18001
        200  < . 1+0 ack 10001 blocks 11001-19001
        200  > . 33001+1000 ack 1
        200  < . 1+0 ack 10001 blocks 11001-20001
        ",
    );
}

/// RFC 7661, §4.1, and RFC 9438, §5.8: a window that the application does not use does not grow.
#[test]
fn a_window_that_is_not_used_does_not_grow() {
    with_sack(
        "
          0  write 2000
          0  > . 1+1000 ack 1
          0  > P. 1001+1000 ack 1
        100  < . 1+0 ack 2001
        100  write 2000
        100  > . 2001+1000 ack 1
        100  > P. 3001+1000 ack 1
        200  < . 1+0 ack 4001
        200  window 10000
        ",
    );
}

/// RFC 9293, §3.8.4: a peer that asks whether this side is there is told, with a byte or without.
#[test]
fn a_peer_that_asks_is_answered() {
    with_sack(
        "
             0  < P. 1+10 ack 1
            40  > . 1+0 ack 11
        100000  < . 10+0 ack 1
        100000  > . 1+0 ack 11
        200000  < . 10+1 ack 1
        200000  > . 1+0 ack 11
        200000  readable 10
        ",
    );
}
