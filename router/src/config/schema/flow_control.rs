//! The section `flowControl` (configuration spec 1.5).

use super::PluginRef;
use crate::config::decode::{Cursor, Decode, Fields};
use crate::config::problem::{Located, Problems};
use crate::config::scalars::{parse_duration, parse_quantity};
use crate::config::shape::Shape;
use crate::config::yaml::Content;

/// Flow control as written.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct FlowControlConfig {
    /// Cap on queued bytes over all priorities.
    pub max_bytes: Option<Located<Quantity>>,
    /// Cap on queued requests over all priorities.
    pub max_requests: Option<Located<Quantity>>,
    /// How long a request may wait.
    pub default_request_ttl: Option<Located<GoDuration>>,
    /// Template of priorities that are not listed.
    pub default_priority_band: Option<Located<PriorityBand>>,
    /// Template of priorities below zero that are not listed.
    pub default_negative_priority_band: Option<Located<PriorityBand>>,
    /// Listed priorities.
    pub priority_bands: Vec<Located<PriorityBand>>,
    /// Policy that caps admission by priority.
    pub usage_limit_policy: Option<Located<String>>,
    /// Plugin that says how full the pool is; honoured even where flow control is off.
    pub saturation_detector: Option<Located<PluginRef>>,
    /// Whether requests in flight may be evicted.
    pub enable_eviction: bool,
}

impl FlowControlConfig {
    /// Returns whether the section holds anything that is ignored while flow control is off.
    pub fn is_ignored_without_gate(&self) -> bool {
        self.max_bytes.is_some()
            || self.max_requests.is_some()
            || self.default_request_ttl.is_some()
            || self.default_priority_band.is_some()
            || self.default_negative_priority_band.is_some()
            || !self.priority_bands.is_empty()
            || self.usage_limit_policy.is_some()
    }
}

/// One priority's limits and policies.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PriorityBand {
    /// Priority.
    pub priority: i64,
    /// Cap on queued bytes.
    pub max_bytes: Option<Located<Quantity>>,
    /// Cap on queued requests.
    pub max_requests: Option<Located<Quantity>>,
    /// Policy between flows.
    pub fairness_policy: Option<Located<String>>,
    /// Policy inside a flow.
    pub ordering_policy: Option<Located<String>>,
}

/// A Kubernetes resource quantity, as text or as a bare number.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Quantity(pub i64);

/// A duration that may be negative. Unit: nanoseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct GoDuration(pub i64);

impl Decode for FlowControlConfig {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| FlowControlConfig {
            max_bytes: f.optional("maxBytes"),
            max_requests: f.optional("maxRequests"),
            default_request_ttl: f.optional("defaultRequestTTL"),
            default_priority_band: f.optional("defaultPriorityBand"),
            default_negative_priority_band: f.optional("defaultNegativePriorityBand"),
            priority_bands: f.or_default("priorityBands"),
            usage_limit_policy: non_empty(f.optional("usageLimitPolicyPluginRef")),
            saturation_detector: f.optional("saturationDetector"),
            enable_eviction: f.or_default("enableEviction"),
        })
    }
}

impl Decode for PriorityBand {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |f| PriorityBand {
            priority: f.or_default("priority"),
            max_bytes: f.optional("maxBytes"),
            max_requests: f.optional("maxRequests"),
            fairness_policy: non_empty(f.optional("fairnessPolicyRef")),
            ordering_policy: non_empty(f.optional("orderingPolicyRef")),
        })
    }
}

fn non_empty(reference: Option<Located<String>>) -> Option<Located<String>> {
    reference.filter(|r| !r.value.is_empty())
}

impl Decode for Quantity {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        let text = match &cursor.node.content {
            Content::Text(text) => text.clone(),
            Content::Number(number) => number.to_string(),
            _ => {
                cursor.mismatch("a quantity", problems);
                return None;
            }
        };
        parse_quantity(text.trim()).map(Quantity).map_err(|why| cursor.refuse(why, problems)).ok()
    }

    fn shape() -> Shape {
        Shape::Either(vec![Shape::Text, Shape::Number])
    }
}

impl Decode for GoDuration {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        let Content::Text(text) = &cursor.node.content else {
            cursor.mismatch("a duration as text, such as \"60s\"", problems);
            return None;
        };
        parse_duration(text).map(GoDuration).map_err(|why| cursor.refuse(why, problems)).ok()
    }

    fn shape() -> Shape {
        Shape::Text
    }
}
