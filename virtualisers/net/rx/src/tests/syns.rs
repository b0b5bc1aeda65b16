//! SYNs for clients that have no room for more, and what such clients say of that.

use crate::counters;
use crate::tests::{STRANGER, World, mac, peer};
use culm::testing::{channels, set_time};
use culm::time::{self, Duration};
use culm_net::descriptor::flags::REFUSED;
use culm_net::descriptor::moment;
use culm_net::testing::frame;
use culm_net::{BufferEntry, Descriptor, Mac};

/// A frame that brings a SYN to `to`, over either version of IP.
fn syn_over(version: u8, to: Mac) -> Vec<u8> {
    let mut packet = match version {
        4 => vec![0x45, 0, 0, 40, 0, 0, 0x40, 0, 64, 6, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2],
        _ => [&[0x60, 0, 0, 0, 0, 20, 6, 64][..], &[1; 16], &[2; 16]].concat(),
    };
    packet.extend([0xc0, 1, 0, 80, 0, 0, 0, 0, 0, 0, 0, 0, 0x50, 0x02, 0, 0, 0, 0, 0, 0]);
    let mut frame = frame(to, STRANGER, &packet);
    frame[12..14].copy_from_slice(if version == 4 { &[8, 0] } else { &[0x86, 0xdd] });
    frame
}

fn syn(to: Mac) -> Vec<u8> {
    syn_over(4, to)
}

impl World {
    /// A client returns all that it has, the first of it with these flags.
    fn give_back(&mut self, client: usize, flags: u16) -> usize {
        let packets = self.clients[client].take();
        let mut returned: Vec<_> = packets.iter().map(|packet| Descriptor::empty(packet.offset)).collect();
        if let Some(first) = returned.first_mut() {
            first.flags = flags;
            first.length = moment(time::now());
        }
        self.clients[client].send(&returned);
        self.virtualiser.mark_due(channels(&[1 + client as u32]));
        self.turn();
        self.driver_turn();
        packets.len()
    }
}

#[test]
fn a_client_that_drops_syns_gets_fewer_for_a_while() {
    let mut world = World::new(2);
    world.bring(&syn(mac(0)));
    assert_eq!(world.give_back(0, REFUSED), 1);
    let dropped = counters::DROPS_SYNS.get();
    (0..18).for_each(|_| world.bring(&syn(mac(0))));
    assert!(counters::DROPS_SYNS.get() >= dropped + 16);
    assert_eq!(world.give_back(0, REFUSED), 2, "it is asked again after sixteen");
    // Others get theirs, and it gets all else.
    world.bring(&syn(mac(1)));
    world.bring(&frame(mac(0), STRANGER, b"no SYN"));
    assert_eq!((world.give_back(1, 0), world.give_back(0, 0)), (1, 1));
    world.bring(&syn(mac(0)));
    assert!(world.clients[0].take().is_empty(), "it has dropped another one");
    set_time(time::now() + Duration::from_millis(20));
    world.bring(&syn(mac(0)));
    assert_eq!(world.give_back(0, 0), 1, "it may have places by now");
}

/// The client's last words of an overload may lie in its queue until something else comes.
#[test]
fn what_a_client_said_long_ago_of_syns_is_not_believed() {
    let mut world = World::new(1);
    for (wait, passed) in [(15, 0), (25, 1), (3_600_000, 1)] {
        set_time(time::now() + Duration::from_millis(100));
        world.bring(&syn(mac(0)));
        let packets = world.clients[0].take();
        world.clients[0].send(&[Descriptor::empty(packets[0].offset).refused(moment(time::now()))]);
        set_time(time::now() + Duration::from_millis(wait));
        world.bring(&syn(mac(0)));
        assert_eq!(world.give_back(0, 0), passed, "after {wait} ms");
    }
}

#[test]
fn what_a_client_said_of_syns_is_forgotten_with_it() {
    let mut world = World::new(1);
    world.bring(&syn(mac(0)));
    assert_eq!(world.give_back(0, REFUSED), 1);
    world.clients[0] = peer(world.client_connections[0].filled, world.client_connections[0].free);
    world.virtualiser.mark_due(channels(&[1]));
    world.settle();
    world.bring(&syn(mac(0)));
    assert_eq!(world.give_back(0, 0), 1);
}

#[test]
fn of_many_syns_that_a_client_dropped_it_is_asked_again_after_a_hundred_and_twenty_eight() {
    let mut world = World::new(1);
    for (marks, dropped) in [(2, 32), (8, 128), (12, 128)] {
        let mut held = Vec::new();
        for _ in 0..marks {
            world.bring(&syn(mac(0)));
            held.extend(world.clients[0].take());
        }
        assert_eq!(held.len(), marks);
        let at = moment(time::now());
        world.clients[0]
            .send(&held.iter().map(|packet| Descriptor::empty(packet.offset).refused(at)).collect::<Vec<_>>());
        let sent = (1..).find(|_| {
            world.bring(&syn(mac(0)));
            world.give_back(0, 0) == 1
        });
        assert_eq!(sent, Some(dropped + 1), "{marks} marks");
    }
}

/// Whatever might be something else is passed on.
#[test]
fn only_syns_are_dropped_for_who_drops_syns() {
    let mut world = World::new(1);
    let flags = |version| if version == 4 { 14 + 20 + 13 } else { 14 + 40 + 13 };
    let changed = |version, at: usize, value| {
        let mut frame = syn_over(version, mac(0));
        frame[at] = value;
        frame
    };
    let cut = |version, length| syn_over(version, mac(0))[..length].to_vec();
    let others = [
        changed(4, flags(4), 0x12),
        changed(4, flags(4), 0x06),
        changed(4, flags(4), 0x10),
        changed(6, flags(6), 0x12),
        changed(6, flags(6), 0x11),
        changed(4, 23, 17),
        changed(6, 20, 17),
        changed(4, 14, 0x46),
        changed(4, 20, 0x20),
        changed(4, 21, 1),
        changed(4, 12, 9),
        cut(4, 53),
        cut(6, 73),
    ];
    let passes = |world: &mut World, frame: &[u8]| {
        world.bring(&syn(mac(0)));
        world.give_back(0, REFUSED);
        world.bring(frame);
        world.give_back(0, 0) == 1
    };
    for version in [4, 6] {
        assert!(!passes(&mut world, &syn_over(version, mac(0))), "over IPv{version}");
        let with_more = changed(version, flags(version), 0xc2);
        assert!(!passes(&mut world, &with_more), "it asks for ECN (RFC 3168 §6.1.1)");
        set_time(time::now() + Duration::from_millis(20));
    }
    for other in others {
        assert!(passes(&mut world, &other), "{other:x?}");
    }
}
