//! The keys that end a run whose console takes what is typed: Ctrl-C is the console's there, as any
//! other key is.

/// Ctrl-], which begins a command of the operator's.
const COMMAND: u8 = 0x1d;

/// The key behind it that ends the run. The virtualiser of the port knows the others.
const END: u8 = b'q';

/// Follows what is typed, in whatever pieces it comes.
#[derive(Clone, Copy, Debug, Default)]
pub struct Keys {
    /// A command has begun.
    is_command: bool,
}

impl Keys {
    /// Takes the next bytes; returns whether the run is to end.
    pub fn ask_for_end(&mut self, bytes: &[u8]) -> bool {
        bytes.iter().any(|&byte| {
            // Ctrl-] twice types it, and begins no command.
            let was_command = self.is_command;
            self.is_command = byte == COMMAND && !was_command;
            was_command && byte == END
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn asks(pieces: &[&[u8]]) -> bool {
        let mut keys = Keys::default();
        pieces.iter().any(|piece| keys.ask_for_end(piece))
    }

    #[test]
    fn only_the_command_ends_the_run() {
        for pieces in
            [&[b"\x1dq".as_slice()], &[b"ab\x1d", b"q"], &[b"\x1dn", b"", b"\x1d", b"", b"q"]] as [&[&[u8]]; 3]
        {
            assert!(asks(pieces), "{pieces:?}");
        }
        for pieces in
            [&[b"q\x03\x1d".as_slice()], &[b"\x1d\x1dq"], &[b"\x1d", b"\x1d", b"q"], &[b"\x1dnq"]] as [&[&[u8]]; 4]
        {
            assert!(!asks(pieces), "{pieces:?}");
        }
    }
}
