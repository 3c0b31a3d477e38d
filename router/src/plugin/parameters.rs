//! The `parameters` block of a plugin.

mod go_json;

use std::fmt;

use serde::de::DeserializeOwned;
use serde_json::Value;

/// The `parameters` block of a plugin: any JSON value, or absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(Option<Value>);

/// Parameters that a plugin does not accept; prints as `path: message`, or the message alone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParameterError {
    /// Keys and indexes that lead to the wrong value, as written; empty for the block as a whole.
    pub path: Vec<Segment>,
    /// What is wrong, and what is accepted.
    pub message: String,
}

/// One step of a path into parameters.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// Into a mapping.
    Key(String),
    /// Into a list.
    Index(usize),
}

impl Parameters {
    /// Returns absent parameters: the plugin uses its defaults.
    pub fn absent() -> Self {
        Parameters(None)
    }

    /// Returns the given parameters.
    pub fn new(value: Value) -> Self {
        Parameters(Some(value))
    }

    /// Returns the JSON value, `None` where the block is absent.
    pub fn value(&self) -> Option<&Value> {
        self.0.as_ref()
    }

    /// Decodes into `T`, whose `#[serde(default)]` states the defaults, at every depth by the rules of the llm-d
    /// Router (scheduling spec 2.4).
    ///
    /// Field names match in any case; null leaves a field's default; of two spellings of one field the last
    /// counts; a float is not an integer. Absent parameters and null give `T::default()`.
    ///
    /// # Errors
    /// An unknown field, with those that are accepted, or a value of a wrong type.
    pub fn decode<T: DeserializeOwned + Default>(&self) -> Result<T, ParameterError> {
        match &self.0 {
            None | Some(Value::Null) => Ok(T::default()),
            Some(value) => go_json::decode(value),
        }
    }
}

impl ParameterError {
    /// Returns an error about the block as a whole.
    pub fn new(message: impl Into<String>) -> Self {
        ParameterError { path: Vec::new(), message: message.into() }
    }

    /// Returns an error about the field `key` of the block.
    pub fn at(key: &str, message: impl Into<String>) -> Self {
        ParameterError { path: vec![Segment::Key(key.to_owned())], message: message.into() }
    }

    /// Returns the path as text: `conditions[0].metric`.
    pub fn path_text(&self) -> String {
        let mut text = String::new();
        for segment in &self.path {
            match segment {
                Segment::Key(key) if text.is_empty() => text.push_str(key),
                Segment::Key(key) => text.push_str(&format!(".{key}")),
                Segment::Index(index) => text.push_str(&format!("[{index}]")),
            }
        }
        text
    }
}

impl std::error::Error for ParameterError {}

impl fmt::Display for ParameterError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path_text())?;
        }
        f.write_str(&self.message)
    }
}

#[cfg(test)]
mod tests;
