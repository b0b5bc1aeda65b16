//! What is left of a client's bytes where they must do nothing to the terminal: text.

/// Where the reader of a terminal's control sequences (ECMA-48, §5.3 to §5.6) is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// In text.
    Text,
    /// Behind ESC.
    Escape,
    /// In a control sequence, which a letter ends.
    Control,
    /// In a control string, which ST or BEL ends.
    String,
}

/// Takes control sequences out of what a console has sent, byte by byte.
#[derive(Clone, Copy, Debug)]
pub struct Sequences(State);

impl Sequences {
    /// At the beginning of a line.
    pub const NONE: Self = Self(State::Text);

    /// Takes a byte; returns whether it is text.
    pub fn is_text(&mut self, byte: u8) -> bool {
        const ESC: u8 = 0x1b;
        const BEL: u8 = 0x07;
        self.0 = match (self.0, byte) {
            (State::String, BEL) => State::Text,
            (_, ESC) => State::Escape,
            (State::Text, _) => return true,
            (State::String, _) => State::String,
            (State::Escape, b'[') => State::Control,
            (State::Escape, b']' | b'P' | b'X' | b'^' | b'_') => State::String,
            // Intermediate bytes of an escape sequence, such as of those that choose characters.
            (State::Escape, 0x20..=0x2f) => State::Escape,
            (State::Control, 0x20..=0x3f) => State::Control,
            (State::Escape | State::Control, 0x30..=0x7e) => State::Text,
            // None of a sequence: terminals go on with it, or give the sequence up.
            (State::Escape | State::Control, _) => {
                self.0 = State::Text;
                return true;
            }
        };
        false
    }
}

/// Hands `add` the text in pieces: characters that do something to the terminal, or that have
/// readers see others in another order (Unicode Standard Annex #9), as spaces, and what is no UTF-8
/// as question marks.
pub fn printable(text: &[u8], mut add: impl FnMut(&[u8])) {
    for chunk in text.utf8_chunks() {
        for character in chunk.valid().chars() {
            match character {
                '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' => add(b" "),
                _ if character.is_control() => add(b" "),
                _ => add(character.encode_utf8(&mut [0; 4]).as_bytes()),
            }
        }
        if !chunk.invalid().is_empty() {
            add(b"?");
        }
    }
}

/// Whether a byte may begin something that a terminal takes for no text: ESC, or one of the codes
/// above ASCII by which some terminals know the same (ECMA-48 §5.3), in UTF-8 too.
pub fn is_suspect(byte: u8) -> bool {
    byte == 0x1b || byte == 0x0e || (0x80..=0x9f).contains(&byte)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn text(bytes: &[u8]) -> Vec<u8> {
        let mut sequences = Sequences::NONE;
        bytes.iter().copied().filter(|byte| sequences.is_text(*byte)).collect()
    }

    fn printed(bytes: &[u8]) -> String {
        let mut all = Vec::new();
        printable(bytes, |piece| all.extend_from_slice(piece));
        String::from_utf8(all).expect("what is printed is UTF-8")
    }

    #[test]
    fn colours_and_movements_are_no_text() {
        assert_eq!(text(b"\x1b[1;31mred\x1b[0m \x1b[6n\x1b[?25lx"), b"red x");
        assert_eq!(text(b"\x1b]0;title\x07a\x1bP1$r\x1b\\b\x1b(Bc\x1bMd"), b"abcd");
        assert_eq!(text(b"\x1b[12\nz"), b"\nz", "a sequence that breaks off hides nothing that follows");
    }

    #[test]
    fn what_does_something_is_printed_as_a_space() {
        assert_eq!(printed("a\r\x07\u{9b}2J\u{202e}b \u{e4}".as_bytes()), "a   2J b \u{e4}");
        assert_eq!(printed(b"\x9b2J\xffx"), "?2J?x");
    }

    proptest! {
        #[test]
        fn nothing_that_is_printed_is_a_control_character(bytes: Vec<u8>) {
            let printed = printed(&bytes);
            prop_assert!(printed.len() <= 3 * bytes.len());
            prop_assert!(!printed.chars().any(char::is_control), "{printed:?}");
        }

        #[test]
        fn text_without_sequences_stays(bytes: String) {
            prop_assume!(!bytes.contains('\u{1b}'));
            prop_assert_eq!(text(bytes.as_bytes()), bytes.as_bytes());
        }
    }
}
