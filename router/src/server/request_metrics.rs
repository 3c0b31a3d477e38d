//! What the router counts of requests (configuration spec 11.2).

use std::cell::RefCell;
use std::collections::BTreeSet;

use executor::Instant;

use crate::director::ResponseTracker;
use crate::director::headers::DEFAULT_FAIRNESS_ID;
use crate::metrics::{Metric, Registry};
use crate::request_control::Usage;

/// Most different texts that a label shows: clients choose them (configuration spec 11.5).
const MOST: usize = 1000;

/// What the texts beyond are shown as.
const OTHER: &str = "other";

/// The metrics of requests.
pub(super) struct RequestMetrics {
    /// Model and target model share one set.
    models: Bounded,
    fairness_ids: Bounded,
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
            models: Bounded::default(),
            fairness_ids: Bounded::default(),
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
        let model = self.models.admit(incoming_model);
        let target = self.models.admit(&request.target_model);
        let fairness = self.fairness_ids.admit(&request.fairness_id);
        let labels = [model.to_owned(), target.to_owned(), fairness.to_owned(), request.priority.to_string()];
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
        let model = self.models.admit(model);
        self.errors.inc(&[model, model, DEFAULT_FAIRNESS_ID, "0", code]);
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

/// A set of texts that grows up to [`MOST`].
#[derive(Default)]
struct Bounded(RefCell<BTreeSet<String>>);

impl Bounded {
    /// Returns the text where it is admitted, as the first ones are for ever; else [`OTHER`]. Empty stays empty.
    fn admit<'a>(&self, text: &'a str) -> &'a str {
        let mut known = self.0.borrow_mut();
        if text.is_empty() || known.contains(text) {
            return text;
        }
        if known.len() >= MOST {
            return OTHER;
        }
        known.insert(text.to_owned());
        text
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
        assert_eq!(series(&registry.text()), MOST + 1);
        let other = metrics.errors.value(&[OTHER, OTHER, DEFAULT_FAIRNESS_ID, "0", "NotFound"]);
        assert_eq!(other, Some((5000 - MOST) as f64));
    }
}
