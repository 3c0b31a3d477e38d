//! The objects that describe a pool: itself, its pods, objectives and rewrites (configuration spec 7.4, 8).
//!
//! [`Objects`] takes each change of an object, as a watch of a cluster or the reader of a file reports it, and
//! keeps endpoints, priorities and rewrite rules in step.

mod objectives;
mod pods;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

use super::EndpointNotifier;
use super::datastore::Datastore;
use crate::director::{ModelRewrites, Pool, RewriteRule};
use crate::endpoint::Endpoint;

pub use objectives::Objective;
pub use pods::{Pod, PoolSpec};

use objectives::Objectives;

/// Name of an object in its namespace.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct ObjectName {
    /// Namespace.
    pub namespace: String,
    /// Name.
    pub name: String,
}

/// Which pool this router serves.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolIdentity {
    /// Namespace of the pool.
    pub namespace: String,
    /// Name of the pool.
    pub name: String,
    /// API group of the pool.
    pub group: String,
}

/// Which pool an object belongs to; of what kind it says to be does not matter.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PoolReference {
    /// Name of the pool.
    pub name: String,
    /// API group of the pool.
    pub group: String,
}

/// An `InferenceModelRewrite`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Rewrite {
    /// The pool it is for, if it says so.
    pub pool: Option<PoolReference>,
    /// Creation time, Unix seconds: older objects win.
    pub created: i64,
    /// Its rules.
    pub rules: Vec<RewriteRule>,
}

/// Takes the priorities of all objectives, each once, sorted, after each event of an objective.
pub type PrioritySink = Box<dyn Fn(&[i32])>;

/// The objects of one pool.
pub struct Objects {
    identity: PoolIdentity,
    store: Rc<Datastore>,
    pool: RefCell<Option<PoolSpec>>,
    /// All pods that were reported, of the pool or not: the pool may change its mind.
    pods: RefCell<BTreeMap<ObjectName, Pod>>,
    objectives: RefCell<Objectives>,
    rewrites: RefCell<ModelRewrites>,
    priority_sink: Option<PrioritySink>,
}

impl Objects {
    /// Returns the objects of a pool that is not there yet. `priority_sink` is told the priorities in use.
    pub fn new(identity: PoolIdentity, store: Rc<Datastore>, priority_sink: Option<PrioritySink>) -> Self {
        Objects {
            identity,
            store,
            pool: RefCell::default(),
            pods: RefCell::default(),
            objectives: RefCell::default(),
            rewrites: RefCell::default(),
            priority_sink,
        }
    }

    /// Returns whether the pool is there.
    pub fn pool_has_synced(&self) -> bool {
        self.pool.borrow().is_some()
    }

    /// Sets the pool; where selector or ports changed, its endpoints become those of the pods that match now.
    pub fn set_pool(&self, pool: PoolSpec) {
        let before = self.pool.replace(Some(pool.clone()));
        if before.as_ref() != Some(&pool) {
            self.resync(&pool);
        }
    }

    /// Deletes the pool, and with it every endpoint, objective and rewrite; those come back with their next
    /// event. The priorities last told stay.
    pub fn delete_pool(&self) {
        self.pool.take();
        self.objectives.take();
        self.rewrites.take();
        self.store.delete_where(|_| true);
    }

    /// Adds or changes a pod.
    pub fn set_pod(&self, name: ObjectName, pod: Pod) {
        let before = self.pods.borrow_mut().insert(name.clone(), pod.clone());
        self.pod_event(&name, before.as_ref(), Some(&pod));
    }

    /// Deletes a pod.
    pub fn delete_pod(&self, name: &ObjectName) {
        let before = self.pods.borrow_mut().remove(name);
        self.pod_event(name, before.as_ref(), None);
    }

