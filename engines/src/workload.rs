//! What arrives: requests from a recorded trace or drawn from distributions.

mod description;
mod prompt;
mod spread;
pub mod synthetic;
mod tenants;
mod trace;

pub use description::{Described, Description};
pub use prompt::{Prompt, Segment, TOKEN_IDS};
pub use spread::Timestamps;
pub use synthetic::Synthetic;
pub use tenants::{Tenant, Tenants};
pub use trace::{MooncakeRow, TraceFormat, TraceReader};

use std::num::NonZeroU64;
use std::rc::Rc;
use std::time::Duration;

use spread::Spread;

use crate::InputError;
use crate::input_error::number;

/// The longest prompt or output that a workload may ask for, in tokens.
pub const MAX_TOKENS: u32 = 10_000_000;

/// The last request of a workload arrives at most this long after the start: simulating a year of an idle cluster
/// takes hours.
pub const MAX_SPAN: Duration = Duration::from_secs(366 * 86_400);

/// One request of a workload.
#[derive(Clone, Debug, PartialEq)]
pub struct Request {
    /// The request's place in the workload, from 0.
    pub index: u64,
    /// When it arrives, counted from the start of the run.
    pub arrival: Duration,
    /// What it asks.
    pub prompt: Prompt,
    /// How many tokens are generated for it, at least 1.
    pub output_tokens: u32,
    /// Who sends it; `None` where nobody is told apart.
    pub tenant: Option<Rc<Tenant>>,
}

/// The requests of a run in the order of their arrival, read or drawn one by one.
///
/// The iterator ends with its first error.
#[derive(Debug)]
pub struct Workload {
    source: Source,
    rate_scale: f64,
    left: u64,
}

#[derive(Debug)]
enum Source {
    Trace(TraceReader),
    Spread(Spread<TraceReader>),
    Synthetic(synthetic::Requests),
}

impl Workload {
    /// Returns the requests that `trace` holds, its timestamps taken as `timestamps` says. Azure's are exact and
    /// always taken as recorded.
    pub fn from_trace(trace: TraceReader, timestamps: Timestamps) -> Self {
        let source = match (trace.format(), timestamps) {
            (TraceFormat::Mooncake, Timestamps::Spread) => Source::Spread(Spread::new(trace)),
            _ => Source::Trace(trace),
        };
        Workload { source, rate_scale: 1.0, left: u64::MAX }
    }

    /// Returns the requests that `synthetic` describes, drawn from streams of `seed`.
    ///
    /// # Errors
    /// When a parameter is out of range; the error names it.
    pub fn from_synthetic(synthetic: &Synthetic, seed: u64) -> Result<Self, InputError> {
        let source = Source::Synthetic(synthetic.requests(seed)?);
        Ok(Workload { source, rate_scale: 1.0, left: u64::MAX })
    }

    /// Divides all arrival times by `scale`: 2 doubles the rate.
    ///
    /// # Errors
    /// When `scale` is not within 0.000001 and 1000000.
    pub fn rate_scale(mut self, scale: f64) -> Result<Self, InputError> {
        if !(1e-6..=1e6).contains(&scale) {
            return Err(InputError::new(format!("{} scales no rate", number(scale)))
                .accepted("a number from 0.000001 to 1000000"));
        }
        self.rate_scale = scale;
        Ok(self)
    }

    /// Ends the workload behind `requests` requests.
    pub fn take_requests(mut self, requests: NonZeroU64) -> Self {
        self.left = requests.get();
        self
    }

    /// Returns how many requests are still to come where that is known without reading on.
    pub fn remaining(&self) -> Option<u64> {
        match &self.source {
            Source::Trace(_) | Source::Spread(_) => None,
            Source::Synthetic(requests) => Some(requests.remaining().min(self.left)),
        }
    }
}

impl Iterator for Workload {
    type Item = Result<Request, InputError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.left = self.left.checked_sub(1)?;
        let mut request = match &mut self.source {
            Source::Trace(trace) => trace.next()?,
            Source::Spread(spread) => spread.next()?,
            Source::Synthetic(requests) => Ok(requests.next()?),
        };
        if let Ok(request) = &mut request
            && self.rate_scale != 1.0
        {
            let nanos = request.arrival.as_nanos() as f64 / self.rate_scale;
            request.arrival = Duration::from_nanos(nanos as u64);
        }
        Some(request.and_then(Request::check_span))
    }
}

impl Request {
    fn check_span(self) -> Result<Self, InputError> {
        if self.arrival <= MAX_SPAN {
            return Ok(self);
        }
        let days = |time: Duration| time.as_secs() / 86_400;
        let problem = format!("request {} arrives {} days after the start", self.index, days(self.arrival));
        let accepted =
            format!("workloads of at most {} days; a higher rate scale shortens them", days(MAX_SPAN));
        Err(InputError::new(problem).accepted(accepted).field("workload"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: &str = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
        2023-11-16 18:00:00.0,10,1\n2023-11-16 18:00:01.0,20,2\n2023-11-16 18:00:04.0,30,3\n";

    fn workload() -> Workload {
        let trace = TraceReader::from_reader("t.csv", Box::new(TRACE.as_bytes())).unwrap();
        Workload::from_trace(trace, Timestamps::Spread)
    }

    fn arrivals(workload: Workload) -> Vec<f64> {
        workload.map(|request| request.unwrap().arrival.as_secs_f64()).collect()
    }

    #[test]
    fn a_scaled_rate_divides_the_arrival_times() {
        assert_eq!(arrivals(workload()), [0.0, 1.0, 4.0]);
        assert_eq!(arrivals(workload().rate_scale(2.0).unwrap()), [0.0, 0.5, 2.0]);
        for scale in [0.0, -1.0, f64::NAN, f64::INFINITY] {
            assert!(workload().rate_scale(scale).is_err(), "{scale}");
        }
    }

    #[test]
    fn a_workload_that_lasts_for_years_is_refused_where_it_does() {
        let mut slow = workload().rate_scale(1e-6).unwrap();
        assert_eq!(slow.next().unwrap().unwrap().arrival, Duration::ZERO);
        assert_eq!(slow.next().unwrap().unwrap().arrival, Duration::from_secs(1_000_000));
        let trace = "TIMESTAMP,ContextTokens,GeneratedTokens\n\
            2023-11-16 18:00:00.0,10,1\n2023-11-16 18:01:00.0,20,2\n";
        let trace = TraceReader::from_reader("t.csv", Box::new(trace.as_bytes())).unwrap();
        let slow = Workload::from_trace(trace, Timestamps::Spread).rate_scale(1e-6).unwrap();
        assert_eq!(
            slow.last().unwrap().unwrap_err().to_string(),
            "workload: request 1 arrives 694 days after the start; \
             accepted: workloads of at most 366 days; a higher rate scale shortens them"
        );
    }

    #[test]
    fn a_limit_ends_the_workload() {
        assert_eq!(arrivals(workload().take_requests(NonZeroU64::new(2).unwrap())), [0.0, 1.0]);
        assert_eq!(arrivals(workload().take_requests(NonZeroU64::new(9).unwrap())), [0.0, 1.0, 4.0]);
    }
}
