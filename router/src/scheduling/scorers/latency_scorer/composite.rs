//! Scores where nothing is predicted: free KV cache, queue and prefix match.

use crate::attributes::PrefixCacheMatchInfo;
use crate::candidates::Candidate;
use crate::data_key::DataKey;
use crate::scheduling::SchedulingContext;

/// Shares of the three parts.
pub(super) struct Composite {
    kv: f64,
    queue: f64,
    prefix: f64,
    matches: DataKey,
}

impl Composite {
    /// Takes the weights as shares of their sum; the first alone counts where the sum is not positive.
    pub(super) fn new([kv, queue, prefix]: [f64; 3], matches: DataKey) -> Self {
        let sum = kv + queue + prefix;
        let [kv, queue, prefix] =
            if sum <= 0.0 { [1.0, 0.0, 0.0] } else { [kv / sum, queue / sum, prefix / sum] };
        Composite { kv, queue, prefix, matches }
    }

    /// Writes a score for each survivor, in steps of 0.01.
    pub(super) fn score(
        &self,
        cx: &SchedulingContext<'_>,
        survivors: &[Candidate],
        scores: &mut [Option<f64>],
    ) {
        let metrics = |candidate| &cx.candidates.endpoint(candidate).metrics;
        let longest = survivors.iter().map(|&c| metrics(c).waiting_queue_size).fold(0, i64::max);
        let matches = cx.candidates.read(&self.matches);
        for (&candidate, score) in survivors.iter().zip(scores) {
            let waiting = metrics(candidate).waiting_queue_size;
            let queue =
                if longest == 0 { 1.0 } else { longest.wrapping_sub(waiting) as f64 / longest as f64 };
            let kv_free = 1.0 - metrics(candidate).kv_cache_usage_percent;
            let prefix = matches.get(candidate).map_or(0.0, share);
            let sum = self.kv * kv_free + self.queue * queue + self.prefix * prefix;
            *score = Some((100.0 * sum).round() / 100.0);
        }
    }
}

fn share(info: &PrefixCacheMatchInfo) -> f64 {
    if info.total_blocks > 0 { info.match_blocks as f64 / info.total_blocks as f64 } else { 0.0 }
}
