//! Sizes, durations and hardware addresses as people write them.

/// Units of size, largest first.
const SIZES: [(&str, u64); 4] = [("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10), ("B", 1)];

/// Units of time in nanoseconds, largest first. (`µs` is accepted, `us` is printed.)
const DURATIONS: [(&str, u64); 5] = [("s", 1_000_000_000), ("ms", 1_000_000), ("us", 1_000), ("µs", 1_000), ("ns", 1)];

/// The form of a size, for messages.
pub const SIZE_FORM: &str =
    "write a size as a count of bytes or as text with a unit, for example \"64KiB\" or \"4MiB\"";

/// The form of a duration, for messages.
pub const DURATION_FORM: &str = "write a duration as text with a unit (s, ms, us or ns), for example \"10ms\"";

/// The form of a hardware address, for messages.
pub const MAC_FORM: &str =
    "write a hardware address as six pairs of hexadecimal digits, for example \"52:54:00:12:34:56\"";

/// Returns the advice for text that is no size.
pub fn size_advice(text: &str) -> String {
    if text.trim_start().starts_with('-') {
        return "a size is not negative".to_string();
    }
    let Some((number, unit)) = split_amount(text) else { return SIZE_FORM.to_string() };
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" => return format!("add a unit: \"{number}KiB\", \"{number}MiB\"; a count of bytes has no quotation marks"),
        "b" | "byte" | "bytes" => "B",
        "k" | "kb" | "kib" => "KiB",
        "m" | "mb" | "mib" => "MiB",
        "g" | "gb" | "gib" => "GiB",
        _ => return SIZE_FORM.to_string(),
    };
    amount_advice(text, number, unit, &SIZES).unwrap_or_else(|| SIZE_FORM.to_string())
}

/// Returns the advice for text that is no duration.
pub fn duration_advice(text: &str) -> String {
    if text.trim_start().starts_with('-') {
        return "a duration is not negative".to_string();
    }
    let Some((number, unit)) = split_amount(text) else { return DURATION_FORM.to_string() };
    let unit = match unit.to_ascii_lowercase().as_str() {
        "" => return format!("add a unit: \"{number}ms\", \"{number}us\""),
        "s" | "sec" | "secs" | "second" | "seconds" => "s",
        "ms" | "msec" | "millisecond" | "milliseconds" => "ms",
        "us" | "µs" | "usec" | "microsecond" | "microseconds" => "us",
        "ns" | "nsec" | "nanosecond" | "nanoseconds" => "ns",
        "m" | "min" | "mins" | "minute" | "minutes" => return in_seconds(number, 60),
        "h" | "hour" | "hours" => return in_seconds(number, 3600),
        _ => return DURATION_FORM.to_string(),
    };
    amount_advice(text, number, unit, &DURATIONS).unwrap_or_else(|| DURATION_FORM.to_string())
}

/// Returns the advice for text that is no hardware address.
pub fn mac_advice(text: &str) -> String {
    let digits: String = text.chars().filter(char::is_ascii_hexdigit).collect();
    let is_other_form = digits.len() == 12 && text.chars().all(|c| c.is_ascii_hexdigit() || ":-. ".contains(c));
    if !is_other_form {
        return MAC_FORM.to_string();
    }
    let pairs: Vec<&str> = (0..6).map(|pair| &digits[pair * 2..pair * 2 + 2]).collect();
    format!("write \"{}\"", pairs.join(":"))
}

/// The digits that text begins with, and what follows them.
fn split_amount(text: &str) -> Option<(&str, &str)> {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && !"_.".contains(c)).unwrap_or(text.len());
    let (number, unit) = text.split_at(end);
    number.starts_with(|c: char| c.is_ascii_digit()).then(|| (number, unit.trim()))
}

/// The amount as it should be written; a fraction in the next smaller unit.
fn amount_advice(text: &str, number: &str, unit: &str, units: &[(&str, u64)]) -> Option<String> {
    let factor = units.iter().find(|(name, _)| *name == unit)?.1;
    if !number.contains('.') {
        let whole: u64 = number.replace('_', "").parse().ok()?;
        let written = format!("{whole}{unit}");
        return match whole.checked_mul(factor) {
            None => Some("it is more than 64 bits hold".to_string()),
            Some(_) if written == text => None,
            Some(_) => Some(format!("did you mean \"{written}\"?")),
        };
    }
    // Exact enough for advice, and no surprise: what is not whole in any smaller unit gets none.
    let value = number.parse::<f64>().ok()? * factor as f64;
    let exact = value.fract() == 0.0 && (1.0..9e15).contains(&value);
    exact.then(|| format!("a fraction has a smaller unit: \"{}\"", format_with_unit(value as u64, units, "0")))
}

fn in_seconds(number: &str, factor: u64) -> String {
    match number.parse::<u64>().ok().and_then(|number| number.checked_mul(factor)) {
        Some(seconds) => format!("the longest unit is the second: \"{seconds}s\""),
        None => DURATION_FORM.to_string(),
    }
}

