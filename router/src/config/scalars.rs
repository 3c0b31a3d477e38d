//! Two text formats for numbers that configuration files use (configuration spec 1.7).

/// Nanoseconds of each unit of a duration.
const UNITS: [(&str, f64); 8] = [
    ("ns", 1.0),
    ("us", 1e3),
    ("\u{b5}s", 1e3),
    ("\u{3bc}s", 1e3),
    ("ms", 1e6),
    ("s", 1e9),
    ("m", 60e9),
    ("h", 3600e9),
];

/// Reads a duration as Go writes it: `1m30s`, `-200ms`, `0`. Unit: nanoseconds.
///
/// Errors say what is accepted.
pub fn parse_duration(text: &str) -> Result<i64, String> {
    let error = || {
        format!(
            "{text:?} is not a duration; accepted: numbers with the units ns, us, ms, s, m, h, such as \"1m30s\""
        )
    };
    let (negative, mut rest) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    if rest == "0" {
        return Ok(0);
    }
    if rest.is_empty() {
        return Err(error());
    }
    let mut total: i128 = 0;
    while !rest.is_empty() {
        let number_end = rest.find(|c: char| !c.is_ascii_digit() && c != '.').ok_or_else(error)?;
        let (number, tail) = rest.split_at(number_end);
        let unit_end = tail.find(|c: char| c.is_ascii_digit() || c == '.').unwrap_or(tail.len());
        let (unit, tail) = tail.split_at(unit_end);
        let (_, nanos) = UNITS.iter().find(|(name, _)| *name == unit).ok_or_else(error)?;
        let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
        if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
            return Err(error());
        }
        let whole: i128 = if whole.is_empty() { 0 } else { whole.parse().map_err(|_| error())? };
        let fraction: f64 =
            if fraction.is_empty() { 0.0 } else { format!("0.{fraction}").parse().map_err(|_| error())? };
        let part = whole.checked_mul(*nanos as i128).ok_or_else(error)?;
        total = total.checked_add(part + (fraction * nanos) as i128).ok_or_else(error)?;
        rest = tail;
    }
    i64::try_from(if negative { -total } else { total }).map_err(|_| error())
}

/// Reads a Kubernetes resource quantity, rounded away from zero to an integer: `1k`, `10Gi`, `0.5`, `1e3`.
///
/// A quantity beyond 64 bits is the largest integer of its sign, but for a bare integer, which is the least: as a limit
/// it is refused (flow-control spec 2.1). Errors say what is accepted.
pub fn parse_quantity(text: &str) -> Result<i64, String> {
    let error = || {
        format!(
            "{text:?} is not a quantity; accepted: a number, alone or with one of \
             n u m k M G T P E Ki Mi Gi Ti Pi Ei or a decimal exponent, such as \"10Gi\" or \"1e3\""
        )
    };
    let (negative, unsigned) = match text.as_bytes().first() {
        Some(b'-') => (true, &text[1..]),
        Some(b'+') => (false, &text[1..]),
        _ => (false, text),
    };
    let number_end = unsigned.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(unsigned.len());
    let (number, suffix) = unsigned.split_at(number_end);
    let (whole, fraction) = number.split_once('.').unwrap_or((number, ""));
    if whole.is_empty() && fraction.is_empty() || fraction.contains('.') {
        return Err(error());
    }
    let (exponent, factor) = scale(suffix).ok_or_else(error)?;
    let magnitude = scaled(whole, fraction, exponent, factor);
    let signed = if negative { -magnitude } else { magnitude };
    let is_bare = suffix.is_empty() && !number.contains('.');
    Ok(i64::try_from(signed).unwrap_or(if negative || is_bare { i64::MIN } else { i64::MAX }))
}

/// Returns the decimal exponent and the binary factor of a suffix.
fn scale(suffix: &str) -> Option<(i32, i128)> {
    Some(match suffix {
        "" => (0, 1),
        "n" => (-9, 1),
        "u" => (-6, 1),
        "m" => (-3, 1),
        "k" => (3, 1),
        "M" => (6, 1),
        "G" => (9, 1),
        "T" => (12, 1),
        "P" => (15, 1),
        "E" => (18, 1),
        "Ki" => (0, 1 << 10),
        "Mi" => (0, 1 << 20),
        "Gi" => (0, 1 << 30),
        "Ti" => (0, 1 << 40),
        "Pi" => (0, 1 << 50),
        "Ei" => (0, 1 << 60),
        _ => (suffix.strip_prefix(['e', 'E'])?.parse().ok()?, 1),
    })
}

