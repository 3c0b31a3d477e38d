use serde::de::DeserializeOwned;
use serde_json::Value;

/// The `parameters` block of a plugin: any JSON value, or absent.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Parameters(Option<Value>);

/// Parameters that a plugin does not accept.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ParameterError(pub String);

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

    /// Decodes into `T`, whose `#[serde(default, deny_unknown_fields)]` states the defaults; absent parameters
    /// and JSON `null` give `T::default()`.
    pub fn decode<T: DeserializeOwned + Default>(&self) -> Result<T, ParameterError> {
        match &self.0 {
            None | Some(Value::Null) => Ok(T::default()),
            Some(value) => serde_json::from_value(value.clone()).map_err(|e| ParameterError(e.to_string())),
        }
    }
}
