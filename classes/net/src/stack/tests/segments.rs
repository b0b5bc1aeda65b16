//! Bulk data with devices that divide packets into segments, or put segments together, and with
//! those that do not.

use super::lan::{ADDRESS, ADDRESS_6, Lan};
use crate::ETHERNET_HEADER;
use crate::descriptor::flags::{CHECKSUM_OFFLOAD, SEGMENTATION_OFFLOAD_4, SEGMENTATION_OFFLOAD_6};
use crate::stack::{Event, Settings, Stack};
use smoltcp::iface::SocketHandle;
use smoltcp::socket::tcp;
use smoltcp::wire::{Ipv4Packet, Ipv6Packet, TcpPacket};
use std::vec::Vec;

/// What a device can do that divides packets of TCP over IPv4, over IPv6, and over both.
const OVER_4: u16 = CHECKSUM_OFFLOAD | SEGMENTATION_OFFLOAD_4;
const OVER_6: u16 = CHECKSUM_OFFLOAD | SEGMENTATION_OFFLOAD_6;
const BOTH: u16 = OVER_4 | OVER_6;

/// Bytes that a server sends before it ends a connection.
const CONTENT: usize = 300_000;

fn byte(at: usize) -> u8 {
    (at % 251) as u8
}

/// Sends [`CONTENT`] bytes on each connection. How many were sent on that of a slot is in the
/// thread's table.
fn source(stack: &mut Stack, event: Event) {
    std::thread_local!(static SENT: core::cell::RefCell<Vec<usize>> = const { core::cell::RefCell::new(Vec::new()) });
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    SENT.with_borrow_mut(|sent| {
        sent.resize(sent.len().max(slot + 1), 0);
        if matches!(event, Event::Opened { .. }) {
            sent[slot] = 0;
        }
        let Some(mut stream) = stack.stream(slot) else { return };
        let bytes: Vec<u8> = (sent[slot]..(sent[slot] + stream.room()).min(CONTENT)).map(byte).collect();
        sent[slot] += stream.send(&bytes);
        if sent[slot] == CONTENT || stream.is_over() {
            stream.finish();
            stack.release(slot);
        }
    });
}

fn lan(flags: u16, mtu: usize) -> Lan {
    let settings = Settings { connections: 4, send_buffer: 65536, ..Settings::default() };
    let mut lan = Lan::with_mtu(settings.with_addresses("10.0.0.1/24", "").expect("an address"), mtu);
    lan.flags = flags;
    lan.server = source;
    lan.stack.listen(80);
    lan
}

/// Reads what comes until the end, checks it, and returns how much that is.
fn read(lan: &mut Lan, handle: SocketHandle, mut change: impl FnMut(&mut Lan, usize)) -> usize {
    let mut count = 0;
    for _ in 0..20_000 {
        lan.pass(1);
        let socket = lan.socket(handle);
        while let Ok(part) = socket.recv(|bytes| (bytes.len(), bytes.to_vec()))
            && !part.is_empty()
        {
            for found in part {
                assert_eq!(found, byte(count), "at {count}");
                count += 1;
            }
        }
        if socket.state() == tcp::State::CloseWait {
            socket.close();
        }
        if !socket.is_open() || socket.state() == tcp::State::TimeWait {
            break;
        }
        change(lan, count);
    }
    count
}

/// The longest payload of TCP that was seen on the wire.
fn longest_segment(lan: &Lan) -> usize {
    let payload = |frame: &Vec<u8>| {
        let packet = &frame[ETHERNET_HEADER..];
        let tcp = match packet[0] >> 4 {
            4 => Ipv4Packet::new_checked(packet).ok()?.payload().to_vec(),
            _ => Ipv6Packet::new_checked(packet).ok()?.payload().to_vec(),
        };
        Some(TcpPacket::new_checked(tcp.as_slice()).ok()?.payload().len())
    };
    lan.seen.iter().filter_map(payload).max().unwrap_or(0)
}

