//! Lines as words, each with its place.

use crate::Problem;
use alloc::format;
use alloc::string::String;
use alloc::vec::Vec;
use core::ops::Range;

/// A word, or a comma.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Token<'a> {
    /// The word.
    pub text: &'a str,
    /// The offset of its first byte in the whole text.
    pub start: usize,
}

impl Token<'_> {
    /// Returns the bytes that it takes in the whole text.
    pub fn span(&self) -> Range<usize> {
        self.start..self.start + self.text.len()
    }
}

/// The words of one line, taken one by one.
#[derive(Clone, Debug)]
pub struct Line<'a> {
    tokens: Vec<Token<'a>>,
    next: usize,
    /// The number of the line, from 1.
    pub number: u32,
}

impl<'a> Line<'a> {
    /// Divides a line that begins at `start` of the whole text. A `#` and what follows it is left
    /// out.
    ///
    /// # Errors
    ///
    /// If a character is in it that no rule has, or a carriage return other than at its end: what
    /// an editor shows as the next line would be part of a comment.
    pub fn new(line: &'a str, start: usize, number: u32) -> Result<Self, Problem> {
        let line = line.strip_suffix('\r').unwrap_or(line);
        if let Some(at) = line.find('\r') {
            let problem = Problem::new(start + at..start + at + 1, "a carriage return stands within a line");
            return Err(problem.help("end lines by a line feed, with or without a carriage return before it"));
        }
        let content = line.split_once('#').map_or(line, |(before, _)| before);
        let mut tokens = Vec::new();
        let mut word = None;
        let mut end_word = |word: &mut Option<usize>, end: usize| {
            if let Some((text, first)) = word.take().and_then(|first| Some((content.get(first..end)?, first))) {
                tokens.push(Token { text, start: start + first });
            }
        };
        for (at, character) in content.char_indices() {
            match character {
                ' ' | '\t' => end_word(&mut word, at),
                ',' | '=' => {
                    end_word(&mut word, at);
                    word = Some(at);
                    end_word(&mut word, at + 1);
                }
                '!'..='~' => _ = word.get_or_insert(at),
                other => {
                    let shown = other.escape_debug();
                    let problem =
                        Problem::new(start + at..start + at + other.len_utf8(), format!("`{shown}` is in no rule"));
                    return Err(problem.help("rules are of ASCII letters; what follows `#` may have any"));
                }
            }
        }
        end_word(&mut word, content.len());
        Ok(Self { tokens, next: 0, number })
    }

    /// Returns the next word, and leaves it there.
    pub fn peek(&self) -> Option<Token<'a>> {
        self.tokens.get(self.next).copied()
    }

    /// Takes the next word.
    pub fn take(&mut self) -> Option<Token<'a>> {
        let token = self.peek()?;
        self.next += 1;
        Some(token)
    }

    /// Takes the next word if it is `wanted`.
    pub fn take_if(&mut self, wanted: &str) -> Option<Token<'a>> {
        if self.peek()?.text == wanted { self.take() } else { None }
    }

    /// Returns the bytes of the whole line, from its first word to its last.
    pub fn span(&self) -> Range<usize> {
        let start = self.tokens.first().map_or(0, |token| token.start);
        start..self.tokens.last().map_or(start, |token| token.span().end)
    }

    /// Returns the bytes of the word that was taken last.
    pub fn last_span(&self) -> Range<usize> {
        self.next.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or(self.span(), Token::span)
    }

    /// Returns a problem about what is missing behind the word that was taken last, and `help`.
    pub fn missing(&self, what: &str, help: impl Into<String>) -> Problem {
        let last = self.next.checked_sub(1).and_then(|at| self.tokens.get(at)).map_or("", |token| token.text);
        Problem::new(self.last_span(), format!("after `{last}` {what} is missing")).help(help)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::vec::Vec;

    fn words(text: &str) -> Vec<(&str, usize)> {
        let mut line = Line::new(text, 100, 1).expect("a line");
        core::iter::from_fn(|| line.take()).map(|token| (token.text, token.start)).collect()
    }

    #[test]
    fn a_line_is_words_and_commas() {
        assert_eq!(
            words(" a=1,b ,\tc-d # e"),
            [("a", 101), ("=", 102), ("1", 103), (",", 104), ("b", 105), (",", 107), ("c-d", 109),]
        );
        assert_eq!(words("# änything\u{7}"), []);
        assert_eq!(words("x\r"), [("x", 100)]);
    }

    #[test]
    fn a_carriage_return_hides_no_line() {
        for text in ["allow tcp # web\rdeny", "allow tcp\rdeny", "x\r\r"] {
            let problem = Line::new(text, 10, 1).expect_err("it is within the line");
            assert_eq!(problem.span.start, 10 + text.find('\r').expect("it is there"), "{text:?}");
        }
    }

    #[test]
    fn a_character_of_no_rule_is_refused() {
        let problem = Line::new("a ä", 10, 1).expect_err("it is none of a rule's");
        assert_eq!((problem.span, problem.message.as_str()), (12..14, "`ä` is in no rule"));
        assert_eq!(Line::new("\u{0}", 0, 1).expect_err("no rule's").message, "`\\0` is in no rule");
    }
}
