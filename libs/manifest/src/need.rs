//! How much memory a component needs at least: a size, or one that is counted from its
//! configuration, like `"1MiB + connections * (send_buffer + 12KiB)"`.
//!
//! Counted are sizes, whole numbers and fields of the configuration, with `+`, `*` and parentheses.

use crate::problem::{Located, Problem};
use crate::units::parse_size;
use core::ops::Range;

/// How deep parentheses may be within each other.
const MAX_DEPTH: usize = 8;

/// Least memory of a component.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Need {
    text: String,
    sum: Sum,
}

/// Products that are added.
type Sum = Vec<Product>;

/// Factors that are multiplied.
type Product = Vec<Factor>;

#[derive(Clone, Debug, PartialEq, Eq)]
enum Factor {
    Number(u64),
    Field(Located<String>),
    Sum(Sum),
}

impl Need {
    /// A size that depends on nothing.
    pub fn of(bytes: u64) -> Self {
        Self { text: bytes.to_string(), sum: vec![vec![Factor::Number(bytes)]] }
    }

    /// Reads a need that is written as text.
    pub fn parse(text: &Located<String>) -> Result<Self, Problem> {
        // Text without escapes, as all that is right here, stands between quotation marks of one
        // byte.
        let start = if text.span.len() == text.value.len() + 2 { text.span.start + 1 } else { text.span.start };
        let mut parser = Parser { text: &text.value, at: 0, start, depth: 0 };
        let sum = parser.sum()?;
        parser.skip_space();
        if parser.at < text.value.len() {
            return Err(parser.problem("`+`, `*` or the end"));
        }
        Ok(Self { text: text.value.clone(), sum })
    }

    /// The bytes, where fields of the configuration have these values.
    pub fn bytes(&self, value_of: impl Fn(&str) -> u64) -> u64 {
        u64::try_from(bytes(&self.sum, &value_of)).unwrap_or(u64::MAX)
    }

    /// The fields that it is counted from, in their order.
    pub fn fields(&self) -> Vec<&Located<String>> {
        let mut fields = Vec::new();
        collect(&self.sum, &mut fields);
        fields
    }
}

impl core::fmt::Display for Need {
    fn fmt(&self, formatter: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        formatter.write_str(&self.text)
    }
}

/// Returns the bytes; as many as there can be if they do not fit.
fn bytes(sum: &Sum, value_of: &impl Fn(&str) -> u64) -> u128 {
    let factor = |factor: &Factor| match factor {
        Factor::Number(number) => u128::from(*number),
        Factor::Field(name) => u128::from(value_of(name)),
        Factor::Sum(sum) => bytes(sum, value_of),
    };
    let product = |product: &Product| product.iter().map(factor).fold(1, u128::saturating_mul);
    sum.iter().map(product).fold(0, u128::saturating_add)
}

fn collect<'n>(sum: &'n Sum, fields: &mut Vec<&'n Located<String>>) {
    for factor in sum.iter().flatten() {
        match factor {
            Factor::Number(_) => {}
            Factor::Field(name) => fields.push(name),
            Factor::Sum(sum) => collect(sum, fields),
        }
    }
}

/// Reads from left to right.
struct Parser<'t> {
    text: &'t str,
    at: usize,
    /// Where the text stands in its file.
    start: usize,
    depth: usize,
}

impl Parser<'_> {
    fn sum(&mut self) -> Result<Sum, Problem> {
        let mut sum = vec![self.product()?];
        while self.take('+') {
            sum.push(self.product()?);
        }
        Ok(sum)
    }

    fn product(&mut self) -> Result<Product, Problem> {
        let mut product = vec![self.factor()?];
        while self.take('*') {
            product.push(self.factor()?);
        }
        Ok(product)
    }

    fn factor(&mut self) -> Result<Factor, Problem> {
        if self.take('(') {
            self.depth += 1;
            if self.depth > MAX_DEPTH {
                return Err(self.problem("less deep parentheses"));
            }
            let sum = self.sum()?;
            if !self.take(')') {
                return Err(self.problem("`)`"));
            }
            self.depth -= 1;
            return Ok(Factor::Sum(sum));
        }
        self.skip_space();
        let rest = &self.text[self.at..];
        let is_of_word = |character: char| character.is_ascii_alphanumeric() || character == '_';
        let length = rest.find(|character| !is_of_word(character)).unwrap_or(rest.len());
        let word = &rest[..length];
        let span = self.start + self.at..self.start + self.at + length;
        let factor = match word.chars().next() {
            Some('0'..='9') => word.parse().ok().or_else(|| parse_size(word)).map(Factor::Number),
            Some('a'..='z') => Some(Factor::Field(Located::new(word.to_string(), span))),
            _ => None,
        };
        let factor =
            factor.ok_or_else(|| self.problem("a size such as 12KiB, a number, or a field of `[[config]]`"))?;
        self.at += length;
        Ok(factor)
    }

    fn skip_space(&mut self) {
        let rest = &self.text[self.at..];
        self.at += rest.len() - rest.trim_start().len();
    }

    /// Whether the next character is this one, which is taken then.
    fn take(&mut self, character: char) -> bool {
        self.skip_space();
        let found = self.text[self.at..].starts_with(character);
        self.at += if found { character.len_utf8() } else { 0 };
        found
    }

    fn problem(&self, expected: &str) -> Problem {
        let place: Range<usize> = self.start + self.at..self.start + self.at + 1;
        Problem::new(place, format!("expected {expected} here"))
            .help("write it like \"1MiB + connections * (send_buffer + 12KiB)\"")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(text: &str) -> Result<Need, Problem> {
        Need::parse(&Located::new(text.to_string(), 10..text.len() + 12))
    }

    #[test]
    fn needs_are_counted() {
        let values = |name: &str| match name {
            "clients" => 320,
            "buffer" => 64 << 10,
            _ => panic!("{name}"),
        };
        for (text, bytes) in [
            ("4KiB", 4096),
            (" 1MiB+clients*(buffer + 8KiB) ", (1 << 20) + 320 * (72 << 10)),
            ("2 * clients * 3", 1920),
            ("clients + 1 * 2", 322),
            ("(((clients)))", 320),
            ("buffer * buffer * buffer * buffer * buffer", u64::MAX),
        ] {
            assert_eq!(parse(text).map(|need| need.bytes(values)), Ok(bytes), "{text}");
        }
        let need = parse("1MiB + clients * (buffer + clients)").expect("it is one");
        let names: Vec<&str> = need.fields().iter().map(|name| name.as_str()).collect();
        assert_eq!(names, ["clients", "buffer", "clients"]);
        assert_eq!(need.fields()[0].span, 18..25, "behind the quotation mark");
        assert_eq!(Need::of(5).bytes(values), 5);
    }

    #[test]
    fn what_is_no_need_is_refused_where_it_stands() {
        let deep = "(".repeat(100_000);
        for (text, at, expected) in [
            ("", 11, "a size such as"),
            ("1MiB +", 17, "a size such as"),
            ("1MiB clients", 16, "`+`, `*` or the end"),
            ("(1MiB", 16, "`)`"),
            ("1MB", 11, "a size such as"),
            ("1MiB - 5", 16, "`+`, `*`"),
            ("ü", 11, "a size such as"),
            (&deep, 20, "less deep"),
        ] {
            let problem = parse(text).expect_err(text);
            assert!(problem.message.contains(expected), "{text}: {}", problem.message);
            assert_eq!(problem.span.start, at, "{text}");
        }
    }
}
