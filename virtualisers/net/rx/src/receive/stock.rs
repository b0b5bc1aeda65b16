//! The buffers that are lent: who holds each, which nobody holds, and how many are with clients.

use super::pieces;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;
use culm::Region;
use culm::connection::NetRxVirtualiser;
use culm_lending::Shares;
use culm_lending::holders::{Entry, Holders, Record};
use culm_net::wire::{ipv4, ipv6, protocols, tcp, types};
use culm_net::{Descriptor, ETHERNET_HEADER, HEADROOM, MIN_PACKET, Mac, Slots, release_batch};

/// The buffers.
pub(crate) struct Stock {
    pub(super) data: Region,
    /// The words of the data, in which packets' headers are read.
    pub(super) words: &'static [AtomicU64],
    pub(super) slots: Slots,
    /// Each buffer's holders.
    pub(super) holders: Record,
    /// Buffers that nobody holds.
    pub(super) idle: Vec<u32>,
    pub(super) shares: Shares,
    /// Buffers lent to clients, a broadcast counted for each.
    pub(super) lent: u32,
    /// The driver runs low of buffers if more are lent than this.
    pub(super) plenty: u32,
    /// Buffers that are taken back, or given to the driver, at a time.
    pub(super) batch: u32,
}

impl Stock {
    /// Buffers of a frame at most.
    pub(crate) const MAX_PIECES: u32 = pieces::MAX as u32;

    /// Creates the record of the buffers of `connection`, of which clients hold so many, which
    /// `shares` has granted them.
    pub(super) fn new(connection: &NetRxVirtualiser, slots: Slots, holders: Record, shares: Shares, lent: u32) -> Self {
        let is_idle = |(number, holders): (u32, Holders)| (holders == Holders::NOBODY).then_some(number);
        let data = Region::read_only(connection.data);
        Self {
            data,
            words: data.atomics_u64(0, data.len() / 8).unwrap_or_default(),
            slots,
            holders,
            idle: holders.all().rev().filter_map(is_idle).collect(),
            shares,
            lent,
            plenty: slots.count() - slots.count() / 4,
            batch: release_batch(slots.count()).min(shares.guarantee() / 2).max(1),
        }
    }

    /// Returns whether the driver has few buffers left: then every return counts.
    #[inline(always)]
    pub(super) fn runs_low(&self) -> bool {
        self.lent > self.plenty
    }

    /// Makes a buffer idle that nobody is given.
    pub(super) fn drop_entry(&mut self, number: u32) {
        self.holders.set(number, Holders::NOBODY);
        self.idle.push(number);
    }

    /// Returns the record of the buffer `number`, if the driver has that.
    #[inline(always)]
    pub(super) fn with_driver(&self, number: u32) -> Option<Entry> {
        self.holders.entry(number).filter(|entry| entry.get().is_driver())
    }

    /// Returns the offset of a buffer: all are small ones.
    #[inline(always)]
    pub(super) fn offset(&self, number: u32) -> u32 {
        self.slots.small_offset(number)
    }

    /// Takes a buffer back that one client held, and that `others` hold still. It still counts as
    /// lent.
    #[inline(always)]
    pub(super) fn take_back(&mut self, number: u32, entry: Entry, others: Holders) {
        entry.set(others);
        if others == Holders::NOBODY {
            self.idle.push(number);
        }
    }

    /// Returns whether a frame asks for a TCP connection, in a packet without options and extension
    /// headers: SYN without ACK or RST (RFC 9293 §3.1). Whether the packet is right is not looked
    /// at: this is for who drops it anyway.
    #[inline]
    pub(super) fn is_syn(&self, frame: Descriptor) -> bool {
        const IP: usize = HEADROOM + ETHERNET_HEADER;
        const PLAIN: u8 = 4 << 4 | (ipv4::HEADER / 4) as u8;
        // What begins with the byte at a place, up to the end of its word.
        let bytes = |at: usize| {
            let word = self.words.get(frame.offset as usize / 8 + at / 8).map_or(0, |word| word.load(Relaxed));
            word >> (at % 8 * 8)
        };
        let asks = |start: usize| {
            let flags = bytes(start + tcp::FLAGS) as u8;
            flags & (tcp::SYN | tcp::ACK | tcp::RST) == tcp::SYN && start + tcp::HEADER <= frame.length.into()
        };
        match u16::from_be(bytes(IP - size_of::<u16>()) as u16) {
            types::IPV4 => {
                asks(IP + ipv4::HEADER)
                    && bytes(IP) as u8 == PLAIN
                    && bytes(IP + ipv4::PROTOCOL) as u8 == protocols::TCP
                    && u16::from_be(bytes(IP + ipv4::FRAGMENT) as u16) & ipv4::FRAGMENT_BITS == 0
            }
            types::IPV6 => asks(IP + ipv6::HEADER) && bytes(IP + ipv6::NEXT_HEADER) as u8 == protocols::TCP,
            _ => false,
        }
    }

    /// Returns the destination of a frame and the number of its buffers, or `None` if it is no
    /// valid frame.
    #[inline(always)]
    pub(super) fn destination(&self, offset: u32, length: u16) -> Option<(Mac, u16)> {
        if !self.slots.small_holds(length) {
            return None;
        }
        const { assert!(HEADROOM == 12 && MIN_PACKET >= HEADROOM + 8) };
        // First the header's last four bytes (`checksum_offset`, `buffers`) and the address's first
        // four; then the address's last two and the bytes behind it.
        let at = offset as usize / 8 + 1;
        let high = self.words.get(at + 1)?.load(Relaxed);
        let low = self.words.get(at)?.load(Relaxed);
        Some((Mac::from_word(low >> 32 | high << 32), (low >> 16) as u16))
    }
}
