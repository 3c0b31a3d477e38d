//! The pool as the director sees it: without endpoints that refuse connections or leave polls unanswered.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::{Instant, Rt};

use crate::data_layer::silence::Silence;
use crate::director::{Pool, RewriteRule};
use crate::endpoint::Endpoint;
use crate::metrics::{Metric, Registry};

/// How long an endpoint is left out after a connection to it failed. Afterwards one request finds out whether
/// it is back; where it is not, that request goes elsewhere too.
const EJECTION: Duration = Duration::from_secs(2);

/// A pool that leaves out endpoints to which no connection could be made, for a while, and those whose model server
/// is [silent](Silence), until it answers.
///
/// Nothing is left out while all are well, and nothing when all would be: so decisions are those of the pool behind
/// it as long as its endpoints live.
pub(crate) struct HealthyPool {
    rt: Rt,
    pool: Rc<dyn Pool>,
    silence: Silence,
    /// Addresses, each with the instant at which it is tried again.
    refused: RefCell<BTreeMap<String, Instant>>,
    left_out: Metric,
}

impl HealthyPool {
    /// Returns `pool`, nothing left out but what is silent.
    pub(crate) fn new(rt: &Rt, pool: Rc<dyn Pool>, silence: Silence, metrics: &Registry) -> Self {
        let left_out = metrics.metric("lockstep_endpoint_left_out");
        HealthyPool { rt: rt.clone(), pool, silence, refused: RefCell::default(), left_out }
    }

    /// Returns the number of endpoints, those that are left out included.
    pub(crate) fn len(&self) -> usize {
        self.pool.endpoints().len()
    }

    /// Leaves `address` out for a while: no connection to it could be made.
    pub(crate) fn eject(&self, address: String) {
        let now = self.rt.now();
        let mut refused = self.refused.borrow_mut();
        // One line an outage: it lasts while each new attempt fails before long.
        refused.retain(|_, until| *until + EJECTION > now);
        if !refused.contains_key(&address) {
            tracing::warn!(endpoint = address, "no connection can be made; it is left out for a while");
        }
        refused.insert(address, now + EJECTION);
    }

    /// Brings the metric of what is left out up to date.
    pub(crate) fn publish(&self) {
        self.left_out.remove(&[]);
        let now = self.rt.now();
        for (address, _) in self.refused.borrow().iter().filter(|(_, until)| **until > now) {
            self.left_out.set(&[address, "refused"], 1.0);
        }
        for address in self.silence.addresses().iter() {
            self.left_out.set(&[address, "silent"], 1.0);
        }
    }
}

impl Pool for HealthyPool {
    fn endpoints(&self) -> Rc<Vec<Rc<Endpoint>>> {
        let all = self.pool.endpoints();
        let mut refused = self.refused.borrow_mut();
        let silent = self.silence.addresses();
        if refused.is_empty() && silent.is_empty() {
            return all;
        }
        let now = self.rt.now();
        refused.retain(|_, until| *until + EJECTION > now);
        let out = |endpoint: &Endpoint| {
            let address = endpoint.metadata.host_port();
            silent.contains(&address) || refused.get(&address).is_some_and(|until| *until > now)
        };
        let healthy: Vec<_> = all.iter().filter(|endpoint| !out(endpoint)).cloned().collect();
        if healthy.is_empty() { all } else { Rc::new(healthy) }
    }

    fn priority(&self, objective: &str) -> Option<i64> {
        self.pool.priority(objective)
    }

    fn rewrite_rule(&self, model: &str) -> Option<Rc<RewriteRule>> {
        self.pool.rewrite_rule(model)
    }
}
