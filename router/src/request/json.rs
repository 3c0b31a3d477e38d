//! JSON as the llm-d Router reads and writes it.

use std::borrow::Cow;
use std::fmt;
use std::io::Write as _;

use serde::de::{Deserializer as _, MapAccess, Visitor};
use serde_json::map::Entry;
use serde_json::{Map, Value};

use super::ParseError;

/// Decodes a JSON text that must be an object or `null`, which counts as an empty one.
///
/// Bytes that are not UTF-8 (one by one) and lone surrogate escapes inside strings read as U+FFFD; the last of
/// equal keys wins.
///
/// # Errors
/// Text that is not JSON, with the place; JSON that is not an object.
pub fn decode_object(text: &[u8]) -> Result<Map<String, Value>, ParseError> {
    match decode(text)? {
        Value::Object(fields) => Ok(fields),
        Value::Null => Ok(Map::new()),
        Value::Bool(_) => Err(ParseError::new("expected a JSON object, got a boolean")),
        Value::Number(_) => Err(ParseError::new("expected a JSON object, got a number")),
        Value::String(_) => Err(ParseError::new("expected a JSON object, got a string")),
        Value::Array(_) => Err(ParseError::new("expected a JSON object, got an array")),
    }
}

/// A decoded body, with the values that later members of the same name have replaced.
pub(super) struct Body {
    /// The members; of equal names the last counts.
    pub(super) fields: Map<String, Value>,
    /// Replaced members, each as an object of its own: the llm-d Router reads them too, and refuses a body for them.
    pub(super) shadowed: Vec<Map<String, Value>>,
}

/// Decodes a request body, as [`decode_object`] does.
///
/// # Errors
/// Those of [`decode_object`].
pub(super) fn decode_body(text: &[u8]) -> Result<Body, ParseError> {
    struct Members;
    impl<'de> Visitor<'de> for Members {
        type Value = Body;

        fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("a JSON object")
        }

        fn visit_unit<E>(self) -> Result<Body, E> {
            Ok(Body { fields: Map::new(), shadowed: Vec::new() })
        }

        fn visit_map<A: MapAccess<'de>>(self, mut members: A) -> Result<Body, A::Error> {
            let mut body = Body { fields: Map::new(), shadowed: Vec::new() };
            while let Some((name, value)) = members.next_entry::<String, Value>()? {
                match body.fields.entry(name) {
                    Entry::Vacant(entry) => {
                        entry.insert(value);
                    }
                    Entry::Occupied(mut entry) => {
                        let replaced = std::mem::replace(entry.get_mut(), value);
                        body.shadowed.push([(entry.key().clone(), replaced)].into_iter().collect());
                    }
                }
            }
            Ok(body)
        }
    }
    let decode = |text: &[u8]| {
        let mut decoder = serde_json::Deserializer::from_slice(text);
        let body = decoder.deserialize_any(Members)?;
        decoder.end().map(|()| body)
    };
    decode(text).or_else(|error| match mend(text) {
        Cow::Borrowed(_) => Err(ParseError::new(error.to_string())),
        Cow::Owned(mended) => decode(mended.as_bytes()).map_err(|e| ParseError::new(e.to_string())),
    })
}

/// Decodes any JSON text, as [`decode_object`] does.
///
/// # Errors
/// Text that is not JSON.
pub fn decode(text: &[u8]) -> Result<Value, ParseError> {
    // Nearly all texts are well formed; only one that is not is searched for what can be mended.
    serde_json::from_slice(text).or_else(|error| match mend(text) {
        Cow::Borrowed(_) => Err(ParseError::new(error.to_string())),
        Cow::Owned(mended) => serde_json::from_str(&mended).map_err(|e| ParseError::new(e.to_string())),
    })
}

/// Replaces bytes that are not UTF-8 and lone surrogate escapes; borrowed = there were none.
pub(super) fn mend(text: &[u8]) -> Cow<'_, str> {
    let text = match std::str::from_utf8(text) {
        Ok(text) => Cow::Borrowed(text),
        Err(_) => {
            let mut out = String::with_capacity(text.len() + 16);
            for chunk in text.utf8_chunks() {
                out.push_str(chunk.valid());
                out.extend(std::iter::repeat_n('\u{fffd}', chunk.invalid().len()));
            }
            Cow::Owned(out)
        }
    };
    match replace_lone_surrogates(&text) {
        Some(replaced) => Cow::Owned(replaced),
        None => text,
    }
}

