//! The guest's network card over a connection of the net class, whose packet header is virtio-net's
//! too.
//!
//! A frame that the guest sends is copied once, into a buffer that the guest cannot change, is
//! checked there, and goes on if it carries the card's own address. A frame that it receives is
//! copied once, from the buffers of the connection: the card's own, where the guest is its only
//! client and has no copier. One for which the guest has no room is lost, as on any card. A packet
//! of many segments is divided by the card behind the connection if that can, else here: what that
//! card can do is known only once a frame has come from it, and the guest asks before.
//!
//! Over a link the other end is another guest's monitor, which writes its guest's memory from the
//! buffers that this one has written. So a frame from guest to guest is copied twice, out of the
//! one and into the other, since no monitor sees another's guest. It goes as it is: many segments
//! in one packet, if this end has large buffers, and its checksum left out.

use super::put_off::PutOff;
use super::rounds;
use crate::counters;
use crate::memory::GuestMemory;
use culm::connection::{NetClient, NetLink};
use culm::time::{self, Instant};
use culm::{Channel, Channels, Progress};
use culm_guest::virtio::net::{Delivery, Frame, HEADER, Net, feature};
use culm_net::checksum;
use culm_net::client::Client;
use culm_net::header::flags::{CHECKSUM_VALID, NEEDS_CHECKSUM};
use culm_net::header::segmentation::{self, TCP_6};
use culm_net::outgoing::segments::{LONGEST_HEADERS, Segments};
use culm_net::outgoing::{HEAD, may_send};
use culm_net::{HEADROOM, PacketHeader};

const _: () = assert!(HEADER == HEADROOM);

/// The most frames that the guest may send in one round.
const FRAMES: usize = 256;

/// Received frames for which the monitor takes a turn at once while the guest is busy. Fewer are
/// left until the guest waits, or as long as [`PutOff`] says. A copier has no more buffers for
/// large packets.
const MANY_RECEIVED: u32 = 16;

/// The connection behind the card.
pub struct Card {
    client: Client,
    /// The channels over which the connection notifies.
    channels: [Channel; 2],
    /// How long frames are put off.
    put_off: PutOff,
    /// The time at which the guest is interrupted for nothing but frames that were sent, if it was
    /// not before. It takes their buffers back by itself whenever it sends; only a sender whose
    /// socket is full waits for the interrupt.
    tell_at: Option<Instant>,
    /// The time at which the frames both ways are looked at, while the guest is busy with others.
    look_at: Option<Instant>,
    /// The packet that is being divided here, which was taken last.
    division: Option<Division>,
    /// The frame that was taken last, if no buffer of its kind was free.
    waiting: Option<Waiting>,
}

/// A frame that waits for a buffer.
struct Waiting {
    frame: Frame,
    /// The count of the device's resets when it was taken.
    resets: u32,
}

/// What is left of a packet of many segments, which goes out one by one.
struct Division {
    segments: Segments,
    /// The next one.
    next: usize,
    /// The count of the device's resets when the packet was taken.
    resets: u32,
}

/// The outcome of a frame that the guest sends.
enum Sending {
    /// It is on its way.
    Done,
    /// It may not be sent, or cannot.
    Refused,
    /// It is [`Card::division`].
    Divided,
}

impl From<bool> for Sending {
    fn from(is_done: bool) -> Self {
        if is_done { Self::Done } else { Self::Refused }
    }
}

impl Card {
    /// Takes the connection up.
    pub fn new(connection: NetClient) -> Self {
        let channels = [connection.rx_channel, connection.tx_channel].map(Channel::new);
        Self::over(Client::new(connection), channels)
    }

    /// Takes one end of a link up.
    pub fn linked(connection: NetLink) -> Self {
        let channels = [connection.rx_channel, connection.tx_channel].map(Channel::new);
        Self::over(Client::linked(connection), channels)
    }

    fn over(client: Client, channels: [Channel; 2]) -> Self {
        Self { client, channels, put_off: PutOff::new(), tell_at: None, look_at: None, division: None, waiting: None }
    }

