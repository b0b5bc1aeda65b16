//! The filtering database: behind which port each station is (IEEE 802.1Q-2018 §8.8).
//!
//! Addresses are in buckets of [`WAYS`] entries, chosen by a keyed hash, so that a station which
//! does not know the key cannot fill a bucket on purpose. A port has a bounded number of entries;
//! where a bucket is full, a port that has more entries makes room for one that has fewer. So a
//! port that sends from ever new addresses leaves the others nearly all of their parts: what a port
//! has few of it keeps, but one whose part is nearly full may find some buckets full.
//!
//! An entry counts for [`Table::age`] seconds after its station was last heard. Older ones are as
//! good as absent, and [`Table::sweep`] takes them out, a few buckets at a time.

use crate::{Address, MAX_PORTS};
use alloc::boxed::Box;
use alloc::vec;

/// Entries of a bucket.
pub const WAYS: usize = 8;

/// Seconds that an entry counts, where nothing else is said (IEEE 802.1Q-2018, table 8-6).
pub const AGE: u32 = 300;

/// The most entries of a table.
pub const MAX_ENTRIES: usize = 1 << 16;

/// Buckets that one sweep looks at.
const SWEEP: usize = 4;

#[derive(Clone, Copy, Debug)]
struct Entry {
    address: Address,
    vlan: u16,
    port: u8,
    is_used: bool,
    /// When the station was last heard, in seconds.
    heard: u32,
}

const EMPTY: Entry = Entry { address: [0; 6], vlan: 0, port: 0, is_used: false, heard: 0 };

/// What came of a station's being heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It was known there.
    Known,
    /// It is known there from now on.
    Learned,
    /// It was known at this other port.
    Moved(usize),
    /// There is no place for it: its port has all that a port may have, or its bucket is full of
    /// entries of ports with fewer.
    Full,
}

/// The table.
#[derive(Clone, Debug)]
pub struct Table {
    buckets: Box<[[Entry; WAYS]]>,
    key: [u64; 2],
    /// Entries of each port, those among them that are too old and not yet taken out.
    counts: [u32; MAX_PORTS],
    /// The most entries of a port.
    bound: u32,
    age: u32,
    /// The bucket that is swept next.
    swept: usize,
    /// How often it has changed where a station is.
    changes: u32,
}

impl Table {
    /// Creates a table of at least `entries` entries, at most [`MAX_ENTRIES`], for so many ports.
    /// Each can have its equal part of them, and [`WAYS`] at least. `age` is in seconds, `key`
    /// random.
    pub fn new(entries: usize, ports: usize, age: u32, key: [u64; 2]) -> Self {
        let buckets = entries.min(MAX_ENTRIES).div_ceil(WAYS).next_power_of_two();
        let part = (buckets * WAYS / ports.clamp(1, MAX_PORTS)).max(WAYS);
        let buckets = vec![[EMPTY; WAYS]; buckets].into_boxed_slice();
        Self { buckets, key, counts: [0; MAX_PORTS], bound: part as u32, age, swept: 0, changes: 0 }
    }

    /// Returns how many entries a port can have.
    pub fn bound(&self) -> u32 {
        self.bound
    }

    /// Returns for how many seconds an entry counts.
    pub fn age(&self) -> u32 {
        self.age
    }

    /// Returns how many entries a port has.
    pub fn count(&self, port: usize) -> u32 {
        self.counts.get(port).copied().unwrap_or(0)
    }

    /// Returns a number that is another one after each change of where stations are, for as many as
    /// an `u32` counts.
    #[inline(always)]
    pub fn changes(&self) -> u32 {
        self.changes
    }

    /// Returns the port behind which a station is, if it was heard lately.
    pub fn find(&self, now: u32, vlan: u16, address: Address) -> Option<usize> {
        let bucket = self.buckets.get(self.bucket(vlan, address))?;
        let entry = bucket.iter().find(|entry| entry.is(vlan, address))?;
        (!self.is_old(entry, now)).then_some(entry.port.into())
    }

    /// Notes that a station was heard at a port, if it is known there already; returns whether it
    /// is. This is what most frames need.
    pub fn hear_again(&mut self, now: u32, vlan: u16, address: Address, port: usize) -> bool {
        let (index, age) = (self.bucket(vlan, address), self.age);
        let Some(bucket) = self.buckets.get_mut(index) else { return false };
        let is_it = |entry: &&mut Entry| entry.is(vlan, address) && usize::from(entry.port) == port;
        match bucket.iter_mut().find(is_it) {
            Some(entry) if !entry.is_older(now, age) => {
                entry.heard = now;
                true
            }
            _ => false,
        }
    }

