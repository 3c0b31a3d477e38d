//! `context-length-aware`: endpoints for prompts of a length (scheduling spec 5.6); a scorer and a filter.

use std::rc::Rc;

use serde::{Deserialize, Serialize};

use crate::candidates::Candidate;
use crate::data_key::{resolve, well_known};
use crate::plugin::{DataFlow, FactoryError, Handle, Instance, Parameters, Roles, TypedKey};
use crate::request::TokenizedPrompt;
use crate::scheduling::{Filter, SchedulingContext, Scorer, ScorerCategory, invalid};

/// Name of the type.
pub const TYPE: &str = "context-length-aware";

/// Score of an endpoint that says nothing of lengths.
const NEUTRAL: f64 = 0.5;

/// The best score of an endpoint whose range the prompt misses.
const OUTSIDE: f64 = 0.3;

#[derive(Debug, Deserialize, Serialize)]
#[serde(default, deny_unknown_fields, rename_all = "camelCase")]
struct ContextLengthParameters {
    /// The label that holds an endpoint's range, `min-max`. Unit: tokens.
    label: String,
    /// Whether endpoints are dropped whose range the prompt misses.
    enable_filtering: bool,
}

impl Default for ContextLengthParameters {
    fn default() -> Self {
        ContextLengthParameters { label: "llm-d.ai/context-length-range".to_owned(), enable_filtering: false }
    }
}

/// Builds an instance.
pub fn factory(name: &str, parameters: &Parameters, _: &Handle) -> Result<Instance, FactoryError> {
    let ContextLengthParameters { label, enable_filtering } = parameters.decode()?;
    if label.is_empty() {
        return Err(invalid("label must not be empty: the label that holds an endpoint's range"));
    }
    let tokens = resolve(well_known::TOKENIZED_PROMPT, "");
    let data = DataFlow::consumer(vec![TypedKey::of::<TokenizedPrompt>(&tokens)]);
    let plugin = Rc::new(ContextLengthAware { label, enable_filtering });
    let roles = Roles {
        filter: Some(Rc::clone(&plugin) as Rc<dyn Filter>),
        scorer: Some(plugin),
        ..Roles::default()
    };
    Ok(Instance::new(TYPE, name, roles).with_data(data))
}

struct ContextLengthAware {
    label: String,
    enable_filtering: bool,
}

/// What an endpoint says of the lengths it is for.
enum Declared {
    Nothing,
    Nonsense,
    Range { min: i64, max: i64 },
}

impl ContextLengthAware {
    fn declared(&self, cx: &SchedulingContext<'_>, candidate: Candidate) -> Declared {
        match cx.candidates.endpoint(candidate).metadata.labels.get(&self.label) {
            None => Declared::Nothing,
            Some(text) => parse(text).map_or(Declared::Nonsense, |(min, max)| Declared::Range { min, max }),
        }
    }
}

impl Filter for ContextLengthAware {
    fn filter(&self, cx: &SchedulingContext<'_>, survivors: &mut Vec<Candidate>) {
        if !self.enable_filtering {
            return;
        }
        let length = length(cx);
        survivors.retain(|&candidate| match self.declared(cx, candidate) {
            Declared::Nothing => true,
            Declared::Nonsense => false,
            Declared::Range { min, max } => (min..=max).contains(&length),
        });
    }
}

impl Scorer for ContextLengthAware {
    fn category(&self) -> ScorerCategory {
        ScorerCategory::Affinity
    }

    fn score(&self, cx: &SchedulingContext<'_>, survivors: &[Candidate], scores: &mut [Option<f64>]) {
        let length = length(cx);
        for (&candidate, score) in survivors.iter().zip(scores) {
            *score = Some(match self.declared(cx, candidate) {
                Declared::Nothing => NEUTRAL,
                Declared::Nonsense => 0.0,
                Declared::Range { min, max } => score_of(length, min, max),
            });
        }
    }
}

/// Prefers narrow ranges, and in them room above the prompt; outside, near misses.
fn score_of(length: i64, min: i64, max: i64) -> f64 {
    if length < min {
        return OUTSIDE / (1.0 + min.wrapping_sub(length) as f64 / 1000.0);
    }
    if length > max {
        return OUTSIDE / (1.0 + length.wrapping_sub(max) as f64 / 1000.0);
    }
    let width = max.wrapping_sub(min) as f64;
    if width == 0.0 {
        return 1.0;
    }
    let narrow = 1.0 / (1.0 + width / 10_000.0);
    let room = max.wrapping_sub(length) as f64 / width;
    OUTSIDE + 0.7 * (0.7 * narrow + 0.3 * room)
}

/// Returns the tokens of the prompt, zero where they are not known.
fn length(cx: &SchedulingContext<'_>) -> i64 {
    cx.request.tokenized_prompt().map_or(0, |prompt| prompt.token_count() as i64)
}

/// Reads `min-max`; two decimal numbers and nothing else.
fn parse(text: &str) -> Option<(i64, i64)> {
    let (min, max) = text.split_once('-').filter(|(_, max)| !max.contains('-'))?;
    let (min, max) = (min.trim().parse().ok()?, max.trim().parse().ok()?);
    (min <= max).then_some((min, max))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Scheduling spec 5.6, the table.
    #[test]
    fn scores_follow_the_table() {
        for (length, min, max, want) in [
            (0, 0, 20, 0.999022),
            (0, 0, 10_000, 0.755),
            (0, 500, 1000, 0.2),
            (9000, 0, 2048, 0.037726),
            (9000, 0, 8192, 0.165929),
            (50, 500, 2048, 0.206897),
            (14_999, 0, 15_000, 0.496014),
            (14_999, 15_001, 20_000, 0.299401),
            (42, 0, 52, 0.827850),
            (7, 7, 7, 1.0),
        ] {
            let got = score_of(length, min, max);
            assert!((got - want).abs() < 1e-6, "{length} in {min}-{max}: {got}, expected {want}");
        }
    }

    #[test]
    fn ranges_are_two_numbers_in_order() {
        assert_eq!(parse("0-100"), Some((0, 100)));
        assert_eq!(parse(" +5 - 7 "), Some((5, 7)));
        for bad in [
            "",
            "5",
            "0-100-200",
            "100-50",
            "abc-100",
            "-5-7",
            "1e3-2e3",
            "0--5",
            "0--0",
            "0-9223372036854775808",
        ] {
            assert_eq!(parse(bad), None, "{bad}");
        }
    }
}
