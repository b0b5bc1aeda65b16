//! The device's side of a split virtqueue (VIRTIO 1.2 §2.7).

use super::Memory;
use super::chain::{Chain, Part};
use core::sync::atomic::{Ordering, fence};

/// The most descriptors of a queue.
pub const MAX_SIZE: u16 = 256;

/// Bits of a descriptor (§2.7.5).
mod descriptor {
    pub const SIZE: u64 = 16;
    pub const NEXT: u16 = 1;
    pub const WRITE: u16 = 2;
    pub const TABLE: u16 = 4;
}

/// Offsets in the rings of both sides (§2.7.6, §2.7.8).
mod ring {
    pub const FLAGS: u64 = 0;
    pub const INDEX: u64 = 2;
    pub const ENTRIES: u64 = 4;
    pub const AVAILABLE_ENTRY: u64 = 2;
    pub const USED_ENTRY: u64 = 8;
}

/// The driver's flag by which it wants no interrupts (§2.7.7).
const NO_INTERRUPT: u16 = 1;

/// The guest has broken the rules of the queue, which is of no use before a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Broken;

/// A chain of one part, which the device writes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Single {
    /// Its descriptor, by which it goes back ([`Queue::give_back_head`]).
    pub head: u16,
    /// The part.
    pub part: Part,
}

/// A queue, as the guest has set it up, and where its device is.
#[derive(Clone, Copy, Debug, Default)]
pub struct Queue {
    /// Its descriptors' count, a power of two.
    pub(super) size: u16,
    /// Whether the guest has set it up.
    pub(super) ready: bool,
    /// Address of the descriptors.
    pub(super) descriptors: u64,
    /// Address of what the driver writes.
    pub(super) driver: u64,
    /// Address of what the device writes.
    pub(super) device: u64,
    /// Whether interrupts are asked for at an index ([`EVENT_INDEX`](super::EVENT_INDEX)).
    pub(super) has_events: bool,
    /// The next entry of the driver's ring to take.
    pub(super) next: u16,
    /// The driver's index as it was last read: the entries before it are there, whatever it is by
    /// now.
    pub(super) known: u16,
    /// The next entry of the device's ring to fill.
    pub(super) used: u16,
    /// The index of the device's ring that the guest was last shown.
    pub(super) published: u16,
    /// The index up to which the guest was interrupted, or did not want to be.
    pub(super) told: u16,
}

impl Queue {
    /// Returns whether the guest may set it up like this: a size that there can be, and addresses
    /// aligned as they must be (§2.7).
    pub(super) fn is_valid(&self) -> bool {
        self.size.is_power_of_two()
            && self.size <= MAX_SIZE
            && self.descriptors.is_multiple_of(16)
            && self.driver.is_multiple_of(2)
            && self.device.is_multiple_of(4)
    }

    /// Returns whether there is a chain to take. Reads the driver's index only if all the chains
    /// are taken of which it has told before.
    #[inline]
    pub fn has_next(&mut self, memory: &impl Memory) -> Result<bool, Broken> {
        if self.ready && self.known == self.next {
            self.look(memory)?;
        }
        Ok(self.ready && self.known != self.next)
    }

    /// Takes the next chain that the guest has made available.
    pub fn next(&mut self, memory: &impl Memory) -> Result<Option<Chain>, Broken> {
        let mut chain = Chain::default();
        Ok(self.take(memory, &mut chain)?.then_some(chain))
    }

    /// Does what [`Self::next`] does, in place of what was in `chain`: a chain is large, and moving
    /// one costs more than following it. Returns whether there is one.
    pub fn take(&mut self, memory: &impl Memory, chain: &mut Chain) -> Result<bool, Broken> {
        if !self.has_next(memory)? {
            return Ok(false);
        }
        self.follow(memory, self.next_head(memory)?, chain)?;
        self.next = self.next.wrapping_add(1);
        Ok(true)
    }

    /// Takes the next chain if it has one part, which the device writes, as most buffers for
    /// received frames do: that costs less than a [`Chain`]. Returns nothing, and leaves it, if it
    /// is another, or there is none.
    #[inline]
    pub fn take_single(&mut self, memory: &impl Memory) -> Result<Option<Single>, Broken> {
        if !self.has_next(memory)? {
            return Ok(None);
        }
        let head = self.next_head(memory)?;
        let (part, flags, _) = self.descriptor(memory, head)?;
        if flags & (descriptor::NEXT | descriptor::WRITE | descriptor::TABLE) != descriptor::WRITE {
            return Ok(None);
        }
        self.next = self.next.wrapping_add(1);
        Ok(Some(Single { head, part }))
    }

