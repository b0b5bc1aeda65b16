//! Tells what is wrong with what this component serves, in words that observers read without its
//! help, as they read its counters: a disk without a file system, a card that is not there.
//!
//! It stands in the page of counters, so only components that have some can tell. A restart clears
//! it: the next life says again what is wrong.

use crate::counters::page;
use core::fmt::{self, Write};
use core::sync::atomic::Ordering::{Acquire, Relaxed, Release};
use core::sync::atomic::fence;
use culm_abi::connection::{Counters, TROUBLE_WORDS, Trouble};

/// Bytes of a text; of a longer one the beginning is shown.
pub const LENGTH: usize = TROUBLE_WORDS * 8;

/// Says what is wrong from now on, in place of what was said before, and logs it as an error.
pub fn tell(words: fmt::Arguments<'_>) {
    crate::error!("{words}");
    show(words);
}

/// Says what is wrong from now on, without a line in the log.
pub fn show(words: fmt::Arguments<'_>) {
    let mut text = Text { bytes: [0; LENGTH], length: 0 };
    // A text that is too long ends with an error, after the part that fits.
    let _ = text.write_fmt(words);
    write(&page().trouble, &text.bytes);
}

/// Says that nothing is wrong any more.
pub fn clear() {
    write(&page().trouble, &[0; LENGTH]);
}

/// Reads what another component says is wrong: `""` if nothing is, `None` if it changes just now.
/// The text is the other's: it can have any characters.
pub fn read<'t>(counters: &Counters, text: &'t mut [u8; LENGTH]) -> Option<&'t str> {
    let trouble = &counters.trouble;
    // Acquire: the words are read after the count, and before it is read again.
    let changes = trouble.changes.load(Acquire);
    for (bytes, word) in text.as_chunks_mut::<8>().0.iter_mut().zip(&trouble.text) {
        *bytes = word.load(Relaxed).to_le_bytes();
    }
    fence(Acquire);
    if changes % 2 == 1 || trouble.changes.load(Relaxed) != changes {
        return None;
    }
    let length = text.iter().position(|byte| *byte == 0).unwrap_or(LENGTH);
    let valid = core::str::from_utf8(&text[..length]).map_or_else(|error| error.valid_up_to(), str::len);
    core::str::from_utf8(&text[..valid]).ok()
}

/// Writes a text, which an earlier life may have died in the middle of.
fn write(trouble: &Trouble, text: &[u8; LENGTH]) {
    let changing = trouble.changes.load(Relaxed) | 1;
    trouble.changes.store(changing, Relaxed);
    // Release: no word is written before the count says so.
    fence(Release);
    for (word, bytes) in trouble.text.iter().zip(text.as_chunks::<8>().0) {
        word.store(u64::from_le_bytes(*bytes), Relaxed);
    }
    trouble.changes.store(changing.wrapping_add(1), Release);
}

/// Text that is cut off where there is no more room, at the end of a character.
struct Text {
    bytes: [u8; LENGTH],
    length: usize,
}

impl Write for Text {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        let fits = text.get(..text.floor_char_boundary(LENGTH - self.length)).unwrap_or_default();
        self.bytes[self.length..self.length + fits.len()].copy_from_slice(fits.as_bytes());
        self.length += fits.len();
        if fits.len() == text.len() { Ok(()) } else { Err(fmt::Error) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::counters::set_page;
    use core::sync::atomic::AtomicBool;

    fn counters() -> &'static Counters {
        Box::leak(Box::new(Counters::new()))
    }

    #[test]
    fn an_observer_reads_what_is_wrong_until_it_is_over() {
        let (counters, mut text) = (counters(), [0; LENGTH]);
        set_page(Some(counters));
        assert_eq!(read(counters, &mut text), Some(""));
        tell(format_args!("there is no {}", "card"));
        assert_eq!(read(counters, &mut text), Some("there is no card"));
        assert!(crate::testing::take_log().contains("there is no card"));
        show(format_args!("{}", "ä".repeat(LENGTH)));
        assert_eq!(read(counters, &mut text), Some("ä".repeat(LENGTH / 2).as_str()));
        clear();
        assert_eq!(read(counters, &mut text), Some(""));
        assert_eq!(crate::testing::take_log(), "");
    }

    #[test]
    fn a_text_that_changes_is_not_read_and_a_dead_writer_is_no_end() {
        let (counters, mut text) = (counters(), [0; LENGTH]);
        set_page(Some(counters));
        counters.trouble.changes.store(7, Relaxed);
        counters.trouble.text[0].store(u64::MAX, Relaxed);
        assert_eq!(read(counters, &mut text), None);
        counters.trouble.changes.store(8, Relaxed);
        assert_eq!(read(counters, &mut text), Some(""), "it is no text");
        counters.trouble.changes.store(7, Relaxed);
        clear();
        assert_eq!(read(counters, &mut text), Some(""));
    }

    #[test]
    fn no_half_of_a_text_is_read_while_another_is_written() {
        let (counters, done) = (counters(), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                for round in 0..20_000 {
                    write(&counters.trouble, &[b'a' + (round % 2) as u8; LENGTH]);
                }
                done.store(true, Relaxed);
            });
            let mut text = [0; LENGTH];
            while !done.load(Relaxed) {
                if let Some(text) = read(counters, &mut text).filter(|text| !text.is_empty()) {
                    assert!(text.bytes().all(|byte| byte == text.as_bytes()[0]), "{text}");
                }
            }
        });
    }
}
