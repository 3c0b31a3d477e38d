//! `no-hit-lru-scorer`: spreads requests that hit no prefix cache, to where the last such request is longest ago
//! (scheduling spec 5.15).

mod lru;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt};
use serde::{Deserialize, Serialize};
use serde_json::{Value, json};

use self::lru::Lru;
use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::{Candidate, Candidates};
use crate::data_key::{DataKey, resolve, well_known};
use crate::error::PluginError;
use crate::plugin::{
    DataFlow, FactoryError, Handle, Instance, Parameters, Periodic, Roles, StateDumper, TypedKey,
};
use crate::producers::{JANITOR_PERIOD, PluginState};
use crate::request::InferenceRequest;
use crate::request_control::PreRequest;
use crate::scheduling::{SchedulingContext, SchedulingResult, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "no-hit-lru-scorer";

/// Endpoints that are remembered, where the configuration does not say.
const DEFAULT_SIZE: usize = 1024;

/// Score of every candidate when the request hits some cache.
const NEUTRAL: f64 = 0.5;

/// The profile whose pick counts beside the primary one; its name is fixed.
const PREFILL: &str = "prefill";

/// Endpoints that a dump lists.
const DUMPED: usize = 100;

/// Key of a request's record of whether it was cold.
const COLD: &str = "cold";

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct NoHitLruParameters {
    /// Endpoints that are remembered; not positive = the default.
    lru_size: i64,
    prefix_match_info_producer_name: String,
    /// Has no effect.
    #[serde(rename = "prefixPluginType")]
    _prefix_plugin_type: String,
    /// Has no effect.
    #[serde(rename = "prefixPluginName")]
    _prefix_plugin_name: String,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let p: NoHitLruParameters = parameters.decode()?;
    let size = usize::try_from(p.lru_size).ok().filter(|&size| size > 0).unwrap_or(DEFAULT_SIZE);
    let matches = resolve(well_known::PREFIX_CACHE_MATCH_INFO, &p.prefix_match_info_producer_name);
    let data = DataFlow::consumer(vec![TypedKey::of::<PrefixCacheMatchInfo>(&matches)]);
    let scorer = Rc::new(NoHitLruScorer {
        matches,
        rt: handle.rt().clone(),
        used: RefCell::new(Lru::new(size)),
        requests: RefCell::default(),
    });
    let roles = Roles {
        scorer: Some(Rc::clone(&scorer) as Rc<dyn Scorer>),
        pre_request: Some(Rc::clone(&scorer) as Rc<dyn PreRequest>),
        periodic: vec![Rc::clone(&scorer) as Rc<dyn Periodic>],
        state_dumper: Some(scorer),
        ..Roles::default()
    };
    Ok(Instance::new(TYPE, name, roles).with_data(data))
}

struct NoHitLruScorer {
    matches: DataKey,
    rt: Rt,
    /// Endpoints that cold requests went to.
    used: RefCell<Lru>,
    /// Whether a request was cold when it was last scored.
    requests: RefCell<PluginState<bool>>,
}

impl Scorer for NoHitLruScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Distribution
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let matches = cx.candidates.read::<PrefixCacheMatchInfo>(&self.matches);
        let hits = |&c: &Candidate| matches.get(c).is_some_and(|info| info.match_blocks > 0);
        let cold = !survivors.iter().any(hits);
        self.requests.borrow_mut().write(&cx.request.request_id, COLD, cold, cx.now);
        match survivors.len() {
            _ if !cold => scores.fill(Some(NEUTRAL)),
            1 => scores.fill(Some(1.0)),
            _ => self.rank(cx, survivors, scores),
        }
    }
}

impl NoHitLruScorer {
    /// Scores from one downwards: first those never used, in candidate order, then the others by their place
    /// in the whole list, the oldest first.
    fn rank(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let used = self.used.borrow();
        let places = used.places();
        let steps = survivors.len().saturating_sub(1) as f64;
        let mut never = 0;
        let mut ranked = Vec::with_capacity(survivors.len());
        for &candidate in survivors {
            let place = places.get(&cx.candidates.endpoint(candidate).metadata.id).copied();
            ranked.push(place.ok_or(never));
            never += usize::from(place.is_none());
        }
        for (rank, score) in ranked.into_iter().zip(scores) {
            *score = Some(match rank {
                Err(order) => 1.0 - order as f64 / steps,
                Ok(place) => (1.0 - (never + place) as f64 / steps).max(0.0),
            });
        }
    }
}

impl PreRequest for NoHitLruScorer {
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        result: &SchedulingResult,
        _: &Candidates,
    ) -> Result<(), PluginError> {
        if result.profiles.is_empty() {
            return Ok(());
        }
        let mut requests = self.requests.borrow_mut();
        let cold = requests.read(&request.request_id, COLD, self.rt.now()).copied();
        drop(requests.delete(&request.request_id));
        if cold == Some(true) {
            let mut used = self.used.borrow_mut();
            for targets in [result.primary_targets(), result.profile_targets(PREFILL)] {
                if let Some(target) = targets.first() {
                    used.add(&target.endpoint.metadata.id);
                }
            }
        }
        Ok(())
    }
}

impl Periodic for NoHitLruScorer {
    fn period(&self) -> Duration {
        JANITOR_PERIOD
    }

    fn tick(&self, now: Instant) {
        self.requests.borrow_mut().sweep(now);
    }
}

impl StateDumper for NoHitLruScorer {
    fn dump_state(&self) -> Value {
        let used = self.used.borrow();
        let oldest: Vec<String> = used.oldest_first().take(DUMPED).map(ToString::to_string).collect();
        json!({ "endpoints": oldest, "totalEndpoints": used.len(), "maxEndpoints": DUMPED })
    }
}
