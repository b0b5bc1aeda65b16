//! A queue in a slice that somebody else owns: its bound is the slice's length.

/// Elements in order, in a slice that is used as a ring.
#[derive(Debug)]
pub(crate) struct Ring<'s, T> {
    slots: &'s mut [T],
    first: u32,
    count: u32,
}

impl<'s, T: Copy> Ring<'s, T> {
    /// An empty queue. Slots beyond the 2³¹st are not used.
    pub fn new(slots: &'s mut [T]) -> Self {
        let usable = slots.len().min(1 << 31);
        Self { slots: &mut slots[..usable], first: 0, count: 0 }
    }

    /// Takes the slots away; the queue has none and no element then.
    pub fn take_slots(&mut self) -> &'s mut [T] {
        (self.first, self.count) = (0, 0);
        core::mem::take(&mut self.slots)
    }

    #[inline]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    pub fn is_full(&self) -> bool {
        self.count() == self.slots.len()
    }

    /// Returns whether `more` elements fit.
    #[inline]
    pub fn has_space(&self, more: usize) -> bool {
        self.slots.len() - self.count() >= more
    }

    /// Returns the slot of the element `index`, which must be below the count of slots.
    #[inline]
    fn slot(&self, index: usize) -> usize {
        let slot = self.first as usize + index;
        if slot >= self.slots.len() { slot - self.slots.len() } else { slot }
    }

    #[inline]
    pub fn get(&self, index: usize) -> Option<T> {
        if index < self.count() { self.slots.get(self.slot(index)).copied() } else { None }
    }

    #[inline]
    pub fn get_mut(&mut self, index: usize) -> Option<&mut T> {
        if index < self.count() {
            let slot = self.slot(index);
            self.slots.get_mut(slot)
        } else {
            None
        }
    }

    #[inline]
    pub fn last(&self) -> Option<T> {
        self.count().checked_sub(1).and_then(|index| self.get(index))
    }

    /// Puts `element` at the end; returns whether there was a slot left.
    #[inline]
    pub fn push(&mut self, element: T) -> bool {
        if self.is_full() {
            return false;
        }
        let slot = self.slot(self.count());
        self.slots[slot] = element;
        self.count += 1;
        true
    }

    /// Takes the first element.
    #[inline]
    pub fn pop(&mut self) -> Option<T> {
        let element = self.get(0)?;
        self.first = self.slot(1) as u32;
        self.count -= 1;
        Some(element)
    }

    /// Puts `element` before the one of `index`, or at the end if there is none; returns whether
    /// there was a slot left. Moves all elements behind it.
    pub fn insert(&mut self, index: usize, element: T) -> bool {
        if !self.push(element) {
            return false;
        }
        for at in (index + 1..self.count()).rev() {
            let (here, before) = (self.slot(at), self.slot(at - 1));
            self.slots.swap(here, before);
        }
        true
    }

    /// Removes the element of `index`, if there is one. Moves all elements behind it.
    pub fn remove(&mut self, index: usize) {
        if index >= self.count() {
            return;
        }
        for at in index..self.count() - 1 {
            let (here, next) = (self.slot(at), self.slot(at + 1));
            self.slots.swap(here, next);
        }
        self.count -= 1;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::collections::VecDeque;
    use std::vec::Vec;

    proptest! {
        /// It does what a queue of the standard library does, up to its bound.
        #[test]
        fn it_is_a_queue(steps in prop::collection::vec((0..4_u8, 0_usize..10), 0..200), bound in 0_usize..8) {
            let mut slots = std::vec![0_usize; bound];
            let mut ring = Ring::new(&mut slots);
            let mut model = VecDeque::new();
            for (number, (step, index)) in steps.into_iter().enumerate() {
                let has_space = model.len() < bound;
                match step {
                    0 => {
                        prop_assert_eq!(ring.push(number), has_space);
                        if has_space {
                            model.push_back(number);
                        }
                    }
                    1 => prop_assert_eq!(ring.pop(), model.pop_front()),
                    2 => {
                        prop_assert_eq!(ring.insert(index, number), has_space);
                        if has_space {
                            model.insert(index.min(model.len()), number);
                        }
                    }
                    _ => {
                        ring.remove(index);
                        model.remove(index);
                    }
                }
                let found: Vec<_> = (0..ring.count()).filter_map(|index| ring.get(index)).collect();
                prop_assert_eq!(&found, &Vec::from(model.clone()));
                prop_assert_eq!((ring.last(), ring.is_full()), (model.back().copied(), model.len() == bound));
                prop_assert_eq!(ring.get(ring.count()), None);
            }
        }
    }
}
