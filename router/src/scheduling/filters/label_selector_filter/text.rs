//! Label selectors as text: `app=web,tier in (a,b),!legacy`.

use std::collections::BTreeMap;

use super::{Requirement, Test};
use crate::plugin::FactoryError;
use crate::scheduling::invalid;

/// A Kubernetes label selector; all of its requirements must hold, and an empty one matches everything.
pub(crate) struct LabelSelectorText(Vec<Requirement>);

impl LabelSelectorText {
    /// Reads requirements joined by commas: `key`, `!key`, `key=value`, `key==value`, `key!=value`,
    /// `key in (a,b)`, `key notin (a,b)`.
    ///
    /// # Errors
    /// What does not read, and keys and values that Kubernetes does not accept.
    pub(crate) fn parse(text: &str) -> Result<Self, FactoryError> {
        let mut requirements = Vec::new();
        let mut rest = text.trim();
        while !rest.is_empty() {
            let (requirement, behind) = requirement(rest)?;
            requirements.push(requirement);
            rest = behind.trim_start();
            match rest.strip_prefix(',') {
                Some(next) if !next.trim().is_empty() => rest = next.trim_start(),
                None if rest.is_empty() => {}
                _ => return Err(unreadable(rest)),
            }
        }
        Ok(LabelSelectorText(requirements))
    }

    pub(crate) fn matches(&self, labels: &BTreeMap<String, String>) -> bool {
        self.0.iter().all(|requirement| requirement.matches(labels))
    }
}

fn unreadable(text: &str) -> FactoryError {
    invalid(format!(
        "not a label selector at {text:?}; accepted: key, !key, key=value, key!=value, key in (a,b), \
         key notin (a,b), joined by commas"
    ))
}

/// Reads the first requirement and returns what stands behind it.
fn requirement(text: &str) -> Result<(Requirement, &str), FactoryError> {
    if let Some(rest) = text.strip_prefix('!') {
        let (key, rest) = word(rest.trim_start());
        return Ok((Requirement::new(key.to_owned(), Test::DoesNotExist)?, rest));
    }
    let (key, rest) = word(text);
    let (key, rest) = (key.to_owned(), rest.trim_start());
    for (operator, negative) in [("==", false), ("!=", true), ("=", false)] {
        if let Some(rest) = rest.strip_prefix(operator) {
            let (value, rest) = word(rest.trim_start());
            let values = vec![value.to_owned()];
            let test = if negative { Test::NotIn(values) } else { Test::In(values) };
            return Ok((Requirement::new(key, test)?, rest));
        }
    }
    for (operator, negative) in [("notin", true), ("in", false)] {
        let Some(list) = rest.strip_prefix(operator).map(str::trim_start) else { continue };
        let Some(list) = list.strip_prefix('(') else { continue };
        let Some((list, rest)) = list.split_once(')') else { return Err(unreadable(rest)) };
        let values: Vec<String> = list.split(',').map(|value| value.trim().to_owned()).collect();
        let test = if negative { Test::NotIn(values) } else { Test::In(values) };
        return Ok((Requirement::new(key, test)?, rest));
    }
    match rest.is_empty() || rest.starts_with(',') {
        true => Ok((Requirement::new(key, Test::Exists)?, rest)),
        false => Err(unreadable(rest)),
    }
}

/// Splits off what may be a key or a value.
fn word(text: &str) -> (&str, &str) {
    let end = text.find(|c: char| !(c.is_ascii_alphanumeric() || "-_./".contains(c))).unwrap_or(text.len());
    text.split_at(end)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn selectors_read_as_kubernetes_writes_them() {
        let labels = [("app", "web"), ("tier", "b"), ("empty", "")];
        let labels = labels.map(|(k, v)| (k.to_owned(), v.to_owned())).into_iter().collect();
        for (text, matches) in [
            ("", true),
            ("app=web", true),
            ("app==web , tier!=a", true),
            ("app=api", false),
            ("tier in (a, b)", true),
            ("tier notin (a,b)", false),
            ("zone notin (a)", true),
            ("zone!=a", true),
            ("zone", false),
            ("!zone,app", true),
            ("empty=", true),
            ("llm-d.ai/role in (x)", false),
        ] {
            let selector = LabelSelectorText::parse(text).unwrap_or_else(|error| panic!("{text}: {error}"));
            assert_eq!(selector.matches(&labels), matches, "{text}");
        }
        for bad in ["a in (b", "a in", "=x", "a=b,", "a b", ",", "a=-", "a in (b) c", "!"] {
            assert!(LabelSelectorText::parse(bad).is_err(), "{bad}");
        }
    }
}
