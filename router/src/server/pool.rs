//! The pool as the director sees it: without endpoints that refuse connections.

use std::cell::RefCell;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

use executor::http::Endpoint as Address;
use executor::{Instant, Rt};

use crate::director::{Pool, RewriteRule};
use crate::endpoint::Endpoint;

/// How long an endpoint is left out after a connection to it failed. Afterwards one request finds out whether
/// it is back; where it is not, that request goes elsewhere too.
const EJECTION: Duration = Duration::from_secs(2);

/// A pool that leaves out endpoints to which no connection could be made.
///
/// Nothing is left out while no connection fails, and nothing when all would be: so decisions are those of the
/// pool behind it as long as its endpoints live.
pub(crate) struct HealthyPool {
    rt: Rt,
    pool: Rc<dyn Pool>,
    /// Address and the instant at which it is tried again.
    ejected: RefCell<Vec<(String, Instant)>>,
    /// Addresses that a line of the log has named: one line for each.
    said: RefCell<BTreeSet<String>>,
}

impl HealthyPool {
    /// Returns `pool`, nothing left out.
    pub(crate) fn new(rt: &Rt, pool: Rc<dyn Pool>) -> Self {
        HealthyPool { rt: rt.clone(), pool, ejected: RefCell::default(), said: RefCell::default() }
    }

    /// Returns the number of endpoints, those that are left out included.
    pub(crate) fn len(&self) -> usize {
        self.pool.endpoints().len()
    }

    /// Leaves `address` out for a while.
    pub(crate) fn eject(&self, address: &Address, now: Instant) {
        let address = address.to_string();
        let mut ejected = self.ejected.borrow_mut();
        ejected.retain(|(other, until)| *other != address && *until > now);
        if self.said.borrow_mut().insert(address.clone()) {
            tracing::warn!(
                endpoint = address,
                "no connection can be made; the endpoint is left out for a while"
            );
        }
        ejected.push((address, now + EJECTION));
    }
}

impl Pool for HealthyPool {
    fn endpoints(&self) -> Rc<Vec<Rc<Endpoint>>> {
        let all = self.pool.endpoints();
        let mut ejected = self.ejected.borrow_mut();
        if ejected.is_empty() {
            return all;
        }
        let now = self.rt.now();
        ejected.retain(|(_, until)| *until > now);
        let out = |endpoint: &Endpoint| {
            let address = endpoint.metadata.host_port();
            ejected.iter().any(|(ejected, _)| *ejected == address)
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
