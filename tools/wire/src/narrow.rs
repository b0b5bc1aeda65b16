//! What a router answers to a packet that its next link does not carry (RFC 792, RFC 1191, §4).

/// Bytes of the headers of Ethernet and of IPv4 without options.
const ETHERNET: usize = 14;
const IP: usize = 20;

/// Bytes of the packet that the answer quotes: its header, and the ports and number behind it.
const QUOTED: usize = IP + 8;

/// Returns the frame that answers `frame`, if that has an IPv4 packet longer than `carries` bytes,
/// which must not be divided. The answer comes from where the packet was to go: whoever takes it
/// for one looks at what it quotes.
pub fn answer(frame: &[u8], carries: u16) -> Option<Vec<u8>> {
    let packet = frame.get(ETHERNET..)?;
    let header = packet.get(..IP)?;
    let is_plain = frame.get(12..14)? == [8, 0] && header[0] == 0x45;
    let length = u16::from_be_bytes([header[2], header[3]]);
    if !is_plain || length <= carries || header[6] & 0x40 == 0 {
        return None;
    }
    let quoted = packet.get(..QUOTED)?;
    let mut message = vec![3, 4, 0, 0, 0, 0];
    message.extend(carries.to_be_bytes());
    message.extend(quoted);
    let sum = checksum(&message);
    message[2..4].copy_from_slice(&sum.to_be_bytes());

    let total = (IP + message.len()) as u16;
    let mut outer = vec![0x45, 0];
    outer.extend(total.to_be_bytes());
    outer.extend([0, 0, 0, 0, 64, 1, 0, 0]);
    outer.extend(&header[16..20]);
    outer.extend(&header[12..16]);
    let sum = checksum(&outer);
    outer[10..12].copy_from_slice(&sum.to_be_bytes());

    let addresses = [&frame[6..12], &frame[0..6], &[8, 0]].concat();
    Some([addresses, outer, message].concat())
}

/// The checksum of the Internet (RFC 1071) of an even count of bytes.
fn checksum(bytes: &[u8]) -> u16 {
    let words = bytes.chunks_exact(2).map(|pair| u32::from(u16::from_be_bytes([pair[0], pair[1]])));
    let mut sum: u32 = words.sum();
    while sum >> 16 != 0 {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    !(sum as u16)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A frame with a packet of `length` bytes that must not be divided.
    fn frame(length: u16) -> Vec<u8> {
        let mut frame = vec![2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2, 8, 0, 0x45, 0];
        frame.extend(length.to_be_bytes());
        frame.extend([0, 7, 0x40, 0, 64, 6, 0, 0, 198, 18, 0, 2, 198, 18, 0, 1]);
        frame.resize(ETHERNET + usize::from(length), 9);
        frame
    }

    #[test]
    fn a_packet_that_is_too_long_is_answered_with_what_is_carried() {
        let long = frame(1500);
        let answer = answer(&long, 1280).expect("it is too long");
        assert_eq!(answer[..12], [2, 0, 0, 0, 0, 2, 2, 0, 0, 0, 0, 1]);
        assert_eq!((checksum(&answer[14..34]), checksum(&answer[34..])), (0, 0));
        assert_eq!(answer[26..34], [198, 18, 0, 1, 198, 18, 0, 2]);
        assert_eq!((answer[34..36].to_vec(), answer[40..42].to_vec()), (vec![3, 4], vec![5, 0]));
        assert_eq!(answer[42..], long[ETHERNET..ETHERNET + QUOTED]);
    }

    #[test]
    fn what_fits_and_what_is_no_such_packet_passes() {
        assert_eq!(answer(&frame(1280), 1280), None);
        let mut divisible = frame(1500);
        divisible[20] = 0;
        assert_eq!(answer(&divisible, 1280), None);
        let mut arp = frame(1500);
        arp[13] = 6;
        assert_eq!(answer(&arp, 1280), None);
        for length in 0..40 {
            assert_eq!(answer(&frame(1500)[..length], 1280), None);
        }
    }
}
