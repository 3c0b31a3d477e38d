//! Series of one name.

use std::cell::{Cell, RefCell};
use std::cmp::Ordering;
use std::fmt::Write;
use std::rc::Rc;

/// What a family counts.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Kind {
    /// Rises only.
    Counter,
    /// Rises and falls.
    Gauge,
    /// Counts observations by upper bound; the bound `+Inf` is not listed.
    Histogram(&'static [f64]),
}

impl Kind {
    /// Returns the word of the text format.
    pub fn as_str(self) -> &'static str {
        match self {
            Kind::Counter => "counter",
            Kind::Gauge => "gauge",
            Kind::Histogram(_) => "histogram",
        }
    }
}

/// All series of one name, sorted by their label values.
///
/// The order is a function of the values alone, so the same run shows the same text.
#[derive(Debug)]
pub(super) struct Family {
    kind: Kind,
    labels: &'static [&'static str],
    series: RefCell<Vec<Series>>,
}

#[derive(Debug)]
struct Series {
    labels: Box<[Box<str>]>,
    data: Rc<Data>,
}

/// What one series holds.
#[derive(Debug)]
pub(super) struct Data {
    /// The value of a counter or gauge, the sum of a histogram.
    value: Cell<f64>,
    /// Upper bounds of the buckets, none for counters and gauges.
    bounds: &'static [f64],
    /// Observations by bucket, not accumulated; the last is `+Inf`. Empty for counters and gauges.
    buckets: Box<[Cell<u64>]>,
}

impl Data {
    fn new(kind: Kind) -> Self {
        let (bounds, buckets): (&'static [f64], Box<[Cell<u64>]>) = match kind {
            Kind::Histogram(bounds) => (bounds, vec![Cell::new(0); bounds.len() + 1].into()),
            _ => (&[], Box::default()),
        };
        Data { value: Cell::new(0.0), bounds, buckets }
    }

    pub(super) fn add(&self, amount: f64) {
        self.value.set(self.value.get() + amount);
    }

    pub(super) fn set(&self, value: f64) {
        self.value.set(value);
    }

    pub(super) fn observe(&self, value: f64) {
        // NaN is below no bound and falls into the last bucket.
        let bucket = self.bounds.iter().position(|bound| value <= *bound).unwrap_or(self.bounds.len());
        let Some(count) = self.buckets.get(bucket) else {
            debug_assert!(false, "only a histogram takes observations");
            return;
        };
        count.set(count.get() + 1);
        self.add(value);
    }
}

impl Family {
    pub(super) fn new(kind: Kind, labels: &'static [&'static str]) -> Self {
        Family { kind, labels, series: RefCell::default() }
    }

    /// Adds to a counter or gauge.
    pub(super) fn add(&self, labels: &[&str], amount: f64) {
        self.series(labels).add(amount);
    }

    /// Sets a gauge.
    pub(super) fn set(&self, labels: &[&str], value: f64) {
        self.series(labels).set(value);
    }

    /// Counts an observation in a histogram.
    pub(super) fn observe(&self, labels: &[&str], value: f64) {
        self.series(labels).observe(value);
    }

    /// Returns the value of a counter or gauge, the sum of a histogram.
    pub(super) fn value(&self, labels: &[&str]) -> Option<f64> {
        let series = self.series.borrow();
        let at = series.binary_search_by(|series| compare(&series.labels, labels)).ok()?;
        Some(series[at].data.value.get())
    }

    /// Drops the series whose label values `drop` picks.
    pub(super) fn remove(&self, drop: impl Fn(&[Box<str>]) -> bool) {
        self.series.borrow_mut().retain(|series| !drop(&series.labels));
    }

    /// Returns the series with these labels, made where it is not there.
    pub(super) fn series(&self, labels: &[&str]) -> Rc<Data> {
        debug_assert_eq!(labels.len(), self.labels.len(), "one value a label: {:?}", self.labels);
        let mut all = self.series.borrow_mut();
        let at = all.binary_search_by(|series| compare(&series.labels, labels)).unwrap_or_else(|at| {
            let labels = labels.iter().map(|&label| label.into()).collect();
            all.insert(at, Series { labels, data: Rc::new(Data::new(self.kind)) });
            at
        });
        Rc::clone(&all[at].data)
    }

    /// Appends the family in the text format, nothing if it has no series.
    pub(super) fn write(&self, name: &str, help: &str, text: &mut String) {
        let series = self.series.borrow();
        if series.is_empty() {
            return;
        }
        // Writing to a String does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", self.kind.as_str());
        for Series { labels, data } in series.iter() {
            let Data { value, buckets, .. } = &**data;
            let pairs: String =
                self.labels.iter().zip(labels).map(|(n, v)| format!("{n}=\"{}\",", escaped(v))).collect();
            let pairs = pairs.trim_end_matches(',');
            let block = if pairs.is_empty() { String::new() } else { format!("{{{pairs}}}") };
            let Kind::Histogram(bounds) = self.kind else {
                let _ = writeln!(text, "{name}{block} {}", Number(value.get()));
                continue;
            };
            let comma = if pairs.is_empty() { "" } else { "," };
            let mut count = 0;
            for (bound, bucket) in bounds.iter().copied().chain([f64::INFINITY]).zip(buckets) {
                count += bucket.get();
                let _ = writeln!(text, "{name}_bucket{{{pairs}{comma}le=\"{}\"}} {count}", Number(bound));
            }
            let _ = writeln!(text, "{name}_sum{block} {}\n{name}_count{block} {count}", Number(value.get()));
        }
    }
}

fn compare(own: &[Box<str>], other: &[&str]) -> Ordering {
    own.iter().map(|label| &**label).cmp(other.iter().copied())
}

fn escaped(value: &str) -> String {
    value.replace('\\', "\\\\").replace('\n', "\\n").replace('"', "\\\"")
}

/// A number as the text format has it.
struct Number(f64);

impl std::fmt::Display for Number {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Number(value) = *self;
        match value {
            f64::INFINITY => f.write_str("+Inf"),
            f64::NEG_INFINITY => f.write_str("-Inf"),
            // Large and small magnitudes in exponent form, as the Go library writes them.
            _ if value != 0.0 && !(1e-5..1e21).contains(&value.abs()) && value.is_finite() => {
                write!(f, "{value:e}")
            }
            _ => write!(f, "{value}"),
        }
    }
}
