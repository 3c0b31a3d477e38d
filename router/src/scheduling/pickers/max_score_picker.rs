//! `max-score-picker`: the highest score, ties at random (scheduling spec 6.1). The default picker.

use super::Draws;
use super::order::sort_descending;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{Picker, Scored};

/// Name of the type.
pub const TYPE: &str = "max-score-picker";

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles::picker(MaxScorePicker(Draws::new(name, parameters, handle)?))))
}

struct MaxScorePicker(Draws);

impl Picker for MaxScorePicker {
    fn pick(&self, scored: &mut [Scored]) -> usize {
        if self.0.limit == 1
            && let Some(best) = self.pick_one(scored)
        {
            scored.swap(0, best);
            return 1;
        }
        self.0.stream.borrow_mut().shuffle(scored);
        sort_descending(scored, |s| s.score);
        self.0.limit.min(scored.len())
    }
}

impl MaxScorePicker {
    /// Returns one of the best with equal chances, for one draw if there are several; `None` where a score is
    /// NaN (only the sort says who is first then) and on an empty list.
    fn pick_one(&self, scored: &[Scored]) -> Option<usize> {
        let (mut best, mut score, mut ties) = (None, f64::NEG_INFINITY, 0);
        for (at, candidate) in scored.iter().enumerate() {
            if candidate.score > score || best.is_none() {
                (best, score, ties) = (Some(at), candidate.score, 1);
            } else if candidate.score == score {
                ties += 1;
            }
            if candidate.score.is_nan() {
                return None;
            }
        }
        if ties <= 1 {
            return best;
        }
        let draw = self.0.stream.borrow_mut().below(ties);
        let mut tied = scored.iter().enumerate().filter(|(_, candidate)| candidate.score == score);
        tied.nth(draw as usize).map(|(at, _)| at)
    }
}
