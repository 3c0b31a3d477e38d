//! Series of one name.

use std::cell::RefCell;
use std::cmp::Ordering;
use std::fmt::Write;

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
    /// The value of a counter or gauge, the sum of a histogram.
    value: f64,
    /// Observations by bucket, not accumulated; the last is `+Inf`. Empty for counters and gauges.
    buckets: Box<[u64]>,
}

impl Family {
    pub(super) fn new(kind: Kind, labels: &'static [&'static str]) -> Self {
        Family { kind, labels, series: RefCell::default() }
    }

    /// Adds to a counter or gauge.
    pub(super) fn add(&self, labels: &[&str], amount: f64) {
        self.update(labels, |series| series.value += amount);
    }

    /// Sets a gauge.
    pub(super) fn set(&self, labels: &[&str], value: f64) {
        self.update(labels, |series| series.value = value);
    }

    /// Counts an observation in a histogram.
    pub(super) fn observe(&self, labels: &[&str], value: f64) {
        let Kind::Histogram(bounds) = self.kind else {
            debug_assert!(false, "only a histogram takes observations");
            return;
        };
        self.update(labels, |series| {
            // NaN is below no bound and falls into the last bucket.
            let bucket = bounds.iter().position(|bound| value <= *bound).unwrap_or(bounds.len());
            series.buckets[bucket] += 1;
            series.value += value;
        });
    }

    /// Returns the value of a counter or gauge, the sum of a histogram.
    pub(super) fn value(&self, labels: &[&str]) -> Option<f64> {
        let series = self.series.borrow();
        let at = series.binary_search_by(|series| compare(&series.labels, labels)).ok()?;
        Some(series[at].value)
    }

    /// Drops the series whose label values `drop` picks.
    pub(super) fn remove(&self, drop: impl Fn(&[Box<str>]) -> bool) {
        self.series.borrow_mut().retain(|series| !drop(&series.labels));
    }

    fn update(&self, labels: &[&str], change: impl FnOnce(&mut Series)) {
        debug_assert_eq!(labels.len(), self.labels.len(), "one value a label: {:?}", self.labels);
        let mut all = self.series.borrow_mut();
        let at = all.binary_search_by(|series| compare(&series.labels, labels)).unwrap_or_else(|at| {
            let buckets = match self.kind {
                Kind::Histogram(bounds) => vec![0; bounds.len() + 1].into(),
                _ => Box::default(),
            };
            let labels = labels.iter().map(|&label| label.into()).collect();
            all.insert(at, Series { labels, value: 0.0, buckets });
            at
        });
        change(&mut all[at]);
    }

    /// Appends the family in the text format, nothing if it has no series.
    pub(super) fn write(&self, name: &str, help: &str, text: &mut String) {
        let series = self.series.borrow();
        if series.is_empty() {
            return;
        }
        // Writing to a String does not fail.
        let _ = writeln!(text, "# HELP {name} {help}\n# TYPE {name} {}", self.kind.as_str());
        for Series { labels, value, buckets } in series.iter() {
            let pairs: String =
                self.labels.iter().zip(labels).map(|(n, v)| format!("{n}=\"{}\",", escaped(v))).collect();
            let pairs = pairs.trim_end_matches(',');
            let block = if pairs.is_empty() { String::new() } else { format!("{{{pairs}}}") };
            let Kind::Histogram(bounds) = self.kind else {
                let _ = writeln!(text, "{name}{block} {}", Number(*value));
                continue;
            };
            let comma = if pairs.is_empty() { "" } else { "," };
            let mut count = 0;
            for (bound, bucket) in bounds.iter().copied().chain([f64::INFINITY]).zip(buckets) {
                count += bucket;
                let _ = writeln!(text, "{name}_bucket{{{pairs}{comma}le=\"{}\"}} {count}", Number(bound));
            }
            let _ = writeln!(text, "{name}_sum{block} {}\n{name}_count{block} {count}", Number(*value));
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
