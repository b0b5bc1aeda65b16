//! A wire between the stack and another host, for tests: the host is plain smoltcp, which checks
//! and makes every checksum.

use crate::client::Client;
use crate::descriptor::flags::{CHECKSUM_OFFLOAD, REFUSED, SEGMENTATION_OFFLOAD_4, SEGMENTATION_OFFLOAD_6};
use crate::header::{flags::NEEDS_CHECKSUM, segmentation};
use crate::stack::{Datagram, Event, Settings, Stack};
use crate::testing::{Peer, client, memory, read_frame, write_packet};
use crate::{
    BUFFER_SIZE, Descriptor, ETHERNET_HEADER, HEADROOM, LARGE_BUFFER, MTU, Mac, PacketHeader, checksum, outgoing,
};
use culm::Region;
use culm::connection::NetClient;
use culm::time::{self, Duration};
use smoltcp::iface::{Config, Interface, SocketHandle, SocketSet};
use smoltcp::phy::{self, DeviceCapabilities, Medium};
use smoltcp::socket::{AnySocket, tcp};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};
use std::collections::{BTreeSet, VecDeque};
use std::vec::Vec;

pub(crate) const MAC: [u8; 6] = [2, 0, 0, 0, 0, 1];
pub(crate) const HOST_MAC: [u8; 6] = [2, 0, 0, 0, 0, 2];
pub(crate) const ADDRESS: IpAddress = IpAddress::v4(10, 0, 0, 1);
pub(crate) const HOST: IpAddress = IpAddress::v4(10, 0, 0, 2);
/// The stack's link-local address.
pub(crate) const ADDRESS_6: IpAddress = IpAddress::v6(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 1);
pub(crate) const HOST_6: IpAddress = IpAddress::v6(0xfe80, 0, 0, 0, 0, 0xff, 0xfe00, 2);

/// Small buffers of the stack, each way.
const BUFFERS: u32 = 50;

/// Large buffers to send.
const LARGE: u32 = 4;

const BYTES: usize = (BUFFERS * BUFFER_SIZE + LARGE * LARGE_BUFFER) as usize;

/// Frames on their way.
#[derive(Default)]
pub(crate) struct Wire {
    /// The host's MTU; 0 for Ethernet's.
    pub(crate) mtu: usize,
    pub(crate) to_host: VecDeque<Vec<u8>>,
    pub(crate) to_stack: VecDeque<Vec<u8>>,
}

/// The application on the stack: handles an event of a connection.
pub(crate) type Server = fn(&mut Stack, Event);

/// The stack, the host, and the wire between them.
pub(crate) struct Lan {
    pub(crate) stack: Stack,
    pub(crate) wire: Wire,
    pub(crate) host: Interface,
    pub(crate) sockets: SocketSet<'static>,
    /// The copier's and the transmit virtualiser's places.
    rx: Peer<Descriptor>,
    tx: Peer<Descriptor>,
    rx_data: Region,
    tx_data: Region,
    /// Receive buffers that the client has provided.
    empty: Vec<Descriptor>,
    /// How many came back with the mark of a SYN that was dropped unread.
    pub(crate) refused: usize,
    /// Flags of what the device says that it can do.
    pub(crate) flags: u16,
    /// The flags that the last packet has told the stack.
    told: u16,
    /// Whether sent buffers are given back.
    pub(crate) gives_back: bool,
    /// Whether large ones are not.
    pub(crate) keeps_large: bool,
    kept: Vec<Descriptor>,
    pub(crate) server: Server,
    /// Searches for names that have ended, in the order in which they did.
    #[cfg(feature = "names")]
    pub(crate) found: Vec<(crate::stack::names::Lookup, crate::stack::names::Outcome)>,
    /// Events of connections that the application has seen.
    pub(crate) events: usize,
    /// Slots of open connections.
    pub(crate) open: BTreeSet<usize>,
    /// Every frame that the stack has sent.
    pub(crate) seen: Vec<Vec<u8>>,
    /// Whether the device puts segments that follow each other together, and how often it has.
    pub(crate) merges: bool,
    pub(crate) merged: usize,
    /// How many the stack had the device divide.
    pub(crate) divided: usize,
}

/// Answers every request with itself and ends where the peer does.
pub(crate) fn echo(stack: &mut Stack, event: Event) {
    let (Event::Opened { slot, .. } | Event::Ready { slot }) = event;
    let Some(mut stream) = stack.stream(slot) else { return };
    let mut bytes = [0; 512];
    let count = stream.copy_received(&mut bytes);
    let sent = stream.send(&bytes[..count]);
    stream.consume(sent);
    let ended = stream.ended() && stream.received_count() == 0;
    if ended || stream.is_over() {
        stack.release(slot);
    }
}

