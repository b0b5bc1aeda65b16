//! Numbers brought into an order in place, with little code: a sort of the standard library's has
//! more than all of a class's client.

/// Sorts `numbers` by rising `key`; equal keys come in any order. However they stand before, it
/// asks for no more than 4 n (log₂ n + 1) keys of n numbers: it is a heap sort.
pub fn sort(numbers: &mut [u16], key: impl Fn(u16) -> u64) {
    // The first `length` numbers are a heap from `next` on: none has a higher key than the one at
    // half its place. At first those of the second half are, which have none below them.
    let (mut length, mut next) = (numbers.len(), numbers.len() / 2);
    while length > 1 {
        match next.checked_sub(1) {
            Some(before) => next = before,
            // The heap is whole: its first is the highest, and the last but for those behind it.
            None => {
                length -= 1;
                numbers.swap(0, length);
            }
        }
        let Some(heap) = numbers.get_mut(..length) else { return };
        sink(heap, next, &key);
    }
}

/// Moves the number at `place` down until none below it has a higher key.
fn sink(heap: &mut [u16], mut place: usize, key: &impl Fn(u16) -> u64) {
    loop {
        let mut highest = place;
        for below in [2 * place + 1, 2 * place + 2] {
            if below < heap.len() && key(heap[below]) > key(heap[highest]) {
                highest = below;
            }
        }
        if highest == place {
            return;
        }
        heap.swap(place, highest);
        place = highest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use std::vec::Vec;

    /// Sorts, and checks the order and how many keys were asked for.
    fn check(mut numbers: Vec<u16>, key: impl Fn(u16) -> u64) {
        let asked = Cell::new(0_usize);
        let mut expected = numbers.clone();
        expected.sort_by_key(|number| key(*number));
        let count = numbers.len();
        sort(&mut numbers, |number| {
            asked.set(asked.get() + 1);
            key(number)
        });
        assert_eq!(numbers, expected);
        let most = 4 * count * (count.max(1).ilog2() as usize + 1);
        assert!(asked.get() <= most, "{} keys of {count}, {most} at most", asked.get());
    }

    #[test]
    fn any_order_is_sorted_by_few_looks() {
        for count in (0..70).chain([1000, 4096, 32_766]) {
            check((0..count).collect(), u64::from);
            check((0..count).rev().collect(), u64::from);
            check((0..count).collect(), |number| u64::MAX - u64::from(number));
            // An odd factor gives each of the numbers another key.
            check((0..count).collect(), |number| u64::from(number.wrapping_mul(40_503)));
        }
    }
}
