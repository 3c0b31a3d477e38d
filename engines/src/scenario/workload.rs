use std::collections::{BTreeMap, BTreeSet};
use std::num::{NonZeroU32, NonZeroU64};
use std::path::PathBuf;

use router::config::decode::{Cursor, Decode, Fields};
use router::config::problem::{Located, Problems, Syntax, accepted_instead};
use router::config::yaml::Content;

use super::fields::{expected, expected_whole, refuse_input, whole};
use crate::InputError;
use crate::input_error::number;
use crate::workload::synthetic::{Arrivals, Lengths, Process, SharedPrefix, Synthetic};
use crate::workload::{MAX_SPAN, MAX_TOKENS, Tenant, Tenants, Timestamps, TraceReader, Workload};

/// What arrives: `workload` of a scenario.
#[derive(Clone, Debug, PartialEq)]
pub struct WorkloadSpec {
    /// Where the requests come from.
    pub source: WorkloadSource,
    /// What the rate of arrival is multiplied with.
    pub rate_scale: f64,
    /// What the timestamps of a trace mean.
    pub timestamps: Timestamps,
    /// How many requests there are at most; `None` for all that a trace holds.
    pub requests: Option<NonZeroU64>,
}

impl WorkloadSpec {
    /// Opens the trace, or prepares the draws from streams of `seed`.
    ///
    /// # Errors
    /// When the trace cannot be read or begins like none, a number is out of range, or the requests would take
    /// longer to arrive than a workload may.
    pub fn open(&self, seed: u64) -> Result<Workload, InputError> {
        let workload = match &self.source {
            WorkloadSource::Trace(path) => Workload::from_trace(TraceReader::open(path)?, self.timestamps),
            WorkloadSource::Synthetic(synthetic) => Workload::from_synthetic(synthetic, seed)
                .map_err(|error| error.under("workload.synthetic"))?,
        };
        let workload = workload.rate_scale(self.rate_scale).map_err(|error| error.under("rate scale"))?;
        if let WorkloadSource::Synthetic(synthetic) = &self.source {
            check_span(synthetic, self.rate_scale)?;
        }
        Ok(match self.requests {
            Some(requests) => workload.take_requests(requests),
            None => workload,
        })
    }
}

impl WorkloadSpec {
    /// Returns the priorities that requests may have.
    pub fn priorities(&self) -> BTreeSet<i32> {
        match &self.source {
            WorkloadSource::Trace(_) => BTreeSet::new(),
            WorkloadSource::Synthetic(synthetic) => {
                synthetic.tenants.iter().flat_map(Tenants::iter).map(|tenant| tenant.priority).collect()
            }
        }
    }
}

/// Refuses requests that would be arriving for longer than a workload may.
fn check_span(synthetic: &Synthetic, rate_scale: f64) -> Result<(), InputError> {
    let rate = synthetic.arrivals.rate * rate_scale;
    let days = synthetic.requests.get() as f64 / rate / 86_400.0;
    let most = MAX_SPAN.as_secs() / 86_400;
    if days <= most as f64 {
        return Ok(());
    }
    let (requests, rate, days) = (synthetic.requests, number(rate), number(days.round()));
    Err(InputError::new(format!("{requests} requests at {rate} a second arrive for {days} days"))
        .accepted(format!("fewer requests or a higher rate, so that they arrive within {most} days"))
        .field("workload"))
}

/// Where requests come from.
#[derive(Clone, Debug, PartialEq)]
pub enum WorkloadSource {
    /// A recorded trace.
    Trace(Located<PathBuf>),
    /// Distributions.
    Synthetic(Box<Synthetic>),
}

impl Decode for WorkloadSpec {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |fields| {
            let trace = fields.optional::<Located<String>>("trace");
            let synthetic = fields.optional::<SyntheticParts>("synthetic");
            let given = (fields.node("trace").is_some(), fields.node("synthetic").is_some());
            let requests = requests(fields, given == (false, true));
            let rate_scale = fields.optional::<Located<f64>>("rate_scale");
            let rate_scale = match rate_scale {
                Some(scale) if !(1e-6..=1e6).contains(&scale.value) => {
                    let message =
                        format!("{} scales no rate; accepted: 0.000001 to 1000000", number(scale.value));
                    fields.refuse(scale.at, scale.path, message);
                    None
                }
                scale => Some(scale.map_or(1.0, |scale| scale.value)),
            };
            let timestamps = match fields.optional::<Located<String>>("timestamps") {
                Some(word) => match Timestamps::from_name(&word.value) {
                    Some(timestamps) => Some(timestamps),
                    None => {
                        let message = accepted_instead(&word.value, &Timestamps::NAMES);
                        fields.refuse(word.at, word.path, message);
                        None
                    }
                },
                None => Some(Timestamps::default()),
            };
            let requests = requests?;
            let source = match given {
                (true, false) => {
                    let trace = trace?;
                    WorkloadSource::Trace(trace.with(PathBuf::from(&trace.value)))
                }
                (false, true) => WorkloadSource::Synthetic(Box::new(synthetic?.with_requests(requests?))),
                _ => {
                    let place = fields.place();
                    fields.refuse(place.at, place.path, "accepted: either `trace` or `synthetic`");
                    return None;
                }
            };
            Some(WorkloadSpec { source, rate_scale: rate_scale?, timestamps: timestamps?, requests })
        })?
    }
}