fn replace_lone_surrogates(text: &str) -> Option<String> {
    let bytes = text.as_bytes();
    let mut out: Option<String> = None;
    let (mut at, mut copied) = (0, 0);
    while let Some(found) = bytes[at..].iter().position(|b| *b == b'\\') {
        at += found;
        let skip = match surrogate_at(bytes, at) {
            Some(high) if high < 0xdc00 && surrogate_at(bytes, at + 6).is_some_and(|low| low >= 0xdc00) => 12,
            Some(_) => {
                let out = out.get_or_insert_default();
                out.push_str(&text[copied..at]);
                out.push_str("\\ufffd");
                copied = at + 6;
                6
            }
            // The character behind a backslash is part of the escape, and may be several bytes long.
            None => 1 + text[at + 1..].chars().next().map_or(0, char::len_utf8),
        };
        at += skip;
    }
    out.map(|mut out| {
        out.push_str(&text[copied..]);
        out
    })
}

/// Returns the value of the escape at `at` if it is one half of a surrogate pair.
fn surrogate_at(bytes: &[u8], at: usize) -> Option<u32> {
    let escape = bytes.get(at..at + 6)?;
    let digits = escape.strip_prefix(b"\\u").filter(|d| d.iter().all(u8::is_ascii_hexdigit))?;
    let value = u32::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()?;
    (0xd800..0xe000).contains(&value).then_some(value)
}

/// Writes an object without spaces, keys sorted, `<`, `>`, `&` and the line separators U+2028/9 escaped,
/// numbers as the shortest text of their double (request-control spec 2.5).
pub fn encode_object(fields: &Map<String, Value>) -> Vec<u8> {
    encode_object_of_size(fields, 256)
}

/// Writes an object as [`encode_object`] does, into a buffer for `size` bytes, which grows where that is too few.
pub fn encode_object_of_size(fields: &Map<String, Value>, size: usize) -> Vec<u8> {
    let mut out = Vec::with_capacity(size);
    write_object(&mut out, fields);
    out
}

/// Writes an object as [`encode_object`] does, with the text `value` as the member `name`, whatever it has there.
pub fn encode_object_with(fields: &Map<String, Value>, name: &str, value: &str, size: usize) -> Vec<u8> {
    let replaced = Value::from(value);
    let others = fields.iter().filter(|(key, _)| *key != name).map(|(key, value)| (key.as_str(), value));
    let mut out = Vec::with_capacity(size);
    write_members(&mut out, others.chain([(name, &replaced)]).collect());
    out
}

/// Appends any value, as [`encode_object`] writes it.
pub fn write_value(out: &mut Vec<u8>, value: &Value) {
    match value {
        Value::Null => out.extend_from_slice(b"null"),
        Value::Bool(true) => out.extend_from_slice(b"true"),
        Value::Bool(false) => out.extend_from_slice(b"false"),
        Value::Number(number) => write_number(out, number),
        Value::String(text) => write_text(out, text),
        Value::Array(items) => {
            out.push(b'[');
            for (i, item) in items.iter().enumerate() {
                if i > 0 {
                    out.push(b',');
                }
                write_value(out, item);
            }
            out.push(b']');
        }
        Value::Object(fields) => write_object(out, fields),
    }
}

fn write_object(out: &mut Vec<u8>, fields: &Map<String, Value>) {
    write_members(out, fields.iter().map(|(key, value)| (key.as_str(), value)).collect());
}

fn write_members(out: &mut Vec<u8>, mut entries: Vec<(&str, &Value)>) {
    // Sorted by themselves, unless a crate of the build turns on serde_json's insertion order.
    if !entries.is_sorted_by(|a, b| a.0 <= b.0) {
        entries.sort_by_key(|(key, _)| *key);
    }
    out.push(b'{');
    for (i, (key, value)) in entries.into_iter().enumerate() {
        if i > 0 {
            out.push(b',');
        }
        write_text(out, key);
        out.push(b':');
        write_value(out, value);
    }
    out.push(b'}');
}

