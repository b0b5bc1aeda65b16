//! Values of the type `sha256`: hashes, as `sha256sum` writes them. Components get the text, whose
//! form is checked here.

use crate::problem::Problem;
use crate::reader::{Entry, Problems};

/// Hexadecimal digits of a hash.
const DIGITS: usize = 64;

/// Hashes of what examples hash, or nothing by mistake, and what that is. Whoever guards something
/// by one of them leaves it open.
const OF_EXAMPLES: &[(&str, &str)] = &[
    ("e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855", "nothing"),
    ("01ba4719c80b6fe911b091a7c05124b64eeece964e09c058ef8f9805daca546b", "an empty line"),
    ("9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08", "`test`"),
    ("f2ca1bb6c7e907d06dafe4687e579fce76b37e4e93b7605022da52e6ccc26fd2", "the line `test`"),
];

/// Reads a hash of 64 hexadecimal digits.
pub fn read(entry: &Entry<'_>, problems: &mut Problems) -> Option<String> {
    let text = entry.text(problems)?;
    let (message, help) = if let Some(why) = mistake(&text.value) {
        let help = format!("{why}: it has {DIGITS} hexadecimal digits, as sha256sum writes them");
        (format!("`{}` is no SHA-256", entry.key.value), help)
    } else if let Some(what) = of_example(&text.value) {
        let help =
            "choose one that nobody guesses: `openssl rand -hex 24` makes it, `printf %s IT | sha256sum` hashes it";
        (format!("`{}` is the SHA-256 of {what}, as anybody can see", entry.key.value), help.to_string())
    } else {
        return Some(text.value);
    };
    problems.push(Problem::new(text.span, message).help(help));
    None
}

fn of_example(hash: &str) -> Option<&'static str> {
    let found = OF_EXAMPLES.iter().find(|(example, _)| example.eq_ignore_ascii_case(hash));
    found.map(|(_, what)| *what)
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
    use super::{mistake, of_example};

    #[test]
    fn hashes_that_anybody_knows() {
        let test = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";
        assert_eq!(of_example(test), Some("`test`"));
        assert_eq!(of_example(&test.to_uppercase()), Some("`test`"));
        assert_eq!(of_example(&test.replace('9', "8")), None);
    }

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
