//! Numbers in headers, as the llm-d Router reads them.

/// Reads a number as Go's `strconv.ParseFloat` does: decimal or hexadecimal (`0x1p4`), with `_` between digits, `inf`,
/// `infinity` and `nan` in any case. `None` = not a number, or one beyond the largest double.
pub(crate) fn parse(text: &str) -> Option<f64> {
    let bare = text.strip_prefix(['+', '-']).unwrap_or(text);
    if !underscores_separate_digits(text) || bare.starts_with(['+', '-']) {
        return None;
    }
    let named = ["inf", "infinity", "nan"].iter().any(|name| bare.eq_ignore_ascii_case(name));
    let digits: String = bare.chars().filter(|c| *c != '_').collect();
    let magnitude = match digits.get(..2) {
        Some("0x" | "0X") => hexadecimal(&digits[2..])?,
        // Rust reads decimal numbers alike, and no others once these are ruled out.
        _ => digits.parse().ok()?,
    };
    if magnitude.is_infinite() && !named {
        return None;
    }
    Some(if text.starts_with('-') { -magnitude } else { magnitude })
}

/// Reads `1.8p4`: hexadecimal digits with an optional point, then a binary exponent, which must be there.
fn hexadecimal(text: &str) -> Option<f64> {
    let (mantissa, exponent) = text.split_once(['p', 'P'])?;
    let exponent: i32 = exponent.parse().ok().filter(|e: &i32| e.abs() < 10_000)?;
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let digits = [whole, fraction].concat();
    // Sixteen hexadecimal digits are more than a double holds; longer ones are not worth their rounding.
    if digits.is_empty() || digits.len() > 16 || !digits.bytes().all(|b| b.is_ascii_hexdigit()) {
        return None;
    }
    let value = u64::from_str_radix(&digits, 16).ok()? as f64;
    Some(libm::scalbn(value, exponent - 4 * fraction.len() as i32))
}

/// Returns whether every `_` stands between two digits, or behind the prefix of the base.
fn underscores_separate_digits(text: &str) -> bool {
    let mut text = text.strip_prefix(['+', '-']).unwrap_or(text);
    let mut before = '^';
    let hexadecimal = matches!(text.get(..2), Some("0x" | "0X"));
    if hexadecimal {
        (text, before) = (&text[2..], '0');
    }
    for c in text.chars() {
        let digit = c.is_ascii_digit() || hexadecimal && c.is_ascii_hexdigit();
        before = match (c, before) {
            ('_', '0') => '_',
            ('_', _) => return false,
            _ if digit => '0',
            (_, '_') => return false,
            _ => '!',
        };
    }
    before != '_'
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_read_as_in_go() {
        for (text, want) in [
            ("100", Some(100.0)),
            ("+1.5e2", Some(150.0)),
            ("-0.25", Some(-0.25)),
            ("1_000", Some(1000.0)),
            ("0x1p4", Some(16.0)),
            ("0x1.8p1", Some(3.0)),
            ("0x_ffp-4", Some(15.9375)),
            (".5", Some(0.5)),
            ("5.", Some(5.0)),
            ("inf", Some(f64::INFINITY)),
            ("-Infinity", Some(f64::NEG_INFINITY)),
            ("1e999", None),
            ("_1", None),
            ("1_", None),
            ("1__0", None),
            ("1_.5", None),
            ("0x10", None),
            ("1e", None),
            (" 1", None),
            ("", None),
            ("+-1", None),
            ("0x.p1", None),
        ] {
            assert_eq!(parse(text), want, "{text:?}");
        }
        assert!(parse("NaN").is_some_and(f64::is_nan));
    }
}
