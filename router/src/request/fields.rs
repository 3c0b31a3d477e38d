//! Typed reading of JSON objects, by the rules of the llm-d Router's decoder (request-control spec 13.2).
//!
//! `null` counts as absent. A field's name is matched exactly or, where no member has it exactly, without
//! regard to ASCII case. Absent fields read as the empty value of their type.

use serde_json::{Map, Value};

/// A value has another type than the field wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct WrongType;

/// Returns the member `name`, `None` where it is absent or `null`.
pub(super) fn field<'a>(object: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    let value = object
        .get(name)
        .or_else(|| object.iter().find(|(key, _)| key.eq_ignore_ascii_case(name)).map(|(_, value)| value));
    value.filter(|value| !value.is_null())
}

/// Returns the text member `name`.
pub(super) fn text<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a str, WrongType> {
    match field(object, name) {
        None => Ok(""),
        Some(Value::String(text)) => Ok(text),
        Some(_) => Err(WrongType),
    }
}

/// Returns the boolean member `name`.
pub(super) fn boolean(object: &Map<String, Value>, name: &str) -> Result<bool, WrongType> {
    Ok(optional_boolean(object, name)?.unwrap_or(false))
}

/// Returns the boolean member `name`, `None` where it is absent.
pub(super) fn optional_boolean(object: &Map<String, Value>, name: &str) -> Result<Option<bool>, WrongType> {
    match field(object, name) {
        None => Ok(None),
        Some(Value::Bool(value)) => Ok(Some(*value)),
        Some(_) => Err(WrongType),
    }
}

/// Returns the integer member `name`; only plain integer literals count (`2.0` is a wrong type).
pub(super) fn integer(object: &Map<String, Value>, name: &str) -> Result<Option<i64>, WrongType> {
    match field(object, name) {
        None => Ok(None),
        Some(value) => plain_integer(value).map(Some),
    }
}

/// Returns the value of a plain integer literal.
pub(super) fn plain_integer(value: &Value) -> Result<i64, WrongType> {
    match value {
        Value::Number(number) => number.as_i64().ok_or(WrongType),
        _ => Err(WrongType),
    }
}

/// Returns the list member `name`.
pub(super) fn list<'a>(object: &'a Map<String, Value>, name: &str) -> Result<&'a [Value], WrongType> {
    match field(object, name) {
        None => Ok(&[]),
        Some(Value::Array(items)) => Ok(items),
        Some(_) => Err(WrongType),
    }
}

/// Returns the object member `name`.
pub(super) fn object<'a>(
    object: &'a Map<String, Value>,
    name: &str,
) -> Result<Option<&'a Map<String, Value>>, WrongType> {
    match field(object, name) {
        None => Ok(None),
        Some(Value::Object(fields)) => Ok(Some(fields)),
        Some(_) => Err(WrongType),
    }
}

/// Reads each element of a list of objects; a `null` element is an empty object.
pub(super) fn objects<'a, T>(
    items: &'a [Value],
    read: impl Fn(&'a Map<String, Value>) -> Result<T, WrongType>,
) -> Result<Vec<T>, WrongType> {
    static EMPTY: std::sync::LazyLock<Map<String, Value>> = std::sync::LazyLock::new(Map::new);
    let object = |item: &'a Value| match item {
        Value::Null => Ok(&*EMPTY),
        Value::Object(fields) => Ok(fields),
        _ => Err(WrongType),
    };
    items.iter().map(|item| read(object(item)?)).collect()
}

/// Returns the first of `names` whose value is a number, integral and not negative.
///
/// Values beyond 64 bits saturate.
pub(super) fn first_count(object: &Map<String, Value>, names: &[&str]) -> Option<u64> {
    names.iter().find_map(|name| {
        let value = object.get(*name)?.as_f64()?;
        (value >= 0.0 && value.fract() == 0.0).then_some(value as u64)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn map(text: &str) -> Map<String, Value> {
        serde_json::from_str(text).expect("an object")
    }

    #[test]
    fn an_exact_name_stands_before_one_of_another_case() {
        let object = map(r#"{"PROMPT":"a","prompt":"b","Other":"c"}"#);
        assert_eq!(text(&object, "prompt"), Ok("b"));
        assert_eq!(text(&object, "other"), Ok("c"));
    }

    #[test]
    fn integers_are_plain_literals() {
        for (literal, expected) in [
            ("2", Ok(2)),
            ("-2", Ok(-2)),
            ("-0.0", Err(WrongType)),
            ("2.0", Err(WrongType)),
            ("1e2", Err(WrongType)),
        ] {
            assert_eq!(integer(&map(&format!(r#"{{"n":{literal}}}"#)), "n"), expected.map(Some), "{literal}");
        }
    }

    #[test]
    fn a_cap_is_the_first_usable_number() {
        let names = ["max_completion_tokens", "max_tokens"];
        for (body, expected) in [
            (r#"{"max_completion_tokens":0,"max_tokens":7}"#, Some(0)),
            (r#"{"max_completion_tokens":-1,"max_tokens":7.0}"#, Some(7)),
            (r#"{"max_completion_tokens":"5","max_tokens":7.5}"#, None),
            (r#"{"max_tokens":1e3}"#, Some(1000)),
        ] {
            assert_eq!(first_count(&map(body), &names), expected, "{body}");
        }
    }
}
