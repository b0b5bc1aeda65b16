//! Beginning a connection in the middle: a smoltcp socket that has seen the handshake which it was
//! spared.
//!
//! smoltcp has no call for a connection that is established already, and chooses initial sequence
//! numbers by itself. So a socket is told the handshake again from what the cookie has kept: the
//! SYN, by an interface that lives for this call only and whose generator of numbers is seeded so
//! that it yields the cookie; then a byte from before the window, for whose sake smoltcp says what
//! it has received, by which its receive window opens. What the peer sent last then completes the
//! handshake.

use super::cookie::Offer;
use super::handshake::{LONGEST_FRAME, LONGEST_OPTIONS, Segment, UnmatchedSegment, write_offer};
use crate::wire::tcp;
use crate::{ETHERNET_HEADER, MTU, Mac};
use smoltcp::iface::{Config, Interface, SocketSet};
use smoltcp::phy::{self, Checksum, ChecksumCapabilities, DeviceCapabilities, Medium};
use smoltcp::time::Instant;
use smoltcp::wire::{EthernetAddress, HardwareAddress, IpAddress, IpCidr};

/// Shows the socket in `sockets`, which listens, the SYN before `handshake`, and this side's answer
/// with the sequence number `ours`.
#[cold]
pub(super) fn replay(
    sockets: &mut SocketSet<'_>,
    handshake: &UnmatchedSegment,
    ours: u32,
    offer: Offer,
    mac: Mac,
    now: Instant,
) {
    let mut config = Config::new(HardwareAddress::Ethernet(EthernetAddress(mac.bytes())));
    config.random_seed = seed(ours);
    let mut player = Player { frame: [0; LONGEST_FRAME], length: 0 };
    let mut interface = Interface::new(config, &mut player, now);
    interface.update_ip_addrs(|addresses| {
        // The list is empty, so there is space.
        let _ = addresses.push(host(handshake.local.addr));
    });
    let mut room = [0; LONGEST_OPTIONS];
    let syn = Segment {
        from: (handshake.link, handshake.remote),
        to: (mac.bytes(), handshake.local),
        sequence: handshake.sequence.wrapping_sub(1),
        acknowledged: 0,
        flags: tcp::SYN,
        window: u16::MAX,
        options: write_offer(&mut room, offer.segment, offer, offer.scale.unwrap_or(0)),
        payload: &[],
    };
    let probe = Segment { acknowledged: ours.wrapping_add(1), flags: tcp::ACK, options: &[], payload: &[0], ..syn };
    for segment in [syn, probe] {
        player.length = segment.length();
        segment.write(&mut player.frame[..segment.length()]);
        interface.poll_ingress_single(now, &mut player, sockets);
    }
}

/// An address with a network that has nobody else.
pub(super) fn host(address: IpAddress) -> IpCidr {
    let bits = match address {
        IpAddress::Ipv4(_) => 32,
        IpAddress::Ipv6(_) => 128,
    };
    IpCidr::new(address, bits)
}

/// The seed for an interface whose first connection gets the initial sequence number `wanted`.
///
/// smoltcp's generator is sPCG32: a state that goes on by a multiplication and an addition, and
/// yields its upper bits, shifted by what the uppermost three say. Where those are 0, the number is
/// in bits 29 to 60. The state before the last one yields a 16-bit number that the interface takes
/// for itself, and takes another one in place of 0; the bits that are free see to that.
fn seed(wanted: u32) -> u64 {
    const MULTIPLIER: u64 = 0xbb2e_fcec_3c39_611d;
    const ADDEND: u64 = 0x7590_ef39;
    const INVERSE: u64 = inverse(MULTIPLIER);
    let before = |state: u64| state.wrapping_sub(ADDEND).wrapping_mul(INVERSE);
    let yielded = |state: u64| (state >> (29 - (state >> 61))) as u32;
    let mut states = (0..1 << 16).map(|free| before((u64::from(wanted) << 29) | free));
    let usable = |state: &u64| (yielded(*state) ^ (yielded(*state) >> 16)) as u16 != 0;
    before(states.find(usable).unwrap_or_default())
}

/// The inverse of an odd number, modulo 2⁶⁴, by Newton's iteration: each step doubles the bits that
/// are right.
const fn inverse(number: u64) -> u64 {
    let mut inverse = number;
    let mut step = 0;
    while step < 6 {
        inverse = inverse.wrapping_mul(2_u64.wrapping_sub(number.wrapping_mul(inverse)));
        step += 1;
    }
    inverse
}

/// A device that brings one frame, and forgets what is sent.
struct Player {
    frame: [u8; LONGEST_FRAME],
    length: usize,
}

struct Played<'a>(&'a [u8]);
struct Forgotten;

impl phy::RxToken for Played<'_> {
    fn consume<R, F: FnOnce(&[u8]) -> R>(self, read: F) -> R {
        read(self.0)
    }
}

impl phy::TxToken for Forgotten {
    fn consume<R, F: FnOnce(&mut [u8]) -> R>(self, length: usize, write: F) -> R {
        write(&mut alloc::vec![0; length])
    }
}

impl phy::Device for Player {
    type RxToken<'a> = Played<'a>;
    type TxToken<'a> = Forgotten;

    fn receive(&mut self, _: Instant) -> Option<(Played<'_>, Forgotten)> {
        Some((Played(&self.frame[..self.length]), Forgotten))
    }

    fn transmit(&mut self, _: Instant) -> Option<Forgotten> {
        None
    }

    fn capabilities(&self) -> DeviceCapabilities {
        let mut capabilities = DeviceCapabilities::default();
        capabilities.medium = Medium::Ethernet;
        capabilities.max_transmission_unit = MTU + ETHERNET_HEADER;
        let mut checksums = ChecksumCapabilities::default();
        (checksums.tcp, checksums.ipv4) = (Checksum::None, Checksum::None);
        capabilities.checksum = checksums;
        capabilities
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    proptest! {
        /// Against the generator as smoltcp 0.14 has it.
        #[test]
        fn the_seed_leads_to_the_number(wanted: u32) {
            let mut state = seed(wanted);
            let mut next = || {
                state = state.wrapping_mul(0xbb2e_fcec_3c39_611d).wrapping_add(0x7590_ef39);
                (state >> (29 - (state >> 61))) as u32
            };
            let first = next();
            prop_assert!((first ^ (first >> 16)) as u16 != 0);
            prop_assert_eq!(next(), wanted);
        }
    }
}
