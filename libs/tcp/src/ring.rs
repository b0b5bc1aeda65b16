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

    #[inline]
    pub fn count(&self) -> usize {
        self.count as usize
    }

    pub fn is_full(&self) -> bool {
        self.count() == self.slots.len()
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
        fn it_is_a_queue(steps in prop::collection::vec(0..2_u8, 0..200), bound in 0_usize..8) {
            let mut slots = std::vec![0_usize; bound];
            let mut ring = Ring::new(&mut slots);
            let mut model = VecDeque::new();
            for (number, step) in steps.into_iter().enumerate() {
                let has_space = model.len() < bound;
                match step {
                    0 => {
                        prop_assert_eq!(ring.push(number), has_space);
                        if has_space {
                            model.push_back(number);
                        }
                    }
                    _ => prop_assert_eq!(ring.pop(), model.pop_front()),
                }
                let found: Vec<_> = (0..ring.count()).filter_map(|index| ring.get(index)).collect();
                prop_assert_eq!(&found, &Vec::from(model.clone()));
                prop_assert_eq!(ring.is_full(), model.len() == bound);
                prop_assert_eq!(ring.get(ring.count()), None);
            }
        }
    }
}
