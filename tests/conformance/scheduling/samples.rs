//! Whether what was drawn follows a law.

/// Draws a sample.
pub(super) const DRAWS: usize = 100_000;

/// The normal quantile of 1 - 1e-3.
const QUANTILE: f64 = 3.09;

/// Least expected count of a cell of the test.
const LEAST: f64 = 5.0;

/// Tests counts against the probabilities of their outcomes: chi-square at 1e-3, its quantile by Wilson and
/// Hilferty. Returns why they do not fit.
///
/// `counts[i]` belongs to `probabilities[i]`; what was drawn beyond them has probability zero and never fits.
pub(super) fn fit(counts: &[usize], probabilities: &[f64], others: usize) -> Result<(), String> {
    if others > 0 {
        return Err(format!("{others} draws had an outcome that is not listed"));
    }
    let total = counts.iter().sum::<usize>() as f64;
    let (mut statistic, mut cells) = (0.0, 0.0);
    let (mut rare_count, mut rare_expected) = (0.0, 0.0);
    for (&count, &probability) in counts.iter().zip(probabilities) {
        let expected = probability * total;
        if expected < LEAST {
            rare_count += count as f64;
            rare_expected += expected;
        } else {
            statistic += (count as f64 - expected).powi(2) / expected;
            cells += 1.0;
        }
    }
    if rare_expected >= LEAST {
        statistic += (rare_count - rare_expected).powi(2) / rare_expected;
        cells += 1.0;
    } else if rare_count > 8.0 * LEAST {
        return Err(format!("{rare_count} rare draws, expected {rare_expected}"));
    }
    if cells < 2.0 {
        return Ok(());
    }
    let degrees = cells - 1.0;
    let spread = 2.0 / (9.0 * degrees);
    let limit = degrees * (1.0 - spread + QUANTILE * f64::sqrt(spread)).powi(3);
    if statistic <= limit {
        return Ok(());
    }
    Err(format!(
        "chi-square is {statistic:.1}, at most {limit:.1} fits; drawn {counts:?} for {probabilities:?}"
    ))
}

/// Tests `sample` with two independent seeds and fails only if both do not fit, so that one case in a million
/// fails by chance.
pub(super) fn fits(mut sample: impl FnMut(u64) -> Result<(), String>) -> Result<(), String> {
    sample(1).or_else(|_| sample(2))
}