impl Lan {
    pub(crate) fn new(settings: Settings) -> Self {
        Self::with_mtu(settings, 0)
    }

    /// With a host whose link takes packets of `mtu` bytes, 0 for Ethernet's.
    pub(crate) fn with_mtu(settings: Settings, mtu: usize) -> Self {
        let connection = NetClient {
            rx_large: LARGE,
            tx_large: LARGE,
            rx_data: memory(BYTES, 0),
            tx_data: memory(BYTES, 0),
            ..client(MAC, BUFFERS, BUFFER_SIZE)
        };
        let mut wire = Wire { mtu, ..Wire::default() };
        let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(HOST_MAC)));
        config.random_seed = 7;
        let mut host = Interface::new(config, &mut wire, Instant::ZERO);
        host.update_ip_addrs(|addresses| {
            addresses.push(IpCidr::new(HOST, 24)).expect("space");
            addresses.push(IpCidr::new(HOST_6, 64)).expect("space");
        });
        let mut lan = Self {
            stack: Stack::new(Client::new(connection), settings),
            wire,
            host,
            sockets: SocketSet::new(Vec::new()),
            rx: Peer::new(connection.rx_free, connection.rx_filled),
            tx: Peer::new(connection.tx_filled, connection.tx_free),
            rx_data: Region::new(connection.rx_data),
            tx_data: Region::new(connection.tx_data),
            empty: Vec::new(),
            refused: 0,
            flags: 0,
            told: 0,
            gives_back: true,
            keeps_large: false,
            kept: buffers(),
            server: echo,
            #[cfg(feature = "names")]
            found: Vec::new(),
            events: 0,
            open: BTreeSet::new(),
            seen: Vec::new(),
            merges: false,
            merged: 0,
            divided: 0,
        };
        for _ in 0..4 {
            lan.step();
        }
        lan
    }

    /// A stack with a fixed address.
    pub(crate) fn fixed(connections: usize) -> Self {
        let settings = Settings { connections, ..Settings::default() };
        Self::new(settings.with_addresses("10.0.0.1/24", "").expect("an address"))
    }

    /// Moves time and everything that moves with it, a millisecond at a time.
    pub(crate) fn pass(&mut self, milliseconds: u64) {
        for _ in 0..milliseconds {
            culm::testing::set_time(time::now() + Duration::from_millis(1));
            self.step();
        }
    }

    /// Everybody takes a turn.
    pub(crate) fn step(&mut self) {
        let now = Instant::from_micros(time::now().microseconds() as i64);
        self.host.poll(now, &mut self.wire, &mut self.sockets);
        self.deliver();
        self.turn();
        self.collect();
    }

    /// The stack's component takes a turn: echoes datagrams, serves connections.
    fn turn(&mut self) {
        for _ in 0..100 {
            self.stack.receive(&mut |datagram: Datagram<'_>| {
                let length = datagram.payload().len();
                datagram.answer(length, |answer, request| answer.copy_from_slice(request));
            });
            #[cfg(feature = "names")]
            self.found.extend(core::iter::from_fn(|| self.stack.found()));
            while let Some(event) = self.stack.event() {
                self.events += 1;
                if let Event::Opened { slot, .. } = event {
                    self.open.insert(slot);
                }
                (self.server)(&mut self.stack, event);
            }
            self.open.retain(|slot| self.stack.stream(*slot).is_some());
            if self.stack.end_round().is_asleep() {
                return;
            }
        }
        panic!("a turn does not end, and what it has to tell others is not told before");
    }

    /// Frames for the stack get into its buffers.
    pub(crate) fn deliver(&mut self) {
        let renewals = self.rx.renewals;
        let entries = self.rx.take();
        if self.rx.renewals != renewals {
            self.empty.clear();
        }
        assert!(entries.iter().all(|entry| [0, REFUSED].contains(&entry.flags)));
        self.refused += entries.iter().filter(|entry| entry.flags == REFUSED).count();
        self.empty.extend(entries);
        while let Some(mut frame) = self.wire.to_stack.pop_front() {
            let mut header = PacketHeader::default();
            let has_large = self.empty.iter().any(|buffer| buffer.offset >= BUFFERS * BUFFER_SIZE);
            if self.merges && has_large && merge(&mut frame, &mut self.wire.to_stack) {
                self.merged += 1;
                header.flags = NEEDS_CHECKSUM;
            }
            let large = frame.len() + HEADROOM > BUFFER_SIZE as usize;
            let of_size = |buffer: &Descriptor| (buffer.offset >= BUFFERS * BUFFER_SIZE) == large;
            let Some(place) = self.empty.iter().rposition(of_size) else {
                self.wire.to_stack.push_front(frame);
                return;
            };
            let buffer = self.empty.swap_remove(place);
            let length = write_packet(&self.rx_data, buffer.offset, &frame);
            self.rx_data.write(buffer.offset as usize, &[header.flags]).expect("inside");
            self.told = self.flags;
            self.rx.send(&[Descriptor { length, flags: self.flags, ..buffer }]);
        }
    }

    /// Frames of the stack get onto the wire; what the device is asked to do, it does.
    pub(crate) fn collect(&mut self) {
        for packet in self.tx.take() {
            let mut frame = read_frame(&self.tx_data, packet);
            let mut header = [0; HEADROOM];
            self.tx_data.read(packet.offset as usize, &mut header).expect("inside");
            let header = PacketHeader::read(&header);
            let head = &frame[..frame.len().min(outgoing::HEAD)];
            assert!(outgoing::may_send(header, head, frame.len(), Mac::new(MAC)));
            if header.flags & NEEDS_CHECKSUM != 0 {
                assert!(self.flags & CHECKSUM_OFFLOAD != 0, "nobody said that the device does that");
                let start = usize::from(header.checksum_start);
                let sum = !checksum::Sum::ZERO.add_bytes(&frame[start..]).fold();
                let place = start + usize::from(header.checksum_offset);
                frame[place..place + 2].copy_from_slice(&sum.to_le_bytes());
            }
            let frames = match header.segmentation {
                segmentation::NONE => std::vec![frame],
                kind => {
                    let can = if kind == segmentation::TCP_6 { SEGMENTATION_OFFLOAD_6 } else { SEGMENTATION_OFFLOAD_4 };
                    assert!(self.told & can != 0, "nobody said that the device does that");
                    self.divided += 1;
                    assert!(checksum::is_right(&frame), "the sum of the pseudo-header, and what it counts");
                    divide(&frame, header)
                }
            };
            for frame in frames {
                assert!(frame.len() <= ETHERNET_HEADER + MTU, "longer than the link takes");
                self.seen.push(frame.clone());
                self.wire.to_host.push_back(frame);
            }
            self.kept.push(Descriptor::empty(packet.offset));
        }
        if self.gives_back && self.tx.is_live() {
            let stays = |buffer: &Descriptor| self.keeps_large && buffer.offset >= BUFFERS * BUFFER_SIZE;
            let (stay, back) = core::mem::take(&mut self.kept).into_iter().partition::<Vec<_>, _>(stays);
            self.kept = stay;
            self.tx.send(&back);
        }
    }

    /// The card is done with so many frames, and gives their buffers back: where it does not do so
    /// of its own accord.
    pub(crate) fn give_some(&mut self, count: usize) {
        let count = count.min(self.kept.len());
        let back: Vec<_> = self.kept.drain(..count).collect();
        self.tx.send(&back);
    }

    pub(crate) fn add(&mut self, socket: impl AnySocket<'static>) -> SocketHandle {
        self.sockets.add(socket)
    }

    /// A TCP connection of the host's, being opened.
    pub(crate) fn connect(&mut self, to: IpAddress, local_port: u16) -> SocketHandle {
        self.connect_with(to, local_port, 4096)
    }

    /// The same with a window of so many bytes.
    pub(crate) fn connect_with(&mut self, to: IpAddress, local_port: u16, window: usize) -> SocketHandle {
        let buffer = |bytes| tcp::SocketBuffer::new(std::vec![0; bytes]);
        let mut socket = tcp::Socket::new(buffer(window), buffer(window));
        socket.connect(self.host.context(), (to, 80), local_port).expect("a free port");
        self.sockets.add(socket)
    }

    pub(crate) fn socket(&mut self, handle: SocketHandle) -> &mut tcp::Socket<'static> {
        self.sockets.get_mut(handle)
    }
}

