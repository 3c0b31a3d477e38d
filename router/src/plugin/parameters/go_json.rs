//! A deserializer over a JSON value with the field rules of Go's `encoding/json`.
//!
//! Serde hands the field names of a struct to `deserialize_struct`, at every depth: there keys are matched
//! without regard to case, nulls are left out, and unknown keys are refused.

use std::fmt;

use serde::de::value::StrDeserializer;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, Deserializer, IntoDeserializer, MapAccess, SeqAccess, Visitor,
};
use serde::forward_to_deserialize_any;
use serde_json::{Map, Value};

use super::{ParameterError, Segment};
use crate::config::problem::accepted_instead;

/// Decodes `value` into `T`.
pub(super) fn decode<T: DeserializeOwned>(value: &Value) -> Result<T, ParameterError> {
    T::deserialize(GoJson(value)).map_err(|mut error| {
        error.path.reverse();
        ParameterError { path: error.path, message: error.message }
    })
}

struct GoJson<'a>(&'a Value);

/// What is wrong, with the path from the inside out.
#[derive(Debug)]
struct Error {
    path: Vec<Segment>,
    message: String,
}

impl Error {
    fn under(mut self, segment: Segment) -> Self {
        self.path.push(segment);
        self
    }
}

impl de::Error for Error {
    fn custom<T: fmt::Display>(message: T) -> Self {
        Error { path: Vec::new(), message: message.to_string() }
    }
}

impl std::error::Error for Error {}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

/// What a value is, for messages.
fn describe(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a text",
        Value::Array(_) => "a list",
        Value::Object(_) => "a mapping",
    }
}

impl<'de> Deserializer<'de> for GoJson<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_unit(),
            Value::Bool(value) => visitor.visit_bool(*value),
            Value::Number(number) => match (number.as_u64(), number.as_i64(), number.as_f64()) {
                (Some(value), ..) => visitor.visit_u64(value),
                (_, Some(value), _) => visitor.visit_i64(value),
                (.., value) => visitor.visit_f64(value.unwrap_or(f64::NAN)),
            },
            Value::String(text) => visitor.visit_borrowed_str(text),
            Value::Array(items) => visitor.visit_seq(Items { items, next: 0 }),
            Value::Object(map) => visitor.visit_map(Members::free(map)),
        }
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.0 {
            Value::Null => visitor.visit_none(),
            _ => visitor.visit_some(self),
        }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        _name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::Object(map) => visitor.visit_map(Members::of_struct(map, fields)?),
            other => Err(de::Error::custom(format!("expected a mapping, found {}", describe(other)))),
        }
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        _name: &'static str,
        _variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        match self.0 {
            Value::String(text) => {
                let variant: StrDeserializer<'_, Error> = text.as_str().into_deserializer();
                visitor.visit_enum(variant)
            }
            other => Err(de::Error::custom(format!("expected a text, found {}", describe(other)))),
        }
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit unit_struct seq
        tuple tuple_struct map identifier ignored_any
    }
}

struct Items<'a> {
    items: &'a [Value],
    next: usize,
}

impl<'de> SeqAccess<'de> for Items<'de> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<Option<T::Value>, Error> {
        let Some(item) = self.items.get(self.next) else { return Ok(None) };
        let index = self.next;
        self.next += 1;
        seed.deserialize(GoJson(item)).map(Some).map_err(|e| e.under(Segment::Index(index)))
    }
}

/// A member as it is read: the name that the reader knows, the key as written, the value.
type Member<'a> = (&'a str, &'a str, &'a Value);

struct Members<'a> {
    members: Vec<Member<'a>>,
    next: usize,
}

impl<'a> Members<'a> {
    /// The members of a mapping whose keys are data.
    fn free(map: &'a Map<String, Value>) -> Self {
        Members { members: map.iter().map(|(k, v)| (k.as_str(), k.as_str(), v)).collect(), next: 0 }
    }

    /// The members of a mapping whose keys are the fields of a struct.
    fn of_struct(map: &'a Map<String, Value>, fields: &'static [&'static str]) -> Result<Self, Error> {
        let mut members: Vec<Member<'a>> = Vec::new();
        for (key, value) in map {
            let exact = fields.iter().find(|f| **f == key);
            let Some(field) = exact.or_else(|| fields.iter().find(|f| f.eq_ignore_ascii_case(key))) else {
                let message = format!("unknown field \"{key}\"{}", accepted_instead(key, fields));
                return Err(Error { path: vec![Segment::Key(key.clone())], message });
            };
            if value.is_null() {
                continue;
            }
            match members.iter_mut().find(|m| m.0 == *field) {
                Some(member) => *member = (field, key, value),
                None => members.push((field, key, value)),
            }
        }
        Ok(Members { members, next: 0 })
    }
}

impl<'de> MapAccess<'de> for Members<'de> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(&mut self, seed: K) -> Result<Option<K::Value>, Error> {
        let Some((name, ..)) = self.members.get(self.next) else { return Ok(None) };
        let name: StrDeserializer<'_, Error> = (*name).into_deserializer();
        seed.deserialize(name).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let (_, key, value) = self.members[self.next];
        self.next += 1;
        seed.deserialize(GoJson(value)).map_err(|e| e.under(Segment::Key(key.to_owned())))
    }
}
