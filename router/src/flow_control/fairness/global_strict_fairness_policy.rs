//! `global-strict-fairness-policy`: the first item of the whole band (flow-control spec 10.1).

use std::rc::Rc;

use executor::Instant;

use super::{BandFairness, FairnessPolicy};
use crate::flow_control::flows::{FlowKey, Flows, IncompatibleOrdering};
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};

/// Name of the type.
pub const TYPE: &str = "global-strict-fairness-policy";

/// Builds an instance; parameters are not looked at.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let roles = Roles { fairness_policy: Some(Rc::new(GlobalStrict)), ..Roles::default() };
    Ok(Instance::new(TYPE, if name.is_empty() { TYPE } else { name }, roles))
}

/// Compares the heads of all flows by their ordering policy, as if the band were one queue. Of equal heads that of the
/// smallest flow id goes first, where the llm-d Router takes the first of a map.
struct GlobalStrict;

impl FairnessPolicy for GlobalStrict {
    fn for_band(&self) -> Box<dyn BandFairness> {
        Box::new(GlobalStrict)
    }
}

impl BandFairness for GlobalStrict {
    fn pick(&mut self, flows: &Flows, _: Instant) -> Result<Option<FlowKey>, IncompatibleOrdering> {
        flows.first_head()
    }

    fn is_settled(&self) -> bool {
        true
    }
}
