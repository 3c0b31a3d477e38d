//! `disagg-headers-handler`: tells the decode endpoint where prefill and encode run (scheduling spec 7.6).

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::candidates::Candidates;
use crate::error::PluginError;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;
use crate::request_control::PreRequest;
use crate::scheduling::{SchedulingResult, Target};

/// Name of the type.
pub const TYPE: &str = "disagg-headers-handler";

/// The type's old name; its instances report the new one.
pub const ALIAS: &str = "prefill-header-handler";

/// `host:port` of the prefill endpoint.
const PREFILL_HEADER: &str = "x-prefiller-host-port";

/// `host:port` of each encode endpoint, separated by commas.
const ENCODE_HEADER: &str = "x-encoder-hosts-ports";

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct HeadersParameters {
    prefill_profile: String,
    encode_profile: String,
}

impl Default for HeadersParameters {
    fn default() -> Self {
        HeadersParameters { prefill_profile: "prefill".to_owned(), encode_profile: "encode".to_owned() }
    }
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let HeadersParameters { prefill_profile, encode_profile } = parameters.decode()?;
    let handler = DisaggHeadersHandler { prefill: prefill_profile.into(), encode: encode_profile.into() };
    let roles = Roles { pre_request: Some(Rc::new(handler)), ..Roles::default() };
    Ok(Instance::new(TYPE, name, roles))
}

struct DisaggHeadersHandler {
    prefill: Rc<str>,
    encode: Rc<str>,
}

impl PreRequest for DisaggHeadersHandler {
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        _: &Candidates,
    ) -> Result<(), PluginError> {
        write_headers(request, result, &self.prefill, &self.encode);
        Ok(())
    }
}

/// Sets the headers of the stages that have targets, and removes those of the others.
pub(super) fn write_headers(
    request: &mut InferenceRequest,
    result: &SchedulingResult,
    prefill: &str,
    encode: &str,
) {
    let place = |target: &Target| target.endpoint.metadata.host_port();
    let prefill = result.profile_targets(prefill).first().map(place);
    let encode: Vec<String> = result.profile_targets(encode).iter().map(place).collect();
    set_or_remove(request, PREFILL_HEADER, prefill);
    set_or_remove(request, ENCODE_HEADER, (!encode.is_empty()).then(|| encode.join(",")));
}

fn set_or_remove(request: &mut InferenceRequest, header: &str, value: Option<String>) {
    match value {
        Some(value) => request.headers.insert(header, value),
        None => {
            request.headers.remove(header);
        }
    }
}
