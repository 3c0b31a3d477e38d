//! `destination-endpoint-served-verifier`: tells the client which endpoint served it, for conformance tests
//! (request-control spec 12).

use std::rc::Rc;

use serde_json::Value;

use super::{ResponseHeaderProcessor, ResponseRecord};
use crate::director::headers::DESTINATION_SERVED;
use crate::endpoint::EndpointMetadata;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;

/// Name of the type.
pub const TYPE: &str = "destination-endpoint-served-verifier";

/// The response header that it sets.
const HEADER: &str = "x-conformance-test-served-endpoint";

/// Builds an instance, which reports no type; parameters are not looked at.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let plugin = Rc::new(DestinationEndpointServedVerifier);
    Ok(Instance::new("", name, Roles { response_header: Some(plugin), ..Roles::default() }))
}

struct DestinationEndpointServedVerifier;

impl ResponseHeaderProcessor for DestinationEndpointServedVerifier {
    fn response_header(
        &self,
        _: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        _: Option<&Rc<EndpointMetadata>>,
    ) {
        let served = match response.metadata.get("envoy.lb") {
            None => "fail: missing envoy lb metadata",
            Some(fields) => fields
                .get(DESTINATION_SERVED)
                .and_then(Value::as_str)
                .unwrap_or("fail: missing destination endpoint served metadata"),
        };
        response.headers.insert(HEADER, served.to_owned());
    }
}
