//! Values as lenient as vLLM's front end reads them: numbers and truth values may stand as text.

use std::borrow::Cow;

use serde::de::Error;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads an integer, absent as null; a float without a fraction, its text and a truth value are integers too.
pub(super) fn int<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<i64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let read = match &value {
        Value::Null => return Ok(None),
        Value::Bool(truth) => Some(i64::from(*truth)),
        Value::Number(number) => number.as_i64().or_else(|| number.as_f64().and_then(whole)),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    read.map(Some).ok_or_else(|| D::Error::custom(format_args!("expected an integer, got {value}")))
}

/// Reads a float, absent as null.
pub(super) fn float<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<f64>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let read = match &value {
        Value::Null => return Ok(None),
        Value::Bool(truth) => Some(f64::from(u8::from(*truth))),
        Value::Number(number) => number.as_f64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    };
    read.map(Some).ok_or_else(|| D::Error::custom(format_args!("expected a number, got {value}")))
}

/// Reads a truth value, null as false.
pub(super) fn truth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<bool, D::Error> {
    maybe_truth(deserializer).map(Option::unwrap_or_default)
}

/// Reads a truth value, absent as null.
pub(super) fn maybe_truth<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<bool>, D::Error> {
    let value = Value::deserialize(deserializer)?;
    let text: Cow<'_, str> = match &value {
        Value::Null => return Ok(None),
        Value::Bool(truth) => return Ok(Some(*truth)),
        Value::Number(number) => number.to_string().into(),
        Value::String(text) => text.to_ascii_lowercase().into(),
        _ => "".into(),
    };
    match &*text {
        "1" | "1.0" | "true" | "t" | "yes" | "y" | "on" => Ok(Some(true)),
        "0" | "0.0" | "false" | "f" | "no" | "n" | "off" => Ok(Some(false)),
        _ => Err(D::Error::custom(format_args!("expected true or false, got {value}"))),
    }
}

/// Reads one text or a list of texts, absent as null.
pub(super) fn texts<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<String>, D::Error> {
    #[derive(Deserialize)]
    #[serde(untagged)]
    enum Texts {
        One(String),
        Many(Vec<String>),
    }
    Ok(match Option::<Texts>::deserialize(deserializer)? {
        None => Vec::new(),
        Some(Texts::One(text)) => vec![text],
        Some(Texts::Many(texts)) => texts,
    })
}

#[expect(clippy::cast_possible_truncation, reason = "checked against the range of exact integers")]
fn whole(number: f64) -> Option<i64> {
    (number.fract() == 0.0 && number.abs() < 9e15).then_some(number as i64)
}

/// Quotes `NaN`, `Infinity` and `-Infinity` outside of texts, which Python's JSON reads as numbers.
///
/// Returns `None` where `text` has none, and so is no JSON for another reason.
pub(super) fn quote_infinities(text: &str) -> Option<String> {
    let mut quoted = String::with_capacity(text.len() + 8);
    let (mut in_text, mut escaped, mut found) = (false, false, false);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let word = ["NaN", "Infinity", "-Infinity"].into_iter().find(|w| !in_text && rest.starts_with(w));
        if let Some(word) = word {
            quoted.extend(["\"", word, "\""]);
            rest = &rest[word.len()..];
            found = true;
            continue;
        }
        in_text ^= c == '"' && !escaped;
        escaped = in_text && c == '\\' && !escaped;
        quoted.push(c);
        rest = &rest[c.len_utf8()..];
    }
    found.then_some(quoted)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn numbers_and_truth_values_may_be_text() {
        for (value, want) in [
            (json!(3), Ok(Some(3))),
            (json!("2"), Ok(Some(2))),
            (json!(2.0), Ok(Some(2))),
            (json!(true), Ok(Some(1))),
            (json!(null), Ok(None)),
            (json!(2.5), Err(())),
            (json!("x"), Err(())),
            (json!([1]), Err(())),
        ] {
            assert_eq!(int(&value).map_err(drop), want, "{value}");
        }
        for (value, want) in [
            (json!("true"), Ok(true)),
            (json!(1), Ok(true)),
            (json!("OFF"), Ok(false)),
            (json!(null), Ok(false)),
            (json!("maybe"), Err(())),
            (json!(2), Err(())),
            (json!({}), Err(())),
        ] {
            assert_eq!(truth(&value).map_err(drop), want, "{value}");
        }
        assert_eq!(float(&json!("0.5")).unwrap(), Some(0.5));
        assert!(float(&json!("NaN")).unwrap().is_some_and(f64::is_nan));
        assert_eq!(texts(&json!("a")).unwrap(), ["a"]);
        assert!(texts(&json!(["a", 5])).is_err());
    }

    #[test]
    fn only_numbers_outside_of_text_are_quoted() {
        let quoted = quote_infinities(r#"{"a\"NaN":NaN,"b":[-Infinity,"Infinity"]}"#);
        assert_eq!(quoted.as_deref(), Some(r#"{"a\"NaN":"NaN","b":["-Infinity","Infinity"]}"#));
        assert_eq!(quote_infinities(r#"{"a":"#), None);
    }
}
