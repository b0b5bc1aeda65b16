//! How wide text is, roughly: nothing in a picture may depend on the fonts of the machine that
//! makes it.

/// Width of `text` in a sans-serif face of this size.
pub fn width(text: &str, size: f64) -> f64 {
    text.chars().map(|c| size * advance(c)).sum()
}

/// Width of `text` in the same face, bold.
pub fn bold_width(text: &str, size: f64) -> f64 {
    width(text, size) * 1.12
}

/// Advance of a character as a share of the size: classes of a usual sans-serif face, on the wide
/// side.
fn advance(c: char) -> f64 {
    match c {
        'i' | 'j' | 'l' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' => 0.30,
        'f' | 't' | 'r' | ' ' | '(' | ')' | '-' | '·' => 0.38,
        'm' | 'w' | 'M' | 'W' | '@' | '→' => 0.88,
        'A'..='Z' => 0.68,
        _ => 0.58,
    }
}

/// Text for the content of an element.
pub fn escape(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => out.push_str("&amp;"),
            '<' => out.push_str("&lt;"),
            '>' => out.push_str("&gt;"),
            '"' => out.push_str("&quot;"),
            c if c.is_control() => {}
            c => out.push(c),
        }
    }
    out
}
