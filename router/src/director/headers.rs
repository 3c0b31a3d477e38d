//! The headers that the director reads, and those that never leave the router (request-control spec 1.2).

use crate::headers::Headers;

/// Request id.
pub const REQUEST_ID: &str = "x-request-id";
/// Fairness id and its deprecated alias.
pub const FAIRNESS_ID: [&str; 2] = ["x-llm-d-inference-fairness-id", "x-gateway-inference-fairness-id"];
/// Objective and its deprecated alias.
pub const OBJECTIVE: [&str; 2] = ["x-llm-d-inference-objective", "x-gateway-inference-objective"];
/// Model rewrite and its deprecated alias.
pub const MODEL_REWRITE: [&str; 2] = ["x-llm-d-model-name-rewrite", "x-gateway-model-name-rewrite"];
/// Objective for the time to the first token and its deprecated alias. Unit: milliseconds.
pub const SLO_TTFT_MS: [&str; 2] = ["x-llm-d-slo-ttft-ms", "x-slo-ttft-ms"];
/// Objective for the time an output token and its deprecated alias. Unit: milliseconds.
pub const SLO_TPOT_MS: [&str; 2] = ["x-llm-d-slo-tpot-ms", "x-slo-tpot-ms"];
/// The chosen endpoint; also a metadata key.
pub const DESTINATION: &str = "x-gateway-destination-endpoint";
/// Scores by endpoint; a metadata key.
pub const DESTINATION_SCORES: &str = "x-gateway-destination-endpoint-scores";
/// The endpoint that served, as the proxy reports it; a metadata key.
pub const DESTINATION_SERVED: &str = "x-gateway-destination-endpoint-served";
/// Why a request was dropped.
pub const DROPPED_REASON: &str = "x-llm-d-request-dropped-reason";
/// Metadata key of the candidate subset, in the namespace [`SUBSET_NAMESPACE`].
pub const SUBSET: &str = "x-gateway-destination-endpoint-subset";
/// Metadata namespace of the candidate subset.
pub const SUBSET_NAMESPACE: &str = "envoy.lb.subset_hint";
/// The flow of requests that name none.
pub const DEFAULT_FAIRNESS_ID: &str = "default-flow";

/// Headers that are neither forwarded to a model server nor returned to a client.
const SYSTEM_OWNED: [&str; 18] = [
    FAIRNESS_ID[0],
    FAIRNESS_ID[1],
    OBJECTIVE[0],
    OBJECTIVE[1],
    MODEL_REWRITE[0],
    MODEL_REWRITE[1],
    SUBSET,
    SLO_TTFT_MS[0],
    SLO_TTFT_MS[1],
    SLO_TPOT_MS[0],
    SLO_TPOT_MS[1],
    "x-llm-d-video-fps",
    "x-llm-d-video-duration-seconds",
    "x-llm-d-video-resolution",
    DESTINATION,
    DESTINATION_SERVED,
    DROPPED_REASON,
    "content-length",
];

/// Returns whether the router keeps the header `name` to itself; case does not count.
pub fn is_system_owned(name: &str) -> bool {
    SYSTEM_OWNED.iter().any(|owned| owned.eq_ignore_ascii_case(name))
}

/// Returns whether the client wants the request served only where its prefix is cached.
pub(super) fn prefers_if_available(headers: &Headers) -> bool {
    headers.get("prefer").is_some_and(|prefer| {
        prefer.split(',').any(|part| {
            let token = part.split(';').next().unwrap_or_default();
            token.trim().eq_ignore_ascii_case("if-available")
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn conditional_decode_is_a_token_of_prefer() {
        for (value, expected) in [
            ("if-available", true),
            ("If-Available", true),
            ("return=minimal, if-available", true),
            ("if-available;param=v", true),
            ("  if-available  ", true),
            ("", false),
            ("return=minimal", false),
            ("if-available-but-different", false),
        ] {
            let headers: Headers = [("prefer", value)].into_iter().collect();
            assert_eq!(prefers_if_available(&headers), expected, "{value:?}");
        }
        assert!(!prefers_if_available(&Headers::new()));
    }

    #[test]
    fn scores_are_not_system_owned() {
        assert!(is_system_owned("X-SLO-TTFT-MS"));
        assert!(!is_system_owned(DESTINATION_SCORES));
    }
}
