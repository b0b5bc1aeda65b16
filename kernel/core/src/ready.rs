//! The ready queue of one core: 256 priorities, first in first out within each.
//!
//! Links are kept in the domains themselves ([`crate::Domain::next`]), so the queue needs no memory
//! per domain. Every operation but [`ReadyQueue::remove`] takes constant time.

use crate::domain::{Context, Domain, NO_DOMAIN};

const PRIORITIES: usize = 256;

/// Domains that could run, by priority.
#[derive(Debug)]
pub struct ReadyQueue {
    /// The highest occupied priority, −1 for none.
    highest: i32,
    occupied: [u64; PRIORITIES / 64],
    lists: [List; PRIORITIES],
}

#[derive(Clone, Copy, Debug)]
struct List {
    head: u32,
    tail: u32,
}

impl Default for ReadyQueue {
    fn default() -> Self {
        Self::new()
    }
}

impl ReadyQueue {
    /// Creates an empty queue.
    pub const fn new() -> Self {
        Self {
            highest: -1,
            occupied: [0; PRIORITIES / 64],
            lists: [List { head: NO_DOMAIN, tail: NO_DOMAIN }; PRIORITIES],
        }
    }

    /// Returns the highest priority that has a domain, or −1 for none.
    #[inline(always)]
    pub fn highest(&self) -> i32 {
        self.highest
    }

    #[inline(always)]
    fn occupy(&mut self, priority: u8) {
        self.occupied[priority as usize / 64] |= 1 << (priority % 64);
        self.highest = self.highest.max(i32::from(priority));
    }

    /// Records that the list of `priority` has become empty.
    #[inline(always)]
    fn vacate(&mut self, priority: u8) {
        let word = priority as usize / 64;
        self.occupied[word] &= !(1 << (priority % 64));
        if i32::from(priority) >= self.highest {
            self.highest = self.highest_from(word);
        }
    }

    /// Returns the highest occupied priority in `word` and those below it, −1 for none.
    #[inline(always)]
    fn highest_from(&self, mut word: usize) -> i32 {
        loop {
            let occupied = self.occupied[word];
            if occupied != 0 {
                return (word * 64 + 63) as i32 - occupied.leading_zeros() as i32;
            }
            if word == 0 {
                return -1;
            }
            word -= 1;
        }
    }

    /// Adds a domain behind the others of its priority.
    #[inline(always)]
    pub fn push_back<C: Context>(&mut self, domains: &mut [Domain<'_, C>], index: u32) {
        let priority = domains[index as usize].priority;
        domains[index as usize].next = NO_DOMAIN;
        let list = &mut self.lists[priority as usize];
        if list.head == NO_DOMAIN {
            *list = List { head: index, tail: index };
            self.occupy(priority);
        } else {
            let tail = list.tail;
            list.tail = index;
            domains[tail as usize].next = index;
        }
    }

    /// Adds a domain in front of the others of its priority, because it was preempted before its
    /// turn ended.
    #[inline(always)]
    pub fn push_front<C: Context>(&mut self, domains: &mut [Domain<'_, C>], index: u32) {
        let priority = domains[index as usize].priority;
        let list = &mut self.lists[priority as usize];
        domains[index as usize].next = list.head;
        if list.head == NO_DOMAIN {
            *list = List { head: index, tail: index };
            self.occupy(priority);
        } else {
            list.head = index;
        }
    }

    /// Removes and returns the first domain of the highest priority.
    #[inline(always)]
    pub fn pop<C: Context>(&mut self, domains: &mut [Domain<'_, C>]) -> Option<u32> {
        let priority = u8::try_from(self.highest).ok()?;
        let list = &mut self.lists[priority as usize];
        let index = list.head;
        list.head = domains[index as usize].next;
        if list.head == NO_DOMAIN {
            self.vacate(priority);
        }
        Some(index)
    }

    /// Removes a domain wherever it stands in the list of its priority. Walks that list: for stops
    /// and restarts only.
    pub fn remove<C: Context>(&mut self, domains: &mut [Domain<'_, C>], index: u32) {
        let priority = domains[index as usize].priority;
        let mut previous = NO_DOMAIN;
        let mut at = self.lists[priority as usize].head;
        while at != NO_DOMAIN && at != index {
            previous = at;
            at = domains[at as usize].next;
        }
        if at == NO_DOMAIN {
            return;
        }
        let next = domains[index as usize].next;
        let list = &mut self.lists[priority as usize];
        if previous == NO_DOMAIN {
            list.head = next;
        } else {
            domains[previous as usize].next = next;
        }
        if list.tail == index {
            list.tail = previous;
        }
        if list.head == NO_DOMAIN {
            self.vacate(priority);
        }
    }
}