    /// Notes that a station was heard at a port: it is there from now on, wherever it was before.
    pub fn hear(&mut self, now: u32, vlan: u16, address: Address, port: usize) -> Heard {
        self.changes = self.changes.wrapping_add(1);
        // Nobody has swept while nothing came: what is too old must not count against what comes.
        if self.count(port) >= self.bound {
            self.sweep(now);
        }
        let (index, bound) = (self.bucket(vlan, address), self.bound);
        let (age, count) = (self.age, self.count(port));
        let Some(bucket) = self.buckets.get_mut(index) else { return Heard::Full };
        if let Some(entry) = bucket.iter_mut().find(|entry| entry.is(vlan, address)) {
            let (from, is_old) = (usize::from(entry.port), entry.is_older(now, age));
            if from == port {
                entry.heard = now;
                return if is_old { Heard::Learned } else { Heard::Known };
            }
            if count >= bound {
                // It is not there any more, and here is no place for it.
                entry.is_used = false;
                self.less(from);
                return Heard::Full;
            }
            (entry.port, entry.heard) = (port as u8, now);
            self.less(from);
            self.more(port);
            return if is_old { Heard::Learned } else { Heard::Moved(from) };
        }
        if count >= bound {
            return Heard::Full;
        }
        let counts = &self.counts;
        let count_of = |entry: &Entry| counts.get(usize::from(entry.port)).copied().unwrap_or(0);
        // An empty place, else one that is too old, else the oldest of the port with the most.
        let rank = |entry: &Entry| match (entry.is_used, entry.is_older(now, age)) {
            (false, _) => (0, 0, 0),
            (true, true) => (1, 0, 0),
            (true, false) => (2, u32::MAX - count_of(entry), entry.heard),
        };
        let Some(place) = bucket.iter_mut().min_by_key(|entry| rank(entry)) else { return Heard::Full };
        let victim = place.is_used.then_some(usize::from(place.port));
        if place.is_used && !place.is_older(now, age) && count_of(place) <= count {
            return Heard::Full;
        }
        *place = Entry { address, vlan, port: port as u8, is_used: true, heard: now };
        if let Some(victim) = victim {
            self.less(victim);
        }
        self.more(port);
        Heard::Learned
    }

    /// Takes out what is too old in a few buckets, the next ones each time.
    pub fn sweep(&mut self, now: u32) {
        for _ in 0..SWEEP.min(self.buckets.len()) {
            let age = self.age;
            let mut ports = [None; WAYS];
            if let Some(bucket) = self.buckets.get_mut(self.swept) {
                for (entry, port) in bucket.iter_mut().zip(&mut ports) {
                    if entry.is_used && entry.is_older(now, age) {
                        entry.is_used = false;
                        self.changes = self.changes.wrapping_add(1);
                        *port = Some(usize::from(entry.port));
                    }
                }
            }
            for port in ports.into_iter().flatten() {
                self.less(port);
            }
            self.swept = (self.swept + 1) & (self.buckets.len() - 1);
        }
    }

    /// Forgets all stations behind a port, as when whoever was there begins another life.
    pub fn forget(&mut self, port: usize) {
        self.changes = self.changes.wrapping_add(1);
        for entry in self.buckets.iter_mut().flatten().filter(|entry| usize::from(entry.port) == port) {
            entry.is_used = false;
        }
        if let Some(count) = self.counts.get_mut(port) {
            *count = 0;
        }
    }

    fn is_old(&self, entry: &Entry, now: u32) -> bool {
        entry.is_older(now, self.age)
    }

    fn more(&mut self, port: usize) {
        if let Some(count) = self.counts.get_mut(port) {
            *count += 1;
        }
    }

    fn less(&mut self, port: usize) {
        if let Some(count) = self.counts.get_mut(port) {
            *count = count.saturating_sub(1);
        }
    }

    /// The bucket of an address: a keyed hash by two multiplications, each of whose products is
    /// folded, so that every bit of address and key counts.
    fn bucket(&self, vlan: u16, address: Address) -> usize {
        let [a, b, c, d, e, f] = address;
        let [g, h] = vlan.to_le_bytes();
        let folded = |x: u64, y: u64| {
            let product = u128::from(x) * u128::from(y);
            product as u64 ^ (product >> 64) as u64
        };
        let word = u64::from_le_bytes([a, b, c, d, e, f, g, h]);
        let [first, second] = self.key;
        let hash = folded(folded(word ^ first, second | 1) ^ second, 0x9e37_79b9_7f4a_7c15 ^ first);
        hash as usize & (self.buckets.len() - 1)
    }
}

impl Entry {
    fn is(&self, vlan: u16, address: Address) -> bool {
        self.is_used && self.address == address && self.vlan == vlan
    }

    fn is_older(&self, now: u32, age: u32) -> bool {
        now.saturating_sub(self.heard) > age
    }
}
