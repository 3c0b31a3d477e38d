//! `single-profile-handler`: runs the one profile there is (scheduling spec 7.1).

use std::rc::Rc;

use super::{only_result, single};
use crate::candidates::Candidates;
use crate::error::PluginError;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;
use crate::scheduling::{ProfileHandler, ProfileResults, SchedulingResult};

/// Name of the type.
pub const TYPE: &str = "single-profile-handler";

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles::profile_handler(SingleProfileHandler)))
}

struct SingleProfileHandler;

impl ProfileHandler for SingleProfileHandler {
    fn pick(
        &self,
        _: &mut InferenceRequest,
        _: &Candidates,
        profiles: &[Rc<str>],
        results: &mut ProfileResults,
    ) -> Vec<Rc<str>> {
        if profiles.len() == results.len() { Vec::new() } else { profiles.to_vec() }
    }

    fn process_results(
        &self,
        _: &mut InferenceRequest,
        results: ProfileResults,
    ) -> Result<SchedulingResult, PluginError> {
        let (primary, result) = only_result(results, TYPE)?;
        Ok(single(primary, result))
    }
}
