//! The card between a guest's driver and a connection whose other end takes all that comes.

use super::*;
use alloc::vec;
use alloc::vec::Vec;
use culm::Region;
use culm::guest::MEMORY;
use culm_guest::virtio::Memory;
use culm_guest::virtio::testing::set_up;
use culm_net::Descriptor;
use culm_net::descriptor::flags::{CHECKSUM_OFFLOAD, SEGMENTATION_OFFLOAD_4, SEGMENTATION_OFFLOAD_6};
use culm_net::provider::Port;
use culm_net::testing::{Peer, client, memory, provider_of, read_frame, write_packet};

const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
/// Where the parts of the guest's queues are, and behind them what it sends.
const PLACES: [[u64; 3]; 2] = [[MEMORY, MEMORY + 1024, MEMORY + 2048], [MEMORY + 4096, MEMORY + 5120, MEMORY + 6144]];
const PACKET: u64 = MEMORY + 8192;
/// Bytes of the guest's memory.
const SIZE: u64 = 16384;
/// Bytes of the headers of its packets: Ethernet, IPv4 or IPv6, TCP.
const HEADERS: usize = 14 + 20 + 20;
const HEADERS_6: usize = 14 + 40 + 20;

/// A guest's card, its memory, and the other end of its connection.
struct World {
    memory: GuestMemory,
    card: Card,
    device: Net,
    port: Port,
}

/// Buffers of a connection for frames that the link takes, and the bytes of all kinds.
const SMALL: u32 = 8;
const SMALL_SIZE: u32 = 2048;
const LARGE_SIZE: u32 = 1 << 16;

/// Returns a connection of this many large buffers each way, of a link or not.
fn connection(linked: u32, large: u32) -> NetClient {
    let data = || memory((SMALL * SMALL_SIZE + large * LARGE_SIZE) as usize, 0);
    NetClient {
        linked,
        rx_large: large,
        tx_large: large,
        rx_data: data(),
        tx_data: data(),
        rx_channel: 2,
        tx_channel: 3,
        ..client(MAC, SMALL, SMALL_SIZE)
    }
}

/// Returns a card over such a connection, and the other end of that.
fn connected(linked: u32, large: u32) -> (Card, Port) {
    let client = connection(linked, large);
    let provider = provider_of(&client, 0, 1);
    let card = Card::new(client);
    (card, Port::new(&provider))
}

/// Returns the memory of a guest, and the device of a card that the guest has set up.
fn guest(card: &Card) -> (GuestMemory, Net) {
    let mut device = card.device();
    set_up_card(&mut device);
    (GuestMemory::new(Region::new(culm::testing::memory(SIZE as usize, 0))), device)
}

/// Resets a card and sets it up, as the guest's driver does.
fn set_up_card(device: &mut Net) {
    set_up(&mut device.transport, feature::CHECKSUM | feature::HOST_TSO4 | feature::HOST_TSO6, &PLACES, 16);
}

impl World {
    fn new() -> Self {
        let (card, port) = connected(0, 0);
        let (memory, device) = guest(&card);
        let mut world = Self { memory, device, card, port };
        for _ in 0..4 {
            world.settle();
        }
        world
    }

    /// Everybody has a turn; returns the lengths of the frames that come out.
    fn settle(&mut self) -> Vec<usize> {
        let _ = self.card.carry(&mut self.device, &self.memory);
        self.port.begin();
        let frames = core::iter::from_fn(|| self.port.next_frame().map(|frame| frame.length())).collect();
        let _ = self.port.end_round();
        frames
    }
}

/// The guest sends a packet of two segments of 1,000 bytes over IPv4, or over IPv6, the last
/// 500 of which are at `last`.
fn send_segments(memory: &GuestMemory, last: u64, over_6: bool) {
    const SEGMENT: u16 = 1000;
    let (kind, headers) = if over_6 { (TCP_6, HEADERS_6) } else { (segmentation::TCP_4, HEADERS) };
    let mut head = vec![0; HEADER + headers];
    let header = PacketHeader {
        flags: NEEDS_CHECKSUM,
        segmentation: kind,
        header_length: headers as u16,
        segment_size: SEGMENT,
        checksum_start: headers as u16 - 20,
        checksum_offset: 16,
        ..PacketHeader::default()
    };
    header.write((&mut head[..HEADER]).try_into().expect("as long as that"));
    let frame = &mut head[HEADER..];
    frame[..6].copy_from_slice(&[2, 0, 0, 0, 0, 2]);
    frame[6..12].copy_from_slice(&MAC);
    frame[headers - 20 + 12] = 0x50;
    if over_6 {
        (frame[12], frame[13], frame[14], frame[14 + 6]) = (0x86, 0xdd, 0x60, 6);
        frame[18..20].copy_from_slice(&(20 + 2 * SEGMENT).to_be_bytes());
    } else {
        (frame[12], frame[14], frame[14 + 9]) = (8, 0x45, 6);
        frame[16..18].copy_from_slice(&(40 + 2 * SEGMENT).to_be_bytes());
    }
    memory.write(PACKET, &head).expect("inside");
    offer(memory, 0, 0, &[(PACKET, head.len() as u32), (PACKET + 1024, 1500), (last, 500)]);
}