    /// Returns the card that the guest sees.
    pub fn device(&self) -> Net {
        let mac = self.client.mac().bytes();
        let transmitter = &self.client.transmitter;
        match (transmitter.is_linked(), transmitter.has_large_buffers()) {
            (true, false) => Net::without_host_tso(mac),
            _ => Net::new(mac),
        }
    }

    /// Returns whether the connection has notified, if these channels have.
    pub fn is_notified(&self, channels: Channels) -> bool {
        self.channels.iter().any(|channel| channels.contains(*channel))
    }

    /// Returns whether the time has come to look at frames, or to interrupt the guest for those
    /// that were sent. If not, asks for a turn then: each turn forgets what the last one asked.
    pub fn is_due(&self) -> bool {
        let Some(at) = self.tell_at.into_iter().chain(self.look_at).min() else { return false };
        let is_due = at <= time::now();
        if !is_due {
            culm::wake_at(at);
        }
        is_due
    }

    /// Carries frames both ways. Returns what is left.
    #[inline(never)]
    pub fn carry(&mut self, device: &mut Net, memory: &GuestMemory) -> Progress {
        let begin = time::now();
        let is_late = self.look_at.is_some_and(|at| at <= begin);
        if is_late {
            device.guest_is_late();
        }
        let left = rounds(|| self.round(device, memory));
        if is_late && !device.is_busy() {
            device.guest_waits();
        }
        let now = time::now();
        self.look_at = device.is_busy().then(|| {
            self.put_off.learn(begin, now);
            self.put_off.from(now)
        });
        if let Some(at) = self.look_at {
            culm::wake_at(at);
        }
        self.tell(device, memory, now);
        left
    }

    /// Interrupts the guest for frames that were sent if the time has come, or asks for a turn
    /// then.
    fn tell(&mut self, device: &mut Net, memory: &GuestMemory, now: Instant) {
        if !device.has_untold() {
            self.tell_at = None;
            return;
        }
        let at = *self.tell_at.get_or_insert(self.put_off.from(now));
        if at <= now {
            self.tell_at = None;
            device.tell_sent(memory);
        } else {
            culm::wake_at(at);
        }
    }

    fn round(&mut self, device: &mut Net, memory: &GuestMemory) -> Progress {
        self.client.begin();
        let receiver = &mut self.client.receiver;
        let (mut received, mut lost) = (0, 0);
        while let Some(delivery) = receiver.receive_pieces(|header, frame| deliver(device, memory, header, frame)) {
            match delivery {
                Delivery::Done => received += 1,
                Delivery::Refused => lost += 1,
            }
        }
        counters::FRAMES_RECEIVED.add(received);
        counters::FRAMES_LOST.add(lost);
        let (mut sent, mut refused) = (0, 0);
        let (mut has_more, mut is_full) = (false, !self.send_division(device, memory));
        let mut frames = 0..FRAMES;
        while !is_full && frames.next().is_some() {
            let resets = device.transport.resets();
            // What the guest had given to a card that it has reset since is its own again.
            let waiting = self.waiting.take().filter(|waiting| waiting.resets == resets);
            let frame = waiting.map(|waiting| waiting.frame).or_else(|| device.next_frame(memory));
            has_more = frame.is_some();
            let Some(frame) = frame else { break };
            is_full = !self.is_ready(&frame);
            if is_full {
                self.waiting = Some(Waiting { frame, resets });
                break;
            }
            match self.send(&frame, device, memory) {
                Sending::Done => sent += 1,
                Sending::Refused => refused += 1,
                Sending::Divided => {
                    is_full = !self.send_division(device, memory);
                    continue;
                }
            }
            device.sent(memory);
        }
        counters::FRAMES_SENT.add(sent);
        counters::FRAMES_REFUSED.add(refused);
        device.publish(memory);
        let progress = match device.is_busy() {
            true => self.client.end_round_until(MANY_RECEIVED),
            false => self.client.end_round(),
        };
        // Where no buffer is free, the connection wakes the monitor when one is. Else the guest may
        // have sent more just before it was asked to ring.
        progress & Progress::more_if(!is_full && (has_more || device.has_frame(memory)))
    }

