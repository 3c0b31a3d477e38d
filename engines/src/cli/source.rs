use std::num::NonZeroU64;
use std::path::PathBuf;

use clap::Args;
use router::config::problem::Located;

use super::Failure;
use crate::scenario::{Scenario, WorkloadSource, WorkloadSpec};
use crate::workload::Timestamps;

/// The flags that say which scenario is meant and what arrives; a flag overrides what the scenario says.
#[derive(Args, Clone, Debug, Default, PartialEq)]
pub struct SourceArgs {
    /// A scenario, or an EndpointPickerConfig to take the built-in scenario with
    #[arg(value_name = "SCENARIO.yaml")]
    pub scenario: Option<PathBuf>,
    /// Take this trace: Mooncake JSONL or Azure CSV
    #[arg(long, value_name = "FILE")]
    pub trace: Option<PathBuf>,
    /// Multiply the rate of arrival
    #[arg(long, value_name = "FACTOR")]
    pub rate_scale: Option<f64>,
    /// Requests with one timestamp of a Mooncake trace arrive spread up to the next timestamp, or all at once
    #[arg(long, value_name = "HOW", value_parser = clap::builder::PossibleValuesParser::new(Timestamps::NAMES))]
    pub timestamps: Option<String>,
    /// Take at most the first N requests of a trace, or draw N requests
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub requests: Option<u64>,
    /// What all randomness comes from
    #[arg(long, value_name = "N")]
    pub seed: Option<u64>,
}

impl SourceArgs {
    /// Returns the scenario with these flags laid over it.
    ///
    /// # Errors
    /// Everything that is wrong in the scenario's file.
    pub fn scenario(&self) -> Result<Scenario, Failure> {
        let mut scenario = match &self.scenario {
            Some(path) => Scenario::open(path)?,
            None => Scenario::built_in()?,
        };
        if let Some(trace) = &self.trace {
            let source = WorkloadSource::Trace(flag("--trace", trace.clone()));
            let timestamps = Timestamps::default();
            scenario.workload = WorkloadSpec { source, rate_scale: 1.0, timestamps, requests: None };
        }
        if let Some(scale) = self.rate_scale {
            scenario.workload.rate_scale = scale;
        }
        if let Some(timestamps) = self.timestamps.as_deref().and_then(Timestamps::from_name) {
            scenario.workload.timestamps = timestamps;
        }
        if let Some(requests) = self.requests.and_then(NonZeroU64::new) {
            scenario.workload.limit(requests);
        }
        scenario.seed = self.seed.unwrap_or(scenario.seed);
        Ok(scenario)
    }
}

impl WorkloadSpec {
    /// Ends the workload behind `requests` requests.
    fn limit(&mut self, requests: NonZeroU64) {
        self.requests = Some(requests);
        if let WorkloadSource::Synthetic(synthetic) = &mut self.source {
            synthetic.requests = requests;
        }
    }

    /// Describes the workload in a few words.
    pub(super) fn describe(&self) -> String {
        let source = match &self.source {
            WorkloadSource::Trace(path) if self.timestamps == Timestamps::Recorded => {
                format!("{}, timestamps as recorded", path.display())
            }
            WorkloadSource::Trace(path) => path.display().to_string(),
            WorkloadSource::Synthetic(synthetic) => {
                format!("synthetic, {} requests, {} a second", synthetic.requests, synthetic.arrivals.rate)
            }
        };
        let limit = match (&self.source, self.requests) {
            (WorkloadSource::Trace(_), Some(requests)) => format!(", its first {requests} requests at most"),
            _ => String::new(),
        };
        let scale =
            if self.rate_scale == 1.0 { String::new() } else { format!(", rate x {}", self.rate_scale) };
        source + &limit + &scale
    }
}

/// A value that a flag gave.
pub(super) fn flag<T>(name: &str, value: T) -> Located<T> {
    Located { value, at: None, path: name.to_owned() }
}