/// Returns how many requests there are at most, `Some(None)` where that is left open, which it may be unless it is
/// `required`; reports what is wrong.
fn requests(fields: &mut Fields<'_, '_>, required: bool) -> Option<Option<NonZeroU64>> {
    if !required && fields.node("requests").is_none_or(|node| node.content == Content::Null) {
        return Some(None);
    }
    let number = expected::<Located<u64>>(fields, "requests")?;
    let requests = NonZeroU64::new(number.value);
    if requests.is_none() {
        fields.refuse(number.at, number.path, "no requests; accepted: a whole number from 1");
        return None;
    }
    Some(requests)
}

/// A synthetic workload without its number of requests, which stands beside it.
struct SyntheticParts {
    arrivals: Arrivals,
    prompt: Lengths,
    output: Lengths,
    shared_prefix: Option<SharedPrefix>,
    tenants: Option<Tenants>,
}

impl SyntheticParts {
    fn with_requests(self, requests: NonZeroU64) -> Synthetic {
        let SyntheticParts { arrivals, prompt, output, shared_prefix, tenants } = self;
        Synthetic { requests, arrivals, prompt, output, shared_prefix, tenants }
    }
}

impl Decode for SyntheticParts {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |fields| {
            let arrivals = expected(fields, "arrivals");
            let prompt = expected(fields, "prompt");
            let output = expected(fields, "output");
            let shared_prefix = fields.optional("shared_prefix");
            let tenants = fields.optional("tenants");
            let (arrivals, prompt, output) = (arrivals?, prompt?, output?);
            Some(SyntheticParts { arrivals, prompt, output, shared_prefix, tenants })
        })?
    }
}

impl Decode for Tenants {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        match Tenants::new(Vec::decode(cursor, problems)?) {
            Ok(tenants) => Some(tenants),
            Err(error) => {
                let place = error.place().field.clone().unwrap_or_default();
                let at = Some(cursor.node.at);
                problems.push(Syntax::BadValue, at, format!("{}{place}", cursor.path), error.message());
                None
            }
        }
    }
}

impl Decode for Tenant {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |fields| {
            let name = expected(fields, "name");
            let share = fields.optional("share").unwrap_or(1.0);
            let priority = fields.optional::<Located<i64>>("priority");
            let priority = match priority.as_ref().map(|priority| i32::try_from(priority.value)) {
                None => 0,
                Some(Ok(priority)) => priority,
                Some(Err(_)) => {
                    let place = priority?;
                    let message =
                        format!("{} is no priority; accepted: {} to {}", place.value, i32::MIN, i32::MAX);
                    fields.refuse(place.at, place.path, message);
                    return None;
                }
            };
            Some(Tenant { name: name?, share, priority })
        })?
    }
}

impl Decode for Arrivals {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        const PROCESSES: [&str; 4] = ["poisson", "gamma", "weibull", "constant"];
        Fields::read(cursor, problems, |fields| {
            let process = expected::<Located<String>>(fields, "process");
            let rate = expected::<f64>(fields, "rate");
            let process = process?;
            let process = match process.as_str() {
                "poisson" => Process::Poisson,
                "constant" => Process::Constant,
                "gamma" => Process::Gamma { cv: expected(fields, "cv")? },
                "weibull" => Process::Weibull { cv: expected(fields, "cv")? },
                other => {
                    fields.node("cv");
                    let message = format!("unknown process {other:?}{}", accepted_instead(other, &PROCESSES));
                    fields.refuse(process.at, process.path, message);
                    return None;
                }
            };
            let arrivals = Arrivals { process, rate: rate? };
            match arrivals.check() {
                Ok(()) => Some(arrivals),
                Err(error) => {
                    refuse_input(fields, &["rate", "cv"], &error);
                    None
                }
            }
        })?
    }
}

