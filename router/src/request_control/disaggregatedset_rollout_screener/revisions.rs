//! Which revisions can serve, and which share of the requests each gets.

use std::collections::BTreeMap;

use crate::data_layer::PodEvent;
use crate::scheduling::filters::LabelSelectorText;

/// How much a revision weighs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mode {
    /// As many as its pods in the required roles.
    Sum,
    /// As many as its pods in the role that has most of them.
    MaxRole,
}

/// The pods of a rollout by revision and role.
pub(super) struct Revisions {
    scope: LabelSelectorText,
    mode: Mode,
    roles: Vec<String>,
    /// Label of a pod's, and of an endpoint's, revision.
    pub(super) label: String,
    role_label: String,
    /// Revision and role of each pod that counts, by namespace and name.
    pods: BTreeMap<(String, String), (String, String)>,
    shares: BTreeMap<String, f64>,
}

impl Revisions {
    pub(super) fn new(
        scope: LabelSelectorText,
        mode: Mode,
        roles: Vec<String>,
        label: String,
        role_label: String,
    ) -> Self {
        let (pods, shares) = (BTreeMap::new(), BTreeMap::new());
        Revisions { scope, mode, roles, label, role_label, pods, shares }
    }

    /// Takes what happened to a pod.
    pub(super) fn on_pod(&mut self, event: &PodEvent) {
        let label = |key: &str| event.labels.get(key).filter(|value| !value.is_empty()).cloned();
        let place = (event.namespace.clone(), event.name.clone());
        let counts = !event.deleted && event.ready && self.scope.matches(&event.labels);
        match (counts, label(&self.label), label(&self.role_label)) {
            (true, Some(revision), Some(role)) => drop(self.pods.insert(place, (revision, role))),
            _ => drop(self.pods.remove(&place)),
        }
        self.shares = self.computed();
    }

    /// Returns the share of each revision that has a pod in every required role, above zero, by name.
    pub(super) fn shares(&self) -> &BTreeMap<String, f64> {
        &self.shares
    }

    fn computed(&self) -> BTreeMap<String, f64> {
        // Pods of each revision, by place of the role among the required ones.
        let mut counts: BTreeMap<&str, Vec<u64>> = BTreeMap::new();
        for (revision, role) in self.pods.values() {
            if let Some(place) = self.roles.iter().position(|required| required == role) {
                counts.entry(revision).or_insert_with(|| vec![0; self.roles.len()])[place] += 1;
            }
        }
        counts.retain(|_, by_role| by_role.iter().all(|count| *count > 0));
        let total = |role: usize| counts.values().map(|by_role| by_role[role]).sum::<u64>();
        // Of roles with as many pods the first one counts.
        let dominant = (0..self.roles.len()).rev().max_by_key(|role| total(*role)).unwrap_or(0);
        let weight = |by_role: &[u64]| match self.mode {
            Mode::Sum => by_role.iter().sum::<u64>(),
            Mode::MaxRole => by_role[dominant],
        };
        let all: u64 = counts.values().map(|by_role| weight(by_role)).sum();
        counts
            .iter()
            .map(|(name, by_role)| ((*name).to_owned(), weight(by_role) as f64 / all as f64))
            .collect()
    }
}
