//! What the router counts of requests (configuration spec 11.2).

use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

use executor::Instant;

use crate::director::{Known, ResponseTracker};
use crate::metrics::{Bounded, MOST, Metric, OTHER, Registry};
use crate::request_control::Usage;

/// How many models are shown of those that no model server has answered for: one costs 16 kB of the page, and any
/// client can invent some. A model that has been served is shown from its next request on, up to [`MOST`].
const MOST_UNSERVED: usize = 50;

/// Most sets of label values that are shown. Beyond, the fairness id of new ones is [`OTHER`]: models and fairness
/// ids that are admitted each by itself could still be paired a million times.
const MOST_SETS: usize = 2000;

/// The metrics of requests.
pub(super) struct RequestMetrics {
    /// Model and target model share one set.
    models: Models,
    fairness_ids: Bounded,
    sets: RefCell<BTreeSet<[String; 4]>>,
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
    /// The model as the client named it.
    model: String,
    /// The model as the model server knows it.
    target: String,
    received: Instant,
    first_chunk: Option<Instant>,
    streaming: bool,
}

impl RequestMetrics {
    pub(super) fn new(registry: &Registry) -> Self {
        let metric = |name: &str| registry.metric(&format!("llm_d_epp_request_{name}"));
        RequestMetrics {
            models: Models::default(),
            fairness_ids: registry.fairness_ids().clone(),
            sets: RefCell::default(),
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
        let labels =
            self.labels(incoming_model, &request.target_model, &request.fairness_id, request.priority);
        let (model, target) = (incoming_model.to_owned(), request.target_model.clone());
        let measured = Measured { labels, model, target, received, first_chunk: None, streaming };
        self.total.inc(&measured.labels());
        self.size.observe(&measured.labels(), request.size_bytes as f64);
        if !incoming_model.is_empty() {
            self.running.add(&measured.labels(), 1.0);
        }
        Some(measured)
    }

    /// Returns the labels of a request, bounded: a header can name any model, target and tenant.
    fn labels(&self, model: &str, target: &str, fairness_id: &str, priority: i64) -> [String; 4] {
        let model = self.models.admit(model);
        let (target, fairness_id) = (self.models.admit(target), self.fairness_ids.admit(fairness_id));
        let mut labels = [model.to_owned(), target.to_owned(), fairness_id.to_owned(), priority.to_string()];
        let mut sets = self.sets.borrow_mut();
        if !sets.contains(&labels) {
            match sets.len() < MOST_SETS {
                true => drop(sets.insert(labels.clone())),
                false => OTHER.clone_into(&mut labels[2]),
            }
        }
        labels
    }

    /// Counts a request for `model` that was refused, with what was known of it by then.
    pub(super) fn failed(&self, model: &str, known: &Known, code: &str) {
        let labels = self.labels(model, &known.target_model, &known.fairness_id, known.priority);
        let [model, target, fairness, priority] = labels;
        self.errors.inc(&[&model, &target, &fairness, &priority, code]);
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
        self.models.served(&measured.model);
        self.models.served(&measured.target);
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

/// The models that are shown, each with whether a model server has answered for it.
#[derive(Default)]
struct Models(RefCell<BTreeMap<String, bool>>);

impl Models {
    /// Returns the name where it is shown, else [`OTHER`]. Empty stays empty.
    fn admit<'a>(&self, name: &'a str) -> &'a str {
        let mut shown = self.0.borrow_mut();
        if name.is_empty() || shown.contains_key(name) {
            return name;
        }
        let unserved = shown.values().filter(|served| !**served).count();
        if shown.len() >= MOST || unserved >= MOST_UNSERVED {
            return OTHER;
        }
        shown.insert(name.to_owned(), false);
        name
    }

    /// Notes that a model server has answered for the model.
    fn served(&self, name: &str) {
        let mut shown = self.0.borrow_mut();
        if let Some(served) = shown.get_mut(name) {
            *served = true;
        } else if !name.is_empty() && shown.len() < MOST {
            shown.insert(name.to_owned(), true);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::director::headers::DEFAULT_FAIRNESS_ID;

    #[test]
    fn clients_cannot_make_the_page_grow_without_end() {
        let registry = Registry::default();
        let metrics = RequestMetrics::new(&registry);
        for i in 0..5000 {
            let model = format!("model-{i}");
            metrics.failed(&model, &Known { target_model: model.clone(), ..Known::default() }, "NotFound");
        }
        let series =
            |text: &str| text.lines().filter(|l| l.starts_with("llm_d_epp_request_error_total{")).count();
        assert_eq!(series(&registry.text()), MOST_UNSERVED + 1);
        let other = metrics.errors.value(&[OTHER, OTHER, DEFAULT_FAIRNESS_ID, "0", "NotFound"]);
        assert_eq!(other, Some((5000 - MOST_UNSERVED) as f64));
    }

    /// Configuration spec 11.2: a refused request counts under its own labels, as far as they are known.
    #[test]
    fn refusals_count_under_what_is_known_of_them() {
        let metrics = RequestMetrics::new(&Registry::default());
        metrics.failed("", &Known::default(), "BadRequest");
        let known = Known { target_model: "m".into(), fairness_id: "ten".into(), priority: -1 };
        metrics.failed("m", &known, "ResourceExhausted");
        let count = |labels: [&str; 5]| metrics.errors.value(&labels);
        assert_eq!(count(["", "", DEFAULT_FAIRNESS_ID, "0", "BadRequest"]), Some(1.0));
        assert_eq!(count(["m", "m", "ten", "-1", "ResourceExhausted"]), Some(1.0));
    }

    #[test]
    fn a_header_cannot_make_the_page_grow_without_end() {
        let registry = Registry::default();
        let metrics = RequestMetrics::new(&registry);
        for i in 0..10_000 {
            let known = Known { target_model: format!("t-{i}"), fairness_id: format!("f-{i}"), priority: 0 };
            metrics.failed("m", &known, "NotFound");
        }
        let series =
            registry.text().lines().filter(|l| l.starts_with("llm_d_epp_request_error_total{")).count();
        assert!(series <= MOST_SETS + MOST_UNSERVED + 1, "{series} series");
    }

    #[test]
    fn models_that_are_served_are_shown_up_to_the_bound_of_the_specification() {
        let models = Models::default();
        for i in 0..100 {
            models.admit(&format!("invented-{i}"));
        }
        for i in 0..5000 {
            let name = format!("model-{i}");
            assert_eq!(models.admit(&name), OTHER, "not served yet");
            models.served(&name);
            assert_eq!(models.admit(&name) == name, i < MOST - MOST_UNSERVED);
        }
        assert_eq!(models.admit("invented-0"), "invented-0", "what is admitted stays");
        assert_eq!(models.admit(""), "");
    }

    #[test]
    fn pairs_of_admitted_values_are_bounded_too() {
        let metrics = RequestMetrics::new(&Registry::default());
        let (models, tenants) = (["a", "b"], MOST_SETS / 2);
        assert!(tenants <= MOST, "each tenant is admitted by itself");
        for model in models {
            for tenant in (0..tenants).map(|i| format!("tenant-{i}")) {
                assert_eq!(metrics.labels(model, model, &tenant, 0), [model, model, &tenant, "0"]);
            }
        }
        assert_eq!(metrics.labels("a", "a", "tenant-0", 0), ["a", "a", "tenant-0", "0"]);
        assert_eq!(metrics.labels("a", "b", "tenant-0", 0), ["a", "b", OTHER, "0"]);
    }
}