    /// Returns whether a buffer of the kind that a frame needs is free. If not, the connection has
    /// the monitor take a turn when one comes back.
    fn is_ready(&mut self, frame: &Frame) -> bool {
        let transmitter = &mut self.client.transmitter;
        let kind = PacketHeader::read(&frame.header).segmentation;
        // What is divided here goes out in small ones.
        if kind == segmentation::NONE || !transmitter.divides(kind) {
            return transmitter.is_ready();
        }
        let has_large = transmitter.has_large();
        if !has_large {
            transmitter.wait_for_large();
        }
        has_large
    }

    /// Sends a frame of the guest's, if it may.
    fn send(&mut self, frame: &Frame, device: &Net, memory: &GuestMemory) -> Sending {
        let header = PacketHeader::read(&frame.header);
        let Ok(length) = usize::try_from(frame.length) else { return Sending::Refused };
        if header.segmentation != segmentation::NONE {
            return self.send_segments(header, length, device, memory);
        }
        let mac = self.client.mac();
        let transmitter = &mut self.client.transmitter;
        let offloads = transmitter.offloads_checksum();
        let sent = transmitter.send_checked(length, |bytes| {
            device.read(memory, 0, bytes)?;
            let head = &bytes[..HEAD.min(length)];
            may_send(header, head, length, mac).then(|| (checksum::finish(bytes, &header, offloads), ()))
        });
        sent.is_some().into()
    }

    /// Sends a packet of many segments, if it may be sent, as it is or divided here.
    fn send_segments(
        &mut self,
        mut header: PacketHeader,
        length: usize,
        device: &Net,
        memory: &GuestMemory,
    ) -> Sending {
        let mut head = [0; HEAD];
        let head = &mut head[..HEAD.min(length)];
        let mac = self.client.mac();
        let transmitter = &mut self.client.transmitter;
        // What is in no memory is found before anything goes out: zeroes in its place would be data
        // of a stream.
        if !device.is_readable(memory) || device.read(memory, 0, head).is_none() {
            return Sending::Refused;
        }
        if !take_lengths(&mut header, head) || !may_send(header, head, length, mac) {
            return Sending::Refused;
        }
        if transmitter.is_linked() {
            let sent = transmitter.send_whole(length, |bytes| {
                let (first, rest) = bytes.split_at_mut_checked(head.len())?;
                // As below.
                first.copy_from_slice(head);
                device.read(memory, head.len() as u64, rest)?;
                Some(header)
            });
            return sent.is_some().into();
        }
        if !transmitter.divides(header.segmentation) {
            self.division = divide(&header, head, length, device, memory);
            return if self.division.is_some() { Sending::Divided } else { Sending::Refused };
        }
        let sent = transmitter.send_segments(length, header.segmentation, header.segment_size, |bytes| {
            let (first, rest) = bytes.split_at_mut(head.len());
            // Send the head that was checked: the guest can have changed its own since.
            first.copy_from_slice(head);
            read_or_clear(device, memory, head.len(), rest);
        });
        sent.is_some().into()
    }

    /// Sends what is left of a packet that is divided here, as far as there are buffers. Returns
    /// whether nothing is left. If not, the connection gives the monitor a turn when a buffer comes
    /// back.
    fn send_division(&mut self, device: &mut Net, memory: &GuestMemory) -> bool {
        let Some(division) = &mut self.division else { return true };
        // What the guest had given to a card that it has reset since is its own again.
        if division.resets == device.transport.resets() {
            let transmitter = &mut self.client.transmitter;
            let segments = &division.segments;
            for index in division.next..segments.count() {
                if !transmitter.is_ready() {
                    division.next = index;
                    return false;
                }
                let payload = segments.payload(index);
                let offloads = transmitter.offloads_checksum();
                let headers = segments.headers_length();
                transmitter.send(headers + payload.len(), |bytes| {
                    let header = segments.write_headers(index, bytes);
                    read_or_clear(device, memory, payload.start, &mut bytes[headers..]);
                    (checksum::finish(bytes, &header, offloads), ())
                });
            }
            counters::FRAMES_SENT.add(1);
            device.sent(memory);
        }
        self.division = None;
        true
    }
}

