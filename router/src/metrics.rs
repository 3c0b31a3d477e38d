//! The router's own metrics (configuration spec 11).
//!
//! The [`catalogue`] lists every family that the router can show. A part of the router takes the [`Metric`]s
//! that it writes from the [`Registry`]; only what was taken is shown, and of it only what has a series. Most
//! families have a twin under an older name, which is written at the same moment.
//!
//! Everything here lives on the core thread and holds no lock, and the text is in a fixed order. That is why
//! the families are our own: those of the common client libraries sit behind locks and come out in the order of
//! a randomly seeded map.

mod bounded;
pub mod catalogue;
mod family;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::fmt;
use std::rc::Rc;

pub use bounded::{Bounded, MOST, OTHER};
pub use family::Kind;

use catalogue::Definition;
use family::{Data, Family};

/// The metrics that are in use. Cheap to clone: all clones are one registry.
#[derive(Clone, Debug, Default)]
pub struct Registry {
    families: Rc<RefCell<BTreeMap<&'static str, Registered>>>,
    models: Bounded,
    fairness_ids: Bounded,
}

#[derive(Clone, Debug)]
struct Registered {
    family: Rc<Family>,
    help: String,
}

impl Registry {
    /// Returns the metric `name` of the catalogue with its twin, the same one each time.
    ///
    /// # Panics
    /// When the catalogue has no such metric.
    pub fn metric(&self, name: &str) -> Metric {
        let definition = catalogue::find(name).unwrap_or_else(|| panic!("{name} is not in the catalogue"));
        let Definition { name, kind, labels, help, twin, .. } = *definition;
        let family = self.family(name, kind, labels, || format!("[ALPHA] {help}"));
        let twin = twin.map(|twin| {
            let help = || format!("[ALPHA] Deprecated: use {name}.");
            let family = self.family(twin.name, kind, twin.labels, help);
            let picks = twin.labels.iter().map(|label| definition.position(label)).collect();
            Twin { family, picks }
        });
        Metric { family, twin: twin.map(Rc::new) }
    }

    /// Returns the models, incoming and target, that labels show.
    pub fn models(&self) -> &Bounded {
        &self.models
    }

    /// Returns the fairness ids that labels show.
    pub fn fairness_ids(&self) -> &Bounded {
        &self.fairness_ids
    }

    fn family(
        &self,
        name: &'static str,
        kind: Kind,
        labels: &'static [&'static str],
        help: impl FnOnce() -> String,
    ) -> Rc<Family> {
        let mut all = self.families.borrow_mut();
        let registered = all
            .entry(name)
            .or_insert_with(|| Registered { family: Rc::new(Family::new(kind, labels)), help: help() });
        Rc::clone(&registered.family)
    }

    /// Returns the page for Prometheus, text format 0.0.4: families by name, series by label values.
    pub fn text(&self) -> String {
        let mut text = String::new();
        for (name, Registered { family, help }) in self.families.borrow().iter() {
            family.write(name, help, &mut text);
        }
        text
    }
}

/// One metric and its twin. Cheap to clone.
#[derive(Clone)]
pub struct Metric {
    family: Rc<Family>,
    twin: Option<Rc<Twin>>,
}

/// The same metric under an older name, with fewer or renamed labels.
struct Twin {
    family: Rc<Family>,
    /// For each label of the twin its position among the labels of the metric.
    picks: Vec<usize>,
}

impl Metric {
    /// Adds 1.
    pub fn inc(&self, labels: &[&str]) {
        self.add(labels, 1.0);
    }

    /// Adds to a counter or gauge. `labels` are the values in the order of the catalogue.
    pub fn add(&self, labels: &[&str], amount: f64) {
        self.each(labels, |family, labels| family.add(labels, amount));
    }

    /// Sets a gauge.
    pub fn set(&self, labels: &[&str], value: f64) {
        self.each(labels, |family, labels| family.set(labels, value));
    }

    /// Counts an observation in a histogram.
    pub fn observe(&self, labels: &[&str], value: f64) {
        self.each(labels, |family, labels| family.observe(labels, value));
    }

    /// Returns the series with these labels for many writes; it exists from now on. One that is removed meanwhile is
    /// written and not shown.
    pub fn series(&self, labels: &[&str]) -> Series {
        let twin = self.twin.as_ref().map(|twin| {
            let labels: Vec<&str> = twin.picks.iter().map(|&at| labels[at]).collect();
            twin.family.series(&labels)
        });
        Series { data: self.family.series(labels), twin }
    }

    /// Returns the value of a counter or gauge, the sum of a histogram, `None` where there is no such series.
    pub fn value(&self, labels: &[&str]) -> Option<f64> {
        self.family.value(labels)
    }

    /// Drops the series with these values at these positions among the metric's labels; a twin without one of
    /// the labels keeps its series.
    pub fn remove(&self, values: &[(usize, &str)]) {
        self.family.remove(|labels| values.iter().all(|&(at, value)| &*labels[at] == value));
        let Some(twin) = &self.twin else { return };
        let place = |(at, value): &(usize, _)| Some((twin.picks.iter().position(|pick| pick == at)?, *value));
        let Some(values) = values.iter().map(place).collect::<Option<Vec<(usize, &str)>>>() else { return };
        twin.family.remove(|labels| values.iter().all(|&(at, value)| &*labels[at] == value));
    }

    fn each(&self, labels: &[&str], write: impl Fn(&Family, &[&str])) {
        write(&self.family, labels);
        if let Some(twin) = &self.twin {
            let labels: Vec<&str> = twin.picks.iter().map(|&at| labels[at]).collect();
            write(&twin.family, &labels);
        }
    }
}

/// One series of a metric and of its twin.
#[derive(Clone, Debug)]
pub struct Series {
    data: Rc<Data>,
    twin: Option<Rc<Data>>,
}

impl Series {
    /// Adds to a counter or gauge.
    pub fn add(&self, amount: f64) {
        self.data.add(amount);
        self.twin.iter().for_each(|twin| twin.add(amount));
    }

    /// Sets a gauge.
    pub fn set(&self, value: f64) {
        self.data.set(value);
        self.twin.iter().for_each(|twin| twin.set(value));
    }

    /// Counts an observation in a histogram.
    pub fn observe(&self, value: f64) {
        self.data.observe(value);
        self.twin.iter().for_each(|twin| twin.observe(value));
    }
}

impl fmt::Debug for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Metric").field("family", &self.family).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
