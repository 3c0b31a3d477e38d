//! What the router counts of requests (configuration spec 11.2).

use std::cell::RefCell;
use std::collections::BTreeSet;

use executor::Instant;

use crate::director::ResponseTracker;
use crate::director::headers::DEFAULT_FAIRNESS_ID;
use crate::metrics::{Metric, Registry};
use crate::request_control::Usage;

/// Most different (model, target model, fairness id) that have series of their own. Clients choose these texts: what
/// comes beyond counts under [`OTHER`], so that no client can make the page grow without end.
const MOST_LABELS: usize = 1024;

/// The label values of requests that have no series of their own.
const OTHER: &str = "other";

/// The metrics of requests.
pub(super) struct RequestMetrics {
    known: RefCell<BTreeSet<[String; 3]>>,
    total: Metric,
    errors: Metric,
    running: Metric,
    size: Metric,
    duration: Metric,
    ttft: Metric,
    input_tokens: Metric,
    output_tokens: Metric,
    cached_tokens: Metric,
}

/// One request between its decision and the end of its response.
pub(super) struct Measured {
    /// `model_name`, `target_model_name`, `fairness_id`, `priority`.
    labels: [String; 4],
    received: Instant,
    first_chunk: Option<Instant>,
    streaming: bool,
}

impl RequestMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let metric = |name: &str| registry.metric(&format!("llm_d_epp_request_{name}"));
        RequestMetrics {
            known: RefCell::default(),
            total: metric("total"),
            errors: metric("error_total"),
            running: metric("running"),
            size: metric("size_bytes"),
            duration: metric("duration_seconds"),
            ttft: metric("ttft_seconds"),
            input_tokens: metric("input_tokens"),
            output_tokens: metric("output_tokens"),
            cached_tokens: metric("cached_tokens"),
        }
    }

    /// Counts a request that got a destination.
    pub(super) fn routed(
        &self,
        incoming_model: &str,
        tracker: &ResponseTracker,
        received: Instant,
        streaming: bool,
    ) -> Option<Measured> {
        let request = tracker.request()?;
        let [model, target, fairness] =
            self.bounded([incoming_model, &request.target_model, &request.fairness_id]);
        let labels = [model, target, fairness, request.priority.to_string()];
        let measured = Measured { labels, received, first_chunk: None, streaming };
        self.total.inc(&measured.labels());
        self.size.observe(&measured.labels(), request.size_bytes as f64);
        if !incoming_model.is_empty() {
            self.running.add(&measured.labels(), 1.0);
        }
        Some(measured)
    }

    /// Counts a request for `model` that got none.
    pub(super) fn failed(&self, model: &str, code: &str) {
        let [model, target, fairness] = self.bounded([model, model, DEFAULT_FAIRNESS_ID]);
        self.errors.inc(&[&model, &target, &fairness, "0", code]);
    }

    fn bounded(&self, labels: [&str; 3]) -> [String; 3] {
        let labels = labels.map(str::to_owned);
        let mut known = self.known.borrow_mut();
        if known.contains(&labels) {
            return labels;
        }
        if known.len() >= MOST_LABELS {
            return [OTHER, OTHER, OTHER].map(str::to_owned);
        }
        known.insert(labels.clone());
        labels
    }

    /// Counts a response; `usage` is what it reported, and `seen` whether it came to its end.
    pub(super) fn ended(&self, measured: &Measured, usage: Option<Usage>, seen: bool, now: Instant) {
        let labels = measured.labels();
        if !labels[0].is_empty() {
            self.running.add(&labels, -1.0);
        }
        if !seen {
            return;
        }
        self.duration.observe(&labels, (now - measured.received).as_secs_f64());
        if let Some(first) = measured.first_chunk {
            let streaming = if measured.streaming { "true" } else { "false" };
            let [model, target, fairness, priority] = labels;
            let seconds = (first - measured.received).as_secs_f64();
            self.ttft.observe(&[model, target, fairness, priority, streaming], seconds);
        }
        let Some(usage) = usage else { return };
        for (metric, tokens) in
            [(&self.input_tokens, usage.prompt_tokens), (&self.output_tokens, usage.completion_tokens)]
        {
            if tokens > 0 {
                metric.observe(&labels, tokens as f64);
            }
        }
        if let Some(cached) = usage.cached_tokens {
            self.cached_tokens.observe(&labels, cached as f64);
        }
    }
}

impl Measured {
    fn labels(&self) -> [&str; 4] {
        self.labels.each_ref().map(String::as_str)
    }

    /// Notes a chunk of the response.
    pub(super) fn chunk(&mut self, now: Instant) {
        self.first_chunk.get_or_insert(now);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_cannot_make_the_page_grow_without_end() {
        let registry = Registry::default();
        let metrics = RequestMetrics::new(&registry);
        for i in 0..5000 {
            metrics.failed(&format!("model-{i}"), "NotFound");
        }
        let series =
            |text: &str| text.lines().filter(|l| l.starts_with("llm_d_epp_request_error_total{")).count();
        assert_eq!(series(&registry.text()), MOST_LABELS + 1);
        let other = metrics.errors.value(&[OTHER, OTHER, OTHER, "0", "NotFound"]);
        assert_eq!(other, Some((5000 - MOST_LABELS) as f64));
    }
}
