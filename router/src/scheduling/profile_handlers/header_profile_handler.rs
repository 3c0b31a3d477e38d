//! `header-profile-handler`: the one profile that a request header names (scheduling spec 7.3).

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::{only_result, single};
use crate::candidates::Candidates;
use crate::error::PluginError;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;
use crate::scheduling::{ProfileHandler, ProfileResults, SchedulingResult};

/// Name of the type.
pub const TYPE: &str = "header-profile-handler";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HeaderProfileParameters {
    /// The header; blank = `epp-profile`.
    header_name: String,
    /// The profile of requests without the header; blank = `decode`.
    default_profile: String,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let HeaderProfileParameters { header_name, default_profile } = parameters.decode()?;
    let or = |text: &str, default: &str| {
        if text.trim().is_empty() { default.to_owned() } else { text.trim().to_owned() }
    };
    let handler = HeaderProfileHandler {
        header: or(&header_name, "epp-profile").to_lowercase(),
        default_profile: or(&default_profile, "decode"),
    };
    Ok(Instance::new(TYPE, name, Roles::profile_handler(handler)))
}

struct HeaderProfileHandler {
    header: String,
    default_profile: String,
}

impl HeaderProfileHandler {
    fn value<'a>(&self, request: &'a InferenceRequest) -> &'a str {
        request.headers.get(&self.header).map_or("", str::trim)
    }
}

impl ProfileHandler for HeaderProfileHandler {
    fn pick(
        &self,
        request: &mut InferenceRequest,
        _: &Candidates,
        profiles: &[Rc<str>],
        results: &mut ProfileResults,
    ) -> Vec<Rc<str>> {
        if !results.is_empty() {
            return Vec::new();
        }
        if profiles.len() == 1 {
            return profiles.to_vec();
        }
        let value = self.value(request);
        let wanted = if value.is_empty() { self.default_profile.as_str() } else { value };
        let found = profiles.iter().find(|profile| ***profile == *wanted);
        if found.is_none() {
            tracing::info!(header = self.header, profile = wanted, ?profiles, "no such profile");
        }
        found.into_iter().cloned().collect()
    }

    fn process_results(
        &self,
        request: &mut InferenceRequest,
        results: ProfileResults,
    ) -> Result<SchedulingResult, PluginError> {
        if results.is_empty() {
            let (header, value) = (&self.header, self.value(request));
            return Err(PluginError::other(if value.is_empty() {
                format!("missing {header:?} header")
            } else {
                format!("no scheduling profile configured for {header:?} header value {value:?}")
            }));
        }
        let (primary, result) = only_result(results, TYPE)?;
        Ok(single(primary, result))
    }
}