/// The guest sends a frame of 60 bytes, as its frame of this number.
fn send_small(memory: &GuestMemory, number: u16) {
    let mut bytes = [0; HEADER + 60];
    bytes[HEADER..][6..12].copy_from_slice(&MAC);
    memory.write(PACKET + 2560, &bytes).expect("inside");
    offer(memory, number, 8 + number, &[(PACKET + 2560, bytes.len() as u32)]);
}

/// The guest offers its frame of this number, which lies in these parts: their addresses and
/// lengths, in descriptors from `first` on.
fn offer(memory: &GuestMemory, number: u16, first: u16, parts: &[(u64, u32)]) {
    let [descriptors, driver, _] = PLACES[1];
    for (index, (address, length)) in (first..).zip(parts) {
        let has_next = u128::from(index + 1 - first < parts.len() as u16);
        let word = u128::from(*address) | u128::from(*length) << 64 | has_next << 96 | u128::from(index + 1) << 112;
        memory.write(descriptors + 16 * u64::from(index), &word.to_le_bytes()).expect("inside");
    }
    memory.write(driver + 4 + 2 * u64::from(number), &first.to_le_bytes()).expect("inside");
    memory.store(driver + 2, number + 1).expect("inside");
}

#[test]
fn a_packet_of_many_segments_is_divided() {
    for (over_6, headers) in [(false, HEADERS), (true, HEADERS_6)] {
        let mut world = World::new();
        send_segments(&world.memory, PACKET + 4096, over_6);
        let frames: Vec<_> = (0..3).flat_map(|_| world.settle()).collect();
        assert_eq!(frames, [headers + 1000; 2]);
    }
}

/// A guest whose frames go to a device, with buffers that a test gives.
struct Beside {
    memory: GuestMemory,
    card: Card,
    device: Net,
    client: NetClient,
    sent: Peer<Descriptor>,
}

impl Beside {
    /// The card has so many small buffers to send in and no large ones, and knows of the device
    /// that it has these `flags`.
    fn new(small: u32, flags: u16) -> Self {
        let client = connection(0, 2);
        let mut received = Peer::<Descriptor>::new(client.rx_free, client.rx_filled);
        let sent = Peer::<Descriptor>::new(client.tx_filled, client.tx_free);
        let card = Card::new(client);
        let (memory, device) = guest(&card);
        let mut beside = Self { memory, card, device, client, sent };
        let mut empty = Vec::new();
        for _ in 0..4 {
            assert_eq!(beside.carry(), [0; 0]);
            empty.extend(received.take());
        }
        beside.give((0..small).map(|number| number * SMALL_SIZE));
        // Each frame that comes tells what the device can do.
        let buffer = empty[0];
        let length = write_packet(&Region::new(client.rx_data), buffer.offset, &[0; 60]);
        received.send(&[Descriptor { length, flags: CHECKSUM_OFFLOAD | flags, ..buffer }]);
        assert_eq!(beside.carry(), [0; 0]);
        beside
    }

    /// Gives buffers at these offsets.
    fn give(&mut self, offsets: impl Iterator<Item = u32>) {
        self.sent.send(&offsets.map(Descriptor::empty).collect::<Vec<_>>());
    }

    /// Gives so many large buffers.
    fn give_large(&mut self, count: u32) {
        self.give((0..count).map(|number| SMALL * SMALL_SIZE + number * LARGE_SIZE));
    }

    /// The monitor has a turn; returns the lengths of the frames that come out.
    fn carry(&mut self) -> Vec<usize> {
        let _ = self.card.carry(&mut self.device, &self.memory);
        let data = Region::new(self.client.tx_data);
        self.sent.take().iter().map(|packet| read_frame(&data, *packet).len()).collect()
    }
}

/// What a device divides of TCP over one version of IP is left to it as it is, what it does not is
/// divided here.
#[test]
fn a_packet_of_many_segments_is_left_to_a_device_that_divides_its_kind() {
    for (offload, over_6, is_left) in [
        (SEGMENTATION_OFFLOAD_4, false, true),
        (SEGMENTATION_OFFLOAD_4, true, false),
        (SEGMENTATION_OFFLOAD_6, false, false),
        (SEGMENTATION_OFFLOAD_6, true, true),
    ] {
        let mut beside = Beside::new(SMALL, offload);
        beside.give_large(2);
        send_segments(&beside.memory, PACKET + 4096, over_6);
        let headers = if over_6 { HEADERS_6 } else { HEADERS };
        let expected = if is_left { vec![headers + 2000] } else { vec![headers + 1000; 2] };
        assert_eq!(beside.carry(), expected, "{offload} {over_6}");
    }
}