const LARGEST_EXACT: u64 = 1 << 53;

fn write_number(out: &mut Vec<u8>, number: &serde_json::Number) {
    const INFALLIBLE: &str = "writing to a Vec cannot fail";
    if let Some(integer) = number.as_i64().filter(|v| v.unsigned_abs() <= LARGEST_EXACT) {
        return write!(out, "{integer}").expect(INFALLIBLE);
    }
    let value = number.as_f64().expect("without arbitrary precision every number is a double");
    let magnitude = value.abs();
    if magnitude != 0.0 && !(1e-6..1e21).contains(&magnitude) {
        let text = format!("{value:e}");
        let text = if magnitude > 1.0 { text.replace('e', "e+") } else { text };
        out.extend_from_slice(text.as_bytes());
    } else {
        write!(out, "{value}").expect(INFALLIBLE);
    }
}

/// Appends a JSON string.
pub fn write_text(out: &mut Vec<u8>, text: &str) {
    const HEX: &[u8; 16] = b"0123456789abcdef";
    let bytes = text.as_bytes();
    out.push(b'"');
    let mut copied = 0;
    let mut at = 0;
    loop {
        at += plain_length(&bytes[at..]);
        let Some(&byte) = bytes.get(at) else { break };
        let length = match byte {
            // U+2028 and U+2029 are e2 80 a8 and e2 80 a9.
            0xe2 if matches!(bytes[at + 1..], [0x80, 0xa8 | 0xa9, ..]) => 3,
            0xe2 => {
                at += 1;
                continue;
            }
            _ => 1,
        };
        out.extend_from_slice(&bytes[copied..at]);
        match byte {
            b'"' => out.extend_from_slice(b"\\\""),
            b'\\' => out.extend_from_slice(b"\\\\"),
            b'\n' => out.extend_from_slice(b"\\n"),
            b'\r' => out.extend_from_slice(b"\\r"),
            b'\t' => out.extend_from_slice(b"\\t"),
            0x08 => out.extend_from_slice(b"\\b"),
            0x0c => out.extend_from_slice(b"\\f"),
            0xe2 => out.extend_from_slice(if bytes[at + 2] == 0xa8 { b"\\u2028" } else { b"\\u2029" }),
            _ => {
                out.extend_from_slice(b"\\u00");
                out.push(HEX[usize::from(byte >> 4)]);
                out.push(HEX[usize::from(byte & 15)]);
            }
        }
        at += length;
        copied = at;
    }
    out.extend_from_slice(&bytes[copied..]);
    out.push(b'"');
}

/// Returns the number of bytes before the first one that needs a look.
fn plain_length(bytes: &[u8]) -> usize {
    // Whole chunks first, each with a few vector instructions.
    let (chunks, _) = bytes.as_chunks::<32>();
    let plain = chunks.iter().take_while(|chunk| !chunk.iter().fold(false, |any, b| any | needs_a_look(*b)));
    let skipped = 32 * plain.count();
    let rest = &bytes[skipped..];
    skipped + rest.iter().position(|byte| NEEDS_A_LOOK[usize::from(*byte)]).unwrap_or(rest.len())
}

/// Bytes that are escaped, or may be the start of a character that is.
static NEEDS_A_LOOK: [bool; 256] = {
    let mut table = [false; 256];
    let mut byte = 0;
    while byte < table.len() {
        table[byte] = needs_a_look(byte as u8);
        byte += 1;
    }
    table
};

