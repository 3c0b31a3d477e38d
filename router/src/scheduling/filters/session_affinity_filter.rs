//! `session-affinity-filter`: nothing but a session's endpoint, where that is a candidate (scheduling spec 4.4).

use std::rc::Rc;

use crate::candidates::Candidate;
use crate::plugin::{FactoryError, Handle, Instance, Parameters, Roles};
use crate::scheduling::session_affinity::SessionAffinity;
use crate::scheduling::{Filter, SchedulingContext};

/// Name of the type.
pub const TYPE: &str = "session-affinity-filter";

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, handle: &Handle) -> Result<Instance, FactoryError> {
    build(TYPE, name, parameters, handle)
}

/// Builds an instance that reports `plugin_type`.
pub(super) fn build(
    plugin_type: &str,
    name: &str,
    parameters: &Parameters,
    handle: &Handle,
) -> Result<Instance, FactoryError> {
    let (affinity, roles) = SessionAffinity::new(parameters, handle)?;
    let filter: Rc<dyn Filter> = Rc::new(SessionAffinityFilter(affinity));
    Ok(Instance::new(plugin_type, name, Roles { filter: Some(filter), ..roles }))
}

struct SessionAffinityFilter(Rc<SessionAffinity>);

impl Filter for SessionAffinityFilter {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        let Some(preference) = self.0.preference(cx, survivors) else { return };
        if let Some(&pinned) = survivors.iter().find(|&&candidate| preference.is(cx, candidate)) {
            survivors.clear();
            survivors.push(pinned);
        }
    }
}
