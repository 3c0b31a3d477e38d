//! `random-picker`: any candidate with equal chances (scheduling spec 6.2).

use executor::Stream;

use super::Draws;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::{Picker, Scored};

/// Name of the type.
pub const TYPE: &str = "random-picker";

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles::picker(RandomPicker(Draws::new(name, parameters, handle)?))))
}

struct RandomPicker(Draws);

impl Picker for RandomPicker {
    fn pick(&self, scored: &mut [Scored]) -> usize {
        pick_uniform(scored, self.0.limit, &mut self.0.stream.borrow_mut())
    }
}

/// Moves `limit` candidates, or all, to the front, each ordered choice with equal chances.
///
/// The head of a Fisher-Yates shuffle: one draw a pick, none for the last one that is left.
pub(super) fn pick_uniform(scored: &mut [Scored], limit: usize, stream: &mut Stream) -> usize {
    let picked = limit.min(scored.len());
    for at in 0..picked.min(scored.len().saturating_sub(1)) {
        let other = at + stream.below((scored.len() - at) as u64) as usize;
        scored.swap(at, other);
    }
    picked
}