impl Decode for Lengths {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        const KEYS: [&str; 10] =
            ["value", "min", "max", "mean", "std_dev", "mu", "sigma", "alpha", "xm", "mix_weight"];
        Fields::read(cursor, problems, |fields| {
            let lengths = lengths(fields)?;
            match lengths.check() {
                Ok(()) => Some(lengths),
                Err(error) => {
                    let keys = [KEYS.as_slice(), &["weights"]].concat();
                    refuse_input(fields, &keys, &error);
                    None
                }
            }
        })?
    }
}

fn lengths(fields: &mut Fields<'_, '_>) -> Option<Lengths> {
    const TYPES: [&str; 7] =
        ["constant", "uniform", "gaussian", "exponential", "lognormal", "pareto_lognormal", "empirical"];
    let kind = expected::<Located<String>>(fields, "type")?;
    let tokens = |fields: &mut Fields<'_, '_>, key| Some(expected_whole(fields, key, 1..=MAX_TOKENS)?.value);
    // Bounds may be left out where the distribution has none of its own.
    let bounds = |fields: &mut Fields<'_, '_>| {
        let min = whole(fields, "min", 1..=MAX_TOKENS).map_or(1, |min| min.value);
        let max = whole(fields, "max", 1..=MAX_TOKENS).map_or(MAX_TOKENS, |max| max.value);
        (min, max)
    };
    match kind.as_str() {
        "constant" => Some(Lengths::Constant { value: tokens(fields, "value")? }),
        "uniform" => {
            let (min, max) = (tokens(fields, "min"), tokens(fields, "max"));
            Some(Lengths::Uniform { min: min?, max: max? })
        }
        "gaussian" => {
            let (mean, std_dev) = (expected(fields, "mean"), expected(fields, "std_dev"));
            let (min, max) = bounds(fields);
            Some(Lengths::Gaussian { mean: mean?, std_dev: std_dev?, min, max })
        }
        "exponential" => {
            let mean = expected(fields, "mean");
            let (min, max) = bounds(fields);
            Some(Lengths::Exponential { mean: mean?, min, max })
        }
        "lognormal" => {
            let (mu, sigma) = (expected(fields, "mu"), expected(fields, "sigma"));
            let (min, max) = bounds(fields);
            Some(Lengths::Lognormal { mu: mu?, sigma: sigma?, min, max })
        }
        "pareto_lognormal" => {
            let [alpha, xm, mu, sigma, mix_weight] =
                ["alpha", "xm", "mu", "sigma", "mix_weight"].map(|key| expected(fields, key));
            Some(Lengths::ParetoLognormal {
                alpha: alpha?,
                xm: xm?,
                mu: mu?,
                sigma: sigma?,
                mix_weight: mix_weight?,
            })
        }
        "empirical" => {
            let weights = expected::<Located<BTreeMap<String, f64>>>(fields, "weights")?;
            let mut counts = Vec::with_capacity(weights.len());
            for (count, weight) in &weights.value {
                let Ok(count) = count.parse() else {
                    let message = format!("{count:?} is no number of tokens; accepted: 1 to {MAX_TOKENS}");
                    fields.refuse(weights.at, weights.path.clone(), message);
                    return None;
                };
                counts.push((count, *weight));
            }
            counts.sort_by_key(|(count, _)| *count);
            Some(Lengths::Empirical { weights: counts })
        }
        other => {
            let message = format!("unknown distribution {other:?}{}", accepted_instead(other, &TYPES));
            fields.refuse(kind.at, kind.path, message);
            None
        }
    }
}

impl Decode for SharedPrefix {
    fn decode(cursor: &Cursor<'_>, problems: &mut Problems) -> Option<Self> {
        Fields::read(cursor, problems, |fields| {
            let groups = expected_whole(fields, "groups", 1..=u32::MAX);
            let tokens = expected_whole(fields, "tokens", 1..=MAX_TOKENS);
            let skew = fields.optional("skew").unwrap_or(0.0);
            let shared = SharedPrefix {
                groups: NonZeroU32::new(groups?.value)?,
                tokens: NonZeroU32::new(tokens?.value)?,
                skew,
            };
            match shared.check() {
                Ok(()) => Some(shared),
                Err(error) => {
                    refuse_input(fields, &["groups", "tokens", "skew"], &error);
                    None
                }
            }
        })?
    }
}