/// Reads a size such as `64KiB`.
pub fn parse_size(text: &str) -> Option<u64> {
    parse_with_unit(text, &SIZES)
}

/// Reads a duration such as `10ms`, in nanoseconds.
pub fn parse_duration(text: &str) -> Option<u64> {
    parse_with_unit(text, &DURATIONS)
}

/// Reads a hardware address such as `52:54:00:12:34:56`.
pub fn parse_mac(text: &str) -> Option<[u8; 6]> {
    let mut mac = [0; 6];
    let mut parts = text.split(':');
    for byte in &mut mac {
        let part = parts.next()?;
        if part.len() != 2 || !part.bytes().all(|c| c.is_ascii_hexdigit()) {
            return None;
        }
        *byte = u8::from_str_radix(part, 16).ok()?;
    }
    parts.next().is_none().then_some(mac)
}

/// Writes a size with the largest unit that divides it.
pub fn format_size(bytes: u64) -> String {
    format_with_unit(bytes, &SIZES, "0")
}

/// Writes a duration, given in nanoseconds, with the largest unit that divides it.
pub fn format_duration(nanoseconds: u64) -> String {
    format_with_unit(nanoseconds, &DURATIONS, "0s")
}

/// Writes a hardware address.
pub fn format_mac(mac: [u8; 6]) -> String {
    mac.map(|byte| format!("{byte:02x}")).join(":")
}

fn parse_with_unit(text: &str, units: &[(&str, u64)]) -> Option<u64> {
    let digits = text.find(|c: char| !c.is_ascii_digit() && c != '_').unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let number: u64 = number.replace('_', "").parse().ok()?;
    let (_, factor) = units.iter().find(|(name, _)| *name == unit.trim_start())?;
    number.checked_mul(*factor)
}

fn format_with_unit(value: u64, units: &[(&str, u64)], zero: &str) -> String {
    if value == 0 {
        return zero.to_string();
    }
    units
        .iter()
        .find(|(_, factor)| value.is_multiple_of(*factor))
        .map_or_else(|| value.to_string(), |(name, factor)| format!("{}{name}", value / factor))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        assert_eq!(parse_size("64KiB"), Some(65536));
        assert_eq!(parse_size("4 MiB"), Some(4 << 20));
        assert_eq!(parse_size("12B"), Some(12));
        for wrong in ["64", "64kb", "KiB", "", "-1KiB", "99999999999GiB"] {
            assert_eq!(parse_size(wrong), None, "{wrong}");
        }
        assert_eq!(format_size(0x60_0000), "6MiB");
        assert_eq!(format_size(4097), "4097B");
    }

    #[test]
    fn durations() {
        assert_eq!(parse_duration("10ms"), Some(10_000_000));
        assert_eq!(parse_duration("50us"), parse_duration("50µs"));
        assert_eq!(parse_duration("10"), None);
        assert_eq!(parse_duration("10min"), None);
        assert_eq!(format_duration(1_500_000_000), "1500ms");
        assert_eq!(format_duration(0), "0s");
    }

    #[test]
    fn slips_get_what_was_meant() {
        for (text, advice) in [
            ("64kb", "did you mean \"64KiB\"?"),
            ("64 M", "did you mean \"64MiB\"?"),
            ("1.5MiB", "a fraction has a smaller unit: \"1536KiB\""),
            ("99999999999GiB", "it is more than 64 bits hold"),
            ("64", "add a unit: \"64KiB\", \"64MiB\"; a count of bytes has no quotation marks"),
            ("-64KiB", "a size is not negative"),
            ("much", SIZE_FORM),
        ] {
            assert_eq!(size_advice(text), advice, "{text}");
        }
        for (text, advice) in [
            ("10sec", "did you mean \"10s\"?"),
            ("5min", "the longest unit is the second: \"300s\""),
            ("0.5s", "a fraction has a smaller unit: \"500ms\""),
            ("10", "add a unit: \"10ms\", \"10us\""),
            ("soon", DURATION_FORM),
        ] {
            assert_eq!(duration_advice(text), advice, "{text}");
        }
        assert_eq!(mac_advice("52-54-00-12-34-5F"), "write \"52:54:00:12:34:5F\"");
        assert_eq!(mac_advice("5254.0012.345f"), "write \"52:54:00:12:34:5f\"");
        assert_eq!(mac_advice("52:54"), MAC_FORM);
    }

    #[test]
    fn addresses() {
        assert_eq!(parse_mac("52:54:00:12:34:5F"), Some([0x52, 0x54, 0, 0x12, 0x34, 0x5f]));
        for wrong in ["52:54:00:12:34", "52:54:00:12:34:56:78", "5:54:00:12:34:56", "52:54:00:12:34:+6", ""] {
            assert_eq!(parse_mac(wrong), None, "{wrong}");
        }
        assert_eq!(format_mac([0x52, 0x54, 0, 0x12, 0x34, 0x5f]), "52:54:00:12:34:5f");
    }
}
