//! Members of a JSON object (RFC 8259), as far as iperf3's parameters need it: numbers and truth
//! values. What else there is, is passed over, without recursion, however deep it is nested.

/// A member's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Value {
    /// A number: what is behind the point is left out, negative ones are 0, too large ones
    /// [`u64::MAX`].
    Number(u64),
    True,
    False,
    /// Text, an array, an object, or null.
    Other,
}

/// Gives each member of the object that is the whole of `text` to `each`: its name, as it is
/// written, and its value. Returns whether `text` is an object; of nested ones, and of arrays, only
/// the brackets and texts are looked at.
pub fn members<'a>(text: &'a [u8], mut each: impl FnMut(&'a [u8], Value)) -> bool {
    let mut reader = Reader { rest: text };
    reader.object(&mut each).is_some() && reader.next().is_none()
}

struct Reader<'a> {
    rest: &'a [u8],
}

impl<'a> Reader<'a> {
    /// The next byte that is no space, which stays.
    fn next(&mut self) -> Option<u8> {
        while let [b' ' | b'\t' | b'\n' | b'\r', rest @ ..] = self.rest {
            self.rest = rest;
        }
        self.rest.first().copied()
    }

    fn take(&mut self, byte: u8) -> Option<()> {
        (self.next()? == byte).then(|| self.rest = &self.rest[1..])
    }

    fn object(&mut self, each: &mut impl FnMut(&'a [u8], Value)) -> Option<()> {
        self.take(b'{')?;
        if self.next()? == b'}' {
            return self.take(b'}');
        }
        loop {
            let name = self.text()?;
            self.take(b':')?;
            each(name, self.value()?);
            if self.next()? == b'}' {
                return self.take(b'}');
            }
            self.take(b',')?;
        }
    }

    /// A text, without its quotation marks.
    fn text(&mut self) -> Option<&'a [u8]> {
        self.take(b'"')?;
        let all = self.rest;
        let mut at = 0;
        loop {
            match all.get(at)? {
                b'"' => break,
                b'\\' => at += 2,
                0..0x20 => return None,
                _ => at += 1,
            }
        }
        self.rest = &all[at + 1..];
        Some(&all[..at])
    }

    fn value(&mut self) -> Option<Value> {
        match self.next()? {
            b'"' => self.text().map(|_| Value::Other),
            b'{' | b'[' => self.nested().map(|()| Value::Other),
            _ => {
                let ends = |byte: &u8| matches!(byte, b',' | b'}' | b']' | b' ' | b'\t' | b'\n' | b'\r');
                let length = self.rest.iter().position(ends)?;
                let (word, rest) = self.rest.split_at(length);
                self.rest = rest;
                match word {
                    b"true" => Some(Value::True),
                    b"false" => Some(Value::False),
                    b"null" => Some(Value::Other),
                    _ => number(word).map(Value::Number),
                }
            }
        }
    }

    /// An array or an object.
    fn nested(&mut self) -> Option<()> {
        let mut depth = 0_usize;
        loop {
            match self.next()? {
                b'"' => {
                    self.text()?;
                    continue;
                }
                b'{' | b'[' => depth += 1,
                b'}' | b']' => depth -= 1,
                _ => {}
            }
            self.rest = &self.rest[1..];
            if depth == 0 {
                return Some(());
            }
        }
    }
}

/// Digits at the front, and what is behind them.
fn digits(text: &[u8]) -> (&[u8], &[u8]) {
    text.split_at(text.iter().position(|byte| !byte.is_ascii_digit()).unwrap_or(text.len()))
}

fn number(text: &[u8]) -> Option<u64> {
    let (is_negative, text) = match text {
        [b'-', rest @ ..] => (true, rest),
        _ => (false, text),
    };
    let (whole, rest) = digits(text);
    if whole.is_empty() || (whole[0] == b'0' && whole.len() > 1) {
        return None;
    }
    let (fraction, rest) = match rest {
        [b'.', rest @ ..] => Some(digits(rest)).filter(|(fraction, _)| !fraction.is_empty())?,
        _ => (&[][..], rest),
    };
    let exponent = match rest {
        [] => 0,
        [b'e' | b'E', rest @ ..] => exponent(rest)?,
        _ => return None,
    };
    if is_negative {
        return Some(0);
    }
    // Digits before the point once the exponent has moved it.
    let count = i64::try_from(whole.len()).ok()? + exponent;
    let mut all = whole.iter().chain(fraction);
    let mut value = 0_u64;
    let mut at = 0;
    while at < count {
        let digit = all.next();
        if digit.is_none() && value == 0 {
            break;
        }
        let digit = u64::from(digit.map_or(0, |digit| digit - b'0'));
        value = match value.checked_mul(10).and_then(|value| value.checked_add(digit)) {
            Some(value) => value,
            None => return Some(u64::MAX),
        };
        at += 1;
    }
    Some(value)
}

