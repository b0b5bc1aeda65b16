//! The greeter's words, which know nothing of networks.

use alloc::format;
use alloc::string::String;

/// The longest name that it greets, in bytes.
pub const LONGEST_NAME: usize = 40;

/// Returns the answer to what was received so far; none while the line is not complete.
pub fn answer(greeting: &str, received: &[u8]) -> Option<String> {
    let Some(end) = received.iter().position(|byte| *byte == b'\n') else {
        return (received.len() > LONGEST_NAME).then(|| String::from("That is too long for me. Goodbye!\n"));
    };
    let name = core::str::from_utf8(&received[..end]).unwrap_or_default().trim();
    let name = if name.is_empty() { "stranger" } else { name };
    Some(format!("{greeting}, {name}!\n"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn greets_by_name() {
        assert_eq!(answer("Hello", b"Ada\r\n").as_deref(), Some("Hello, Ada!\n"));
        assert_eq!(answer("Hello", b"\n").as_deref(), Some("Hello, stranger!\n"));
        assert_eq!(answer("Hello", b"\xff\n").as_deref(), Some("Hello, stranger!\n"));
    }

    #[test]
    fn waits_for_the_end_of_a_line_that_is_not_too_long() {
        assert_eq!(answer("Hello", b"Ad"), None);
        assert!(answer("Hello", &[b'a'; LONGEST_NAME + 1]).is_some());
    }
}
