//! What is typed: input for a console, and the keys by which the operator chooses among them.
//!
//! The keys begin with Ctrl-], as those of telnet and of the consoles of virtual machines do; few
//! programs use it. Nothing else that is typed is looked at, and nothing that a client sends is.

/// The key that begins a command: Ctrl-].
pub const ESCAPE: u8 = 0x1d;

/// What a key asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Key {
    /// A byte for the console in focus.
    Input(u8),
    /// The next console.
    Next,
    /// The previous console.
    Previous,
    /// The console of this number, from 1 on.
    Console(u8),
    /// No console: the log alone.
    Log,
    /// The list of consoles.
    List,
    /// A letter that the console in focus knows the meaning of, if it takes commands.
    Command(u8),
    /// Which keys there are; also where the operator pressed one that is none.
    Help,
}

/// Reads what is typed, byte by byte.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keys {
    /// The last byte began a command.
    escaped: bool,
}

impl Keys {
    /// Takes a byte; returns what it asks for, if it does not begin a command.
    pub fn feed(&mut self, byte: u8) -> Option<Key> {
        if !core::mem::take(&mut self.escaped) {
            self.escaped = byte == ESCAPE;
            return (!self.escaped).then_some(Key::Input(byte));
        }
        Some(match byte {
            ESCAPE => Key::Input(ESCAPE),
            b'n' => Key::Next,
            b'p' => Key::Previous,
            b'0' => Key::Log,
            b'1'..=b'9' => Key::Console(byte - b'0'),
            b'l' => Key::List,
            b'a'..=b'z' => Key::Command(byte),
            _ => Key::Help,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn keys(typed: &[u8]) -> Vec<Key> {
        let mut keys = Keys::default();
        typed.iter().filter_map(|byte| keys.feed(*byte)).collect()
    }

    #[test]
    fn keys_are_told_from_input() {
        assert_eq!(keys(b"a\x1dn\x1dp"), [Key::Input(b'a'), Key::Next, Key::Previous]);
        assert_eq!(keys(b"\x1d3\x1d0\x1dl"), [Key::Console(3), Key::Log, Key::List]);
        assert_eq!(keys(b"\x1da\x1dz"), [Key::Command(b'a'), Key::Command(b'z')]);
        assert_eq!(keys(b"\x1d?\x1d\r\x1dZ\x1d{"), [Key::Help; 4]);
        assert_eq!(keys(b"\x1d"), []);
    }

    #[test]
    fn the_key_itself_is_typed_twice() {
        assert_eq!(keys(b"\x1d\x1dn"), [Key::Input(ESCAPE), Key::Input(b'n')]);
    }

    proptest! {
        #[test]
        fn whatever_is_typed_arrives_if_the_key_itself_is_doubled(typed: Vec<u8>) {
            let doubled: Vec<u8> = typed.iter().flat_map(|&byte| {
                core::iter::repeat_n(byte, if byte == ESCAPE { 2 } else { 1 })
            }).collect();
            let input: Vec<Key> = typed.into_iter().map(Key::Input).collect();
            prop_assert_eq!(keys(&doubled), input);
        }
    }
}