#[test]
fn the_device_divides_where_it_can() {
    for (flags, to, divided) in [
        (BOTH, ADDRESS, true),
        (OVER_4, ADDRESS, true),
        (OVER_6, ADDRESS, false),
        (CHECKSUM_OFFLOAD, ADDRESS, false),
        (SEGMENTATION_OFFLOAD_4, ADDRESS, false),
        (0, ADDRESS, false),
        (BOTH, ADDRESS_6, true),
        (OVER_6, ADDRESS_6, true),
        (OVER_4, ADDRESS_6, false),
        (CHECKSUM_OFFLOAD, ADDRESS_6, false),
        (SEGMENTATION_OFFLOAD_6, ADDRESS_6, false),
    ] {
        let mut lan = lan(flags, 0);
        let handle = lan.connect_with(to, 50_000, 60_000);
        assert_eq!(read(&mut lan, handle, |_, _| {}), CONTENT, "{flags} {to}");
        assert_eq!(lan.divided > 0, divided, "{flags} {to}");
        assert_eq!(lan.stack.counts().broken, 0);
    }
}

/// A connection that has more to send than its turn allows goes to the end of the list, whose
/// memory is that of the start.
#[test]
fn whose_turn_is_over_waits_without_more_memory() {
    let mut lan = lan(0, 0);
    let handle = lan.connect_with(ADDRESS, 50_000, 60_000);
    let space = lan.stack.tcp.space();
    assert_eq!(read(&mut lan, handle, |_, _| {}), CONTENT);
    assert_eq!(lan.stack.tcp.space(), space);
}

#[test]
fn segments_are_as_small_as_the_peer_wants_them() {
    let over_4 = [(576, 536), (1280, 1240), (0, 1460), (9000, 1460)].map(|case| (ADDRESS, case));
    let over_6 = [(1280, 1220), (0, 1440), (9000, 1440)].map(|case| (ADDRESS_6, case));
    for (to, (mtu, segment)) in over_4.into_iter().chain(over_6) {
        let mut lan = lan(BOTH, mtu);
        let handle = lan.connect_with(to, 50_000, 60_000);
        assert_eq!(read(&mut lan, handle, |_, _| {}), CONTENT, "{to} MTU {mtu}");
        assert!(lan.divided > 0);
        assert_eq!(longest_segment(&lan), segment, "{to} MTU {mtu}");
    }
}

#[test]
fn lost_segments_are_sent_again() {
    for to in [ADDRESS, ADDRESS_6] {
        let mut lan = lan(BOTH, 0);
        let handle = lan.connect_with(to, 50_000, 60_000);
        let mut seed = 1_u32;
        let count = read(&mut lan, handle, |lan, _| {
            lan.wire.to_host.retain(|_| {
                seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                seed >> 24 > 12
            });
        });
        assert_eq!(count, CONTENT, "{to}");
    }
}

#[test]
fn a_device_that_comes_back_with_less_is_asked_for_less() {
    let mut lan = lan(BOTH, 0);
    let handle = lan.connect_with(ADDRESS, 50_000, 60_000);
    let mut changed = false;
    let mut divided = 0;
    let count = read(&mut lan, handle, |lan, count| {
        if count > CONTENT / 3 && !changed {
            changed = true;
            // Its last packets are still divided; the first that it brings says what it cannot do
            // any more.
            lan.flags = CHECKSUM_OFFLOAD;
        }
        if changed && divided == 0 {
            divided = lan.divided;
        }
    });
    assert!(changed);
    assert_eq!((count, lan.divided), (CONTENT, divided));
}

#[test]
fn who_runs_out_of_large_buffers_waits() {
    let mut lan = lan(BOTH, 0);
    let handles: Vec<_> = (0..4).map(|port| lan.connect_with(ADDRESS, 50_000 + port, 60_000)).collect();
    lan.pass(5);
    lan.gives_back = false;
    lan.pass(200);
    lan.gives_back = true;
    for handle in handles {
        assert_eq!(read(&mut lan, handle, |_, _| {}), CONTENT);
    }
}

#[test]
fn who_has_much_to_send_waits_for_a_large_buffer() {
    let mut lan = lan(BOTH, 0);
    let handle = lan.connect_with(ADDRESS, 50_000, 60_000);
    let (mut divided, mut turns, mut most) = (0, 0, 0);
    let count = read(&mut lan, handle, |lan, count| {
        if lan.keeps_large && lan.divided == divided {
            (turns, most) = (turns + 1, most.max(lan.seen.len()));
        }
        // In between, no large buffer comes back.
        lan.keeps_large = (CONTENT / 3..CONTENT * 9 / 10).contains(&count);
        divided = lan.divided;
        lan.seen.clear();
    });
    assert_eq!(count, CONTENT);
    assert!(turns > 10);
    assert!(most <= 2, "{most} single segments were sent in one turn");
}

