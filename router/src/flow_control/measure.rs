//! The metrics of flow control (flow-control spec 15).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt};
use rustc_hash::FxHashMap;

use super::outcome::Outcome;
use crate::metrics::{Bounded, Metric, OTHER, Registry, Series};

/// What is written of each request and of each cycle.
pub(super) struct Measures {
    rt: Rt,
    pool: Rc<str>,
    fairness_ids: Bounded,
    models: Bounded,
    waited: Metric,
    enqueued: Metric,
    size: Metric,
    bytes: Metric,
    total: Metric,
    saturation: Series,
    cycles: Series,
    /// Labels of the flows, by priority, id and models, as requests say them.
    flows: RefCell<BTreeMap<i64, FlowLabels>>,
    totals: RefCell<BTreeMap<(i64, Outcome), Series>>,
}

/// Labels of flows by id, for look-ups only; of each flow one for each pair of models.
type FlowLabels = FxHashMap<Rc<str>, Vec<(ModelPair, Rc<WaitLabels>)>>;
/// Incoming and target model.
type ModelPair = (Box<str>, Box<str>);

/// The labels of one flow and pair of models, with the series that every request writes.
pub(super) struct WaitLabels {
    /// `fairness_id`, `priority`, `model_name`, `target_model_name`.
    texts: [Box<str>; 4],
    size: Series,
    bytes: Series,
    admitted: Series,
    dispatched: RefCell<Option<Series>>,
}

impl Measures {
    pub(super) fn new(rt: Rt, registry: &Registry, pool: &str) -> Self {
        let metric = |name: &str| registry.metric(&format!("llm_d_epp_flow_control_{name}"));
        Measures {
            rt,
            fairness_ids: registry.fairness_ids().clone(),
            models: registry.models().clone(),
            waited: metric("request_queue_duration_seconds"),
            enqueued: metric("request_enqueue_duration_seconds"),
            size: metric("queue_size"),
            bytes: metric("queue_bytes"),
            total: metric("requests_total"),
            saturation: metric("pool_saturation").series(&[pool]),
            cycles: metric("dispatch_cycle_duration_seconds").series(&[]),
            pool: pool.into(),
            flows: RefCell::default(),
            totals: RefCell::default(),
        }
    }

    /// Returns the time, to measure from.
    pub(super) fn now(&self) -> Instant {
        self.rt.now()
    }

    /// Returns the labels of a request.
    pub(super) fn labels(&self, id: &str, priority: i64, model: &str, target: &str) -> Rc<WaitLabels> {
        let mut flows = self.flows.borrow_mut();
        let band = flows.entry(priority).or_default();
        if let Some(known) = band.get(id) {
            let same = |(pair, _): &&(ModelPair, _)| *pair.0 == *model && *pair.1 == *target;
            if let Some((_, labels)) = known.iter().find(same) {
                return Rc::clone(labels);
            }
        }
        let labels = Rc::new(self.new_labels(id, priority, model, target));
        // Labels beyond the bound are all alike: there is no use in keeping them for each id.
        if &*labels.texts[0] != OTHER && &*labels.texts[2] != OTHER && &*labels.texts[3] != OTHER {
            let known = band.entry(id.into()).or_default();
            known.push(((model.into(), target.into()), Rc::clone(&labels)));
        }
        labels
    }

    fn new_labels(&self, id: &str, priority: i64, model: &str, target: &str) -> WaitLabels {
        let (id, priority) = (self.fairness_ids.admit(id), priority.to_string());
        let (model, target) = (self.models.admit(model), self.models.admit(target));
        let flow = [id, &priority, &self.pool, model, target];
        WaitLabels {
            size: self.size.series(&flow),
            bytes: self.bytes.series(&flow),
            admitted: self.enqueued.series(&[id, &priority, &Outcome::NotYetFinalized.to_string()]),
            dispatched: RefCell::default(),
            texts: [id, &priority, model, target].map(Into::into),
        }
    }

    /// Counts a request that waits for flow control.
    pub(super) fn entered(&self, labels: &WaitLabels, bytes: u64) {
        labels.size.add(1.0);
        labels.bytes.add(bytes as f64);
    }

    /// Counts how long it took to queue a request, or to refuse it.
    pub(super) fn enqueued(&self, labels: &WaitLabels, refused: Option<Outcome>, started: Instant) {
        let seconds = (self.rt.now() - started).as_secs_f64();
        match refused {
            None => labels.admitted.observe(seconds),
            Some(outcome) => {
                self.enqueued.observe(&[&labels.texts[0], &labels.texts[1], &outcome.to_string()], seconds);
            }
        }
    }

    /// Counts the wait of a request that has ended.
    pub(super) fn waited(&self, labels: &WaitLabels, outcome: Outcome, waited: Duration) {
        let series = || {
            let [id, priority, model, target] = labels.texts.each_ref().map(|text| &**text);
            self.waited.series(&[id, priority, &outcome.to_string(), &self.pool, model, target])
        };
        if outcome == Outcome::Dispatched {
            labels.dispatched.borrow_mut().get_or_insert_with(series).observe(waited.as_secs_f64());
        } else {
            series().observe(waited.as_secs_f64());
        }
    }

    /// Counts a request that flow control is done with. `priority` is the one it asked for.
    pub(super) fn left(&self, labels: &WaitLabels, bytes: u64, outcome: Outcome, priority: i64) {
        labels.size.add(-1.0);
        labels.bytes.add(-(bytes as f64));
        let mut totals = self.totals.borrow_mut();
        let total = totals
            .entry((priority, outcome))
            .or_insert_with(|| self.total.series(&[&outcome.to_string(), &priority.to_string(), &self.pool]));
        total.add(1.0);
    }

    /// Counts a dispatch cycle that began at `started`.
    pub(super) fn cycle(&self, saturation: f64, started: Instant) {
        self.saturation.set(saturation);
        self.cycles.observe((self.rt.now() - started).as_secs_f64());
    }

    /// Drops the series of a flow that is gone, unless they are those of all that are not shown.
    pub(super) fn forget_flow(&self, id: &str, priority: i64) {
        if let Some(band) = self.flows.borrow_mut().get_mut(&priority) {
            band.remove(id);
        }
        if id == OTHER {
            return;
        }
        let priority = priority.to_string();
        for metric in [&self.waited, &self.enqueued, &self.size, &self.bytes] {
            metric.remove(&[(0, id), (1, &priority)]);
        }
    }
}
