//! Objectives: names for priorities (configuration spec 8.1).

use std::collections::{BTreeMap, BTreeSet};

use super::{ObjectName, PoolReference};

/// An `InferenceObjective`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Objective {
    /// The pool it is for.
    pub pool: PoolReference,
    /// Higher is more important; `None` counts as 0.
    pub priority: Option<i32>,
    /// It is about to be deleted.
    pub deleting: bool,
}

/// The objectives of the pool by their names alone: an event of one changes whichever has its name, also one of
/// another namespace.
#[derive(Clone, Debug, Default)]
pub(super) struct Objectives(BTreeMap<String, (String, Option<i32>)>);

impl Objectives {
    /// Adds an objective, or replaces the one of its name.
    pub(super) fn set(&mut self, name: ObjectName, priority: Option<i32>) {
        self.0.insert(name.name, (name.namespace, priority));
    }

    /// Removes the objective of that name.
    pub(super) fn remove(&mut self, name: &str) {
        self.0.remove(name);
    }

    /// Returns namespace and priority of an objective.
    pub(super) fn get(&self, name: &str) -> Option<(&str, Option<i32>)> {
        self.0.get(name).map(|(namespace, priority)| (namespace.as_str(), *priority))
    }

    /// Returns the priorities in use, each once, sorted.
    pub(super) fn priorities(&self) -> Vec<i32> {
        let distinct: BTreeSet<i32> = self.0.values().filter_map(|(_, priority)| *priority).collect();
        distinct.into_iter().collect()
    }
}
