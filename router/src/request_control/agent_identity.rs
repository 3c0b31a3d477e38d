//! `agent-identity`: finds the session of a coding agent in the headers that such agents send (request-control spec
//! 11). The director takes it for the fairness id where the client names none.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use super::RequestHeaderProcessor;
use crate::error::PluginError;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;

/// Name of the type, and of the request attribute that it sets.
pub const TYPE: &str = "agent-identity";

/// Headers that are looked at behind the configured ones, in order.
const BUILT_IN: [&str; 4] = ["x-claude-code-session-id", "x-session-affinity", "session-id", "session_id"];

/// Parameters of the type.
#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
pub struct AgentIdentityParameters {
    /// Headers that are looked at first.
    pub additional_session_headers: Vec<String>,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let AgentIdentityParameters { additional_session_headers } = parameters.decode()?;
    let headers = additional_session_headers.iter().map(|name| name.to_lowercase());
    let headers = headers.chain(BUILT_IN.iter().map(|name| (*name).to_owned())).collect();
    let plugin = Rc::new(AgentIdentity { headers });
    Ok(Instance::new(TYPE, name, Roles { request_header: Some(plugin), ..Roles::default() }))
}

struct AgentIdentity {
    headers: Vec<String>,
}

impl RequestHeaderProcessor for AgentIdentity {
    fn process(&self, request: &mut InferenceRequest) -> Result<(), PluginError> {
        let found = self.headers.iter().filter_map(|name| request.headers.get(name)).find(|v| !v.is_empty());
        if let Some(session) = found.map(str::to_owned) {
            request.attributes.put(TYPE, session);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::scheduling::testing::handle;

    /// Request-control spec 11.
    #[test]
    fn the_first_header_with_a_value_names_the_session() {
        let parameters = Parameters::new(json!({ "additionalSessionHeaders": ["X-Mine"] }));
        let plugin = factory(TYPE, &parameters, &handle()).unwrap().roles.request_header.unwrap();
        let session = |headers: &[(&str, &str)]| {
            let headers = headers.iter().copied().collect();
            let mut request = InferenceRequest { headers, ..InferenceRequest::default() };
            plugin.process(&mut request).unwrap();
            assert_eq!(request.fairness_id, "", "the director sets it");
            request.attributes.get::<String>(TYPE).cloned()
        };
        let found = |value: &str| Some(value.to_owned());
        assert_eq!(session(&[("x-session-affinity", "o"), ("x-claude-code-session-id", "c")]), found("c"));
        assert_eq!(session(&[("session-id", "x"), ("x-session-affinity", "o")]), found("o"));
        assert_eq!(session(&[("session_id", "u"), ("session-id", "x")]), found("x"));
        assert_eq!(session(&[("x-claude-code-session-id", "c"), ("x-mine", "m")]), found("m"));
        assert_eq!(session(&[("x-claude-code-session-id", ""), ("session_id", "u")]), found("u"));
        assert_eq!(session(&[("previous-response-id", "r")]), None);
        assert!(
            factory(TYPE, &Parameters::new(json!({ "additionalSessionHeaders": "x" })), &handle()).is_err()
        );
    }
}
