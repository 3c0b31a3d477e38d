//! JSON as CPython's `json.dumps` writes it.

use std::fmt::Write;

use crate::request::json;

/// Rewrites a JSON text: `, ` and `: ` between its parts, keys in their order, numbers as they are spelled, all but
/// ASCII escaped.
pub(super) fn dumps(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + text.len() / 8);
    let mut rest = text;
    while let Some(c) = rest.chars().next() {
        let length = match c {
            '"' => {
                let length = string_length(rest);
                write_string(&mut out, &rest[..length]);
                length
            }
            ',' => {
                out.push_str(", ");
                1
            }
            ':' => {
                out.push_str(": ");
                1
            }
            c => {
                if !c.is_ascii_whitespace() {
                    out.push(c);
                }
                c.len_utf8()
            }
        };
        rest = &rest[length..];
    }
    out
}

/// Returns the length of the string literal that `text` begins with, quotes included.
fn string_length(text: &str) -> usize {
    let mut escaped = true;
    let end = text.bytes().position(|byte| {
        let ends = byte == b'"' && !escaped;
        // The opening quote counts as escaped.
        escaped = byte == b'\\' && !escaped;
        ends
    });
    end.map_or(text.len(), |at| at + 1)
}

fn write_string(out: &mut String, literal: &str) {
    let decoded = json::decode(literal.as_bytes()).unwrap_or_default();
    out.push('"');
    for c in decoded.as_str().unwrap_or_default().chars() {
        match c {
            '"' => out.push_str("\\\""),
            '\\' => out.push_str("\\\\"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            '\t' => out.push_str("\\t"),
            '\u{8}' => out.push_str("\\b"),
            '\u{c}' => out.push_str("\\f"),
            ' '..='~' => out.push(c),
            c => {
                for unit in c.encode_utf16(&mut [0; 2]) {
                    // Writing to a String does not fail.
                    let _ = write!(out, "\\u{unit:04x}");
                }
            }
        }
    }
    out.push('"');
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::Value;

    use super::*;

    #[test]
    fn spaces_numbers_and_escapes_are_those_of_cpython() {
        for (text, dumped) in [
            (r#"{"b": 1,"a":[1, 2.50,1e3] , "o":{}}"#, r#"{"b": 1, "a": [1, 2.50, 1e3], "o": {}}"#),
            (r#""é😀\u0007\n\/\"\\<""#, r#""\u00e9\ud83d\ude00\u0007\n/\"\\<""#),
            ("\"\u{7f}\"", r#""\u007f""#),
            (r#""a\\","#, r#""a\\", "#),
            ("[ ]", "[]"),
            ("", ""),
        ] {
            assert_eq!(dumps(text), dumped, "{text}");
        }
    }

    fn values() -> impl Strategy<Value = Value> {
        let leaf = prop_oneof![
            Just(Value::Null),
            any::<bool>().prop_map(Value::from),
            any::<i64>().prop_map(Value::from),
            ".*".prop_map(Value::from),
        ];
        leaf.prop_recursive(3, 16, 4, |inner| {
            prop_oneof![
                proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
                proptest::collection::btree_map(".*", inner, 0..4)
                    .prop_map(|map| Value::Object(map.into_iter().collect())),
            ]
        })
    }

    proptest! {
        #[test]
        fn what_is_written_reads_back(value in values()) {
            let dumped = dumps(&serde_json::to_string_pretty(&value).expect("JSON"));
            prop_assert!(dumped.is_ascii());
            prop_assert_eq!(serde_json::from_str::<Value>(&dumped).expect("JSON"), value);
        }

        #[test]
        fn any_text_is_taken(text in ".*") {
            dumps(&text);
        }
    }
}