fn exponent(text: &[u8]) -> Option<i64> {
    let (sign, text) = match text {
        [b'-', rest @ ..] => (-1, rest),
        [b'+', rest @ ..] => (1, rest),
        _ => (1, text),
    };
    let is_number = !text.is_empty() && text.iter().all(u8::is_ascii_digit);
    // Where it has more digits, the number is 0 or too large in any case.
    let value = text.iter().take(9).fold(0, |value: i64, digit| value * 10 + i64::from(digit - b'0').clamp(0, 9));
    is_number.then_some(sign * value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::{Map, Number};

    fn read(text: &str) -> Option<Vec<(String, Value)>> {
        let mut found = Vec::new();
        let is_object = members(text.as_bytes(), |name, value| {
            found.push((String::from_utf8_lossy(name).into_owned(), value));
        });
        is_object.then_some(found)
    }

    fn value(text: &str) -> Option<Value> {
        read(&format!("{{\"it\": {text} }}")).map(|members| members[0].1)
    }

    #[test]
    fn values_are_told_apart() {
        for (text, expected) in [
            ("0", Value::Number(0)),
            ("131072", Value::Number(131_072)),
            ("1e+15", Value::Number(1_000_000_000_000_000)),
            ("1.5E3", Value::Number(1500)),
            ("12.9", Value::Number(12)),
            ("1250e-2", Value::Number(12)),
            ("0.004e3", Value::Number(4)),
            ("0e999999999", Value::Number(0)),
            ("-7", Value::Number(0)),
            ("18446744073709551615", Value::Number(u64::MAX)),
            ("18446744073709551616", Value::Number(u64::MAX)),
            ("1e999999999", Value::Number(u64::MAX)),
            ("1e-999999999", Value::Number(0)),
            ("true", Value::True),
            ("false", Value::False),
            ("null", Value::Other),
            (r#""a \" b""#, Value::Other),
            (r#"[1, {"a": "]"}, []]"#, Value::Other),
        ] {
            assert_eq!(value(text), Some(expected), "{text}");
        }
    }

    #[test]
    fn what_is_no_object_is_refused() {
        for text in [
            "",
            "{",
            "}",
            "[]",
            "{}x",
            "{\"a\"}",
            "{\"a\":}",
            "{\"a\":1",
            "{\"a\":1,}",
            "{\"a\":01}",
            "{\"a\":1.}",
            "{\"a\":1e}",
            "{\"a\":+1}",
            "{\"a\":tru}",
            "{\"a\":\"}",
            "{\"a\\",
            "{a:1}",
            "{\"a\":[}",
            "{\"a\n\":1}",
        ] {
            assert_eq!(read(text), None, "{text}");
        }
        assert_eq!(read(" { } ").map(|members| members.len()), Some(0));
        // However deep, it takes no more of the stack.
        assert_eq!(value(&format!("{}{}", "[".repeat(100_000), "]".repeat(100_000))), Some(Value::Other));
    }

    fn json() -> impl Strategy<Value = serde_json::Value> {
        use serde_json::Value;
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<u64>().prop_map(Value::from),
            any::<f64>().prop_map(|number| Number::from_f64(number).map_or(Value::Null, Value::Number)),
            "\\PC{0,8}".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map("[a-z\"\\\\]{0,4}", inner, 0..4)
                    .prop_map(|members| Value::Object(Map::from_iter(members))),
            ]
        })
    }

    proptest! {
        /// What serde writes is read as it was meant.
        #[test]
        fn objects_are_read(members in proptest::collection::btree_map("[a-z]{0,4}", json(), 0..6)) {
            let text = serde_json::to_string(&members).expect("it can be written");
            let expected: Vec<_> = members.iter().map(|(name, value)| {
                let value = match value {
                    serde_json::Value::Bool(true) => Value::True,
                    serde_json::Value::Bool(false) => Value::False,
                    // The conversion saturates, and truncates.
                    serde_json::Value::Number(number) => Value::Number(
                        number.as_u64().unwrap_or_else(|| number.as_f64().unwrap_or(0.0) as u64)),
                    _ => Value::Other,
                };
                (name.clone(), value)
            }).collect();
            let found = read(&text).expect("it is an object");
            prop_assert_eq!(found.len(), expected.len());
            for ((name, value), (expected_name, expected_value)) in found.iter().zip(&expected) {
                prop_assert_eq!(name, expected_name);
                match (value, expected_value) {
                    // The digits of a floating-point number say it only nearly.
                    (Value::Number(value), Value::Number(expected)) =>
                        prop_assert!(value.abs_diff(*expected) <= expected >> 50, "{} {}", value, expected),
                    (value, expected) => prop_assert_eq!(value, expected),
                }
            }
        }

        /// Whatever comes, it has an end, and what serde reads as an object is one.
        #[test]
        fn anything_is_survived(text in "[\\[\\]{}\":,0-9a-e\\\\ .+-]{0,40}") {
            if serde_json::from_str::<Map<String, serde_json::Value>>(&text).is_ok() {
                prop_assert!(members(text.as_bytes(), |_, _| ()));
            }
        }

        #[test]
        fn any_bytes_are_survived(text: Vec<u8>) {
            members(&text, |_, _| ());
        }
    }
}
