//! `weighted-random-picker`: chances in proportion to the score (scheduling spec 6.3).

use super::Draws;
use super::order::sort_descending;
use super::random_picker::pick_uniform;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{Picker, Scored};

/// Name of the type.
pub const TYPE: &str = "weighted-random-picker";

/// What upstream draws for a uniform number of zero.
const SMALLEST_DRAW: f64 = 1e-10;

/// Sums and scores between which the keys of upstream's sampling neither all underflow nor round to one, so
/// that the first pick is proportional: the chance that all keys underflow is `exp(-745 · sum)`, below 1e-16.
const PROPORTIONAL: std::ops::RangeInclusive<f64> = 0.05..=1e6;

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let picker = WeightedRandomPicker(Draws::new(name, parameters, handle)?);
    Ok(Instance::new(TYPE, name, Roles::picker(picker)))
}

struct WeightedRandomPicker(Draws);

impl Picker for WeightedRandomPicker {
    fn pick(&self, scored: &mut [Scored]) -> usize {
        let limit = self.0.limit;
        if !scored.iter().any(|s| s.score > 0.0) {
            return pick_uniform(scored, limit, &mut self.0.stream.borrow_mut());
        }
        if limit == 1
            && let Some(picked) = self.pick_one(scored)
        {
            scored.swap(0, picked);
            return 1;
        }
        self.sample(scored);
        limit.min(scored.len())
    }
}

impl WeightedRandomPicker {
    /// Returns one candidate with a chance proportional to its score, for one draw; `None` where the scores are
    /// so small, large or undefined that upstream's sampling is not proportional.
    fn pick_one(&self, scored: &[Scored]) -> Option<usize> {
        if scored.iter().any(|s| s.score.is_nan()) {
            return None;
        }
        let sum: f64 = scored.iter().map(|s| s.score.max(0.0)).sum();
        if !PROPORTIONAL.contains(&sum) {
            return None;
        }
        let draw = self.0.stream.borrow_mut().unit() * sum;
        let (mut reached, mut last) = (0.0, None);
        for (at, candidate) in scored.iter().enumerate().filter(|(_, s)| s.score > 0.0) {
            reached += candidate.score;
            last = Some(at);
            if draw < reached {
                break;
            }
        }
        last
    }

    /// Orders all by sampling without replacement (A-Res): key `u^(1/score)`, the largest first. Candidates
    /// without a positive score have key zero and no draw. Equal keys stay in list order, which upstream is a
    /// map's: here a shuffle.
    fn sample(&self, scored: &mut [Scored]) {
        let mut stream = self.0.stream.borrow_mut();
        stream.shuffle(scored);
        let mut key = |score: f64| {
            if score <= 0.0 {
                return 0.0;
            }
            let draw = stream.unit();
            libm::pow(if draw == 0.0 { SMALLEST_DRAW } else { draw }, 1.0 / score)
        };
        let mut keyed: Vec<(f64, Scored)> = scored.iter().map(|s| (key(s.score), *s)).collect();
        sort_descending(&mut keyed, |(key, _)| *key);
        for (slot, (_, candidate)) in scored.iter_mut().zip(keyed) {
            *slot = candidate;
        }
    }
}
