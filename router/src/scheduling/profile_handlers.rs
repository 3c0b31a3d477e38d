//! Profile handlers: which profiles run, and what their results mean (scheduling spec 7).

pub mod data_parallel_profile_handler;
pub mod disagg_headers_handler;
pub mod disagg_profile_handler;
pub mod header_profile_handler;
pub mod pd_profile_handler;
mod primary_port;
pub mod single_profile_handler;

use std::rc::Rc;

use crate::error::PluginError;
use crate::plugin::{Factory, FactoryError, Handle};
use crate::scheduling::{Decider, ProfileResults, ProfileRunResult, SchedulingResult, Target, invalid};

/// The profile handler types that are built, and the hooks that belong to them.
pub const TYPES: &[(&str, Factory)] = &[
    (data_parallel_profile_handler::TYPE, data_parallel_profile_handler::factory),
    (disagg_headers_handler::TYPE, disagg_headers_handler::factory),
    (disagg_headers_handler::ALIAS, disagg_headers_handler::factory),
    (disagg_profile_handler::TYPE, disagg_profile_handler::factory),
    (header_profile_handler::TYPE, header_profile_handler::factory),
    (pd_profile_handler::TYPE, pd_profile_handler::factory),
    (single_profile_handler::TYPE, single_profile_handler::factory),
];

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

/// Returns the decision of a handler that ran a single profile.
fn single(primary: Rc<str>, result: ProfileRunResult) -> SchedulingResult {
    SchedulingResult { profiles: ProfileResults::from_iter([(Rc::clone(&primary), Some(result))]), primary }
}

/// Returns the first target of a profile, `None` where the profile failed, was skipped or did not run.
fn first_target<'a>(results: &'a ProfileResults, profile: &str) -> Option<&'a Target> {
    results.get(profile)?.as_ref()?.targets.first()
}

/// Returns the decider of that name.
fn decider(name: &str, handle: &Handle) -> Result<Rc<dyn Decider>, FactoryError> {
    let Some(instance) = handle.instance(name) else {
        return Err(invalid(format!("decider plugin {name:?} not found among the configured plugins")));
    };
    let id = instance.id.clone();
    instance.roles.decider.ok_or_else(|| invalid(format!("plugin {id} is not a decider")))
}

fn no_decode_worker() -> PluginError {
    PluginError::other("failed to find available decode workers")
}

#[cfg(test)]
mod tests;
