//! The `parameters` block of a plugin.

mod go_json;
mod sketch;

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use crate::config::shape::Shape;

/// The `parameters` block of a plugin: any JSON value, or absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters {
    value: Option<Value>,
    /// Takes the shape of what is decoded, where that is what is asked for.
    sketch: Option<Rc<RefCell<Option<Shape>>>>,
}

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
        Parameters::default()
    }

    /// Returns the given parameters.
    pub fn new(value: Value) -> Self {
        Parameters { value: Some(value), sketch: None }
    }

    /// Returns what a factory decodes: the shape of its parameters, `None` where it takes none.
    ///
    /// The factory runs with absent parameters; what it makes of them is dropped.
    pub(crate) fn shape_for(factory: impl FnOnce(&Parameters)) -> Option<Shape> {
        let sketch = Rc::default();
        factory(&Parameters { value: None, sketch: Some(Rc::clone(&sketch)) });
        sketch.take()
    }

    /// Returns the JSON value, `None` where the block is absent.
    pub fn value(&self) -> Option<&Value> {
        self.value.as_ref()
    }

    /// Decodes into `T`, whose `#[serde(default)]` states the defaults, at every depth by the rules of the llm-d
    /// Router (scheduling spec 2.4).
    ///
    /// Field names match in any case; null leaves a field's default; of two spellings of one field the last
    /// counts; a float is not an integer. Absent parameters and null give `T::default()`.
    ///
    /// # Errors
    /// An unknown field, with those that are accepted, or a value of a wrong type.
    pub fn decode<T: DeserializeOwned + Default + Serialize>(&self) -> Result<T, ParameterError> {
        if let Some(sketch) = &self.sketch {
            let defaults = serde_json::to_value(T::default()).unwrap_or_default();
            sketch.borrow_mut().get_or_insert_with(|| sketch::shape::<T>().with_defaults(&defaults));
        }
        match &self.value {
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