/// Returns `whole.fraction * 10^exponent * factor`, rounded up; more than 64 bits saturate.
fn scaled(whole: &str, fraction: &str, exponent: i32, factor: i128) -> i128 {
    /// No exponent beyond this changes whether the result saturates or rounds to one.
    const FAR: i64 = 1_000;
    /// Digits behind the point that are counted; further ones only round up.
    const FRACTION_DIGITS: usize = 18;

    let digits = format!("{whole}{fraction}");
    let significant = digits.trim_start_matches('0');
    let point =
        whole.len() as i64 + i64::from(exponent).clamp(-FAR, FAR) - (digits.len() - significant.len()) as i64;
    if significant.is_empty() {
        return 0;
    }
    if point > 36 {
        return i128::MAX;
    }
    let at = usize::try_from(point).unwrap_or(0);
    let digit = |i: usize| significant.as_bytes().get(i).map_or(0, |d| i128::from(d - b'0'));
    let integer = (0..at).fold(0i128, |n, i| n * 10 + digit(i));
    let leading_zeros = usize::try_from(-point).unwrap_or(0);
    let behind = (0..FRACTION_DIGITS)
        .fold(0i128, |n, i| n * 10 + if i < leading_zeros { 0 } else { digit(at + i - leading_zeros) });
    let counted = at + FRACTION_DIGITS.saturating_sub(leading_zeros);
    let rest = significant.bytes().skip(counted).any(|d| d != b'0');
    let unit = 10i128.pow(FRACTION_DIGITS as u32);
    let scaled_fraction = (behind * factor + (unit - 1)) / unit;
    let rounded = if rest && behind * factor % unit == 0 { scaled_fraction + 1 } else { scaled_fraction };
    integer.saturating_mul(factor).saturating_add(rounded)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_gos() {
        for (text, nanos) in [
            ("60s", 60_000_000_000),
            ("1m30s", 90_000_000_000),
            ("200ms", 200_000_000),
            ("0s", 0),
            ("0", 0),
            ("1.5h", 5_400_000_000_000),
            (".5s", 500_000_000),
            ("-5s", -5_000_000_000),
            ("+1us", 1_000),
            ("1\u{b5}s", 1_000),
        ] {
            assert_eq!(parse_duration(text), Ok(nanos), "{text}");
        }
        for text in ["", "5", "1d", "s", "1 s", "1.2.3s", ".s", "-", "300000000000h", "1S"] {
            assert!(parse_duration(text).is_err(), "{text}");
        }
    }

    #[test]
    fn quantities_are_those_of_kubernetes() {
        for (text, value) in [
            ("0", 0),
            ("1k", 1_000),
            ("10Gi", 10 << 30),
            ("0.5", 1),
            ("1.5Ki", 1536),
            ("500m", 1),
            ("1500m", 2),
            ("1n", 1),
            ("1e3", 1_000),
            ("1E3", 1_000),
            ("2E", 2_000_000_000_000_000_000),
            ("12e-1", 2),
            ("+7", 7),
            ("-0.5", -1),
            ("-2k", -2_000),
            ("100Ei", i64::MAX),
            ("9223372036854775807", i64::MAX),
            ("9223372036854775808", i64::MIN),
            ("1e999999", i64::MAX),
            ("0.0000000000000000000000001", 1),
            ("1.0000000000000000000000001", 2),
            ("1.000", 1),
            (".5Ki", 512),
        ] {
            assert_eq!(parse_quantity(text), Ok(value), "{text}");
        }
        for text in ["", "K", "1K", "1ki", "1GB", "1 k", " 1", "1.2.3", ".", "-", "1e", "e3", "0x10"] {
            assert!(parse_quantity(text).is_err(), "{text}");
        }
    }
}
