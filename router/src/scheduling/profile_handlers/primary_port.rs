//! Data parallelism behind one port: the request goes to the endpoint's primary port, a header names the rank.

use std::rc::Rc;

use crate::endpoint::{Endpoint, EndpointMetadata};
use crate::plugin::FactoryError;
use crate::request::InferenceRequest;
use crate::scheduling::{ProfileRunResult, Target, invalid};

/// The header that tells the sidecar which rank to use.
const HEADER: &str = "x-data-parallel-host-port";

/// Accepts what a port parameter may be.
pub(super) fn check(primary_port: i64) -> Result<(), FactoryError> {
    if (0..=65_535).contains(&primary_port) {
        return Ok(());
    }
    Err(invalid(format!("primaryPort {primary_port} is no port; accepted: 1 to 65535")))
}

/// Sets the header to the first target's own place and returns the result with all targets moved to `port`.
///
/// The targets become copies without attributes and scores, and the scored candidates are dropped (scheduling
/// spec 7.2).
pub(super) fn redirect(
    request: &mut InferenceRequest,
    result: &ProfileRunResult,
    port: i64,
) -> ProfileRunResult {
    if let Some(first) = result.targets.first() {
        request.headers.insert(HEADER, first.endpoint.metadata.host_port());
    }
    let moved = |target: &Target| {
        let metadata =
            EndpointMetadata { port: port.to_string(), ..EndpointMetadata::clone(&target.endpoint.metadata) };
        let endpoint = Endpoint {
            metadata: Rc::new(metadata),
            metrics: target.endpoint.metrics.clone(),
            ..Endpoint::default()
        };
        Target { endpoint: Rc::new(endpoint), scored: None }
    };
    ProfileRunResult { targets: result.targets.iter().map(moved).collect(), scored: Vec::new() }
}
