//! Pickers: how one chooses among scored candidates (scheduling spec 6).
//!
//! Each instance draws from a random stream of its own. Only the law of the draws is upstream's; a picker draws
//! no more than the law needs.

pub mod max_score_picker;
mod order;
pub mod random_picker;
pub mod weighted_random_picker;

use std::cell::RefCell;

use executor::Stream;
use serde::{Deserialize, Serialize};

use crate::plugin::{Factory, Handle, ParameterError, Parameters};

/// The picker types that are built.
pub const TYPES: &[(&str, Factory)] = &[
    (max_score_picker::TYPE, max_score_picker::factory),
    (random_picker::TYPE, random_picker::factory),
    (weighted_random_picker::TYPE, weighted_random_picker::factory),
];

/// Parameters of every picker.
#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PickerParameters {
    /// Endpoints to pick; less than one counts as one.
    max_num_of_endpoints: i64,
}

impl Default for PickerParameters {
    fn default() -> Self {
        PickerParameters { max_num_of_endpoints: 1 }
    }
}

/// What every picker holds.
#[derive(Debug)]
struct Draws {
    /// Endpoints to pick, at least one.
    limit: usize,
    stream: RefCell<Stream>,
}

impl Draws {
    fn new(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Self, ParameterError> {
        let PickerParameters { max_num_of_endpoints } = parameters.decode()?;
        let limit = usize::try_from(max_num_of_endpoints).unwrap_or(1).max(1);
        Ok(Draws { limit, stream: RefCell::new(handle.stream(&format!("picker/{name}"))) })
    }
}

#[cfg(test)]
mod tests;
