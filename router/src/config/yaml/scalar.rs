//! The scalar rules of YAML 1.1, as the llm-d Router's YAML library has them.

use serde_json::Number;

use super::Content;

/// Returns what a plain scalar means, or why it means nothing that a document may hold.
pub(super) fn resolve(text: &str) -> Result<Content, String> {
    Ok(match text {
        "" | "~" | "null" | "Null" | "NULL" => Content::Null,
        "y" | "Y" | "yes" | "Yes" | "YES" | "true" | "True" | "TRUE" | "on" | "On" | "ON" => {
            Content::Bool(true)
        }
        "n" | "N" | "no" | "No" | "NO" | "false" | "False" | "FALSE" | "off" | "Off" | "OFF" => {
            Content::Bool(false)
        }
        ".nan" | ".NaN" | ".NAN" => return Err("not-a-number is not accepted".to_owned()),
        _ if is_infinity(text) => return Err("infinity is not accepted".to_owned()),
        _ => match number(text) {
            Some(n) => Content::Number(n),
            None => Content::Text(text.to_owned()),
        },
    })
}

/// Returns what a scalar with a tag of the core schema means, or why it does not.
pub(super) fn resolve_tagged(tag: &str, text: &str, plain: bool) -> Result<Content, String> {
    let mismatch = || Err(format!("the tag !!{tag} does not fit {text:?}"));
    match tag {
        "str" | "binary" | "timestamp" => Ok(Content::Text(text.to_owned())),
        "null" | "bool" | "int" | "float" => match (tag, resolve(text)?) {
            ("null", Content::Null) => Ok(Content::Null),
            ("bool", Content::Bool(b)) => Ok(Content::Bool(b)),
            ("int", Content::Number(n)) if !n.is_f64() => Ok(Content::Number(n)),
            ("float", Content::Number(n)) => Ok(Content::Number(n)),
            _ => mismatch(),
        },
        _ if plain => resolve(text),
        _ => Ok(Content::Text(text.to_owned())),
    }
}

fn is_infinity(text: &str) -> bool {
    matches!(text.strip_prefix(['+', '-']).unwrap_or(text), ".inf" | ".Inf" | ".INF")
}

/// Returns the number that `text` writes: an integer in base 2, 8, 10 or 16 with `_` between digits, or a
/// decimal float; `None` where it is text after all, such as a date, or a float out of range.
fn number(text: &str) -> Option<Number> {
    let first = text.bytes().next()?;
    if first == b'.' {
        return decimal(text);
    }
    if !(first.is_ascii_digit() || first == b'+' || first == b'-') {
        return None;
    }
    let digits = text.replace('_', "");
    integer(&digits).or_else(|| decimal(&digits))
}

fn integer(text: &str) -> Option<Number> {
    let (negative, magnitude) = match text.as_bytes().first()? {
        b'-' => (true, &text[1..]),
        b'+' => (false, &text[1..]),
        _ => (false, text),
    };
    let (base, digits) = match magnitude.as_bytes() {
        [b'0', b'x' | b'X', ..] => (16, &magnitude[2..]),
        [b'0', b'o' | b'O', ..] => (8, &magnitude[2..]),
        [b'0', b'b' | b'B', ..] => (2, &magnitude[2..]),
        [b'0', _, ..] => (8, &magnitude[1..]),
        _ => (10, magnitude),
    };
    if digits.is_empty() || !digits.bytes().all(|b| b.is_ascii_alphanumeric()) {
        return None;
    }
    let value = u64::from_str_radix(digits, base).ok()?;
    if negative { Some(0i64.checked_sub_unsigned(value)?.into()) } else { Some(value.into()) }
}

fn decimal(text: &str) -> Option<Number> {
    let unsigned = text.strip_prefix(['+', '-']).unwrap_or(text);
    let (mantissa, exponent) = match unsigned.find(['e', 'E']) {
        Some(i) => (&unsigned[..i], Some(&unsigned[i + 1..])),
        None => (unsigned, None),
    };
    let all_digits = |s: &str| s.bytes().all(|b| b.is_ascii_digit());
    let (whole, fraction) = mantissa.split_once('.').unwrap_or((mantissa, ""));
    let mantissa_ok = all_digits(whole) && all_digits(fraction) && !(whole.is_empty() && fraction.is_empty());
    let exponent_ok = exponent.is_none_or(|e| {
        let digits = e.strip_prefix(['+', '-']).unwrap_or(e);
        !digits.is_empty() && all_digits(digits)
    });
    if !mantissa_ok || !exponent_ok {
        return None;
    }
    normalise(text.parse().ok()?)
}

/// Returns a float as JSON text would carry it on: without a fraction it is an integer.
///
/// The llm-d Router turns YAML into JSON first, and writes floats below 1e21 without an exponent.
fn normalise(value: f64) -> Option<Number> {
    if value.fract() == 0.0 {
        // Exact: both bounds are powers of two, and inside them the cast cannot round.
        if (-9_223_372_036_854_775_808.0..9_223_372_036_854_775_808.0).contains(&value) {
            return Some((value as i64).into());
        }
        if (0.0..18_446_744_073_709_551_616.0).contains(&value) {
            return Some((value as u64).into());
        }
    }
    Number::from_f64(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn plain_scalars_follow_version_1_1() {
        let number = |n: i64| Content::Number(n.into());
        let float = |f: f64| Content::Number(Number::from_f64(f).expect("finite"));
        let text = |t: &str| Content::Text(t.to_owned());
        for (plain, means) in [
            ("", Content::Null),
            ("~", Content::Null),
            ("y", Content::Bool(true)),
            ("On", Content::Bool(true)),
            ("off", Content::Bool(false)),
            ("yEs", text("yEs")),
            ("010", number(8)),
            ("-010", number(-8)),
            ("0x10", number(16)),
            ("0b101", number(5)),
            ("1_000", number(1000)),
            ("+7", number(7)),
            ("4.0", number(4)),
            ("1e2", number(100)),
            ("08", number(8)),
            ("0.5", float(0.5)),
            (".5", float(0.5)),
            ("-1.5e-3", float(-0.0015)),
            ("-9223372036854775808", number(i64::MIN)),
            ("18446744073709551615", Content::Number(u64::MAX.into())),
            ("1e400", text("1e400")),
            ("2024-01-01", text("2024-01-01")),
            ("1.2.3", text("1.2.3")),
            ("10.0.0.1", text("10.0.0.1")),
            ("1:30", text("1:30")),
            ("-", text("-")),
            ("0x", text("0x")),
            ("10Gi", text("10Gi")),
            ("60s", text("60s")),
        ] {
            assert_eq!(resolve(plain), Ok(means), "{plain:?}");
        }
        assert!(resolve(".inf").is_err() && resolve("-.INF").is_err() && resolve(".nan").is_err());
    }

    #[test]
    fn tags_decide_over_the_spelling() {
        assert_eq!(resolve_tagged("str", "5", true), Ok(Content::Text("5".into())));
        assert_eq!(resolve_tagged("int", "5", false), Ok(Content::Number(5.into())));
        assert!(resolve_tagged("int", "five", false).is_err());
        assert!(resolve_tagged("bool", "5", true).is_err());
    }
}