/// A frame waits for a buffer of the kind that it needs, and for no other. Those behind it wait
/// with it.
#[test]
fn a_frame_waits_for_no_buffer_but_its_own() {
    let mut beside = Beside::new(SMALL, SEGMENTATION_OFFLOAD_4);
    send_segments(&beside.memory, PACKET + 4096, false);
    send_small(&beside.memory, 1);
    assert_eq!(beside.carry(), [0; 0], "no large buffer is free");
    beside.give_large(1);
    assert_eq!(beside.carry(), [HEADERS + 2000, 60]);
    send_small(&beside.memory, 2);
    assert_eq!(beside.carry(), [60], "it needs no large buffer");
    // What the device does not divide needs none either.
    let mut beside = Beside::new(SMALL, SEGMENTATION_OFFLOAD_4);
    send_segments(&beside.memory, PACKET + 4096, true);
    assert_eq!(beside.carry(), [HEADERS_6 + 1000; 2]);
}

/// A frame that waits is forgotten when the guest resets the card: its buffer is the guest's again.
#[test]
fn a_reset_takes_back_a_frame_that_waits() {
    let mut beside = Beside::new(SMALL, SEGMENTATION_OFFLOAD_4);
    send_segments(&beside.memory, PACKET + 4096, false);
    assert_eq!(beside.carry(), [0; 0]);
    beside.memory.store(PLACES[1][1] + 2, 0).expect("inside");
    set_up_card(&mut beside.device);
    beside.give_large(1);
    assert_eq!(beside.carry(), [0; 0]);
}

/// Where one part of a packet is in no memory, nothing of it may go out: zeroes in its place would
/// be data of a stream of TCP.
#[test]
fn a_packet_of_many_segments_of_which_a_part_lies_elsewhere_is_refused() {
    for last in [0, MEMORY + SIZE - 499, u64::MAX - 100] {
        let mut world = World::new();
        send_segments(&world.memory, last, false);
        let frames: Vec<_> = (0..3).flat_map(|_| world.settle()).collect();
        assert_eq!(frames, [0; 0], "{last:#x}");
        assert!(world.device.transport.is_live());
    }
}

/// Over a link a packet of many segments goes as it is, in a large buffer. What the guest takes is
/// another matter: the other end may have some.
#[test]
fn packets_of_many_segments_are_offered_where_they_can_be_sent() {
    let offered = |linked, large| {
        let mut device = connected(linked, large).0.device();
        set_up(&mut device.transport, u64::MAX, &PLACES, 16);
        [feature::HOST_TSO4, feature::HOST_TSO6, feature::GUEST_TSO4].map(|feature| device.transport.has(feature))
    };
    assert_eq!(offered(0, 0), [true, true, true], "they are divided here");
    assert_eq!(offered(1, 0), [false, false, true]);
    assert_eq!(offered(1, 2), [true, true, true]);
}

/// The guest has sent so many frames in all.
fn send_short(memory: &GuestMemory, count: u16) {
    let [descriptors, driver, _] = PLACES[1];
    let word = u128::from(PACKET) | (HEADER as u128 + 60) << 64;
    memory.write(descriptors, &word.to_le_bytes()).expect("inside");
    memory.store(driver + 2, count).expect("inside");
}

/// A guest that goes on without a wait, but sends and is sent no more than a question at a time,
/// has each carried at once, but the first.
#[test]
fn a_busy_guest_is_looked_at_again_and_again_as_long_as_it_moves_frames() {
    let mut world = World::new();
    send_short(&world.memory, 5);
    for (sent, is_busy) in [(7, true), (9, true), (10, false), (11, false)] {
        world.settle();
        let at = world.card.look_at;
        assert_eq!(at.is_some(), world.device.is_busy());
        send_short(&world.memory, sent);
        culm::testing::set_time(at.unwrap_or(time::now()));
        world.settle();
        assert_eq!(world.device.is_busy(), is_busy, "{sent}");
    }
}

#[test]
fn the_length_of_headers_is_taken_from_them() {
    let mut head = [0; 14 + 20 + 20];
    (head[12], head[34 + 12]) = (0x08, 0x80);
    let given = PacketHeader {
        segmentation: segmentation::TCP_4,
        header_length: 200,
        checksum_start: 34,
        ..PacketHeader::default()
    };
    let mut header = given;
    assert!(take_lengths(&mut header, &head));
    assert_eq!(header, PacketHeader { header_length: 34 + 32, ..given });
    assert!(!take_lengths(&mut header, &head[..40]), "no header of TCP");
    let mut over_ipv6 = PacketHeader { segmentation: TCP_6, ..given };
    assert!(!take_lengths(&mut over_ipv6, &head), "IPv4");
    head[12..14].copy_from_slice(&[0x86, 0xdd]);
    assert!(take_lengths(&mut over_ipv6, &head) && !take_lengths(&mut header, &head));
    head[12..14].copy_from_slice(&[0x08, 0x00]);
    assert!(!take_lengths(&mut PacketHeader { checksum_start: u16::MAX, ..given }, &head));
    head[12..14].copy_from_slice(&[0x81, 0x00]);
    assert!(!take_lengths(&mut header, &head), "a tag");
}
