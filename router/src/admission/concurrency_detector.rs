//! `concurrency-detector`: saturation from what this router has in flight (flow-control spec 12.2).

use std::rc::Rc;
use std::time::Duration;

use executor::Instant;
use serde::{Deserialize, Serialize};

use super::SaturationDetector;
use crate::attributes::InFlightLoad;
use crate::candidates::Candidate;
use crate::data_key::{DataKey, resolve, well_known};
use crate::endpoint::Endpoint;
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, ParameterError, Parameters, Roles, TypedKey};
use crate::scheduling::{Filter, SchedulingContext};

/// Name of the type.
pub const TYPE: &str = "concurrency-detector";

#[derive(Clone, Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ConcurrencyParameters {
    /// Requests at which an endpoint is full.
    max_concurrency: i64,
    /// Tokens at which an endpoint is full.
    max_token_concurrency: i64,
    /// What counts: `requests`, `tokens` or `hybrid`.
    concurrency_mode: String,
    /// By what fraction the filter lets an endpoint be fuller than full.
    headroom: f64,
    /// Whose counters to read; empty = the default producer's.
    in_flight_load_producer_name: String,
}

impl Default for ConcurrencyParameters {
    fn default() -> Self {
        ConcurrencyParameters {
            max_concurrency: 100,
            max_token_concurrency: 1_000_000,
            concurrency_mode: "requests".to_owned(),
            headroom: 0.0,
            in_flight_load_producer_name: String::new(),
        }
    }
}

/// What fills an endpoint.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Mode {
    Requests,
    Tokens,
    /// The fuller of both.
    Hybrid,
}

/// Builds an instance, which is a filter too.
///
/// # Errors
/// Parameters that do not decode, and all that are out of range together.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let parameters: ConcurrencyParameters = parameters.decode()?;
    let name = if name.is_empty() { TYPE } else { name };
    let detector = Rc::new(ConcurrencyDetector::new(&parameters)?);
    super::warn_of_headroom(name, parameters.headroom);
    let data = DataFlow::consumer(vec![TypedKey::of::<InFlightLoad>(&detector.load)]);
    let roles =
        Roles { saturation_detector: Some(detector.clone()), filter: Some(detector), ..Roles::default() };
    Ok(Instance::new(TYPE, name, roles).with_data(data))
}

/// The detector. It counts nothing itself: a producer does.
struct ConcurrencyDetector {
    mode: Mode,
    max_requests: i64,
    max_tokens: i64,
    headroom: f64,
    load: DataKey,
}

impl ConcurrencyDetector {
    fn new(parameters: &ConcurrencyParameters) -> Result<Self, ParameterError> {
        let mut wrong = Vec::new();
        let (max_requests, max_tokens) = (parameters.max_concurrency, parameters.max_token_concurrency);
        if max_requests <= 0 {
            wrong.push(format!("maxConcurrency must be strictly positive, got {max_requests}"));
        }
        if max_tokens <= 0 {
            wrong.push(format!("maxTokenConcurrency must be strictly positive, got {max_tokens}"));
        }
        let mode = match parameters.concurrency_mode.as_str() {
            "requests" => Mode::Requests,
            "tokens" => Mode::Tokens,
            "hybrid" => Mode::Hybrid,
            other => {
                let accepted = "accepted: requests, tokens, hybrid";
                wrong.push(format!("unsupported concurrencyMode: {other:?}; {accepted}"));
                Mode::Requests
            }
        };
        wrong.extend(super::wrong_headroom(parameters.headroom));
        super::all_wrong("concurrency detector", &wrong)?;
        let load = resolve(well_known::IN_FLIGHT_LOAD, &parameters.in_flight_load_producer_name);
        Ok(ConcurrencyDetector { mode, max_requests, max_tokens, headroom: parameters.headroom, load })
    }

    /// Returns requests and tokens in flight on an endpoint.
    fn load(&self, endpoint: &Endpoint) -> (i64, i64) {
        let load = endpoint.attributes.get::<InFlightLoad>(&self.load);
        load.map_or((0, 0), |load| (load.requests.get(), load.tokens.get()))
    }

    /// Returns `max` with the headroom, cut to an integer.
    fn limit(&self, max: i64) -> i64 {
        (max as f64 * (1.0 + self.headroom)) as i64
    }
}

impl SaturationDetector for ConcurrencyDetector {
    fn plugin_type(&self) -> &'static str {
        TYPE
    }

    /// A request that was let go is in flight once it has been scheduled, which takes less than a millisecond. One that
    /// has been meanwhile counts twice until then.
    fn unseen(&self, endpoints: &[Rc<Endpoint>], now: Instant) -> Option<(f64, Instant)> {
        const SCHEDULING: Duration = Duration::from_millis(1);
        let count = endpoints.len() as f64;
        let of_one = match self.mode {
            Mode::Requests | Mode::Hybrid => 1.0 / (count * self.max_requests as f64),
            // As large as those in flight are on average.
            Mode::Tokens => {
                let loads = endpoints.iter().map(|endpoint| self.load(endpoint));
                let (requests, tokens) = loads.fold((0, 0), |sum, load| (sum.0 + load.0, sum.1 + load.1));
                tokens as f64 / requests.max(1) as f64 / (count * self.max_tokens as f64)
            }
        };
        let seen = now.as_nanos().saturating_sub(SCHEDULING.as_nanos() as u64);
        (count > 0.0).then_some((of_one, Instant::from_nanos(seen)))
    }

    /// Returns the share of the pool's capacity that is taken; in hybrid mode the mean over the endpoints. An empty pool
    /// is full.
    fn saturation(&self, endpoints: &[Rc<Endpoint>], _: Instant) -> f64 {
        if endpoints.is_empty() {
            return 1.0;
        }
        let count = endpoints.len() as f64;
        let loads = endpoints.iter().map(|endpoint| self.load(endpoint));
        let (max_requests, max_tokens) = (self.max_requests as f64, self.max_tokens as f64);
        match self.mode {
            Mode::Requests => loads.map(|load| load.0).sum::<i64>() as f64 / (count * max_requests),
            Mode::Tokens => loads.map(|load| load.1).sum::<i64>() as f64 / (count * max_tokens),
            Mode::Hybrid => {
                let fuller =
                    |load: (i64, i64)| (load.0 as f64 / max_requests).max(load.1 as f64 / max_tokens);
                loads.map(fuller).sum::<f64>() / count
            }
        }
    }
}

