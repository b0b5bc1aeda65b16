//! Values of the type `sha256`: hashes, as `sha256sum` writes them. Components get the text, whose
//! form is checked here.

use crate::problem::Problem;
use crate::reader::{Entry, Problems};

/// Hexadecimal digits of a hash.
const DIGITS: usize = 64;

/// Reads a hash of 64 hexadecimal digits.
pub fn read(entry: &Entry<'_>, problems: &mut Problems) -> Option<String> {
    let text = entry.text(problems)?;
    let Some(why) = mistake(&text.value) else { return Some(text.value) };
    problems.push(
        Problem::new(text.span, format!("`{}` is no SHA-256", entry.key.value))
            .help(format!("{why}: it has {DIGITS} hexadecimal digits, as sha256sum writes them")),
    );
    None
}

fn mistake(text: &str) -> Option<String> {
    match text.chars().find(|letter| !letter.is_ascii_hexdigit()) {
        Some(letter) => Some(format!("{letter:?} is no hexadecimal digit")),
        None if text.len() != DIGITS => Some(format!("this has {} digits", text.len())),
        None => None,
    }
}

#[cfg(test)]
mod tests {
    use super::mistake;

    #[test]
    fn hashes_and_what_is_none() {
        let hash = "0123456789abcdefABCDEF".repeat(3)[..64].to_string();
        assert_eq!(mistake(&hash), None);
        assert_eq!(mistake(&hash[1..]).as_deref(), Some("this has 63 digits"));
        assert_eq!(mistake("").as_deref(), Some("this has 0 digits"));
        assert_eq!(mistake(&hash.replacen('0', "é", 1)).as_deref(), Some("'é' is no hexadecimal digit"));
        assert_eq!(mistake(&format!("{hash}  -")).as_deref(), Some("' ' is no hexadecimal digit"));
    }
}
