//! Which sample of a scrape a value is read from (configuration spec 6.3).

use std::collections::BTreeMap;

use super::families::{Families, Family, Sample};

/// A metric name with the labels that a sample must have: `name` or `name{label=value,...}`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetricSpec {
    /// Name of the family.
    pub name: String,
    /// Labels that must be there with these values; others may be there, too.
    pub labels: BTreeMap<String, String>,
}

/// Why a text is not a metric specification.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MetricSpecError {
    /// The whole does not have the form `name{...}`.
    #[error("not a valid metric specification: {0:?}; expected name or name{{label=value,...}}")]
    Spec(String),
    /// One label does not have the form `label=value`.
    #[error("invalid label pair {0:?} in specification; expected label=value or label=\"value\"")]
    LabelPair(String),
}

/// Why a specification finds no sample.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotFound {
    /// The scrape has no family of that name, or one without samples.
    #[error("metric family {0:?} not found")]
    Family(String),
    /// No sample has the labels.
    #[error("no matching metric found for {0:?}")]
    Sample(String),
}

impl MetricSpec {
    /// Reads a specification; the empty text means that there is none.
    pub fn parse(text: &str) -> Result<Option<Self>, MetricSpecError> {
        if text.is_empty() {
            return Ok(None);
        }
        let broken = || MetricSpecError::Spec(text.to_owned());
        let trimmed = text.trim();
        let (name, rest) = trimmed.split_at(word_end(trimmed, |b| b == b':'));
        if name.is_empty() {
            return Err(broken());
        }
        let rest = rest.trim_start();
        let labels = match rest.strip_prefix('{').map(|rest| rest.split_once('}')) {
            None if rest.is_empty() => BTreeMap::new(),
            Some(Some((pairs, ""))) => label_pairs(pairs)?,
            _ => return Err(broken()),
        };
        Ok(Some(MetricSpec { name: name.to_owned(), labels }))
    }

    /// Returns the sample that the specification stands for: of those with its labels the one with the largest
    /// timestamp, the first of equal ones. No timestamp counts as 0; a negative one is never taken.
    pub fn select<'a>(&self, families: &'a Families) -> Result<Sample<'a>, NotFound> {
        let family = self.family(families)?;
        let mut best: Option<Sample<'a>> = None;
        for sample in family.samples().filter(|sample| sample.timestamp >= 0 && self.matches(sample)) {
            if best.as_ref().is_none_or(|best| sample.timestamp > best.timestamp) {
                best = Some(sample);
            }
        }
        best.ok_or_else(|| NotFound::Sample(self.name.clone()))
    }

    /// Returns of the samples with the specification's labels the one with the largest value above -1, the first
    /// of equal ones; `None` also where the family is missing.
    pub fn select_largest<'a>(&self, families: &'a Families) -> Option<Sample<'a>> {
        let family = self.family(families).ok()?;
        let mut best: (f64, Option<Sample<'a>>) = (-1.0, None);
        for sample in family.samples().filter(|sample| self.matches(sample)) {
            if sample.value > best.0 {
                best = (sample.value, Some(sample));
            }
        }
        best.1
    }

    fn family<'a>(&self, families: &'a Families) -> Result<Family<'a>, NotFound> {
        families.family(&self.name).ok_or_else(|| NotFound::Family(self.name.clone()))
    }

    fn matches(&self, sample: &Sample<'_>) -> bool {
        self.labels
            .iter()
            .all(|(name, value)| sample.label(name).is_some_and(|found| found == value.as_str()))
    }
}

/// Reads what is between the braces. The text is split at every comma, also inside quotes.
fn label_pairs(text: &str) -> Result<BTreeMap<String, String>, MetricSpecError> {
    if text.trim().is_empty() {
        return Ok(BTreeMap::new());
    }
    text.split(',').map(|pair| label_pair(pair.trim())).collect()
}

fn label_pair(pair: &str) -> Result<(String, String), MetricSpecError> {
    let broken = || MetricSpecError::LabelPair(pair.to_owned());
    let (name, value) = pair.split_once('=').ok_or_else(broken)?;
    let (name, value) = (name.trim_end(), value.trim_start());
    if name.is_empty() || word_end(name, |_| false) != name.len() {
        return Err(broken());
    }
    let value = match value.strip_prefix('"') {
        Some(quoted) => {
            let inner = quoted.strip_suffix('"').ok_or_else(broken)?;
            if inner.contains(['"', '\\']) || contains_assignment(inner) {
                return Err(broken());
            }
            inner
        }
        None if value.is_empty() || !value.chars().all(is_bare) => return Err(broken()),
        None => value,
    };
    Ok((name.to_owned(), value.to_owned()))
}

/// Whether `text` holds something like `word=value`, which no quoted value may.
fn contains_assignment(text: &str) -> bool {
    text.match_indices('=').any(|(at, _)| {
        let before = text[..at].trim_end().bytes().last();
        let after = text[at + 1..].trim_start().chars().next();
        before.is_some_and(|b| b.is_ascii_alphanumeric() || b == b'_') && after.is_some_and(is_bare)
    })
}

/// Whether an unquoted value may hold `c`.
fn is_bare(c: char) -> bool {
    !c.is_whitespace() && !matches!(c, '"' | ',' | '}')
}

/// Returns the length of the name that `text` starts with: letters, digits, `_` and what `also` allows, no digit
/// first.
fn word_end(text: &str, also: impl Fn(u8) -> bool) -> usize {
    let allowed = |(at, b): (usize, u8)| {
        b.is_ascii_alphabetic() || b == b'_' || also(b) || (at > 0 && b.is_ascii_digit())
    };
    text.bytes().enumerate().take_while(|&byte| allowed(byte)).count()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(text: &str) -> Vec<(String, String)> {
        let spec = MetricSpec::parse(text).expect("a specification").expect("not empty");
        spec.labels.into_iter().collect()
    }

    #[test]
    fn names_stand_alone_or_before_braces() {
        for text in ["vllm:num_requests_waiting", " a ", "a{}", "a { }", "\ta\n", "__name"] {
            assert_eq!(labels(text), [], "{text:?}");
        }
        assert_eq!(MetricSpec::parse(""), Ok(None));
    }

    #[test]
    fn labels_may_be_quoted() {
        for text in ["a{x=y}", "a{x=\"y\"}", "a{ x = y }", "a {x= y}", "a{x=z,x=y}"] {
            assert_eq!(labels(text), [("x".into(), "y".into())], "{text:?}");
        }
        assert_eq!(labels("a{x=\"\"}"), [("x".into(), "".into())]);
        assert_eq!(labels("a{x=y=z;'w'/v}"), [("x".into(), "y=z;'w'/v".into())]);
    }

    #[test]
    fn broken_specifications_are_refused() {
        for text in
            [" ", "a-b", "1a", "{x=y}", "a{x=y", "a x=y}", "a{x=y}b", "a{x=y}{z=w}", "a[5m]", "a{x=\"}\"}"]
        {
            assert_eq!(MetricSpec::parse(text), Err(MetricSpecError::Spec(text.into())));
        }
        for pair in [
            "x",
            "=y",
            "x=",
            "x!=y",
            "1x=y",
            "x:y=z",
            "x=y z",
            "x=\"y",
            "x=\"a\\\"b\"",
            "x=\"y=z\"",
            "x=~\"y\"",
            "",
        ] {
            let text = format!("a{{k=v,{pair}}}");
            assert_eq!(MetricSpec::parse(&text), Err(MetricSpecError::LabelPair(pair.into())), "{text}");
        }
    }
}