    /// Returns the first descriptor of the next chain, of which there is one.
    #[inline]
    fn next_head(&self, memory: &impl Memory) -> Result<u16, Broken> {
        let entry = ring::ENTRIES + ring::AVAILABLE_ENTRY * u64::from(self.next & self.size.wrapping_sub(1));
        memory.load(self.driver.wrapping_add(entry)).ok_or(Broken)
    }

    /// Reads a descriptor: its part of the memory, its flags, and the descriptor that is next.
    #[inline]
    fn descriptor(&self, memory: &impl Memory, index: u16) -> Result<(Part, u16, u16), Broken> {
        if index >= self.size {
            return Err(Broken);
        }
        let place = self.descriptors.wrapping_add(descriptor::SIZE * u64::from(index));
        let [address, rest] = memory.load_doubles(place).ok_or(Broken)?;
        Ok((Part { address, length: rest as u32 }, (rest >> 32) as u16, (rest >> 48) as u16))
    }

    /// Takes the last `count` chains anew, all of which were given back since. The guest must not
    /// have been shown that.
    pub fn undo(&mut self, count: u16) {
        debug_assert!(count <= self.used.wrapping_sub(self.published), "the guest has seen it");
        self.next = self.next.wrapping_sub(count);
        self.used = self.used.wrapping_sub(count);
    }

    /// Reads the driver's index.
    pub fn look(&mut self, memory: &impl Memory) -> Result<(), Broken> {
        let index = memory.load(self.driver.wrapping_add(ring::INDEX)).ok_or(Broken)?;
        if index.wrapping_sub(self.next) > self.size {
            return Err(Broken);
        }
        self.known = index;
        // The entries and their descriptors were written before the index was.
        fence(Ordering::Acquire);
        Ok(())
    }

    /// Returns the indexes of the next chain to take and behind the last one that is known of
    /// ([`Self::look`]): as long as they stay, so does what can be taken.
    pub fn position(&self) -> (u16, u16) {
        (self.next, self.known)
    }

    /// Follows a chain; it ends within as many parts as a chain can have.
    #[inline(always)]
    fn follow(&self, memory: &impl Memory, head: u16, chain: &mut Chain) -> Result<(), Broken> {
        let (part, flags, _) = self.descriptor(memory, head)?;
        if flags & (descriptor::NEXT | descriptor::TABLE) == 0 {
            chain.begin_single(head, part, flags & descriptor::WRITE != 0);
            return Ok(());
        }
        self.follow_all(memory, head, chain)
    }

    /// Does what [`Self::follow`] does, whatever the chain is.
    #[inline(never)]
    fn follow_all(&self, memory: &impl Memory, head: u16, chain: &mut Chain) -> Result<(), Broken> {
        chain.begin(head);
        let mut index = head;
        loop {
            let (part, flags, next) = self.descriptor(memory, index)?;
            if flags & descriptor::TABLE != 0 || !chain.add(part, flags & descriptor::WRITE != 0) {
                return Err(Broken);
            }
            if flags & descriptor::NEXT == 0 {
                return Ok(());
            }
            index = next;
        }
    }

    /// Gives a chain back, into which the device has written `length` bytes from its beginning. The
    /// guest sees it after [`Self::publish`].
    pub fn give_back(&mut self, memory: &impl Memory, chain: &Chain, length: u32) -> Result<(), Broken> {
        self.give_back_head(memory, chain.head, length)
    }

    /// Does what [`Self::give_back`] does with a chain of this first descriptor.
    #[inline]
    pub fn give_back_head(&mut self, memory: &impl Memory, head: u16, length: u32) -> Result<(), Broken> {
        let entry = ring::ENTRIES + ring::USED_ENTRY * u64::from(self.used & self.size.wrapping_sub(1));
        memory.store_words(self.device.wrapping_add(entry), [head.into(), length]).ok_or(Broken)?;
        self.used = self.used.wrapping_add(1);
        Ok(())
    }

    /// Shows the guest the chains that were given back, and asks for the doorbell at the next one
    /// that it makes available. Returns whether it wants an interrupt.
    pub fn publish(&mut self, memory: &impl Memory) -> Result<bool, Broken> {
        self.show(memory, 0)?;
        self.wants_interrupt(memory)
    }

