//! How many requests in flight are evicted, and how fast (flow-control spec 13.5).

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;

use executor::Instant;

use super::eviction::RequestEvictor;
use super::settings::ControllerSettings;
use crate::metrics::{Metric, Registry, Series};

/// Evicts as much as is missing, and not again before that can be seen.
pub(super) struct Reclamation {
    evictor: Rc<RequestEvictor>,
    most: usize,
    grace: Duration,
    timeout: Duration,
    pending: Rc<RefCell<Pending>>,
    gauges: Rc<Gauges>,
}

/// What is on its way back.
#[derive(Default)]
struct Pending {
    /// Evicted and not ended, by id: what each gives back, and when it was evicted.
    outstanding: BTreeMap<Rc<str>, (f64, Instant)>,
    /// Ended, or given up: what each gave back, and until when it is not yet to be seen.
    cooling: Vec<(f64, Instant)>,
    credit: f64,
}

struct Gauges {
    pool: Rc<str>,
    issued: Metric,
    revocations: Metric,
    target: Series,
    pending: Series,
    confirmation: Metric,
}

impl Reclamation {
    pub(super) fn new(
        evictor: Rc<RequestEvictor>,
        settings: &ControllerSettings,
        registry: &Registry,
        pool: &str,
    ) -> Self {
        let metric = |name: &str| registry.metric(&format!("llm_d_epp_flow_control_{name}"));
        let gauges = Rc::new(Gauges {
            pool: pool.into(),
            issued: metric("revocations_issued_total"),
            revocations: metric("revocations_total"),
            target: metric("reclaim_target").series(&[pool]),
            pending: metric("pending_reclaim").series(&[pool]),
            confirmation: metric("revocation_confirmation_seconds"),
        });
        let pending: Rc<RefCell<Pending>> = Rc::default();
        let grace = settings.eviction_confirmation_grace;
        let confirm = (Rc::clone(&pending), Rc::clone(&gauges), Rc::downgrade(&evictor));
        evictor.on_terminated(move |id| {
            let (pending, gauges, evictor) = &confirm;
            let Some(now) = evictor.upgrade().map(|evictor| evictor.now()) else { return };
            pending.borrow_mut().confirm(id, grace, now, gauges);
        });
        Reclamation {
            evictor,
            most: settings.max_revocations_per_decision,
            grace,
            timeout: settings.eviction_confirmation_timeout,
            pending,
            gauges,
        }
    }

    /// Returns whether everything that was evicted has shown in the saturation, or should have.
    pub(super) fn is_open(&self, now: Instant) -> bool {
        let mut pending = self.pending.borrow_mut();
        let Pending { outstanding, cooling, credit } = &mut *pending;
        let (timeout, grace) = (self.timeout, self.grace);
        outstanding.retain(|_, (given, issued)| {
            let waits = now - *issued < timeout;
            if !waits {
                cooling.push((*given, now + grace));
                self.gauges.revocations.inc(&["timed_out", &self.gauges.pool]);
            }
            waits
        });
        let before = cooling.len();
        cooling.retain(|(given, until)| {
            let hidden = now < *until;
            if !hidden {
                *credit = (*credit - given).max(0.0);
            }
            hidden
        });
        if cooling.len() < before {
            self.gauges.pending.set(*credit);
        }
        outstanding.is_empty() && cooling.is_empty()
    }

    /// Returns the priority of the request that would be evicted first.
    pub(super) fn victim_priority(&self) -> Option<i64> {
        self.evictor.victim_priority()
    }

    /// Evicts for a band of `priority` that is gated at `ceiling`.
    pub(super) fn reclaim(&self, saturation: f64, ceiling: f64, priority: i64, now: Instant) {
        let (in_flight, evictable) = self.evictor.counts();
        // What one request gives back.
        let given = saturation / in_flight as f64;
        if in_flight == 0 || evictable == 0 || !given.is_finite() || given <= 0.0 {
            return;
        }
        let target = saturation - ceiling;
        self.gauges.target.set(target);
        let credit = self.pending.borrow().credit;
        let missing = target - credit;
        if missing < 0.0 || missing == 0.0 && credit > 0.0 {
            return;
        }
        // As written in the specification, rounding included. More than there are is all there are.
        let wanted = (missing / given).ceil().max(1.0) as usize;
        for id in self.evictor.evict(wanted.min(self.most).min(evictable), priority) {
            let mut pending = self.pending.borrow_mut();
            pending.outstanding.insert(id, (given, now));
            pending.credit += given;
            self.gauges.pending.set(pending.credit);
            self.gauges.issued.inc(&[&priority.to_string(), &self.gauges.pool]);
        }
    }
}

impl Pending {
    fn confirm(&mut self, id: &str, grace: Duration, now: Instant, gauges: &Gauges) {
        let Some((given, issued)) = self.outstanding.remove(id) else { return };
        self.cooling.push((given, now + grace));
        gauges.revocations.inc(&["confirmed", &gauges.pool]);
        gauges.confirmation.observe(&[&gauges.pool], (now - issued).as_secs_f64());
    }
}
