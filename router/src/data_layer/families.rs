//! Metric families of one scrape, as text or as a struct.

use std::borrow::Cow;

use super::engine_gauges::{self, EngineGauges, GaugeLabels};
use super::text_format::{self, Exposition, Kind};

/// What one scrape of an endpoint gave.
#[derive(Clone, Debug)]
pub enum Families {
    /// The Prometheus text of a server.
    Text(Exposition),
    /// The gauges of an engine in this process.
    Gauges(EngineGauges),
}

/// A family with at least one sample.
#[derive(Clone, Copy, Debug)]
pub enum Family<'a> {
    /// In a text.
    Text(text_format::Family<'a>),
    /// Of an engine in this process.
    Gauge(engine_gauges::Gauge<'a>),
}

/// One sample, as extractors see it.
#[derive(Clone, Copy, Debug)]
pub struct Sample<'a> {
    /// The value of a gauge or counter; 0 for every other type.
    pub value: f64,
    /// Milliseconds; 0 where the sample has none.
    pub timestamp: i64,
    labels: Labels<'a>,
}

#[derive(Clone, Copy, Debug)]
enum Labels<'a> {
    Text(text_format::Labels<'a>),
    Gauge(GaugeLabels<'a>),
}

impl Families {
    /// Returns the family `name`, `None` where it does not exist or has no sample.
    pub fn family(&self, name: &str) -> Option<Family<'_>> {
        match self {
            Families::Text(exposition) => exposition.family(name).map(Family::Text),
            Families::Gauges(gauges) => gauges.gauge(name).map(Family::Gauge),
        }
    }
}

impl<'a> Family<'a> {
    /// Returns the type.
    pub fn kind(&self) -> Kind {
        match self {
            Family::Text(family) => family.kind(),
            Family::Gauge(_) => Kind::Gauge,
        }
    }

    /// Iterates over the samples in order of exposition.
    pub fn samples(&self) -> impl Iterator<Item = Sample<'a>> + use<'a> {
        let (text, gauge) = match *self {
            Family::Text(family) => {
                let has_value = matches!(family.kind(), Kind::Gauge | Kind::Counter);
                let samples = family.samples().map(move |sample| Sample {
                    value: if has_value { sample.value } else { 0.0 },
                    timestamp: sample.timestamp.unwrap_or(0),
                    labels: Labels::Text(sample.labels),
                });
                (Some(samples), None)
            }
            Family::Gauge(gauge) => {
                (None, Some(Sample { value: gauge.value, timestamp: 0, labels: Labels::Gauge(gauge.labels) }))
            }
        };
        text.into_iter().flatten().chain(gauge)
    }
}

impl<'a> Sample<'a> {
    /// Returns the value of the label `name`.
    pub fn label(&self, name: &str) -> Option<Cow<'a, str>> {
        match &self.labels {
            Labels::Text(labels) => labels.get(name),
            Labels::Gauge(labels) => labels.get(name),
        }
    }
}