/// All transmit buffers.
fn buffers() -> Vec<Descriptor> {
    let small = (0..BUFFERS).map(|number| number * BUFFER_SIZE);
    let large = (0..LARGE).map(|number| BUFFERS * BUFFER_SIZE + number * LARGE_BUFFER);
    small.chain(large).map(Descriptor::empty).collect()
}

/// Divides, as a device does, a large packet of TCP over either version of IP (VIRTIO 1.2
/// §5.1.6.2).
fn divide(frame: &[u8], header: PacketHeader) -> Vec<Vec<u8>> {
    const IP: usize = ETHERNET_HEADER;
    let (headers, payload) = frame.split_at(header.header_length.into());
    let transport = usize::from(header.checksum_start);
    // Where the length is, and what it does not count.
    let (place, uncounted) = if header.segmentation == segmentation::TCP_4 { (IP + 2, IP) } else { (IP + 4, IP + 40) };
    let told = usize::from(u16::from_be_bytes([frame[place], frame[place + 1]]));
    assert_eq!(told, frame.len() - uncounted, "the length of the whole in the IP header");
    let sequence = u32::from_be_bytes(frame[transport + 4..transport + 8].try_into().expect("four bytes"));
    let chunks: Vec<&[u8]> = payload.chunks(header.segment_size.into()).collect();
    let segment = |(index, chunk): (usize, &&[u8])| {
        let mut segment = Vec::from(headers);
        segment.extend_from_slice(chunk);
        let length = (segment.len() - uncounted) as u16;
        segment[place..place + 2].copy_from_slice(&length.to_be_bytes());
        let at = sequence.wrapping_add((index * usize::from(header.segment_size)) as u32);
        segment[transport + 4..transport + 8].copy_from_slice(&at.to_be_bytes());
        if index + 1 < chunks.len() {
            // FIN and PSH are the last one's.
            segment[transport + 13] &= !0b1001;
        }
        if header.segmentation == segmentation::TCP_4 {
            segment[IP + 10..IP + 12].fill(0);
            let sum = !checksum::Sum::ZERO.add_bytes(&segment[IP..transport]).fold();
            segment[IP + 10..IP + 12].copy_from_slice(&sum.to_le_bytes());
        }
        checksum::complete(&mut segment);
        segment
    };
    chunks.iter().enumerate().map(segment).collect()
}

