//! A stream of a test, and what is counted of it.

use crate::protocol::{HEADER, WIDE_HEADER};
use core::net::SocketAddr;

/// The other end of a stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peer {
    /// A TCP connection, by its slot.
    Tcp(usize),
    /// Who sends and receives datagrams.
    Udp(SocketAddr),
}

/// A stream of a test.
#[derive(Clone, Copy, Debug)]
pub struct Flow {
    pub peer: Peer,
    /// Whether the server sends.
    pub sends: bool,
    /// Bytes that count: received or handed over.
    pub bytes: u64,
    /// The same, with those of the seconds that are omitted.
    pub all_bytes: u64,
    /// Datagrams that were sent, or of those received the highest number.
    pub packets: u64,
    /// Datagrams that are missing.
    pub lost: u64,
    /// Both, as they were when the omitted seconds were over.
    pub omitted_packets: u64,
    pub omitted_lost: u64,
    /// The jitter (RFC 3550, §6.4.1), in sixteenths of a microsecond.
    jitter: u64,
    /// Microseconds between the clocks of the last datagram's sender and of its receiver.
    transit: Option<i64>,
}

/// The header of a datagram.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Stamp {
    microseconds: i64,
    number: u64,
}

impl Stamp {
    fn read(payload: &[u8], is_wide: bool) -> Option<Self> {
        let (seconds, rest) = payload.split_first_chunk()?;
        let (microseconds, rest) = rest.split_first_chunk()?;
        let [seconds, microseconds] = [seconds, microseconds].map(|bytes| i64::from(u32::from_be_bytes(*bytes)));
        let number = match is_wide {
            true => u64::from_be_bytes(*rest.first_chunk()?),
            false => u32::from_be_bytes(*rest.first_chunk()?).into(),
        };
        // At most 2³² seconds, so that it fits.
        Some(Self { microseconds: seconds * 1_000_000 + microseconds, number })
    }

    fn write(self, payload: &mut [u8], is_wide: bool) {
        let seconds = (self.microseconds / 1_000_000) as u32;
        let microseconds = (self.microseconds % 1_000_000) as u32;
        let mut header = [0; WIDE_HEADER];
        header[..4].copy_from_slice(&seconds.to_be_bytes());
        header[4..8].copy_from_slice(&microseconds.to_be_bytes());
        let length = if is_wide {
            header[8..].copy_from_slice(&self.number.to_be_bytes());
            WIDE_HEADER
        } else {
            header[8..HEADER].copy_from_slice(&(self.number as u32).to_be_bytes());
            HEADER
        };
        let length = length.min(payload.len());
        payload[..length].copy_from_slice(&header[..length]);
    }
}

impl Flow {
    pub fn new(peer: Peer, sends: bool) -> Self {
        Self {
            peer,
            sends,
            bytes: 0,
            all_bytes: 0,
            packets: 0,
            lost: 0,
            omitted_packets: 0,
            omitted_lost: 0,
            jitter: 0,
            transit: None,
        }
    }

    /// Counts bytes of TCP.
    pub fn count(&mut self, bytes: u64) {
        self.bytes += bytes;
        self.all_bytes += bytes;
    }

    /// Forgets what is not to count.
    pub fn omit(&mut self) {
        self.bytes = 0;
        (self.omitted_packets, self.omitted_lost) = (self.packets, self.lost);
        self.jitter = 0;
    }

    /// The jitter in microseconds.
    pub fn jitter(&self) -> u64 {
        self.jitter >> 4
    }

    /// Takes a datagram that came at `now`, in microseconds.
    pub fn take(&mut self, payload: &[u8], is_wide: bool, now: u64) {
        let Some(stamp) = Stamp::read(payload, is_wide) else { return };
        self.count(payload.len() as u64);
        if let Some(missing) = stamp.number.checked_sub(self.packets.saturating_add(1)) {
            self.lost = self.lost.saturating_add(missing);
            self.packets = stamp.number;
        } else {
            // It comes late, and was counted as missing; or a second time.
            self.lost = self.lost.saturating_sub(1);
        }
        let transit = now as i64 - stamp.microseconds;
        if let Some(before) = self.transit.replace(transit) {
            let change = transit.abs_diff(before);
            let decay = self.jitter.saturating_add(8) >> 4;
            self.jitter = self.jitter.saturating_sub(decay).saturating_add(change);
        }
    }

