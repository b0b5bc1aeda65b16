//! The card between a driver in a guest's memory and its monitor.

use super::super::EVENT_INDEX;
use super::super::tests::{Driver, Ram};
use super::super::transport::tests::live;
use super::*;

const BUFFER: u64 = Ram::BASE + 8192;

struct Card {
    ram: Ram,
    receive: Driver,
    transmit: Driver,
    net: Net,
}

fn card(features: u64) -> Card {
    let (receive, transmit) = (Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
    let mut net = Net::new([2, 0, 0, 0, 0, 1]);
    net.transport = live(net.transport, features, [&receive, &transmit]);
    Card { ram: Ram::new(16384), receive, transmit, net }
}

#[test]
fn a_frame_is_sent() {
    let Card { ram, mut transmit, mut net, .. } = card(0);
    let mut bytes = [0; HEADER + 4];
    bytes[0] = 1;
    bytes[HEADER..].copy_from_slice(b"abcd");
    ram.write(BUFFER, &bytes).expect("inside");
    transmit.offer(&ram, &[(BUFFER, 12, false), (BUFFER + 12, 4, false)]);
    assert!(net.has_frame(&ram));
    let frame = net.next_frame(&ram).expect("one");
    assert_eq!((frame.header[0], frame.length), (1, 4));
    let mut read = [0; 3];
    net.read(&ram, 1, &mut read).expect("there");
    assert_eq!(&read, b"bcd");
    net.sent(&ram);
    net.publish(&ram);
    assert_eq!((transmit.used(&ram), net.transport.is_interrupting()), (Some((0, 0)), false));
    assert!(net.has_untold());
    net.tell_sent(&ram);
    assert!(net.transport.is_interrupting() && !net.has_untold());
    assert!(!net.has_frame(&ram) && net.next_frame(&ram).is_none());
}

#[test]
fn an_interrupt_for_a_received_frame_tells_of_those_that_were_sent() {
    let Card { ram, mut receive, mut transmit, mut net } = card(0);
    transmit.offer(&ram, &[(BUFFER, 16, false)]);
    net.next_frame(&ram).expect("one");
    net.sent(&ram);
    net.publish(&ram);
    assert!(net.has_untold() && !net.transport.is_interrupting());
    receive.offer(&ram, &[(BUFFER, 15, true)]);
    assert_eq!(net.deliver(&ram, [0; HEADER], &[b"abc"]), Delivery::Done);
    net.publish(&ram);
    assert!(!net.has_untold() && net.transport.is_interrupting());
}

#[test]
fn an_interrupt_for_sent_frames_does_not_wait_for_the_queue_to_fill() {
    let Card { ram, mut transmit, mut net, .. } = card(0);
    for sent in 1..=3 {
        transmit.offer(&ram, &[(BUFFER, 16, false)]);
        net.next_frame(&ram).expect("one");
        net.sent(&ram);
        net.publish(&ram);
        assert_eq!(net.transport.is_interrupting(), sent == 3, "{sent} of 4");
    }
}

#[test]
fn the_doorbell_of_a_guest_that_is_busy_is_put_off_until_it_waits() {
    let Card { ram, mut receive, mut transmit, mut net } = card(EVENT_INDEX);
    let mut send = |net: &mut Net| {
        transmit.offer(&ram, &[(BUFFER, 16, false)]);
        net.next_frame(&ram).expect("one");
        net.sent(&ram);
        net.publish(&ram);
        transmit.doorbell_at(&ram)
    };
    for sent in 1..MANY {
        assert_eq!((send(&mut net), net.is_busy()), (sent, false));
    }
    assert_eq!((send(&mut net), net.is_busy()), (MANY + 2, true), "half of the queue later");
    net.guest_waits();
    net.publish(&ram);
    net.guest_rings();
    assert_eq!((send(&mut net), net.is_busy()), (MANY + 1, false));
    // What it receives keeps it as busy as what it sends.
    for _ in 2..MANY {
        receive.offer(&ram, &[(BUFFER, 15, true)]);
        assert_eq!(net.deliver(&ram, [0; HEADER], &[b"abc"]), Delivery::Done);
    }
    assert!(!net.is_busy());
    assert_eq!((send(&mut net), net.is_busy()), (MANY + 2 + 2, true));
}

/// A packet of many segments takes up to 19 descriptors: a queue of 256 is full of 13 of these.
#[test]
fn long_chains_are_told_and_rung_for_before_they_fill_the_queue() {
    for (parts, ahead, is_told) in [(1, 2, [false; 2]), (2, 1, [false, true]), (4, 0, [true; 2])] {
        let Card { ram, mut transmit, mut net, .. } = card(EVENT_INDEX);
        let mut send = |net: &mut Net| {
            transmit.offer(
                &ram,
                &[(BUFFER, 16, false), (BUFFER, 1, false), (BUFFER, 1, false), (BUFFER, 1, false)][..parts],
            );
            net.next_frame(&ram).expect("one");
            net.sent(&ram);
            net.publish(&ram);
            transmit.doorbell_at(&ram)
        };
        let told = [(); 2].map(|()| {
            send(&mut net);
            !net.has_untold()
        });
        assert_eq!(told, is_told, "{parts} descriptors each");
        (3..MANY).for_each(|_| _ = send(&mut net));
        assert_eq!(send(&mut net), MANY + ahead, "{parts} descriptors each");
    }
}

/// What a guest has left when it waits is carried after that, and says nothing of it: it would
/// be taken for busy while it sleeps, and what comes for it would lie until a deadline.
#[test]
fn what_a_guest_has_left_when_it_waits_does_not_make_it_busy() {
    let Card { ram, mut receive, mut transmit, mut net } = card(EVENT_INDEX);
    let mut send = |net: &mut Net, count: u16| {
        for _ in 0..count {
            transmit.offer(&ram, &[(BUFFER, 16, false)]);
            net.next_frame(&ram).expect("one");
            net.sent(&ram);
        }
        net.publish(&ram);
        transmit.doorbell_at(&ram)
    };
    send(&mut net, MANY);
    assert!(net.is_busy());
    net.guest_waits();
    assert_eq!((send(&mut net, MANY), net.is_busy()), (2 * MANY, false), "it rings at its next frame");
    // A frame for it wakes it: then it is as busy as what goes on.
    receive.offer(&ram, &[(BUFFER, 15, true)]);
    assert_eq!(net.deliver(&ram, [0; HEADER], &[b"abc"]), Delivery::Done);
    send(&mut net, MANY - 1);
    assert!(net.is_busy());
}

/// Else it rings for its next frame, again and again, while it sends without end: a look at the
/// queues after each while is cheaper.
#[test]
fn a_guest_whose_frames_were_put_off_for_long_is_busy_still_if_there_are_several() {
    for (found, is_busy) in [(0, false), (1, false), (SOME, true)] {
        let Card { ram, mut transmit, mut net, .. } = card(EVENT_INDEX);
        let mut send = |net: &mut Net, count: u16| {
            for _ in 0..count {
                transmit.offer(&ram, &[(BUFFER, 16, false)]);
                net.next_frame(&ram).expect("one");
                net.sent(&ram);
            }
        };
        send(&mut net, 2 * MANY);
        net.guest_is_late();
        send(&mut net, found);
        assert_eq!(net.is_busy(), is_busy, "{found}");
    }
}

#[test]
fn a_driver_that_begins_anew_rings_as_any_does() {
    let Card { ram, receive, mut transmit, mut net } = card(EVENT_INDEX);
    for _ in 0..MANY {
        transmit.offer(&ram, &[(BUFFER, 16, false)]);
        net.next_frame(&ram).expect("one");
        net.sent(&ram);
    }
    assert!(net.is_busy());
    net.transport.write(0x070, 4, 0);
    net.publish(&ram);
    net.transport = live(net.transport, EVENT_INDEX, [&receive, &transmit]);
    assert!(!net.is_busy());
}

#[test]
fn a_guest_may_send_packets_of_many_segments_if_it_has_agreed() {
    let mut net = Net::new([2, 0, 0, 0, 0, 1]);
    net.transport.write(0x014, 4, 0);
    assert_eq!(net.transport.read(0x010, 4) & feature::HOST_TSO4, feature::HOST_TSO4);
    assert!(!net.sends_segments());
    let (receive, transmit) = (Driver::new(4), Driver::at(Ram::BASE + 4096, 4));
    net.transport = live(net.transport, feature::HOST_TSO4, [&receive, &transmit]);
    assert!(net.sends_segments());
}

#[test]
fn a_frame_without_a_header_stops_the_card() {
    let Card { ram, mut transmit, mut net, .. } = card(0);
    transmit.offer(&ram, &[(BUFFER, 11, false)]);
    assert!(net.next_frame(&ram).is_none() && !net.transport.is_live());
}

#[test]
fn a_frame_is_received_in_one_buffer() {
    let Card { ram, mut receive, mut net, .. } = card(0);
    assert_eq!(net.deliver(&ram, [0; HEADER], &[b"ab", b"cd"]), Delivery::Refused, "no buffer");
    receive.offer(&ram, &[(BUFFER, 15, true)]);
    assert_eq!(net.deliver(&ram, [0; HEADER], &[b"ab", b"cd"]), Delivery::Refused, "too small");
    assert_eq!(net.deliver(&ram, [7; HEADER], &[b"ab", b"c"]), Delivery::Done);
    net.publish(&ram);
    assert_eq!(receive.used(&ram), Some((0, 15)));
    let mut read = [0; 15];
    ram.read(BUFFER, &mut read).expect("inside");
    assert_eq!(&read, b"\x07\x07\x07\x07\x07\x07\x07\x07\x07\x07\x01\x00abc");
}

#[test]
fn a_long_frame_takes_several_buffers_or_none() {
    let second: [&[_]; 2] = [&[(BUFFER + 100, 3, true)], &[(BUFFER + 100, 1, true), (BUFFER + 101, 2, true)]];
    for (parts, pieces) in second.into_iter().zip([&[&b"abcde"[..]][..], &[b"a", b"bcd", b"e"]]) {
        let Card { ram, mut receive, mut net, .. } = card(feature::MERGED_BUFFERS);
        receive.offer(&ram, &[(BUFFER, 14, true)]);
        receive.offer(&ram, parts);
        assert_eq!(net.deliver(&ram, [0; HEADER], &[b"abcdef"]), Delivery::Refused, "a byte short");
        assert_eq!(net.deliver(&ram, [0; HEADER], pieces), Delivery::Done);
        net.publish(&ram);
        assert_eq!([receive.used(&ram), receive.used(&ram)], [Some((0, 14)), Some((1, 3))]);
        let mut read = [0; 4];
        ram.read(BUFFER + 10, &mut read).expect("inside");
        assert_eq!(&read, b"\x02\x00ab");
        ram.read(BUFFER + 100, &mut read).expect("inside");
        assert_eq!(&read, b"cde\0");
    }
}

#[test]
fn too_little_room_is_looked_at_once() {
    let Card { ram, mut receive, mut net, .. } = card(feature::MERGED_BUFFERS);
    receive.offer(&ram, &[(BUFFER, 20, true)]);
    assert_eq!(net.deliver(&ram, [0; HEADER], &[&[1; 9]]), Delivery::Refused);
    // The guest need not keep to this: what it changes is not looked at.
    receive.set_descriptor(&ram, 0, (BUFFER, 30, 2, 0));
    assert_eq!(net.deliver(&ram, [0; HEADER], &[&[1; 9]]), Delivery::Refused);
    receive.offer(&ram, &[(BUFFER + 100, 20, true)]);
    assert_eq!(net.deliver(&ram, [0; HEADER], &[&[1; 9]]), Delivery::Done, "another buffer came");
}

#[test]
fn a_shortage_refuses_longer_frames_only_and_ends_with_a_reset() {
    let Card { ram, mut receive, transmit, mut net } = card(0);
    receive.offer(&ram, &[(BUFFER, 20, true)]);
    assert_eq!(net.deliver(&ram, [0; HEADER], &[&[1; 9]]), Delivery::Refused);
    receive.set_descriptor(&ram, 0, (BUFFER, 30, 2, 0));
    net.transport.write(0x070, 4, 0);
    net.transport = live(net.transport, 0, [&receive, &transmit]);
    assert_eq!(net.deliver(&ram, [0; HEADER], &[&[1; 19]]), Delivery::Refused);
    assert_eq!(net.deliver(&ram, [0; HEADER], &[&[1; 9]]), Delivery::Done);
}

#[test]
fn a_buffer_elsewhere_stops_the_card() {
    let Card { ram, mut receive, mut net, .. } = card(0);
    receive.offer(&ram, &[(0, 100, true)]);
    assert_eq!(net.deliver(&ram, [0; HEADER], &[b"abc"]), Delivery::Refused);
    assert!(!net.transport.is_live());
}
