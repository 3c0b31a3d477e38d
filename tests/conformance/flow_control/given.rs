//! Items and endpoints as cases describe them.

use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Sim, WallTime};
use router::endpoint::Endpoint;
use router::flow_control::ordering::Arrival;
use router::headers::Headers;
use router::plugin::{FactoryError, Handle, Instance, Parameters};
use router::support::{Registry, Support};
use serde_json::{Value, json};

use crate::scheduling::given::endpoint as scheduling_endpoint;

const NANOS_A_MS: f64 = 1e6;

/// Runs `script` on a clock whose wall time is its monotonic time, so that Unix times are instants.
pub(super) fn run<F>(script: impl FnOnce(Handle) -> F + 'static) -> Value
where
    F: Future<Output = Value> + 'static,
{
    let sim = Sim::builder().seed(1).epoch(WallTime::from_unix_nanos(0)).build();
    sim.run(|rt| script(Handle::new(rt))).unwrap()
}

/// Builds a plugin of the case's type.
pub(super) fn build(
    plugin_type: &str,
    parameters: &Value,
    handle: &Handle,
) -> Result<Instance, FactoryError> {
    let registry = Registry::default();
    let Some(Support::Supported(factory)) = registry.get(plugin_type).map(|r| r.support) else {
        panic!("{plugin_type} is not built");
    };
    factory(plugin_type, &self::parameters(parameters), handle)
}

/// Reads a `parameters` block; null = none.
pub(super) fn parameters(parameters: &Value) -> Parameters {
    if parameters.is_null() { Parameters::absent() } else { Parameters::new(parameters.clone()) }
}

/// The answer of a plugin that cannot be built. Which kind of refusal it is we do not tell.
pub(super) fn compare_refusal(then: &Value, error: &str) -> crate::outcome::Outcome {
    let refused = then.get("error").is_some();
    let answer = json!({"error": error});
    if refused { crate::outcome::Outcome::Passed } else { super::compare(then, &answer) }
}

/// An item of a queue, as it is given.
pub(super) struct Item {
    pub(super) name: String,
    enqueued: Instant,
    ttl: Option<Duration>,
    received: WallTime,
    headers: Option<Headers>,
    pub(super) bytes: u64,
}

impl Item {
    /// Reads an item; times of 0 are `now`, where it is given.
    pub(super) fn read(value: &Value, now: Option<Instant>) -> Self {
        let ms = |name: &str| value[name].as_f64().unwrap_or_default();
        let nanos = |name: &str| match (ms(name), now) {
            (0.0, Some(now)) => now.as_nanos(),
            (ms, _) => ms as u64 * 1_000_000 + (ms.fract() * NANOS_A_MS).round() as u64,
        };
        let ttl = value["ttl_ns"].as_i64().unwrap_or_default();
        let headers = value["headers"].as_object().filter(|_| value["no_inference_request"] != true);
        Item {
            name: value["name"].as_str().expect("an item has a name").to_owned(),
            enqueued: Instant::from_nanos(nanos("enqueue_ms")),
            ttl: u64::try_from(ttl).ok().filter(|ttl| *ttl > 0).map(Duration::from_nanos),
            received: WallTime::from_unix_nanos(nanos("received_ms")),
            headers: headers.map(self::headers),
            bytes: value["size_bytes"].as_u64().unwrap_or_default(),
        }
    }

    pub(super) fn arrival(&self) -> Arrival<'_> {
        Arrival {
            enqueued: self.enqueued,
            ttl: self.ttl,
            received: self.received,
            headers: self.headers.as_ref(),
        }
    }
}

/// Reads a header map. The names that a policy looks up are lower-case: one that is not stands for none.
pub(super) fn headers(map: &serde_json::Map<String, Value>) -> Headers {
    let lower = map.iter().filter(|(name, _)| **name == name.to_ascii_lowercase());
    lower.map(|(name, value)| (name.as_str(), value.as_str().unwrap_or_default())).collect()
}

/// Reads a list of endpoints; ages of their metrics count from `now`.
pub(super) fn endpoints(list: &Value, now: Instant) -> Rc<Vec<Rc<Endpoint>>> {
    let endpoint = |value: &Value| {
        let mut value = value.clone();
        let age = value["metrics"].as_object_mut().and_then(|metrics| metrics.remove("update_age_ms"));
        let age = age.and_then(|age| age.as_f64());
        let mut endpoint = scheduling_endpoint(&value);
        endpoint.metrics.update_time = age.map(|ms| {
            let nanos = (ms.abs() * NANOS_A_MS).round() as u64;
            if ms < 0.0 { now + Duration::from_nanos(nanos) } else { now - Duration::from_nanos(nanos) }
        });
        Rc::new(endpoint)
    };
    Rc::new(list.as_array().into_iter().flatten().map(endpoint).collect())
}
