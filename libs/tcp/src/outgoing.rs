//! What the application gives to send: references to its memory, not bytes.
//!
//! A [`Piece`] says by a token of the application's where bytes lie, and how many. They stay there,
//! unchanged, until the peer has acknowledged all of them; then the token is given back. A segment
//! names the parts of pieces that are its payload, as often as it is sent. Nothing is copied.

use crate::ring::Ring;

/// The most bytes that can be queued, so that sequence numbers stay comparable.
pub const MOST_BYTES: u32 = 1 << 30;

/// Bytes of the application's memory that are to be sent.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Piece {
    /// What the application knows the memory by.
    pub token: u64,
    /// How many bytes there are.
    pub length: u32,
}

/// A part of a [`Piece`], in a segment's payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Part {
    /// The piece's token.
    pub token: u64,
    /// Where the part begins, in bytes from the piece's start.
    pub offset: u32,
    /// How many bytes it has; at least 1.
    pub length: u32,
}

/// There is no place for one more piece, or no number for one more byte.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Full;

/// The pieces that are not acknowledged, in order.
#[derive(Debug)]
pub struct Outgoing<'s> {
    pieces: Ring<'s, Piece>,
    /// Bytes of the first piece that are acknowledged.
    acknowledged: u32,
    /// Bytes of all pieces that are not acknowledged.
    length: u32,
    /// A piece and where it begins, in bytes from the first one that is not acknowledged: where the
    /// last part was found. A segment's payload begins where that of the last one ended.
    found: (usize, i64),
}

impl<'s> Outgoing<'s> {
    /// Nothing is queued. There can be as many pieces as the slice has.
    pub fn new(pieces: &'s mut [Piece]) -> Self {
        Self { pieces: Ring::new(pieces), acknowledged: 0, length: 0, found: (0, 0) }
    }

    /// Returns how many bytes are not acknowledged.
    #[inline]
    pub fn length(&self) -> u32 {
        self.length
    }

    /// Returns whether there is no place for one more piece.
    pub fn is_full(&self) -> bool {
        self.pieces.is_full()
    }

    /// Queues a piece. One without bytes is refused: nothing would ever acknowledge it.
    pub fn push(&mut self, piece: Piece) -> Result<(), Full> {
        if piece.length == 0 || piece.length > MOST_BYTES - self.length || !self.pieces.push(piece) {
            return Err(Full);
        }
        self.length += piece.length;
        Ok(())
    }

    /// Makes the last piece longer by `bytes`, which lie behind it in the application's memory.
    /// Refused if there is none, and where [`Self::push`] would refuse so many.
    #[inline]
    pub fn extend(&mut self, bytes: u32) -> Result<(), Full> {
        let last = self.pieces.count().checked_sub(1).and_then(|last| self.pieces.get_mut(last)).ok_or(Full)?;
        let length = last.length.checked_add(bytes).ok_or(Full)?;
        if bytes > MOST_BYTES - self.length {
            return Err(Full);
        }
        last.length = length;
        self.length += bytes;
        Ok(())
    }

    /// Returns the token of the first piece that is not acknowledged whole, and how many of its
    /// bytes are.
    #[inline]
    pub fn first(&self) -> Option<(u64, u32)> {
        self.pieces.get(0).map(|piece| (piece.token, self.acknowledged))
    }