    /// Does what [`Self::publish`] does, but asks for the doorbell only behind `ahead` more chains,
    /// where there are events, and leaves for later whether the guest wants an interrupt
    /// ([`Self::wants_interrupt`]).
    pub fn show(&mut self, memory: &impl Memory, ahead: u16) -> Result<(), Broken> {
        if self.published != self.used {
            fence(Ordering::Release);
            memory.store(self.device.wrapping_add(ring::INDEX), self.used).ok_or(Broken)?;
            self.published = self.used;
        }
        if self.has_events {
            let event = ring::ENTRIES + ring::USED_ENTRY * u64::from(self.size);
            memory.store(self.device.wrapping_add(event), self.next.wrapping_add(ahead)).ok_or(Broken)?;
        }
        // The guest writes what it wants before it looks at the index, and an entry before it looks
        // whether it is to ring: the other order on this side.
        fence(Ordering::SeqCst);
        Ok(())
    }

    /// Returns how many chains the guest was shown since it was last asked whether it wants an
    /// interrupt.
    pub fn untold(&self) -> u16 {
        self.published.wrapping_sub(self.told)
    }

    /// Returns whether the guest wants an interrupt for what it was shown since this was last
    /// asked.
    pub fn wants_interrupt(&mut self, memory: &impl Memory) -> Result<bool, Broken> {
        let (from, to) = (self.told, self.published);
        self.told = to;
        if from == to {
            return Ok(false);
        }
        if !self.has_events {
            let flags = memory.load(self.driver.wrapping_add(ring::FLAGS)).ok_or(Broken)?;
            return Ok(flags & NO_INTERRUPT == 0);
        }
        let event = ring::ENTRIES + ring::AVAILABLE_ENTRY * u64::from(self.size);
        let event = memory.load(self.driver.wrapping_add(event)).ok_or(Broken)?;
        // Whether the index asked for was passed (§2.7.7.2).
        Ok(to.wrapping_sub(event).wrapping_sub(1) < to.wrapping_sub(from))
    }
}

#[cfg(test)]
mod tests {
    use super::super::tests::{Driver, Ram};
    use super::*;
    use core::cell::{Cell, RefCell};
    use proptest::prelude::*;
    use std::vec::Vec;

    #[test]
    fn chains_come_in_order_and_go_back() {
        let (ram, mut driver) = (Ram::new(8192), Driver::new(4));
        let mut queue = driver.queue(false);
        assert_eq!(queue.next(&ram), Ok(None));
        driver.offer(&ram, &[(Ram::BASE + 4096, 10, false), (Ram::BASE + 5000, 20, true)]);
        driver.offer(&ram, &[(Ram::BASE + 6000, 30, true)]);
        let first = queue.next(&ram).expect("sound").expect("one");
        assert_eq!((first.readable_bytes(), first.writable_bytes()), (10, 20));
        let second = queue.next(&ram).expect("sound").expect("another");
        assert_eq!((second.readable_bytes(), second.writable_bytes()), (0, 30));
        assert_eq!(queue.next(&ram), Ok(None));
        assert_eq!(queue.give_back(&ram, &second, 6), Ok(()));
        queue.undo(1);
        assert_eq!(queue.next(&ram), Ok(Some(second)), "the same again");
        assert_eq!(queue.give_back(&ram, &second, 7), Ok(()));
        assert_eq!(driver.used(&ram), None, "not shown yet");
        assert_eq!(queue.publish(&ram), Ok(true));
        assert_eq!(driver.used(&ram), Some((second.head.into(), 7)));
        assert_eq!(queue.publish(&ram), Ok(false), "nothing new");
    }

    #[test]
    fn a_chain_of_one_part_is_taken_by_itself_and_any_other_is_left() {
        let (ram, mut driver) = (Ram::new(8192), Driver::new(4));
        let mut queue = driver.queue(false);
        assert_eq!(queue.take_single(&ram), Ok(None));
        let part = Part { address: Ram::BASE + 4096, length: 10 };
        driver.offer(&ram, &[(part.address, part.length, true)]);
        driver.offer(&ram, &[(part.address, 1, false)]);
        driver.offer(&ram, &[(part.address, 1, true), (part.address, 2, true)]);
        let single = queue.take_single(&ram).expect("sound").expect("one");
        assert_eq!(single, Single { head: 0, part });
        for readable in [1, 0] {
            assert_eq!(queue.take_single(&ram), Ok(None), "it is read, or has two parts");
            let chain = queue.next(&ram).expect("sound").expect("it is there still");
            assert_eq!(chain.readable_bytes(), readable);
        }
        queue.give_back_head(&ram, single.head, 10).expect("sound");
        assert_eq!(queue.publish(&ram), Ok(true));
        assert_eq!(driver.used(&ram), Some((0, 10)));
        driver.set_entry(&ram, 3, 4);
        driver.set_index(&ram, 4);
        assert_eq!(queue.take_single(&ram), Err(Broken), "no such head");
    }