impl Filter for ConcurrencyDetector {
    /// Keeps what has room, be it nothing.
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        let (max_requests, max_tokens) = (self.limit(self.max_requests), self.limit(self.max_tokens));
        let loads = cx.candidates.read::<InFlightLoad>(&self.load);
        survivors.retain(|candidate| {
            let load = loads.get(*candidate);
            let (requests, tokens) = load.map_or((0, 0), |load| (load.requests.get(), load.tokens.get()));
            (self.mode == Mode::Tokens || requests < max_requests)
                && (self.mode == Mode::Requests || tokens < max_tokens)
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::candidates::Candidates;
    use crate::request::InferenceRequest;

    fn detector(mode: &str, max_requests: i64, max_tokens: i64, headroom: f64) -> ConcurrencyDetector {
        ConcurrencyDetector::new(&ConcurrencyParameters {
            max_concurrency: max_requests,
            max_token_concurrency: max_tokens,
            concurrency_mode: mode.to_owned(),
            headroom,
            ..ConcurrencyParameters::default()
        })
        .unwrap()
    }

    fn pool(loads: &[(i64, i64)]) -> Vec<Rc<Endpoint>> {
        let endpoint = |(requests, tokens): &(i64, i64)| {
            let mut endpoint = Endpoint::default();
            let load = InFlightLoad { requests: (*requests).into(), tokens: (*tokens).into() };
            endpoint.attributes.put(resolve(well_known::IN_FLIGHT_LOAD, ""), Rc::new(load));
            Rc::new(endpoint)
        };
        loads.iter().map(endpoint).collect()
    }

    #[test]
    fn the_pool_is_as_full_as_its_capacity_is_taken() {
        for (mode, loads, expected) in [
            ("requests", &[][..], 1.0),
            ("requests", &[(0, 0)], 0.0),
            ("requests", &[(5, 0)], 0.5),
            ("requests", &[(10, 0), (0, 0)], 0.5),
            ("requests", &[(15, 0), (5, 0)], 1.0),
            ("requests", &[(15, 0), (15, 0)], 1.5),
            ("tokens", &[(9, 3)], 0.03),
            ("tokens", &[(0, 50), (0, 0)], 0.25),
            ("hybrid", &[(2, 80)], 0.8),
            ("hybrid", &[(9, 10)], 0.9),
            ("hybrid", &[(10, 5)], 1.0),
            ("hybrid", &[(10, 0), (0, 100)], 1.0),
            ("hybrid", &[(10, 0), (0, 0)], 0.5),
        ] {
            let got = detector(mode, 10, 100, 0.0).saturation(&pool(loads), Instant::ZERO);
            assert!((got - expected).abs() < 1e-12, "{mode} {loads:?}: {got}");
        }
        assert_eq!(
            detector("requests", 10, 100, 0.0).saturation(&[Rc::default()], Instant::ZERO),
            0.0,
            "an endpoint that nobody counts is idle"
        );
    }

    #[test]
    fn the_filter_keeps_what_has_room_be_it_nothing() {
        for (mode, headroom, load, kept) in [
            ("requests", 0.2, (11, 0), true),
            ("requests", 0.2, (12, 0), false),
            ("tokens", 0.2, (99, 119), true),
            ("tokens", 0.2, (0, 120), false),
            ("hybrid", 0.0, (5, 50), true),
            ("hybrid", 0.0, (10, 50), false),
            ("hybrid", 0.0, (5, 100), false),
        ] {
            let candidates = Candidates::new(Rc::new(pool(&[load])));
            let request = InferenceRequest::default();
            let cx = SchedulingContext { request: &request, candidates: &candidates, now: Instant::ZERO };
            let mut survivors: Vec<Candidate> = candidates.all().collect();
            detector(mode, 10, 100, headroom).filter(&cx, &mut survivors);
            assert_eq!(survivors.len(), usize::from(kept), "{mode} {headroom} {load:?}");
        }
    }

    #[test]
    fn everything_that_is_wrong_is_said_at_once() {
        let parameters = ConcurrencyParameters {
            max_concurrency: 0,
            max_token_concurrency: -1,
            concurrency_mode: "magic".to_owned(),
            headroom: -0.5,
            ..ConcurrencyParameters::default()
        };
        let message = ConcurrencyDetector::new(&parameters).err().unwrap().message;
        assert_eq!(message.lines().count(), 4, "{message}");
        assert!(message.starts_with("invalid concurrency detector configuration: maxConcurrency must be"));
    }
}
