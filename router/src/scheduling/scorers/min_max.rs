//! Scores by where a value lies between the least and the greatest of the candidates.

/// Writes `(max - v) / (max - min)` for the value of each item; all equal = 1.0 for each (scheduling spec 5.2).
pub(super) fn lower_is_better<T>(items: &[T], scores: &mut [Option<f64>], value: impl Fn(&T) -> i64) {
    let (mut min, mut max) = (i64::MAX, i64::MIN);
    for item in items {
        let v = value(item);
        (min, max) = (min.min(v), max.max(v));
    }
    if min >= max {
        scores.fill(Some(1.0));
        return;
    }
    let range = max.wrapping_sub(min) as f64;
    for (item, score) in items.iter().zip(scores) {
        *score = Some(max.wrapping_sub(value(item)) as f64 / range);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_least_value_scores_one_and_the_greatest_zero() {
        for (values, want) in [
            (vec![10, 5, 0], vec![0.0, 0.5, 1.0]),
            (vec![4, 4], vec![1.0, 1.0]),
            (vec![7], vec![1.0]),
            (vec![], vec![]),
        ] {
            let mut scores = vec![None; values.len()];
            lower_is_better(&values, &mut scores, |v| *v);
            assert_eq!(scores.into_iter().map(Option::unwrap).collect::<Vec<_>>(), want, "{values:?}");
        }
    }
}