    /// Writes the header of the next datagram, which is sent at `now`, in microseconds, and counts
    /// it.
    pub fn put(&mut self, payload: &mut [u8], is_wide: bool, now: u64) {
        self.packets += 1;
        self.count(payload.len() as u64);
        Stamp { microseconds: now as i64, number: self.packets }.write(payload, is_wide);
    }

    /// Returns how many more bytes may be sent `elapsed` microseconds after the test has begun, at
    /// `rate` bits a second; if that is 0, there is no limit.
    pub fn allowance(&self, rate: u64, elapsed: u64) -> u64 {
        if rate == 0 {
            return u64::MAX;
        }
        let allowed = u128::from(elapsed) * u128::from(rate) / 8_000_000;
        u64::try_from(allowed).unwrap_or(u64::MAX).saturating_sub(self.all_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow() -> Flow {
        Flow::new(Peer::Tcp(0), false)
    }

    fn datagram(number: u64, microseconds: i64, is_wide: bool) -> [u8; 100] {
        let mut bytes = [0; 100];
        Stamp { microseconds, number }.write(&mut bytes, is_wide);
        bytes
    }

    #[test]
    fn missing_and_late_datagrams_are_told() {
        for is_wide in [false, true] {
            let mut flow = flow();
            for number in [1, 2, 5, 4, 6] {
                flow.take(&datagram(number, 1000 * number as i64, is_wide), is_wide, 77 + 1000 * number);
            }
            assert_eq!((flow.packets, flow.lost, flow.bytes, flow.jitter()), (6, 1, 500, 0));
            flow.omit();
            flow.take(&datagram(8, 8000, is_wide), is_wide, 8077 + 160);
            assert_eq!((flow.packets - flow.omitted_packets, flow.lost - flow.omitted_lost), (2, 1));
            assert_eq!((flow.bytes, flow.all_bytes, flow.jitter()), (100, 600, 10));
        }
    }

    #[test]
    fn lies_are_survived() {
        let mut flow = flow();
        for (number, microseconds) in [(u64::MAX, 0), (0, i64::from(u32::MAX) * 1_000_000), (u64::MAX, 5), (0, 0)] {
            flow.take(&datagram(number, microseconds, true), true, u64::from(u32::MAX));
        }
        assert_eq!(flow.packets, u64::MAX);
        for length in 0..HEADER {
            flow.take(&[255; HEADER][..length], false, 0);
        }
        assert_eq!(flow.bytes, 400);
    }

    #[test]
    fn what_is_written_is_read() {
        let (mut flow, mut bytes) = (flow(), [0; 16]);
        flow.put(&mut bytes, true, 3_000_007);
        assert_eq!(bytes, [0, 0, 0, 3, 0, 0, 0, 7, 0, 0, 0, 0, 0, 0, 0, 1]);
        assert_eq!(Stamp::read(&bytes, true), Some(Stamp { microseconds: 3_000_007, number: 1 }));
        flow.put(&mut bytes[..12], false, 3_000_008);
        assert_eq!(bytes[8..12], [0, 0, 0, 2]);
        assert_eq!((flow.packets, flow.bytes), (2, 28));
    }

    #[test]
    fn a_rate_allows_so_many_bytes() {
        let mut flow = flow();
        assert_eq!((flow.allowance(8_000_000, 1000), flow.allowance(0, 0)), (1000, u64::MAX));
        flow.count(900);
        assert_eq!((flow.allowance(8_000_000, 1000), flow.allowance(8_000_000, 500)), (100, 0));
        assert_eq!(flow.allowance(u64::MAX, u64::MAX), u64::MAX - 900);
    }
}
