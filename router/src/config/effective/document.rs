//! Writing YAML in block style, keys in the order in which they were set.

use std::fmt::{self, Display, Write as _};

use serde_json::Value;

/// A value of a document.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Tree {
    /// Nothing; not written.
    Null,
    /// A scalar, or anything in flow style.
    Value(Value),
    List(Vec<Tree>),
    Map(Document),
}

/// A mapping.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Document {
    entries: Vec<(String, Tree)>,
    note: Option<&'static str>,
}

impl Document {
    /// Adds an entry behind the others.
    pub(super) fn set(&mut self, key: &str, value: impl Into<Tree>) {
        self.entries.push((key.to_owned(), value.into()));
    }

    /// Writes a comment behind the first entry.
    pub(super) fn note(&mut self, note: Option<&'static str>) {
        self.note = note;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Writes the entries, each on lines of its own but the first, before which the cursor stands.
    fn write(&self, out: &mut String, indent: usize) {
        for (place, (key, value)) in self.entries.iter().enumerate() {
            if place > 0 {
                let _ = write!(out, "{:indent$}", "");
            }
            let _ = write!(out, "{}:", scalar(key));
            value.write(out, indent + 2);
            if let (0, Some(note)) = (place, self.note) {
                // The first entry of a mapping with a note is a scalar.
                out.truncate(out.trim_end_matches('\n').len());
                let _ = writeln!(out, "  # {note}");
            }
        }
    }
}

impl Display for Document {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = String::new();
        self.write(&mut text, 0);
        f.write_str(&text)
    }
}

impl Tree {
    /// Writes the value behind its key.
    fn write(&self, out: &mut String, indent: usize) {
        match self {
            Tree::Null => out.push_str(" null\n"),
            Tree::Value(Value::String(text)) => {
                let _ = writeln!(out, " {}", scalar(text));
            }
            Tree::Value(Value::Number(number)) => {
                let _ = match number.as_f64().filter(|float| number.is_f64() && float.fract() == 0.0) {
                    // As the reader takes it: a float without a fraction is an integer.
                    Some(whole) => writeln!(out, " {whole}"),
                    None => writeln!(out, " {number}"),
                };
            }
            Tree::Value(value) => {
                let _ = writeln!(out, " {value}");
            }
            Tree::List(items) if items.is_empty() => out.push_str(" []\n"),
            Tree::Map(map) if map.is_empty() => out.push_str(" {}\n"),
            Tree::List(items) => {
                out.push('\n');
                for item in items {
                    let _ = write!(out, "{:indent$}-", "");
                    match item {
                        Tree::Map(map) if !map.is_empty() => {
                            out.push(' ');
                            map.write(out, indent + 2);
                        }
                        item => item.write(out, indent + 2),
                    }
                }
            }
            Tree::Map(map) => {
                let _ = write!(out, "\n{:indent$}", "");
                map.write(out, indent);
            }
        }
    }
}

/// Returns a text as it reads back: plain where nothing else could be meant, else as JSON quotes it.
fn scalar(text: &str) -> String {
    let plain = text.starts_with(|c: char| c.is_ascii_alphabetic())
        && text.chars().all(|c| c.is_ascii_alphanumeric() || "-_./=".contains(c))
        && !["y", "n", "yes", "no", "on", "off", "true", "false", "null"]
            .contains(&&*text.to_ascii_lowercase());
    if plain { text.to_owned() } else { Value::from(text).to_string() }
}

impl From<Value> for Tree {
    fn from(value: Value) -> Self {
        match value {
            Value::Null => Tree::Null,
            Value::Array(items) => Tree::List(items.into_iter().map(Tree::from).collect()),
            Value::Object(members) => {
                let mut map = Document::default();
                members.into_iter().for_each(|(key, value)| map.set(&key, value));
                Tree::Map(map)
            }
            value => Tree::Value(value),
        }
    }
}

impl From<Document> for Tree {
    fn from(document: Document) -> Self {
        Tree::Map(document)
    }
}

impl From<&str> for Tree {
    fn from(text: &str) -> Self {
        Tree::Value(text.into())
    }
}

impl From<String> for Tree {
    fn from(text: String) -> Self {
        Tree::Value(text.into())
    }
}

impl From<u64> for Tree {
    fn from(number: u64) -> Self {
        Tree::Value(number.into())
    }
}
