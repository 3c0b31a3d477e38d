//! Profile handlers: which profiles run, and what their results mean (scheduling spec 7).

pub mod single_profile_handler;

use std::rc::Rc;

use crate::error::PluginError;
use crate::plugin::Factory;
use crate::scheduling::{ProfileResults, ProfileRunResult};

/// The profile handler types that are built.
pub const TYPES: &[(&str, Factory)] = &[(single_profile_handler::TYPE, single_profile_handler::factory)];

/// Returns the one result of a handler that runs a single profile, with the profile's name.
///
/// # Errors
/// When there is not exactly one, or the profile failed.
fn only_result(results: ProfileResults, handler: &str) -> Result<(Rc<str>, ProfileRunResult), PluginError> {
    let count = results.len();
    let mut results = results.into_iter();
    match (results.next(), count) {
        (Some((name, Some(result))), 1) => Ok((name, result)),
        (Some((name, None)), 1) => {
            Err(PluginError::other(format!("failed to run scheduler profile '{name}'")))
        }
        _ => Err(PluginError::other(format!(
            "{handler} is intended to run a single profile per request, got {count}"
        ))),
    }
}

#[cfg(test)]
mod tests;