    fn pod_event(&self, name: &ObjectName, before: Option<&Pod>, after: Option<&Pod>) {
        let pool = self.pool.borrow().clone();
        // A pod that neither was nor is of the pool is none of its business.
        let Some(pool) =
            pool.filter(|pool| [before, after].into_iter().flatten().any(|pod| pool.selects(pod)))
        else {
            return;
        };
        match after.filter(|pod| pod.ready && pool.selects(pod)) {
            Some(pod) => self.upsert_pod(name, pod, &pool),
            // By the pod's name alone, whatever its namespace: as the llm-d Router does.
            None => self.store.delete_where(|endpoint| endpoint.name == name.name),
        }
    }

    fn upsert_pod(&self, name: &ObjectName, pod: &Pod, pool: &PoolSpec) {
        let (active, inactive): (Vec<_>, Vec<_>) = pod.ranks(name, pool).partition(|rank| rank.active);
        for rank in active {
            self.store.upsert(rank.endpoint);
        }
        for rank in inactive {
            self.store.delete(&rank.endpoint.id);
        }
    }

    fn resync(&self, pool: &PoolSpec) {
        let pods = self.pods.borrow().clone();
        let mut expected = Vec::new();
        for (name, pod) in &pods {
            if name.namespace == self.identity.namespace && pod.ready && pool.selects(pod) {
                self.upsert_pod(name, pod, pool);
                expected.extend(pod.ranks(name, pool).map(|rank| rank.endpoint.id));
            }
        }
        expected.sort_unstable();
        self.store.delete_where(|endpoint| expected.binary_search(&endpoint.id).is_err());
    }

    /// Adds or changes an objective. One of another pool, or one about to be deleted, takes the objective of its
    /// name away.
    pub fn set_objective(&self, name: ObjectName, objective: Objective) {
        if self.is_ours(&objective.pool) && !objective.deleting {
            self.objectives.borrow_mut().set(name, objective.priority);
            self.tell_priorities();
        } else {
            self.delete_objective(&name);
        }
    }

    /// Deletes an objective.
    pub fn delete_objective(&self, name: &ObjectName) {
        self.objectives.borrow_mut().remove(&name.name);
        self.tell_priorities();
    }

    fn tell_priorities(&self) {
        if let Some(sink) = &self.priority_sink {
            sink(&self.objectives.borrow().priorities());
        }
    }

    /// Returns the objective of that name with the namespace that it came from.
    pub fn objective(&self, name: &str) -> Option<(String, Option<i32>)> {
        self.objectives.borrow().get(name).map(|(namespace, priority)| (namespace.to_owned(), priority))
    }

    /// Adds or changes a rewrite; one of another pool is none of ours any more.
    pub fn set_rewrite(&self, name: &ObjectName, rewrite: Rewrite) {
        let Rewrite { pool, created, rules } = rewrite;
        if pool.is_some_and(|pool| self.is_ours(&pool)) {
            self.rewrites.borrow_mut().set(&name.name, created, rules);
        } else {
            self.rewrites.borrow_mut().remove(&name.name);
        }
    }

    /// Deletes a rewrite.
    pub fn delete_rewrite(&self, name: &ObjectName) {
        self.rewrites.borrow_mut().remove(&name.name);
    }

    /// Returns the rule for `model` with the name of its object.
    pub fn rewrite(&self, model: &str) -> Option<(Rc<str>, Rc<RewriteRule>)> {
        self.rewrites.borrow().rule(model)
    }

    fn is_ours(&self, pool: &PoolReference) -> bool {
        pool.name == self.identity.name && pool.group == self.identity.group
    }
}

impl Pool for Objects {
    fn endpoints(&self) -> Rc<Vec<Rc<Endpoint>>> {
        self.store.endpoints().snapshot()
    }

    fn priority(&self, objective: &str) -> Option<i64> {
        self.objectives.borrow().get(objective)?.1.map(i64::from)
    }

    fn rewrite_rule(&self, model: &str) -> Option<Rc<RewriteRule>> {
        self.rewrite(model).map(|(_, rule)| rule)
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Objects")
            .field("identity", &self.identity)
            .field("pool", &self.pool)
            .field("store", &self.store)
            .finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