/// Takes a packet of many segments that may be sent, to divide it here. `head` is what was checked
/// of it.
fn divide(header: &PacketHeader, head: &[u8], length: usize, device: &Net, memory: &GuestMemory) -> Option<Division> {
    let mut headers = [0; LONGEST_HEADERS];
    let headers = headers.get_mut(..header.header_length.into())?;
    let known = head.len().min(headers.len());
    headers[..known].copy_from_slice(&head[..known]);
    device.read(memory, known as u64, &mut headers[known..])?;
    let segments = Segments::new(headers, length, header.segment_size)?;
    Some(Division { segments, next: 0, resets: device.transport.resets() })
}

/// Reads bytes of the frame that was taken last, all of which are in the guest's memory. Were they
/// not, they would be cleared: nothing of an older frame is sent.
fn read_or_clear(device: &Net, memory: &GuestMemory, offset: usize, bytes: &mut [u8]) {
    if device.read(memory, offset as u64, bytes).is_none() {
        bytes.fill(0);
    }
}

/// Puts the length of all headers into the packet header of many segments: a guest may give that of
/// more, as a hint (VIRTIO 1.2 §5.1.6.2). Returns false unless it is TCP over the version of IP
/// that the header names, behind an Ethernet header without tags.
fn take_lengths(header: &mut PacketHeader, head: &[u8]) -> bool {
    const TYPE: usize = 12;
    const IPV4: [u8; 2] = [0x08, 0x00];
    const IPV6: [u8; 2] = [0x86, 0xdd];
    /// Offset of the length of TCP's header, in words in the upper half (RFC 9293 §3.1).
    const DATA_OFFSET: usize = 12;
    let place = usize::from(header.checksum_start) + DATA_OFFSET;
    let Some(words) = head.get(place).map(|byte| u16::from(byte >> 4)) else { return false };
    header.header_length = header.checksum_start.saturating_add(4 * words);
    let version = match header.segmentation {
        segmentation::TCP_4 => IPV4,
        TCP_6 => IPV6,
        _ => return false,
    };
    head.get(TYPE..TYPE + 2) == Some(&version)
}

/// Gives the guest a frame in the form that it takes.
fn deliver(device: &mut Net, memory: &GuestMemory, mut header: PacketHeader, frame: &[&[u8]]) -> Delivery {
    let takes_it = match header.segmentation {
        segmentation::NONE => true,
        segmentation::TCP_4 => device.transport.has(feature::GUEST_TSO4),
        TCP_6 => device.transport.has(feature::GUEST_TSO6),
        _ => false,
    };
    if !takes_it {
        return Delivery::Refused;
    }
    let takes_partial = device.transport.has(feature::GUEST_CHECKSUM);
    let mut bytes = [0; HEADER];
    if takes_partial || header.flags & NEEDS_CHECKSUM == 0 {
        let known = if takes_partial { NEEDS_CHECKSUM | CHECKSUM_VALID } else { 0 };
        header.flags &= known;
        header.write(&mut bytes);
        return device.deliver(memory, bytes, frame);
    }
    // Only a packet of many segments lies in several pieces, and a guest that takes those must take
    // partial checksums too (VIRTIO 1.2 §5.1.3.1).
    let &[frame] = frame else { return Delivery::Refused };
    match checksum::asked_for(frame, &header) {
        Some((at, sum)) => device.deliver(memory, bytes, &[&frame[..at], &sum, &frame[at + 2..]]),
        None => Delivery::Refused,
    }
}

#[cfg(test)]
mod tests;
