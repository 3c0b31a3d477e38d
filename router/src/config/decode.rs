//! From a document tree to typed values, strictly: nothing unknown is passed over, and every problem is
//! reported, not only the first.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::time::Duration;

use serde_json::Value;

use super::problem::{Located, Position, Problems, Syntax, accepted_instead};
use super::scalars::parse_duration;
use super::shape::{Field, Shape};
use super::yaml::{self, Content, Entry, Node};

/// A node with the keys that lead to it.
#[derive(Clone, Debug)]
pub struct Cursor<'a> {
    /// The node.
    pub node: &'a Node,
    /// Keys that lead to it; empty for the document itself.
    pub path: String,
    /// Takes the fields that are asked for, where those are what is asked for.
    sketch: Option<&'a RefCell<Vec<Field>>>,
}

impl<'a> Cursor<'a> {
    /// Returns the cursor at the root of a document.
    pub fn root(node: &'a Node) -> Self {
        Cursor::at(node, String::new())
    }

    /// Returns the cursor at a node inside a document.
    pub fn at(node: &'a Node, path: String) -> Self {
        Cursor { node, path, sketch: None }
    }

    /// Reports that the node is not `expected`.
    pub fn mismatch(&self, expected: &str, problems: &mut Problems) {
        let message = format!("expected {expected}, found {}", self.node.describe());
        problems.push(Syntax::WrongType, Some(self.node.at), self.path.clone(), message);
    }

    /// Reports that the node has the right type and a value that is not accepted.
    pub fn refuse(&self, message: impl Into<String>, problems: &mut Problems) {
        problems.push(Syntax::BadValue, Some(self.node.at), self.path.clone(), message);
    }

    fn item(&self, index: usize, node: &'a Node) -> Self {
        Cursor::at(node, format!("{}[{index}]", self.path))
    }

    fn field(&self, entry: &'a Entry) -> Self {
        Cursor::at(&entry.value, self.path_of(&entry.key))
    }

    fn path_of(&self, key: &str) -> String {
        if self.path.is_empty() { key.to_owned() } else { format!("{}.{key}", self.path) }
    }
}

/// A value that a document can hold.
pub trait Decode: Sized {
    /// Returns the value, or reports why the node does not hold one and returns `None`.
    ///
    /// A value may be returned beside reported problems, so that later checks can report more; the caller
    /// must not use it without looking at the list of problems.
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self>;

    /// Returns what a document may hold in its place. This one is for mappings that are read with [`Fields`]: the
    /// fields are those that decoding asks for.
    fn shape() -> Shape {
        let asked = RefCell::default();
        let empty = Node { content: Content::Map(Vec::new()), at: Position { line: 1, column: 1 } };
        let cursor = Cursor { sketch: Some(&asked), ..Cursor::root(&empty) };
        // What is missing in an empty mapping does not matter here.
        let _ = Self::decode(&cursor, &mut Problems::new(""));
        Shape::Fields(asked.into_inner())
    }
}

/// Decodes a whole text.
pub fn decode<T: Decode>(file: &str, text: &str) -> Result<T, Problems> {
    let mut problems = Problems::new(file);
    let value = yaml::parse(text, &mut problems).and_then(|n| T::decode(&Cursor::root(&n), &mut problems));
    match value {
        Some(value) => problems.into_result(value),
        None => Err(problems),
    }
}

/// The fields of a mapping. What is asked for is what is accepted.
#[derive(Debug)]
pub struct Fields<'a, 'p> {
    cursor: &'a Cursor<'a>,
    entries: &'a [Entry],
    asked: Vec<&'static str>,
    problems: &'p mut Problems,
}

impl<'a, 'p> Fields<'a, 'p> {
    /// Lets `body` read the fields of a mapping, then reports every field that it did not ask for. Null is a
    /// mapping without fields; anything else is reported, and `body` does not run.
    pub fn read<T>(
        cursor: &'a Cursor<'a>,
        problems: &'p mut Problems,
        body: impl FnOnce(&mut Fields<'a, 'p>) -> T,
    ) -> Option<T> {
        let entries = match &cursor.node.content {
            Content::Map(entries) => entries.as_slice(),
            Content::Null => &[],
            _ => {
                cursor.mismatch("a mapping", problems);
                return None;
            }
        };
        let mut fields = Fields { cursor, entries, asked: Vec::new(), problems };
        let value = body(&mut fields);
        fields.close();
        Some(value)
    }

    /// Returns a field, `None` where it is absent, null or wrong.
    pub fn optional<T: Decode>(&mut self, key: &'static str) -> Option<T> {
        let entry = self.entry(key, T::shape)?;
        if entry.value.content == Content::Null {
            return None;
        }
        T::decode(&self.cursor.field(entry), self.problems)
    }

    /// Returns a field, its type's default where it is absent, null or wrong.
    pub fn or_default<T: Decode + Default>(&mut self, key: &'static str) -> T {
        self.optional(key).unwrap_or_default()
    }

    /// Returns a field that must be there. Where it is not, or is wrong, that is reported and the type's default
    /// stands in, so that the fields behind it are read all the same.
    pub fn required<T: Decode + Default>(&mut self, key: &'static str) -> T {
        let entry = self.entry(key, T::shape);
        match entry {
            Some(entry) if entry.value.content != Content::Null => {
                T::decode(&self.cursor.field(entry), self.problems).unwrap_or_default()
            }
            _ => {
                let at = entry.map_or(self.cursor.node.at, |e| e.value.at);
                let message = format!("missing field \"{key}\"");
                self.problems.push(Syntax::MissingField, Some(at), self.cursor.path_of(key), message);
                T::default()
            }
        }
    }

