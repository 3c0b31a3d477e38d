//! What a value may look like, found out by decoding: one declaration serves the decoder and the JSON Schema.

use serde_json::{Map, Value, json};

/// What a decoder accepts. Null is accepted too wherever a field may be absent, and counts as absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub enum Shape {
    /// Any value.
    #[default]
    Any,
    /// A boolean.
    Bool,
    /// An integer.
    Integer,
    /// A number.
    Number,
    /// A text.
    Text,
    /// One of these texts.
    Choice(Vec<&'static str>),
    /// A value of one of these shapes.
    Either(Vec<Shape>),
    /// A list.
    List(Box<Shape>),
    /// A mapping with free keys.
    Map(Box<Shape>),
    /// A mapping with these keys, in this order, and no others.
    Fields(Vec<Field>),
}

/// A field of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Field {
    /// Its key.
    pub key: &'static str,
    /// What it holds.
    pub shape: Shape,
    /// What stands in where it is absent, as far as that is a value.
    pub default: Option<Value>,
}

impl Field {
    /// Returns a field without a default.
    pub fn new(key: &'static str, shape: Shape) -> Self {
        Field { key, shape, default: None }
    }
}

impl Shape {
    /// Gives fields their defaults, at every depth, from the value that stands in for the whole.
    pub fn with_defaults(mut self, defaults: &Value) -> Self {
        let Shape::Fields(fields) = &mut self else { return self };
        for field in fields {
            let default = defaults.get(field.key).filter(|default| !default.is_null());
            let Some(default) = default else { continue };
            if matches!(field.shape, Shape::Fields(_)) {
                field.shape = std::mem::take(&mut field.shape).with_defaults(default);
            } else {
                field.default = Some(default.clone());
            }
        }
        self
    }

    /// Returns the shape of the field `key`, where it has one.
    pub fn field_mut(&mut self, key: &str) -> Option<&mut Shape> {
        let Shape::Fields(fields) = self else { return None };
        fields.iter_mut().find(|field| field.key == key).map(|field| &mut field.shape)
    }

    /// Returns the shape as a JSON Schema (draft 2020-12), without its head.
    pub fn json_schema(&self) -> Value {
        match self {
            Shape::Any => json!({}),
            Shape::Bool => json!({"type": "boolean"}),
            Shape::Integer => json!({"type": "integer"}),
            Shape::Number => json!({"type": "number"}),
            Shape::Text => json!({"type": "string"}),
            Shape::Choice(texts) => json!({"enum": texts}),
            Shape::Either(shapes) => {
                json!({"anyOf": shapes.iter().map(Shape::json_schema).collect::<Vec<_>>()})
            }
            Shape::List(item) => json!({"type": "array", "items": item.json_schema()}),
            Shape::Map(value) => json!({"type": "object", "additionalProperties": value.json_schema()}),
            Shape::Fields(fields) => {
                let properties = fields.iter().map(|field| {
                    let mut schema = field.shape.json_schema();
                    if let Some(default) = &field.default {
                        schema["default"] = default.clone();
                    }
                    (field.key.to_owned(), schema)
                });
                let properties: Map<String, Value> = properties.collect();
                json!({"type": "object", "properties": properties, "additionalProperties": false})
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defaults_reach_nested_fields() {
        let inner = Shape::Fields(vec![Field::new("low", Shape::Number), Field::new("high", Shape::Number)]);
        let shape = Shape::Fields(vec![
            Field::new("range", inner),
            Field::new("names", Shape::List(Box::new(Shape::Text))),
        ]);
        let schema =
            shape.with_defaults(&json!({"range": {"low": 0.5, "high": null}, "names": []})).json_schema();
        let expected = json!({
            "type": "object",
            "additionalProperties": false,
            "properties": {
                "range": {
                    "type": "object",
                    "additionalProperties": false,
                    "properties": {"low": {"type": "number", "default": 0.5}, "high": {"type": "number"}},
                },
                "names": {"type": "array", "items": {"type": "string"}, "default": []},
            },
        });
        assert_eq!(schema, expected);
    }
}
