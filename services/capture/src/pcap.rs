//! The format of captures: that of libpcap's files, with nanoseconds (draft-ietf-opsawg-pcap).
//!
//! Numbers are little-endian, which the first one shows whoever reads it.

/// Bytes of what stands before the first frame.
pub(crate) const FILE_HEADER: usize = 24;

/// Bytes of what stands before each frame.
pub(crate) const RECORD_HEADER: usize = 16;

/// The first number of a file whose times have nanoseconds.
const MAGIC: u32 = 0xa1b2_3c4d;

/// The link type of frames with an Ethernet header and without its checksum.
const ETHERNET: u32 = 1;

/// Returns what stands before the first frame of a capture that has `snap` bytes of each at most.
pub(crate) fn file_header(snap: u32) -> [u8; FILE_HEADER] {
    // Version 2.4, then two numbers that no program has a use for.
    let numbers = [MAGIC, 0x0004_0002, 0, 0, snap, ETHERNET];
    let mut header = [0; FILE_HEADER];
    for (place, number) in header.as_chunks_mut().0.iter_mut().zip(numbers) {
        *place = u32::to_le_bytes(number);
    }
    header
}

/// Returns what stands before a frame of `length` bytes that came at `time`, since the machine was
/// switched on, and of which `kept` bytes follow.
pub(crate) fn record_header(time: core::time::Duration, kept: usize, length: usize) -> [u8; RECORD_HEADER] {
    let numbers = [time.as_secs() as u32, time.subsec_nanos(), kept as u32, length as u32];
    let mut header = [0; RECORD_HEADER];
    for (place, number) in header.as_chunks_mut().0.iter_mut().zip(numbers) {
        *place = number.to_le_bytes();
    }
    header
}

#[cfg(test)]
mod tests {
    use super::*;
    use core::time::Duration;

    #[test]
    fn headers_are_those_of_the_format() {
        let header = file_header(0x0102);
        assert_eq!(header[..8], [0x4d, 0x3c, 0xb2, 0xa1, 2, 0, 4, 0]);
        assert_eq!(header[16..], [0x02, 0x01, 0, 0, 1, 0, 0, 0]);
        let record = record_header(Duration::new(7, 9), 64, 1514);
        assert_eq!(record, [7, 0, 0, 0, 9, 0, 0, 0, 64, 0, 0, 0, 0xea, 5, 0, 0]);
    }
}
