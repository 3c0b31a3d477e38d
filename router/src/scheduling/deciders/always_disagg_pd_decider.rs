//! `always-disagg-pd-decider`: always yes.

use crate::candidates::Candidates;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::request::InferenceRequest;
use crate::scheduling::{Decider, Target};

/// Name of the type.
pub const TYPE: &str = "always-disagg-pd-decider";

/// Builds an instance; takes no parameters.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    Ok(Instance::new(TYPE, name, Roles::decider(AlwaysDisagg)))
}

struct AlwaysDisagg;

impl Decider for AlwaysDisagg {
    fn disaggregate(&self, _: &InferenceRequest, _: &Candidates, _: Option<&Target>) -> bool {
        true
    }
}
