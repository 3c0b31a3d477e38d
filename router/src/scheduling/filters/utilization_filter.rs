//! `utilization-filter`: candidates below caps on load (scheduling spec 4.6).

use serde::{Deserialize, Serialize};

use super::retain_unless_all_go;
use crate::attributes::InFlightLoad;
use crate::candidates::{Candidate, Reader};
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::scheduling::{Filter, SchedulingContext, invalid, name_or};

/// Name of the type.
pub const TYPE: &str = "utilization-filter";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct UtilizationParameters {
    conditions: Vec<ConditionParameters>,
    /// Whether all stay where none would.
    fallback_on_empty: bool,
    /// Whose counters to read; empty = the default producer's.
    in_flight_load_producer_name: String,
}

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ConditionParameters {
    metric: String,
    max_value: Option<f64>,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let p: UtilizationParameters = parameters.decode()?;
    if p.conditions.is_empty() {
        return Err(invalid("conditions must list at least one {metric, maxValue}"));
    }
    let conditions = p.conditions.iter().map(Condition::new).collect::<Result<Vec<_>, _>>()?;
    let load = resolve(well_known::IN_FLIGHT_LOAD, &p.in_flight_load_producer_name);
    let reads_load = conditions.iter().any(|c| c.metric == Metric::ActiveRequests);
    let requires = reads_load.then(|| TypedKey::of::<InFlightLoad>(&load)).into_iter().collect();
    let filter = UtilizationFilter { conditions, load, fallback_on_empty: p.fallback_on_empty };
    let instance = Instance::new(TYPE, name_or(name, TYPE), Roles::filter(filter));
    Ok(instance.with_data(DataFlow::consumer(requires)))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Metric {
    ActiveRequests,
    RunningRequests,
    WaitingQueue,
    KvCacheUtilization,
}

struct Condition {
    metric: Metric,
    max: f64,
}

impl Condition {
    fn new(parameters: &ConditionParameters) -> Result<Self, FactoryError> {
        let name = parameters.metric.as_str();
        let metric = match name {
            "active-requests" => Metric::ActiveRequests,
            "running-requests" => Metric::RunningRequests,
            "waiting-queue" => Metric::WaitingQueue,
            "kv-cache-utilization" => Metric::KvCacheUtilization,
            _ => {
                return Err(invalid(format!(
                    "metric {name:?} is unknown; accepted: active-requests, running-requests, waiting-queue, \
                     kv-cache-utilization"
                )));
            }
        };
        let Some(max) = parameters.max_value else {
            return Err(invalid(format!("maxValue is required for metric {name}")));
        };
        let limit = if metric == Metric::KvCacheUtilization { 1.0 } else { f64::MAX };
        if !(0.0..=limit).contains(&max) {
            let accepted = if limit == 1.0 { "0 to 1" } else { "0 or more" };
            return Err(invalid(format!("maxValue of metric {name} is {max}; accepted: {accepted}")));
        }
        Ok(Condition { metric, max })
    }
}

struct UtilizationFilter {
    conditions: Vec<Condition>,
    load: DataKey,
    fallback_on_empty: bool,
}

impl Filter for UtilizationFilter {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        let loads = cx.candidates.read(&self.load);
        let passes = |candidate| {
            // Not "at most", which NaN is not: NaN passes.
            !self.conditions.iter().any(|c| value(c.metric, cx, &loads, candidate) > c.max)
        };
        if self.fallback_on_empty {
            retain_unless_all_go(survivors, passes);
        } else {
            survivors.retain(|&candidate| passes(candidate));
        }
    }
}

fn value(
    metric: Metric,
    cx: &SchedulingContext<'_>,
    loads: &Reader<'_, InFlightLoad>,
    candidate: Candidate,
) -> f64 {
    let metrics = &cx.candidates.endpoint(candidate).metrics;
    match metric {
        Metric::ActiveRequests => loads.get(candidate).map_or(0, |load| load.requests.get()) as f64,
        Metric::RunningRequests => metrics.running_requests_size as f64,
        Metric::WaitingQueue => metrics.waiting_queue_size as f64,
        Metric::KvCacheUtilization => metrics.kv_cache_usage_percent,
    }
}
