use std::fmt;
use std::time::Duration;

use serde::de::{Error as _, MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::{Map, Value};

use super::{MAX_SPAN, Row, tokens};
use crate::InputError;
use crate::workload::{Prompt, Segment};

/// Tokens that one of the `hash_ids` stands for.
pub(super) const BLOCK_TOKENS: u32 = 512;

const ROW: &str = r#"{"timestamp": ms, "input_length": tokens, "output_length": tokens, "hash_ids": [ids]}"#;

/// Reads one line; keys other than the four are ignored.
pub(super) fn parse(line: &str) -> Result<Row, InputError> {
    let Object(row) = serde_json::from_str(line).map_err(|error| {
        let problem = if error.is_eof() {
            "the line is truncated".to_owned()
        } else {
            // The parser's own place is replaced by the place in the file.
            let message = error.to_string();
            format!("not a row: {}", message.split(" at line ").next().unwrap_or_default())
        };
        let refusal = InputError::new(problem).accepted(ROW);
        if error.column() > 0 { refusal.at_column(error.column() as u64) } else { refusal }
    })?;
    let timestamp = get(&row, "timestamp")?;
    let millis = timestamp.as_f64().filter(|ms| (0.0..=MAX_SPAN.as_millis() as f64).contains(ms));
    let Some(millis) = millis else {
        return Err(InputError::new(format!("{timestamp} is no time"))
            .accepted(format!("milliseconds from 0 to {}", MAX_SPAN.as_millis()))
            .field("timestamp"));
    };
    let input = token_count(&row, "input_length")?;
    Ok(Row {
        time: Duration::from_nanos((millis * 1e6).round() as u64),
        time_field: "timestamp",
        prompt: prompt(get(&row, "hash_ids")?, input)?,
        output_tokens: token_count(&row, "output_length")?,
    })
}

/// A JSON object in which no key stands twice.
struct Object(Map<String, Value>);

impl<'de> Deserialize<'de> for Object {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Keys;

        impl<'de> Visitor<'de> for Keys {
            type Value = Object;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("a JSON object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Object, A::Error> {
                let mut row = Map::new();
                while let Some(key) = entries.next_key::<String>()? {
                    if row.contains_key(&key) {
                        return Err(A::Error::custom(format_args!("the key {key:?} stands twice")));
                    }
                    row.insert(key, entries.next_value()?);
                }
                Ok(Object(row))
            }
        }

        deserializer.deserialize_map(Keys)
    }
}

fn get<'a>(row: &'a Map<String, Value>, field: &'static str) -> Result<&'a Value, InputError> {
    row.get(field).ok_or_else(|| InputError::new("missing").accepted(ROW).field(field))
}

fn token_count(row: &Map<String, Value>, field: &'static str) -> Result<u32, InputError> {
    let value = get(row, field)?;
    tokens(field, &value.to_string(), value.as_u64())
}

/// Chains the blocks; the last one is as long as `input` leaves it.
fn prompt(ids: &Value, input: u32) -> Result<Prompt, InputError> {
    let refuse = |problem: String| InputError::new(problem).field("hash_ids");
    let Some(ids) = ids.as_array() else {
        return Err(refuse(format!("{ids} is no list")).accepted("a list of whole numbers"));
    };
    let blocks = input.div_ceil(BLOCK_TOKENS);
    if ids.len() != blocks as usize {
        return Err(refuse(format!("{} ids for {input} tokens", ids.len()))
            .accepted(format!("{blocks}, one for each {BLOCK_TOKENS} tokens")));
    }
    let segment = |(block, id): (u32, &Value)| match id.as_u64() {
        Some(id) => Ok(Segment { id, tokens: (input - block * BLOCK_TOKENS).min(BLOCK_TOKENS) }),
        None => Err(refuse(format!("{id} is no id")).accepted("whole numbers from 0")),
    };
    let segments: Vec<Segment> = (0..).zip(ids).map(segment).collect::<Result<_, _>>()?;
    Ok(Prompt::new(segments))
}
