//! Text in words of memory that another side reads or writes at any time.

use alloc::string::String;
use alloc::vec::Vec;
use core::sync::atomic::AtomicU64;
use core::sync::atomic::Ordering::Relaxed;

/// Writes a text, as much of it as there is room for. Returns how many bytes that is, which end
/// with a whole character.
pub(crate) fn write(words: &[AtomicU64], text: &str) -> usize {
    let room = words.len() * 8;
    let length = (0..=room.min(text.len())).rev().find(|end| text.is_char_boundary(*end)).unwrap_or(0);
    let bytes = text.as_bytes().get(..length).unwrap_or_default();
    for (word, part) in words.iter().zip(bytes.chunks(8)) {
        let mut value = [0; 8];
        if let Some(place) = value.get_mut(..part.len()) {
            place.copy_from_slice(part);
        }
        word.store(u64::from_le_bytes(value), Relaxed);
    }
    length
}

/// Reads a text of so many bytes; `None` if there are not as many, or they are no text.
pub(crate) fn read(words: &[AtomicU64], length: u64) -> Option<String> {
    let length = usize::try_from(length).ok().filter(|length| *length <= words.len() * 8)?;
    let mut bytes = Vec::with_capacity(length.next_multiple_of(8));
    for word in words.iter().take(length.div_ceil(8)) {
        bytes.extend(word.load(Relaxed).to_le_bytes());
    }
    bytes.truncate(length);
    String::from_utf8(bytes).ok()
}
