//! `round-robin-fairness-policy`: the flows of a band take turns (flow-control spec 10.2).

use std::rc::Rc;

use executor::Instant;

use super::{BandFairness, FairnessPolicy};
use crate::flow_control::flows::{FlowKey, Flows, IncompatibleOrdering};
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};

/// Name of the type.
pub const TYPE: &str = "round-robin-fairness-policy";

/// Builds an instance; parameters are not looked at.
pub fn factory(name: &str, _: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let roles = Roles { fairness_policy: Some(Rc::new(RoundRobin)), ..Roles::default() };
    Ok(Instance::new(TYPE, if name.is_empty() { TYPE } else { name }, roles))
}

struct RoundRobin;

impl FairnessPolicy for RoundRobin {
    fn for_band(&self) -> Box<dyn BandFairness> {
        Box::new(Turns::default())
    }
}

/// Whose turn it was last. Forgotten as soon as a pick finds nothing waiting, so after an idle moment the smallest flow
/// id goes first again.
#[derive(Default)]
struct Turns {
    last: Option<Rc<str>>,
}

impl BandFairness for Turns {
    fn pick(&mut self, flows: &Flows, _: Instant) -> Result<Option<FlowKey>, IncompatibleOrdering> {
        // The turn of a flow that is gone counts as no turn.
        let last = self.last.as_deref().filter(|id| flows.find(id).is_some());
        let next = flows.next_ready(last).or_else(|| flows.next_ready(None));
        self.last = next.map(|flow| Rc::clone(flows.id(flow)));
        Ok(next)
    }

    fn is_settled(&self) -> bool {
        self.last.is_none()
    }

    fn cursor(&self) -> Option<&str> {
        self.last.as_deref()
    }
}