    #[test]
    fn an_interrupt_comes_when_it_is_asked_for() {
        for (events, asked, wanted) in
            [(false, 0, true), (false, NO_INTERRUPT, false), (true, 0, true), (true, 1, false)]
        {
            let (ram, mut driver) = (Ram::new(8192), Driver::new(4));
            let mut queue = driver.queue(events);
            driver.ask(&ram, events, asked);
            driver.offer(&ram, &[(Ram::BASE + 4096, 10, false)]);
            let chain = queue.next(&ram).expect("sound").expect("one");
            queue.give_back(&ram, &chain, 0).expect("sound");
            assert_eq!(queue.publish(&ram), Ok(wanted), "{events} {asked}");
        }
    }

    #[test]
    fn an_interrupt_that_was_put_off_is_for_all_that_was_shown_meanwhile() {
        for (asked, wanted) in [(0, true), (1, true), (2, false)] {
            let (ram, mut driver) = (Ram::new(8192), Driver::new(4));
            let mut queue = driver.queue(true);
            driver.ask(&ram, true, asked);
            for shown in 1..=2 {
                driver.offer(&ram, &[(Ram::BASE + 4096, 10, false)]);
                let chain = queue.next(&ram).expect("sound").expect("one");
                queue.give_back(&ram, &chain, 0).expect("sound");
                queue.show(&ram, 0).expect("sound");
                assert_eq!((driver.used(&ram).is_some(), queue.untold()), (true, shown));
            }
            assert_eq!(queue.wants_interrupt(&ram), Ok(wanted), "{asked}");
            assert_eq!((queue.wants_interrupt(&ram), queue.untold()), (Ok(false), 0));
        }
    }

    #[test]
    fn the_doorbell_is_asked_for_at_the_next_chain() {
        let (ram, mut driver) = (Ram::new(8192), Driver::new(4));
        let mut queue = driver.queue(true);
        driver.offer(&ram, &[(Ram::BASE + 4096, 10, false)]);
        assert!(queue.next(&ram).expect("sound").is_some());
        queue.publish(&ram).expect("sound");
        assert_eq!(driver.doorbell_at(&ram), 1);
    }

    /// Memory whose guest makes chains available between any two accesses of the device's, when its
    /// turns say so, and rings as an index asks for it (§2.7.10).
    struct Racing {
        ram: Ram,
        driver: RefCell<Driver>,
        /// How many accesses there are before each of the chains that are left.
        turns: RefCell<Vec<u8>>,
        available: Cell<u16>,
        has_rung: Cell<bool>,
    }

    impl Racing {
        fn guest(&self) {
            let Some(left) =
                self.turns.borrow_mut().last_mut().map(|left| core::mem::replace(left, left.saturating_sub(1)))
            else {
                return;
            };
            // The driver keeps to the size of the queue: it has seen which chains were given back.
            let used = self.ram.load(self.driver.borrow().places()[2] + ring::INDEX).expect("inside");
            let old = self.available.get();
            if left > 0 || old.wrapping_sub(used) == 4 {
                return;
            }
            self.turns.borrow_mut().pop();
            let mut driver = self.driver.borrow_mut();
            driver.set_descriptor(&self.ram, old % 4, (Ram::BASE + 4096, u32::from(old) + 1, 0, 0));
            driver.set_entry(&self.ram, old % 4, old % 4);
            let new = old.wrapping_add(1);
            driver.set_index(&self.ram, new);
            self.available.set(new);
            let event = driver.doorbell_at(&self.ram);
            if new.wrapping_sub(event).wrapping_sub(1) < new.wrapping_sub(old) {
                self.has_rung.set(true);
            }
        }
    }

