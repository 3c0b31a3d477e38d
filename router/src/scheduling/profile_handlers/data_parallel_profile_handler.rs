//! `data-parallel-profile-handler`: one profile, whose targets are ranks behind one port (scheduling spec 7.2).

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::{only_result, primary_port, single};
use crate::candidates::Candidates;
use crate::error::PluginError;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;
use crate::scheduling::{ProfileHandler, ProfileResults, SchedulingResult};

/// Name of the type.
pub const TYPE: &str = "data-parallel-profile-handler";

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct DataParallelParameters {
    /// The port that requests go to.
    primary_port: i64,
}

impl Default for DataParallelParameters {
    fn default() -> Self {
        DataParallelParameters { primary_port: 8000 }
    }
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let DataParallelParameters { primary_port } = parameters.decode()?;
    primary_port::check(primary_port)?;
    tracing::warn!(plugin = name, "{TYPE} is on its way out; single-profile-handler replaces it");
    Ok(Instance::new(TYPE, name, Roles::profile_handler(DataParallelProfileHandler { primary_port })))
}

struct DataParallelProfileHandler {
    primary_port: i64,
}

impl ProfileHandler for DataParallelProfileHandler {
    fn pick(
        &self,
        _: &mut InferenceRequest,
        _: &Candidates,
        profiles: &[Rc<str>],
        results: &mut ProfileResults,
    ) -> Vec<Rc<str>> {
        if profiles.len() == results.len() {
            return Vec::new();
        }
        if profiles.len() != 1 {
            tracing::error!(profiles = profiles.len(), "{TYPE} runs exactly one profile");
            return Vec::new();
        }
        profiles.to_vec()
    }

    fn process_results(
        &self,
        request: &mut InferenceRequest,
        results: ProfileResults,
    ) -> Result<SchedulingResult, PluginError> {
        let (primary, result) = only_result(results, TYPE)?;
        let result = primary_port::redirect(request, &result, self.primary_port);
        Ok(single(primary, result))
    }
}