    /// Takes the slots of pieces away, and forgets all pieces.
    pub(crate) fn take_slots(&mut self) -> &'s mut [Piece] {
        (self.acknowledged, self.length, self.found) = (0, 0, (0, 0));
        self.pieces.take_slots()
    }

    /// Takes the first `bytes` for acknowledged, all if there are fewer. What that completes goes
    /// to `release`, in order.
    #[inline]
    pub fn acknowledge(&mut self, bytes: u32, mut release: impl FnMut(u64)) {
        if bytes >= self.length {
            // All, as after nearly each short answer.
            return self.clear(release);
        }
        self.length -= bytes;
        self.found.1 -= i64::from(bytes);
        let mut left = u64::from(bytes) + u64::from(self.acknowledged);
        while let Some(piece) = self.pieces.get(0) {
            if left < u64::from(piece.length) {
                break;
            }
            left -= u64::from(piece.length);
            self.pieces.pop();
            release(piece.token);
            self.found = match self.found {
                (0, _) => (0, -(left as i64)),
                (index, start) => (index - 1, start),
            };
        }
        self.acknowledged = left as u32;
    }

    /// Gives all tokens to `release`, in order, acknowledged or not.
    pub fn clear(&mut self, mut release: impl FnMut(u64)) {
        while let Some(piece) = self.pieces.pop() {
            release(piece.token);
        }
        (self.acknowledged, self.length, self.found) = (0, 0, (0, 0));
    }

    /// Hands the parts to `take` that are the `length` bytes from `offset` on, which is counted
    /// from the first byte that is not acknowledged. Ends early where the pieces end.
    #[inline]
    pub fn parts(&mut self, offset: u32, length: u32, mut take: impl FnMut(Part)) {
        let (from, mut left) = (i64::from(offset), length);
        let (mut index, mut start) = self.found;
        if from < start {
            (index, start) = (0, -i64::from(self.acknowledged));
        }
        while left > 0
            && let Some(piece) = self.pieces.get(index)
        {
            let end = start + i64::from(piece.length);
            let at = from + i64::from(length - left);
            if at < end {
                let part =
                    Part { token: piece.token, offset: (at - start) as u32, length: left.min((end - at) as u32) };
                take(part);
                left -= part.length;
            }
            self.found = (index, start);
            (index, start) = (index + 1, end);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::vec::Vec;

    /// All bytes of the pieces that are not acknowledged, as token and offset.
    fn bytes_of(outgoing: &mut Outgoing<'_>, offset: u32, length: u32) -> Vec<(u64, u32)> {
        let mut bytes = Vec::new();
        outgoing.parts(offset, length, |part| bytes.extend((0..part.length).map(|at| (part.token, part.offset + at))));
        bytes
    }

    proptest! {
        /// Bytes come out as they were put in, wherever a segment begins, and a token comes back
        /// when its last byte is acknowledged.
        #[test]
        fn parts_are_the_bytes_of_the_pieces(steps in prop::collection::vec((0..4_u8, 0_u32..20, 0_u32..20), 0..100)) {
            let mut slots = [Piece::default(); 4];
            let mut outgoing = Outgoing::new(&mut slots);
            let mut model: Vec<(u64, u32)> = Vec::new();
            let (mut next_token, mut released) = (0, 0);
            let mut lengths = Vec::new();
            for (step, one, other) in steps {
                match step {
                    0 => if outgoing.push(Piece { token: next_token, length: one }).is_ok() {
                        model.extend((0..one).map(|at| (next_token, at)));
                        lengths.push(one);
                        next_token += 1;
                    } else {
                        prop_assert!(one == 0 || next_token - released == 4);
                    },
                    3 => if outgoing.extend(one).is_ok() {
                        let token = next_token - 1;
                        let before = lengths[token as usize];
                        model.extend((before..before + one).map(|at| (token, at)));
                        lengths[token as usize] += one;
                    } else {
                        prop_assert_eq!(next_token, released);
                    },
                    1 => {
                        model.drain(..model.len().min(one as usize));
                        let mut tokens = Vec::new();
                        outgoing.acknowledge(one, |token| tokens.push(token));
                        let first = model.first().map_or(next_token, |byte| byte.0);
                        prop_assert_eq!(tokens, (released..first).collect::<Vec<_>>());
                        released = first;
                    }
                    _ => {
                        let found = bytes_of(&mut outgoing, one, other);
                        let wanted: Vec<_> = model.iter().skip(one as usize).take(other as usize).copied().collect();
                        prop_assert_eq!(found, wanted);
                    }
                }
                prop_assert_eq!(outgoing.length() as usize, model.len());
                let first = model.first().copied().filter(|_| next_token > released);
                prop_assert_eq!(outgoing.first(), first);
            }
        }
    }

    #[test]
    fn there_are_never_more_bytes_than_numbers() {
        let mut slots = [Piece::default(); 4];
        let mut outgoing = Outgoing::new(&mut slots);
        assert_eq!(outgoing.push(Piece { token: 0, length: u32::MAX }), Err(Full));
        assert_eq!(outgoing.push(Piece { token: 1, length: MOST_BYTES }), Ok(()));
        assert_eq!(outgoing.push(Piece { token: 2, length: 1 }), Err(Full));
        outgoing.acknowledge(1, |_| panic!("not all is acknowledged"));
        assert_eq!(outgoing.push(Piece { token: 2, length: 1 }), Ok(()));
    }

    #[test]
    fn clearing_gives_every_token_back() {
        let mut slots = [Piece::default(); 2];
        let mut outgoing = Outgoing::new(&mut slots);
        for token in [7, 9] {
            outgoing.push(Piece { token, length: 10 }).unwrap();
        }
        outgoing.acknowledge(5, |_| panic!("not all is acknowledged"));
        let mut tokens = Vec::new();
        outgoing.clear(|token| tokens.push(token));
        assert_eq!((tokens, outgoing.length()), (std::vec![7, 9], 0));
    }
}
