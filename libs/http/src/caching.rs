//! Directives for caches for each file, by patterns of its path.
//!
//! A pattern without a slash is one of file names, like `*.css`; one that begins with a slash is
//! one of paths, like `/assets/*`. `*` stands for any bytes, slashes among them. Of several that
//! match, the longest decides.

use alloc::vec::Vec;

/// Patterns with the values of `Cache-Control` for the files that they match.
#[derive(Clone, Debug, Default)]
pub struct Caching<'a> {
    /// The longest pattern first.
    rules: Vec<(&'a str, &'a str)>,
}

/// The directive for all other files: caches may keep them, and ask each time whether they are
/// still the same.
pub const DEFAULT: &str = "no-cache";

impl<'a> Caching<'a> {
    /// Of these patterns and values.
    pub fn new(rules: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        let mut sorted: Vec<(&str, &str)> = Vec::new();
        // Each is put where it belongs: they are few, and a sort of the library's is much code.
        for rule in rules {
            let is_before = |(other, _): &(&str, &str)| (rule.0.len(), *other) <= (other.len(), rule.0);
            sorted.insert(sorted.partition_point(is_before), rule);
        }
        Self { rules: sorted }
    }

    /// The value for the file at `path`, which has no slash at its beginning.
    pub fn of(&self, path: &str) -> &'a str {
        self.rules.iter().find(|(pattern, _)| matches(pattern, path)).map_or(DEFAULT, |(_, value)| value)
    }

    /// The patterns that match no file of those given.
    pub fn unused(&self, files: impl Iterator<Item = &'a str> + Clone) -> impl Iterator<Item = &'a str> {
        self.rules
            .iter()
            .map(|(pattern, _)| *pattern)
            .filter(move |pattern| !files.clone().any(|path| matches(pattern, path)))
    }
}

fn matches(pattern: &str, path: &str) -> bool {
    match pattern.strip_prefix('/') {
        Some(pattern) => glob(pattern.as_bytes(), path.as_bytes()),
        None => glob(pattern.as_bytes(), path.rsplit('/').next().unwrap_or(path).as_bytes()),
    }
}

/// Whether all of `text` is matched. Only the last star is gone back to, so the work is at most
/// their lengths' product.
fn glob(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut read) = (0, 0);
    let mut star = None;
    while read < text.len() {
        match pattern.get(at) {
            Some(b'*') => {
                star = Some((at, read));
                at += 1;
            }
            Some(byte) if *byte == text[read] => {
                at += 1;
                read += 1;
            }
            _ => {
                let Some((star_at, taken)) = &mut star else { return false };
                *taken += 1;
                (at, read) = (*star_at + 1, *taken);
            }
        }
    }
    pattern[at..].iter().all(|byte| *byte == b'*')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, path, expected) in [
            ("index.html", "index.html", true),
            ("index.html", "docs/index.html", true),
            ("/index.html", "docs/index.html", false),
            ("/index.html", "index.html", true),
            ("*.css", "a/b/c.css", true),
            ("*.css", "a/b.css/c", false),
            ("*", "a/b", true),
            ("/*", "a/b", true),
            ("/assets/*", "assets/a/b.js", true),
            ("/assets/*", "assets", false),
            ("/assets/*.js", "assets/a/b.js", true),
            ("a*b*c", "abbbcbc", true),
            ("a*b*c", "abbbcb", false),
            ("*aab", "aaaaab", true),
            ("", "a", false),
        ] {
            assert_eq!(matches(pattern, path), expected, "{pattern} {path}");
        }
    }

    #[test]
    fn the_longest_pattern_decides() {
        let caching = Caching::new([("*.js", "a"), ("/assets/*", "b"), ("*", "c")].into_iter());
        assert_eq!(caching.of("x.js"), "a");
        assert_eq!(caching.of("assets/x.js"), "b");
        assert_eq!(caching.of("x"), "c");
        assert_eq!(Caching::default().of("x"), DEFAULT);
        assert!(caching.unused(["x", "y.js"].into_iter()).eq(["/assets/*"]));
    }
}