    impl Memory for Racing {
        fn contains(&self, address: u64, length: u32) -> bool {
            self.ram.contains(address, length)
        }
        fn read(&self, address: u64, bytes: &mut [u8]) -> Option<()> {
            self.guest();
            self.ram.read(address, bytes)
        }
        fn write(&self, address: u64, bytes: &[u8]) -> Option<()> {
            self.guest();
            self.ram.write(address, bytes)
        }
        fn load(&self, address: u64) -> Option<u16> {
            self.guest();
            self.ram.load(address)
        }
        fn store(&self, address: u64, value: u16) -> Option<()> {
            self.guest();
            self.ram.store(address, value)
        }
        fn load_double(&self, address: u64) -> Option<u64> {
            self.guest();
            self.ram.load_double(address)
        }
        fn store_word(&self, address: u64, value: u32) -> Option<()> {
            self.guest();
            self.ram.store_word(address, value)
        }
    }

    proptest! {
        /// Wherever the guest is when the device looks, the device takes each chain once, in order,
        /// and does not sleep beside one for which the guest has not rung: also where indexes wrap.
        #[test]
        fn no_chain_is_forgotten_whenever_it_comes(
            first in prop_oneof![Just(0_u16), Just(u16::MAX - 5), any::<u16>()],
            turns in prop::collection::vec(prop_oneof![0..4_u8, 0..30_u8], 1..60),
            at_a_time in 1..6_u16,
        ) {
            let (ram, mut driver, count) = (Ram::new(8192), Driver::new(4), turns.len() as u16);
            let mut queue = Queue { next: first, known: first, used: first, published: first, told: first, ..driver.queue(true) };
            driver.set_index(&ram, first);
            ram.store(driver.places()[2] + ring::INDEX, first).expect("inside");
            let memory = Racing {
                ram, driver: RefCell::new(driver), turns: RefCell::new(turns), available: Cell::new(first),
                has_rung: Cell::new(false),
            };
            queue.publish(&memory).expect("sound");
            let mut taken = 0_u16;
            // Turns of the device's: at first, then as long as there may be more, or after a ring.
            let mut is_awake = true;
            for _ in 0..1000 {
                if !is_awake && !memory.has_rung.take() {
                    // Asleep: the guest goes on by itself.
                    memory.guest();
                    continue;
                }
                let mut left = at_a_time;
                while left > 0 && let Some(chain) = queue.next(&memory).expect("sound") {
                    let number = first.wrapping_add(taken);
                    prop_assert_eq!((chain.head, chain.readable_bytes()), (number % 4, u64::from(number) + 1));
                    queue.give_back(&memory, &chain, 0).expect("sound");
                    (taken, left) = (taken + 1, left - 1);
                }
                queue.publish(&memory).expect("sound");
                is_awake = queue.has_next(&memory).expect("sound");
            }
            prop_assert_eq!(taken, count);
        }
    }

    #[test]
    fn a_queue_that_breaks_the_rules_is_found_out() {
        type Prepare<'a> = &'a dyn Fn(&Ram, &mut Driver, &mut Queue);
        let broken = |prepare: Prepare<'_>| {
            let (ram, mut driver) = (Ram::new(8192), Driver::new(4));
            let mut queue = driver.queue(false);
            driver.offer(&ram, &[(Ram::BASE + 4096, 10, false), (Ram::BASE + 4200, 10, false)]);
            prepare(&ram, &mut driver, &mut queue);
            queue.next(&ram)
        };
        assert!(matches!(broken(&|_, _, _| {}), Ok(Some(_))));
        let cases: [(&str, Prepare<'_>); 7] = [
            ("more available than there is", &|ram, driver, _| driver.set_index(ram, 5)),
            ("no such head", &|ram, driver, _| driver.set_entry(ram, 0, 4)),
            ("no such next", &|ram, driver, _| driver.set_descriptor(ram, 0, (Ram::BASE, 1, descriptor::NEXT, 9))),
            ("a circle", &|ram, driver, _| driver.set_descriptor(ram, 1, (Ram::BASE, 1, descriptor::NEXT, 0))),
            ("a table", &|ram, driver, _| driver.set_descriptor(ram, 0, (Ram::BASE, 16, descriptor::TABLE, 0))),
            ("rings elsewhere", &|_, _, queue| queue.driver = 2),
            ("descriptors elsewhere", &|_, _, queue| queue.descriptors = u64::MAX - 15),
        ];
        for (what, prepare) in cases {
            assert_eq!(broken(prepare), Err(Broken), "{what}");
        }
    }
}