const fn needs_a_look(byte: u8) -> bool {
    // Without a branch, so that many bytes are tested at once.
    (byte < 0x20)
        | (byte == b'"')
        | (byte == b'\\')
        | (byte == b'<')
        | (byte == b'>')
        | (byte == b'&')
        | (byte == 0xe2)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn recoded(text: &[u8]) -> String {
        String::from_utf8(encode_object(&decode_object(text).expect("decodes"))).expect("UTF-8")
    }

    #[test]
    fn a_byte_is_escaped_wherever_it_stands_in_a_long_text() {
        let escapes = [
            ("\"", r#"\""#),
            ("\\", r"\\"),
            ("\n", r"\n"),
            ("<", r"\u003c"),
            ("\u{2028}", r"\u2028"),
            ("€", "€"),
        ];
        for (text, escaped) in escapes {
            for before in 0..70 {
                let (before, after) = ("é".repeat(before / 2) + &"x".repeat(before % 2), "y".repeat(40));
                let mut out = Vec::new();
                write_text(&mut out, &format!("{before}{text}{after}{text}"));
                let expected = format!("\"{before}{escaped}{after}{escaped}\"");
                assert_eq!(String::from_utf8(out).expect("UTF-8"), expected);
            }
        }
    }

    #[test]
    fn numbers_are_the_shortest_text_of_their_double() {
        for (literal, expected) in [
            ("1.0", "1"),
            ("-0.0", "-0"),
            ("1.5e3", "1500"),
            ("1e21", "1e+21"),
            ("12345678901234567890", "12345678901234567000"),
            ("9007199254740993", "9007199254740992"),
            ("1e-7", "1e-7"),
            ("0.000001", "0.000001"),
            ("0.70", "0.7"),
        ] {
            assert_eq!(
                recoded(format!(r#"{{"n":{literal}}}"#).as_bytes()),
                format!(r#"{{"n":{expected}}}"#),
                "{literal}"
            );
        }
    }

    #[test]
    fn keys_are_sorted_and_html_is_escaped() {
        assert_eq!(
            recoded("{\"b\":\"<a>&\u{2028}\\/\\u00e9\\u0001\", \"a\":[ 1 , null ]}".as_bytes()),
            "{\"a\":[1,null],\"b\":\"\\u003ca\\u003e\\u0026\\u2028/\u{e9}\\u0001\"}"
        );
    }

    #[test]
    fn what_is_not_unicode_reads_as_the_replacement_character() {
        assert_eq!(recoded(b"{\"a\":\"\xed\xa0\x80\"}"), "{\"a\":\"\u{fffd}\u{fffd}\u{fffd}\"}");
        assert_eq!(
            recoded(br#"{"a":"\ud800x\udc00\ud83d\ude00\\ud800"}"#),
            "{\"a\":\"\u{fffd}x\u{fffd}\u{1f600}\\\\ud800\"}"
        );
    }

    #[test]
    fn a_member_is_replaced_or_added_where_it_belongs() {
        for text in [r#"{"z":1,"a":{"model":"x"},"model":7}"#, r#"{"a":{"model":"x"},"z":1}"#] {
            let fields = decode_object(text.as_bytes()).expect("decodes");
            let written = encode_object_with(&fields, "model", "m<", 0);
            assert_eq!(written, br#"{"a":{"model":"x"},"model":"m\u003c","z":1}"#, "{text}");
        }
    }

    #[test]
    fn only_objects_and_null_are_bodies() {
        assert_eq!(decode_object(b"null"), Ok(Map::new()));
        for text in [&b"[]"[..], b"1", b"\"x\"", b"true", b"", b"{} x", b"{\"a\":}", b"{\"a\":1e999}"] {
            assert!(decode_object(text).is_err(), "{text:?}");
        }
    }

    #[test]
    fn replaced_members_are_kept_aside() {
        let body = decode_body(br#"{"a":1,"b":2,"a":"\ud800"}"#).unwrap_or_else(|error| panic!("{error}"));
        assert_eq!(Value::Object(body.fields), serde_json::json!({"a": "\u{fffd}", "b": 2}));
        assert_eq!(body.shadowed.len(), 1);
        assert_eq!(body.shadowed[0]["a"], 1);
        for text in [&b"[]"[..], b"1", b"", b"{} x", b"{\"a\":1e999}"] {
            assert!(decode_body(text).is_err(), "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn mending_keeps_what_is_well_formed(text in ".*") {
            prop_assert_eq!(mend(text.as_bytes()).into_owned(), text);
        }

        #[test]
        fn any_bytes_decode_or_are_refused(bytes in proptest::collection::vec(any::<u8>(), 0..64)) {
            let _ = decode(&bytes);
        }

        #[test]
        fn written_strings_read_back(text in "\\PC*|[\\x00-\\x7f\u{2027}-\u{202a}]*") {
            let mut out = Vec::new();
            write_text(&mut out, &text);
            prop_assert_eq!(serde_json::from_slice::<String>(&out).expect("JSON"), text);
        }
    }
}
