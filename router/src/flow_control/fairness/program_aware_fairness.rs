//! `program-aware-fairness`: the program that got least service goes first (flow-control spec 10.3).
//!
//! A program is a fairness id. What it got is counted when a response ends and fades while it is idle.

mod parameters;
mod programs;

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt};
use serde_json::{Value, json};

use super::{BandFairness, ENQUEUE_TIME, FairnessPolicy};
use crate::candidates::Candidates;
use crate::director::headers::DEFAULT_FAIRNESS_ID;
use crate::endpoint::EndpointMetadata;
use crate::error::PluginError;
use crate::flow_control::flows::{FlowKey, Flows, IncompatibleOrdering};
use crate::metrics::Metric;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Periodic, Roles, StateDumper};
use crate::request::InferenceRequest;
use crate::request_control::{PreRequest, ResponseBodyProcessor, ResponseRecord};
use crate::scheduling::SchedulingResult;

use parameters::ProgramAwareParameters;
pub use programs::Program;
use programs::Programs;

/// Name of the type.
pub const TYPE: &str = "program-aware-fairness";

/// Builds an instance.
///
/// # Errors
/// Parameters that do not decode or are out of range.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    let name = if name.is_empty() { TYPE } else { name };
    Ok(ProgramAware::new(name, parameters, handle)?.instance(name))
}

/// The policy and the programs it knows, which all bands share.
pub struct ProgramAware {
    rt: Rt,
    parameters: ProgramAwareParameters,
    programs: RefCell<Programs>,
    gauges: Gauges,
}

struct Gauges {
    fairness: Metric,
    wait: Metric,
    service: Metric,
}

impl Gauges {
    fn new(handle: &Handle) -> Self {
        let metric = |name: &str| handle.metrics().metric(&format!("llm_d_epp_program_aware_{name}"));
        Gauges {
            fairness: metric("jains_fairness_index"),
            wait: metric("avg_wait_time_milliseconds"),
            service: metric("attained_service_tokens"),
        }
    }
}

impl ProgramAware {
    /// Returns the policy that the instance `name` is.
    ///
    /// # Errors
    /// Parameters that do not decode or are out of range.
    pub fn new(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Rc<Self>, FactoryError> {
        Ok(Rc::new(ProgramAware {
            rt: handle.rt().clone(),
            parameters: ProgramAwareParameters::read(name, parameters)?,
            programs: RefCell::default(),
            gauges: Gauges::new(handle),
        }))
    }

    /// Returns the policy as a plugin.
    pub fn instance(self: Rc<Self>, name: &str) -> Instance {
        let sweeps = self.parameters.eviction_ttl_seconds > 0.0;
        let periodic: Vec<Rc<dyn Periodic>> = if sweeps { vec![self.clone()] } else { Vec::new() };
        let roles = Roles {
            fairness_policy: Some(Rc::new(Shared(Rc::clone(&self)))),
            pre_request: Some(self.clone()),
            response_body: Some(self.clone()),
            state_dumper: Some(self),
            periodic,
            ..Roles::default()
        };
        Instance::new(TYPE, name, roles)
    }

    fn pick(&self, flows: &Flows, now: Instant) -> Option<FlowKey> {
        let parameters = &self.parameters;
        let mut programs = self.programs.borrow_mut();
        let best = programs.pick(flows, parameters, now);
        // Nothing changes the index between two picks but hooks, which mark it.
        if best.is_some() && programs.take_index_changed() {
            self.gauges.fairness.set(&[], programs.fairness_index());
        }
        best
    }

    /// Calls `see` for each program with its id, in order of the ids.
    pub fn each_program(&self, mut see: impl FnMut(&str, &Program)) {
        self.programs.borrow().iter().for_each(|(id, program)| see(id, program));
    }
}

impl std::fmt::Debug for ProgramAware {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ProgramAware").field("parameters", &self.parameters).finish_non_exhaustive()
    }
}

/// The policy as its bands hold it.
struct Shared(Rc<ProgramAware>);

impl FairnessPolicy for Shared {
    fn for_band(&self) -> Box<dyn BandFairness> {
        Box::new(Shared(Rc::clone(&self.0)))
    }

    fn wants_enqueue_time(&self) -> bool {
        true
    }
}

impl BandFairness for Shared {
    fn pick(&mut self, flows: &Flows, now: Instant) -> Result<Option<FlowKey>, IncompatibleOrdering> {
        Ok(self.0.pick(flows, now))
    }

    /// What a program got fades with every pick.
    fn is_settled(&self) -> bool {
        self.0.programs.borrow().have_no_service()
    }
}

impl PreRequest for ProgramAware {
    fn pre_request(
        &self,
        request: &mut InferenceRequest,
        _: &SchedulingResult,
        _: &Candidates,
    ) -> Result<(), PluginError> {
        let now = self.rt.now();
        let id = program_of(request);
        let waited = request.attributes.get::<Instant>(ENQUEUE_TIME).map(|since| now - *since);
        let mut programs = self.programs.borrow_mut();
        let program = programs.get_mut(id, now);
        program.dispatch(waited);
        self.gauges.wait.set(&[id], program.average_wait_ms);
        programs.index_changed();
        Ok(())
    }
}

impl ResponseBodyProcessor for ProgramAware {
    fn response_body(
        &self,
        request: Option<&InferenceRequest>,
        response: &mut ResponseRecord,
        _: Option<&Rc<EndpointMetadata>>,
    ) {
        let Some(request) = request.filter(|_| response.end_of_stream) else { return };
        let now = self.rt.now();
        let id = program_of(request);
        let mut programs = self.programs.borrow_mut();
        let program = programs.get_mut(id, now);
        program.complete(response.usage.prompt_tokens, response.usage.completion_tokens, now);
        self.gauges.service.set(&[id], program.attained_service.unwrap_or(0.0));
    }

    fn watches_every_chunk(&self) -> bool {
        false
    }
}

impl Periodic for ProgramAware {
    fn period(&self) -> Duration {
        // Above zero, as checked; what rounds to nothing is the shortest there is.
        parameters::duration(self.parameters.eviction_sweep_seconds).max(Duration::from_nanos(1))
    }

    fn tick(&self, now: Instant) {
        let ttl = parameters::duration(self.parameters.eviction_ttl_seconds);
        for id in self.programs.borrow_mut().forget_idle(now, ttl) {
            self.gauges.wait.remove(&[(0, &id)]);
            self.gauges.service.remove(&[(0, &id)]);
        }
    }
}

impl StateDumper for ProgramAware {
    /// Programs are counted and not named: there is no bound to their number.
    fn dump_state(&self) -> Value {
        let programs = self.programs.borrow();
        json!({
            "totalPrograms": programs.iter().count(),
            "totalInFlight": programs.iter().map(|(_, program)| program.in_flight).sum::<i64>(),
            "fairnessIndex": programs.fairness_index(),
        })
    }
}

fn program_of(request: &InferenceRequest) -> &str {
    if request.fairness_id.is_empty() { DEFAULT_FAIRNESS_ID } else { &request.fairness_id }
}

#[cfg(test)]
mod tests;