#[test]
fn addresses_survive_a_change_of_the_device() {
    let mut lan = lan(0, 0);
    let before = lan.stack.addresses().to_vec();
    lan.flags = BOTH;
    let handle = lan.connect_with(ADDRESS, 50_000, 60_000);
    assert_eq!(read(&mut lan, handle, |_, _| {}), CONTENT);
    assert_eq!(lan.stack.addresses(), before);
    assert!(before.iter().any(|address| ADDRESS == address.address().into()) && before.len() > 1);
}

std::thread_local!(static TAKEN: core::cell::Cell<usize> = const { core::cell::Cell::new(0) });

/// Takes what comes and checks it.
fn sink(stack: &mut Stack, event: Event) {
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    let Some(mut stream) = stack.stream(slot) else { return };
    loop {
        let bytes = stream.received();
        let count = bytes.len();
        let start = TAKEN.get();
        for (at, found) in bytes.iter().enumerate() {
            assert_eq!(*found, byte(start + at), "at {}", start + at);
        }
        TAKEN.set(start + count);
        stream.consume(count);
        if count == 0 {
            break;
        }
    }
    if stream.ended() {
        stack.release(slot);
    }
}

#[test]
fn what_the_device_puts_together_is_received() {
    for (merges, to) in [(true, ADDRESS), (false, ADDRESS), (true, ADDRESS_6)] {
        TAKEN.set(0);
        let settings = Settings { connections: 2, receive_buffer: 200_000, ..Settings::default() };
        let mut lan = Lan::new(settings.with_addresses("10.0.0.1/24", "").expect("an address"));
        lan.flags = BOTH;
        lan.merges = merges;
        lan.server = sink;
        lan.stack.listen(80);
        let handle = lan.connect_with(to, 50_000, 60_000);
        let mut sent = 0;
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (sent..(sent + 3000).min(CONTENT)).map(byte).collect();
            if lan.socket(handle).may_send() {
                sent += lan.socket(handle).send_slice(&bytes).expect("open");
            }
            if sent == CONTENT {
                lan.socket(handle).close();
            }
            lan.pass(1);
            if TAKEN.get() == CONTENT {
                break;
            }
        }
        assert_eq!(TAKEN.get(), CONTENT, "{merges} {to}");
        assert_eq!(lan.merged > 0, merges && to == ADDRESS);
        assert_eq!(lan.stack.counts().broken, 0);
    }
}

/// A window doubles while it is filled and read, up to what the settings say or the pool has for
/// one peer, and what was lent comes back.
#[test]
fn a_window_grows_with_what_the_path_carries() {
    for (largest_receive_buffer, receive_pool, chunks) in [(16_000, 40_000, 16), (40_000, 20_000, 11), (0, 40_000, 1)] {
        TAKEN.set(0);
        let settings = Settings {
            connections: 2,
            receive_buffer: 1000,
            largest_receive_buffer,
            receive_pool,
            ..Settings::default()
        };
        let mut lan = Lan::new(settings.with_addresses("10.0.0.1/24", "").expect("an address"));
        lan.server = sink;
        lan.stack.listen(80);
        let handle = lan.connect_with(ADDRESS, 50_000, 60_000);
        let (mut sent, mut most) = (0, 0);
        for _ in 0..20_000 {
            let bytes: Vec<u8> = (sent..(sent + 3000).min(CONTENT)).map(byte).collect();
            if lan.socket(handle).may_send() {
                sent += lan.socket(handle).send_slice(&bytes).expect("open");
            }
            if sent == CONTENT {
                lan.socket(handle).close();
            }
            lan.pass(1);
            let (free, room) = lan.stack.tcp.room(0);
            assert_eq!(free + room / 1000, receive_pool / 1000 + 1);
            most = most.max(room);
            if TAKEN.get() == CONTENT {
                break;
            }
        }
        assert_eq!((TAKEN.get(), most), (CONTENT, chunks * 1000), "{largest_receive_buffer}");
        lan.pass(100);
        assert_eq!(lan.stack.tcp.room(0), (receive_pool / 1000, 1000));
    }
}
