//! A YAML or JSON text as a tree that knows the place of every node.
//!
//! The reading is that of the llm-d Router (configuration spec 1): YAML with the scalar rules of version 1.1,
//! only the first document of a text, keys that become text, no key twice; and JSON, strictly, where the first
//! character is `{`. The events come from `saphyr-parser`, a maintained YAML parser in safe Rust that passes
//! the YAML test suite, reports the place of every event and resolves no scalars, so that the older rules can
//! be laid over it.

mod events;
mod json;
mod scalar;

use serde_json::{Number, Value};

use super::problem::{Position, Problems, Syntax};

/// How deep collections may nest; deeper text is refused, since every walk over the tree recurses.
pub const MAX_DEPTH: usize = 100;

/// How many nodes aliases may add to one document.
pub const MAX_ALIASED_NODES: usize = 100_000;

/// One value of a document.
#[derive(Clone, Debug, PartialEq)]
pub struct Node {
    /// Where it begins.
    pub at: Position,
    /// What it is.
    pub content: Content,
}

/// The content of a node: the values of JSON.
#[derive(Clone, Debug, PartialEq)]
pub enum Content {
    /// `null`, or nothing at all.
    Null,
    /// A boolean, of YAML in any of its spellings.
    Bool(bool),
    /// A finite number. A YAML float without a fraction is an integer, as in the llm-d Router, which passes
    /// YAML on as JSON; in JSON text `4.0` stays a float.
    Number(Number),
    /// Text.
    Text(String),
    /// A sequence.
    List(Vec<Node>),
    /// A mapping, in order of appearance. JSON text may hold a key twice; the last is meant.
    Map(Vec<Entry>),
}

/// One key of a mapping.
#[derive(Clone, Debug, PartialEq)]
pub struct Entry {
    /// The key as text.
    pub key: String,
    /// Where the key stands.
    pub at: Position,
    /// Its value.
    pub value: Node,
}

/// Reads the first document of `text`; an empty document is null.
///
/// Returns `None` where the text cannot be read as a whole. A key that stands twice in a YAML mapping is
/// reported too, and the document is returned with its last value, so that a caller can go on and report more.
pub fn parse(text: &str, problems: &mut Problems) -> Option<Node> {
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    if text.trim_start().starts_with('{') {
        json::parse(text, problems)
    } else {
        events::parse(text, problems)
    }
}

/// Reads `text`, which holds one document only: reports where a second one begins.
pub fn parse_only(text: &str, problems: &mut Problems) -> Option<Node> {
    let root = parse(text, problems)?;
    let text = text.strip_prefix('\u{feff}').unwrap_or(text);
    // JSON text is read to its end.
    if !text.trim_start().starts_with('{') {
        events::refuse_second_document(text, problems)?;
    }
    Some(root)
}

impl Node {
    /// Returns the node as a JSON value; of a key that stands twice the last value.
    pub fn to_json(&self) -> Value {
        match &self.content {
            Content::Null => Value::Null,
            Content::Bool(b) => Value::Bool(*b),
            Content::Number(n) => Value::Number(n.clone()),
            Content::Text(t) => Value::String(t.clone()),
            Content::List(items) => Value::Array(items.iter().map(Node::to_json).collect()),
            Content::Map(entries) => {
                Value::Object(entries.iter().map(|e| (e.key.clone(), e.value.to_json())).collect())
            }
        }
    }

    /// Returns what the node is, for messages: `a mapping`, `the number 7`.
    pub fn describe(&self) -> String {
        match &self.content {
            Content::Null => "null".to_owned(),
            Content::Bool(b) => format!("the boolean {b}"),
            Content::Number(n) => format!("the number {n}"),
            Content::Text(t) if t.chars().count() <= 40 => format!("the text {t:?}"),
            Content::Text(_) => "a text".to_owned(),
            Content::List(_) => "a list".to_owned(),
            Content::Map(_) => "a mapping".to_owned(),
        }
    }

    /// Returns how many nodes hang together here, this one included.
    fn size(&self) -> usize {
        1 + match &self.content {
            Content::List(items) => items.iter().map(Node::size).sum(),
            Content::Map(entries) => entries.iter().map(|e| e.value.size()).sum(),
            _ => 0,
        }
    }

    /// Returns how deep collections nest here, zero for a scalar.
    fn depth(&self) -> usize {
        match &self.content {
            Content::List(items) => 1 + items.iter().map(Node::depth).max().unwrap_or(0),
            Content::Map(entries) => 1 + entries.iter().map(|e| e.value.depth()).max().unwrap_or(0),
            _ => 0,
        }
    }
}

/// Reports that a text nests too deep.
fn too_deep(at: Position, problems: &mut Problems) {
    let message = format!("collections nest deeper than {MAX_DEPTH}");
    problems.push(Syntax::BadSyntax, Some(at), "", message);
}

#[cfg(test)]
mod tests;