/// Adds the payload of those segments to a frame of TCP over IPv4 that follow it, as a device does
/// that receives for a guest which takes large packets. Their checksum is not made. Returns whether
/// something followed.
fn merge(frame: &mut Vec<u8>, rest: &mut VecDeque<Vec<u8>>) -> bool {
    const IP: usize = ETHERNET_HEADER;
    const TCP: usize = IP + 20;
    let is_data = |frame: &[u8]| {
        frame.len() > TCP + 20 && frame[12..15] == [8, 0, 0x45] && frame[23] == 6 && frame[TCP + 13] & 0b111 == 0
    };
    let payload = |frame: &[u8]| TCP + usize::from(frame[TCP + 12] >> 4) * 4;
    let sequence = |frame: &[u8]| u32::from_be_bytes(frame[TCP + 4..TCP + 8].try_into().expect("four bytes"));
    let mut merged = false;
    while is_data(frame)
        && let Some(next) = rest.front()
        && is_data(next)
        && next[26..TCP + 4] == frame[26..TCP + 4]
        && sequence(next) == sequence(frame).wrapping_add((frame.len() - payload(frame)) as u32)
        && frame.len() + next.len() < 60_000
    {
        frame.extend_from_slice(&next[payload(next)..]);
        rest.pop_front();
        merged = true;
    }
    if merged {
        let length = (frame.len() - IP) as u16;
        frame[IP + 2..IP + 4].copy_from_slice(&length.to_be_bytes());
        frame[IP + 10..IP + 12].fill(0);
        let sum = !checksum::Sum::ZERO.add_bytes(&frame[IP..TCP]).fold();
        frame[IP + 10..IP + 12].copy_from_slice(&sum.to_le_bytes());
    }
    merged
}

impl phy::Device for Wire {
    type RxToken<'a> = Frame;
    type TxToken<'a> = Sending<'a>;

    fn receive(&mut self, _: Instant) -> Option<(Frame, Sending<'_>)> {
        let frame = self.to_host.pop_front()?;
        Some((Frame(frame), Sending(&mut self.to_stack)))
    }

    fn transmit(&mut self, _: Instant) -> Option<Sending<'_>> {
        Some(Sending(&mut self.to_stack))
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = if self.mtu == 0 { 1514 } else { self.mtu + ETHERNET_HEADER };
        capabilities
    }
}

pub(crate) struct Frame(Vec<u8>);

impl phy::RxToken for Frame {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(&self.0)
    }
}

pub(crate) struct Sending<'a>(&'a mut VecDeque<Vec<u8>>);

impl phy::TxToken for Sending<'_> {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        let mut frame = std::vec![0; length];
        let result = write(&mut frame);
        self.0.push_back(frame);
        result
    }
}
