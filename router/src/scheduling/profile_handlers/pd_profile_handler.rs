//! `pd-profile-handler`: decode, and prefill elsewhere where worth it (scheduling spec 7.5). Deprecated.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::{decider, disagg_profile_handler, first_target, no_decode_worker, primary_port};
use crate::candidates::Candidates;
use crate::error::PluginError;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;
use crate::scheduling::{Decider, ProfileHandler, ProfileResults, SchedulingResult};

/// Name of the type.
pub const TYPE: &str = "pd-profile-handler";

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct PdParameters {
    decode_profile: String,
    prefill_profile: String,
    decider_plugin_name: String,
    /// The port that requests go to; 0 = the target's own.
    primary_port: i64,
    prefix_match_info_producer_name: String,
    /// Has no effect.
    #[serde(rename = "prefixPluginType")]
    _prefix_plugin_type: String,
    /// Has no effect; the loader checks that it names a plugin.
    #[serde(rename = "prefixPluginName")]
    _prefix_plugin_name: String,
}

impl Default for PdParameters {
    fn default() -> Self {
        PdParameters {
            decode_profile: "decode".to_owned(),
            prefill_profile: "prefill".to_owned(),
            decider_plugin_name: "prefix-based-pd-decider".to_owned(),
            primary_port: 0,
            prefix_match_info_producer_name: String::new(),
            _prefix_plugin_type: String::new(),
            _prefix_plugin_name: String::new(),
        }
    }
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let p: PdParameters = parameters.decode()?;
    primary_port::check(p.primary_port)?;
    let handler = PdProfileHandler {
        decode: p.decode_profile.into(),
        prefill: p.prefill_profile.into(),
        decider: decider(&p.decider_plugin_name, handle)?,
        primary_port: p.primary_port,
    };
    let data = disagg_profile_handler::data_flow(&p.prefix_match_info_producer_name);
    Ok(Instance::new(TYPE, name, Roles::profile_handler(handler)).with_data(data))
}

struct PdProfileHandler {
    decode: Rc<str>,
    prefill: Rc<str>,
    decider: Rc<dyn Decider>,
    primary_port: i64,
}

impl ProfileHandler for PdProfileHandler {
    fn pick(
        &self,
        request: &mut InferenceRequest,
        candidates: &Candidates,
        profiles: &[Rc<str>],
        results: &mut ProfileResults,
    ) -> Vec<Rc<str>> {
        if !results.contains_key(&self.decode) {
            return vec![Rc::clone(&self.decode)];
        }
        let Some(target) = first_target(results, &self.decode) else { return Vec::new() };
        if profiles.len() == results.len() || !self.decider.disaggregate(request, candidates, Some(target)) {
            return Vec::new();
        }
        vec![Rc::clone(&self.prefill)]
    }

    fn process_results(
        &self,
        request: &mut InferenceRequest,
        mut results: ProfileResults,
    ) -> Result<SchedulingResult, PluginError> {
        let Some(Some(mut decode)) = results.shift_remove(&self.decode) else {
            return Err(no_decode_worker());
        };
        if self.primary_port != 0 {
            decode = primary_port::redirect(request, &decode, self.primary_port);
        }
        let mut profiles = ProfileResults::from_iter([(Rc::clone(&self.decode), Some(decode))]);
        if let Some(Some(prefill)) = results.shift_remove(&self.prefill) {
            profiles.insert(Rc::clone(&self.prefill), Some(prefill));
        }
        Ok(SchedulingResult { profiles, primary: Rc::clone(&self.decode) })
    }
}