    /// Returns a field with its place even where it is null; `None` where it is absent.
    pub fn node(&mut self, key: &'static str) -> Option<Located<&'a Node>> {
        let entry = self.entry(key, || Shape::Any)?;
        let path = self.cursor.path_of(key);
        Some(Located { value: &entry.value, at: Some(entry.value.at), path })
    }

    /// Returns the place of the mapping.
    pub fn place(&self) -> Located<()> {
        Located { value: (), at: Some(self.cursor.node.at), path: self.cursor.path.clone() }
    }

    /// Reports a value that does not fit the others.
    pub fn refuse(&mut self, at: Option<Position>, path: impl Into<String>, message: impl Into<String>) {
        self.problems.push(Syntax::BadValue, at, path, message);
    }

    fn entry(&mut self, key: &'static str, shape: impl FnOnce() -> Shape) -> Option<&'a Entry> {
        if !self.asked.contains(&key) {
            self.asked.push(key);
            if let Some(sketch) = self.cursor.sketch {
                sketch.borrow_mut().push(Field::new(key, shape()));
            }
        }
        self.entries.iter().rfind(|e| e.key == key)
    }

    fn close(self) {
        for (i, entry) in self.entries.iter().enumerate() {
            let path = self.cursor.path_of(&entry.key);
            if !self.asked.contains(&entry.key.as_str()) {
                let instead = accepted_instead(&entry.key, &self.asked);
                let message = format!("unknown field \"{}\"{instead}", entry.key);
                self.problems.push(Syntax::UnknownField, Some(entry.at), path, message);
            } else if let Some(first) = self.entries[..i].iter().find(|e| e.key == entry.key) {
                let message = format!("duplicate key \"{}\", first given at {}", entry.key, first.at);
                self.problems.push(Syntax::DuplicateField, Some(entry.at), path, message);
            }
        }
    }
}

impl Decode for bool {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        match cursor.node.content {
            Content::Bool(value) => Some(value),
            _ => mismatch(cursor, "a boolean (true or false)", problems),
        }
    }

    fn shape() -> Shape {
        Shape::Bool
    }
}

impl Decode for String {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        match &cursor.node.content {
            Content::Text(text) => Some(text.clone()),
            Content::Bool(_) => mismatch(
                cursor,
                "a text (YAML reads bare y, n, yes, no, on, off, true and false as booleans: quote it)",
                problems,
            ),
            _ => mismatch(cursor, "a text", problems),
        }
    }

    fn shape() -> Shape {
        Shape::Text
    }
}

impl Decode for i64 {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        match &cursor.node.content {
            Content::Number(n) if n.as_i64().is_some() => n.as_i64(),
            _ => mismatch(cursor, "an integer", problems),
        }
    }

    fn shape() -> Shape {
        Shape::Integer
    }
}

impl Decode for u64 {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        match &cursor.node.content {
            Content::Number(n) if n.as_u64().is_some() => n.as_u64(),
            _ => mismatch(cursor, "an integer of at least 0", problems),
        }
    }

    fn shape() -> Shape {
        Shape::Integer
    }
}

impl Decode for f64 {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        match &cursor.node.content {
            Content::Number(n) => n.as_f64(),
            _ => mismatch(cursor, "a number", problems),
        }
    }

    fn shape() -> Shape {
        Shape::Number
    }
}

/// A Go duration: `1m30s`, `200ms`; the units are ns, us, ms, s, m and h.
impl Decode for Duration {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        let text = String::decode(cursor, problems)?;
        let nanos = parse_duration(&text)
            .and_then(|n| u64::try_from(n).map_err(|_| format!("the duration {text:?} is negative")));
        match nanos {
            Ok(nanos) => Some(Duration::from_nanos(nanos)),
            Err(why) => {
                cursor.refuse(why, problems);
                None
            }
        }
    }

    fn shape() -> Shape {
        Shape::Text
    }
}

/// Any value, uninterpreted.
impl Decode for Value {
    fn decode(cursor: &Cursor<'_>, _: &mut Problems) -> Option<Self> {
        Some(cursor.node.to_json())
    }

    fn shape() -> Shape {
        Shape::Any
    }
}

impl<T: Decode> Decode for Vec<T> {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        let Content::List(items) = &cursor.node.content else {
            return mismatch(cursor, "a list", problems);
        };
        let decode = |(i, node)| T::decode(&cursor.item(i, node), problems);
        // Every item is decoded, so that each can report.
        let decoded: Vec<Option<T>> = items.iter().enumerate().map(decode).collect();
        decoded.into_iter().collect()
    }

    fn shape() -> Shape {
        Shape::List(Box::new(T::shape()))
    }
}

/// A mapping with free keys.
impl<T: Decode> Decode for BTreeMap<String, T> {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        let Content::Map(entries) = &cursor.node.content else {
            return mismatch(cursor, "a mapping", problems);
        };
        let decode = |entry: &Entry| Some((entry.key.clone(), T::decode(&cursor.field(entry), problems)?));
        let decoded: Vec<Option<(String, T)>> = entries.iter().map(decode).collect();
        decoded.into_iter().collect()
    }

    fn shape() -> Shape {
        Shape::Map(Box::new(T::shape()))
    }
}

/// A value that remembers where it stands.
impl<T: Decode> Decode for Located<T> {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        let value = T::decode(cursor, problems)?;
        Some(Located { value, at: Some(cursor.node.at), path: cursor.path.clone() })
    }

    fn shape() -> Shape {
        T::shape()
    }
}

fn mismatch<T>(cursor: &Cursor<'_>, expected: &str, problems: &mut Problems) -> Option<T> {
    cursor.mismatch(expected, problems);
    None
}

#[cfg(test)]
mod tests;
