//! `token-load-scorer`: the fewer tokens this router has in flight there, the better (scheduling spec 5.14).

use serde::{Deserialize, Serialize};

use crate::attributes::{InFlightLoad, UncachedRequestTokens};
use crate::candidates::Candidate;
use crate::data_key::{DataKey, resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::scheduling::{SchedulingContext, Scorer, ScorerCategory};

/// Name of the type.
pub const TYPE: &str = "token-load-scorer";

/// Tokens in flight that score zero, where the configuration does not say.
const DEFAULT_THRESHOLD: i64 = 4_194_304;

#[derive(Debug, Default, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct TokenLoadParameters {
    /// Tokens in flight that score zero; not positive = the default.
    queue_threshold_tokens: i64,
    /// Whose counters to read; empty = the default producer's.
    in_flight_load_producer_name: String,
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let p: TokenLoadParameters = parameters.decode()?;
    let threshold = if p.queue_threshold_tokens > 0 { p.queue_threshold_tokens } else { DEFAULT_THRESHOLD };
    let load = resolve(well_known::IN_FLIGHT_LOAD, &p.in_flight_load_producer_name);
    let uncached = resolve(well_known::UNCACHED_REQUEST_TOKENS, &p.in_flight_load_producer_name);
    let data = DataFlow::consumer(vec![
        TypedKey::of::<InFlightLoad>(&load),
        TypedKey::of::<UncachedRequestTokens>(&uncached),
    ]);
    let scorer = TokenLoadScorer { load, uncached, threshold };
    Ok(Instance::new(TYPE, name, Roles::scorer(scorer)).with_data(data))
}

struct TokenLoadScorer {
    load: DataKey,
    uncached: DataKey,
    threshold: i64,
}

impl Scorer for TokenLoadScorer {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Distribution
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let loads = cx.candidates.read::<InFlightLoad>(&self.load);
        let uncached = cx.candidates.read::<UncachedRequestTokens>(&self.uncached);
        for (&candidate, score) in survivors.iter().zip(scores) {
            let in_flight = loads.get(candidate).map_or(0, |load| load.tokens.get());
            let tokens = in_flight.wrapping_add(uncached.get(candidate).map_or(0, |tokens| tokens.0));
            *score = Some(if tokens <= 0 {
                1.0
            } else {
                1.0 - tokens.min(self.threshold) as f64 / self.threshold as f64
            });
        }
    }
}
