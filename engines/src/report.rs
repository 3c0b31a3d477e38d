//! What a run showed: collected while it runs, printed as one screen, written as files.

mod classes;
mod collector;
mod distribution;
mod explained;
mod files;
mod observer;
mod progress;
mod screen;
mod summary;

pub use classes::{BandSummary, ClassSummary, TenantSummary};
pub use collector::Collector;
pub use distribution::{Distribution, Percentiles};
pub use explained::ExplainedRun;
pub use files::Files;
pub use observer::{Decision, EngineTotals, Observer, Outcome, RequestEnd, RunEnd};
pub use progress::Progress;
pub use screen::{Screen, Subject};
pub(crate) use screen::{grouped, plain_table};
pub use summary::{EngineSummary, LatencySummary, RequestCounts, Summary, ThroughputSummary, TokenCounts};

use crate::InputError;

/// Everything that watches a run: the numbers, the files where they are asked for, the progress bar.
#[derive(Debug)]
pub struct Report {
    collector: Collector,
    files: Option<Files>,
    progress: Progress,
}

impl Report {
    /// Returns a report that writes `files` and draws `progress`.
    pub fn new(files: Option<Files>, progress: Progress) -> Self {
        Report { collector: Collector::default(), files, progress }
    }

    /// Ends the report: closes the files, `summary.json` among them, and clears the bar.
    pub fn finish(self, seed: u64, end: RunEnd) -> Finished {
        self.progress.finish();
        let failures = self.collector.failures();
        let summary = self.collector.summarize(seed, end);
        let unwritten = self.files.and_then(|files| files.finish(&summary).err());
        Finished { summary, failures, unwritten }
    }
}

impl Observer for Report {
    fn wants_explanations(&self) -> bool {
        self.files.as_ref().is_some_and(Observer::wants_explanations)
    }

    fn decided(&mut self, decision: &Decision<'_>) {
        self.collector.decided(decision);
        if let Some(files) = &mut self.files {
            files.decided(decision);
        }
    }

    fn tokens_followed(&mut self, gap: std::time::Duration, times: u64) {
        self.collector.tokens_followed(gap, times);
    }

    fn request_ended(&mut self, request: &RequestEnd<'_>) {
        self.collector.request_ended(request);
        if let Some(files) = &mut self.files {
            files.request_ended(request);
        }
        self.progress.request_ended(request);
    }
}

/// The result of a run.
#[derive(Clone, Debug, PartialEq)]
pub struct Finished {
    /// The numbers.
    pub summary: Summary,
    /// Why requests failed, and how many for each reason.
    pub failures: Vec<(String, u64)>,
    /// Why a file is not whole, if one could not be written.
    pub unwritten: Option<InputError>,
}

#[cfg(test)]
mod tests;
