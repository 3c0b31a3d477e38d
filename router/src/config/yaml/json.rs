//! JSON text with places: a parser of JSON says what, the addresses inside the text say where.

use std::fmt;

use serde::de::{MapAccess, Visitor};
use serde::{Deserialize, Deserializer};
use serde_json::value::RawValue;

use super::{Content, Entry, MAX_DEPTH, Node, too_deep};
use crate::config::problem::{Position, Problems, Syntax};

/// Reads a JSON text; anything behind the value is an error.
pub(super) fn parse(text: &str, problems: &mut Problems) -> Option<Node> {
    match serde_json::from_str::<&RawValue>(text) {
        Ok(raw) => Lines::new(text).node(raw.get(), 0, problems),
        Err(error) => {
            let at = Position { line: error.line().max(1), column: error.column().max(1) };
            problems.push(Syntax::BadSyntax, Some(at), "", format!("not valid JSON: {error}"));
            None
        }
    }
}

/// The text and where its lines begin.
struct Lines<'a> {
    text: &'a str,
    starts: Vec<usize>,
}

impl<'a> Lines<'a> {
    fn new(text: &'a str) -> Self {
        let after_breaks = text.bytes().enumerate().filter(|(_, b)| *b == b'\n').map(|(i, _)| i + 1);
        Lines { text, starts: std::iter::once(0).chain(after_breaks).collect() }
    }

    /// Returns the place of `part`, which must be a slice of the text.
    fn position(&self, part: &str) -> Position {
        let offset = part.as_ptr() as usize - self.text.as_ptr() as usize;
        let line = self.starts.partition_point(|start| *start <= offset);
        let column = self.text[self.starts[line - 1]..offset].chars().count() + 1;
        Position { line, column }
    }

    /// Reads one value. Each level scans its text once more, which the limit on depth bounds.
    fn node(&self, raw: &'a str, depth: usize, problems: &mut Problems) -> Option<Node> {
        let at = self.position(raw);
        let content = match raw.as_bytes().first() {
            Some(b'{' | b'[') if depth == MAX_DEPTH => {
                too_deep(at, problems);
                return None;
            }
            Some(b'{') => {
                let Members(members) = self.read(raw, at, problems)?;
                let entries = members.into_iter().map(|(key, value)| {
                    let key_at = self.position(key.get());
                    let value = self.node(value.get(), depth + 1, problems)?;
                    Some(Entry { key: self.read::<String>(key.get(), key_at, problems)?, at: key_at, value })
                });
                Content::Map(entries.collect::<Option<_>>()?)
            }
            Some(b'[') => {
                let items: Vec<&RawValue> = self.read(raw, at, problems)?;
                Content::List(
                    items
                        .into_iter()
                        .map(|i| self.node(i.get(), depth + 1, problems))
                        .collect::<Option<_>>()?,
                )
            }
            Some(b'"') => Content::Text(self.read(raw, at, problems)?),
            Some(b't' | b'f') => Content::Bool(self.read(raw, at, problems)?),
            Some(b'n') => Content::Null,
            _ => Content::Number(self.read(raw, at, problems)?),
        };
        Some(Node { at, content })
    }

    /// Decodes a value whose grammar is checked already; what remains to fail is its meaning: a lone
    /// surrogate, a number out of range.
    fn read<T: Deserialize<'a>>(&self, raw: &'a str, at: Position, problems: &mut Problems) -> Option<T> {
        match serde_json::from_str(raw) {
            Ok(value) => Some(value),
            Err(error) => {
                problems.push(Syntax::BadSyntax, Some(at), "", format!("not valid JSON: {error}"));
                None
            }
        }
    }
}

/// The members of an object in order, duplicates included.
struct Members<'a>(Vec<(&'a RawValue, &'a RawValue)>);

impl<'de: 'a, 'a> Deserialize<'de> for Members<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct InOrder;

        impl<'de> Visitor<'de> for InOrder {
            type Value = Members<'de>;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an object")
            }

            fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
                let mut members = Vec::new();
                while let Some(member) = map.next_entry()? {
                    members.push(member);
                }
                Ok(Members(members))
            }
        }

        deserializer.deserialize_map(InOrder)
    }
}
