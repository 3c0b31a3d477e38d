//! What Kubernetes accepts as the key and the value of a label.

use crate::plugin::FactoryError;
use crate::scheduling::invalid;

/// Longest name and value. Unit: bytes.
const MAX_NAME: usize = 63;

/// Longest prefix of a key. Unit: bytes.
const MAX_PREFIX: usize = 253;

/// Accepts `name` and `prefix/name`, where the prefix is a DNS subdomain.
pub(super) fn check_key(key: &str) -> Result<(), FactoryError> {
    let (prefix, name) = key.split_once('/').map_or((None, key), |(prefix, name)| (Some(prefix), name));
    if is_name(name) && prefix.is_none_or(is_subdomain) {
        return Ok(());
    }
    Err(invalid(format!(
        "{key:?} is not a label key; accepted: an optional DNS subdomain and '/', then 1 to {MAX_NAME} letters, \
         digits, '-', '_' and '.', beginning and ending with a letter or digit"
    )))
}

/// Accepts the empty text and what can be a key's name.
pub(super) fn check_value(key: &str, value: &str) -> Result<(), FactoryError> {
    if value.is_empty() || is_name(value) {
        return Ok(());
    }
    Err(invalid(format!(
        "{value:?} is not a value for label {key}; accepted: nothing, or 1 to {MAX_NAME} letters, digits, '-', \
         '_' and '.', beginning and ending with a letter or digit"
    )))
}

fn is_name(text: &str) -> bool {
    text.len() <= MAX_NAME
        && bounded_by(text, |c| c.is_ascii_alphanumeric())
        && text.bytes().all(|c| c.is_ascii_alphanumeric() || b"-_.".contains(&c))
}

fn is_subdomain(text: &str) -> bool {
    let lower_or_digit = |c: u8| c.is_ascii_lowercase() || c.is_ascii_digit();
    text.len() <= MAX_PREFIX
        && text.split('.').all(|label| {
            bounded_by(label, lower_or_digit) && label.bytes().all(|c| lower_or_digit(c) || c == b'-')
        })
}

/// Whether the text is not empty and `accepts` its first and last byte.
fn bounded_by(text: &str, accepts: impl Fn(u8) -> bool) -> bool {
    let bytes = text.as_bytes();
    bytes.first().is_some_and(|&c| accepts(c)) && bytes.last().is_some_and(|&c| accepts(c))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_names_with_an_optional_subdomain() {
        let long = "a".repeat(64);
        for good in ["app", "a", "A.b_c-9", "llm-d.ai/role", "a.b-c.d/X", &long[..63]] {
            assert!(check_key(good).is_ok(), "{good}");
        }
        for bad in ["", "/x", "x/", "a/b/c", "-a", "a-", "a b", "UPPER.io/x", "a..b/x", "-a/x", &long] {
            assert!(check_key(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn values_may_be_empty() {
        for good in ["", "v1.0", "a_b"] {
            assert!(check_value("k", good).is_ok(), "{good}");
        }
        for bad in ["-", "a/b", "ä", ".a", &"a".repeat(64)] {
            assert!(check_value("k", bad).is_err(), "{bad}");
        }
    }
}
