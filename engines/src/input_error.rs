//! The one shape of every complaint about an input: a file, a flag or a value.

use std::fmt;

/// Where an input is at fault; every part that is unknown is left out.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Place {
    /// The file's path as the user gave it, or the name of a flag.
    pub source: Option<String>,
    /// Line, from 1.
    pub line: Option<u64>,
    /// Column in characters, from 1.
    pub column: Option<u64>,
    /// The field, column or path of keys: `workload.synthetic.requests`.
    pub field: Option<String>,
}

/// An input that is refused: where, why, and what is accepted instead.
///
/// Displays as one paragraph: `scenario.yaml:4:12: cluster[0].gpu: unknown GPU "H10"; accepted: A100-80,
/// A100-SXM, H100, L40S; did you mean "H100"?`.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct InputError(Box<Parts>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct Parts {
    place: Place,
    problem: String,
    accepted: Option<String>,
    suggestion: Option<String>,
}

impl InputError {
    /// Returns the error that says `problem`, still without a place.
    pub fn new(problem: impl Into<String>) -> Self {
        InputError(Box::new(Parts {
            place: Place::default(),
            problem: problem.into(),
            accepted: None,
            suggestion: None,
        }))
    }

    /// Returns the error for `found`, a `kind` that is none of `known`: lists them and names the closest.
    pub fn unknown<'a>(kind: &str, found: &str, known: impl IntoIterator<Item = &'a str>) -> Self {
        let known: Vec<&str> = known.into_iter().collect();
        let mut error = InputError::new(format!("unknown {kind} {found:?}")).accepted(known.join(", "));
        error.0.suggestion = closest(found, &known).map(str::to_owned);
        error
    }

    /// Says what would have been accepted.
    pub fn accepted(mut self, accepted: impl Into<String>) -> Self {
        self.0.accepted = Some(accepted.into());
        self
    }

    /// Names the source, unless a place nearer to the fault named it already.
    pub fn in_source(mut self, source: impl Into<String>) -> Self {
        self.0.place.source.get_or_insert_with(|| source.into());
        self
    }

    /// Names the line, unless a place nearer to the fault named it already.
    pub fn at_line(mut self, line: u64) -> Self {
        self.0.place.line.get_or_insert(line);
        self
    }

    /// Names the column, unless a place nearer to the fault named it already.
    pub fn at_column(mut self, column: u64) -> Self {
        self.0.place.column.get_or_insert(column);
        self
    }

    /// Names the field, unless a place nearer to the fault named it already.
    pub fn field(mut self, field: impl Into<String>) -> Self {
        self.0.place.field.get_or_insert_with(|| field.into());
        self
    }

    /// Puts `parent` in front of the field.
    pub fn under(mut self, parent: &str) -> Self {
        self.0.place.field = Some(match self.0.place.field.take() {
            Some(field) => format!("{parent}.{field}"),
            None => parent.to_owned(),
        });
        self
    }

    /// Returns what is wrong and what is accepted, without the place.
    pub fn message(&self) -> String {
        InputError(Box::new(Parts { place: Place::default(), ..(*self.0).clone() })).to_string()
    }

    /// Returns where the input is at fault.
    pub fn place(&self) -> &Place {
        &self.0.place
    }
}

impl fmt::Display for InputError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Place { source, line, column, field } = &self.0.place;
        let numbers = [line, column].into_iter().flatten().map(u64::to_string);
        let position: Vec<String> = source.iter().cloned().chain(numbers).collect();
        if !position.is_empty() {
            let prefix = if source.is_none() { "line " } else { "" };
            write!(f, "{prefix}{}: ", position.join(":"))?;
        }
        if let Some(field) = field {
            write!(f, "{field}: ")?;
        }
        f.write_str(&self.0.problem)?;
        if let Some(accepted) = &self.0.accepted {
            write!(f, "; accepted: {accepted}")?;
        }
        if let Some(suggestion) = &self.0.suggestion {
            write!(f, "; did you mean {suggestion:?}?")?;
        }
        Ok(())
    }
}

/// Returns the number as a message shows it: very large and very small ones with an exponent.
pub(crate) fn number(value: f64) -> String {
    match value.abs() {
        1e15.. => format!("{value:e}"),
        size if size > 0.0 && size < 1e-6 => format!("{value:e}"),
        _ => value.to_string(),
    }
}

/// Returns the known word that `found` most likely meant, none when all are far from it.
///
/// Letters' case costs nothing; of two equally close the first wins.
pub(crate) fn closest<'a>(found: &str, known: &[&'a str]) -> Option<&'a str> {
    let lower = found.to_lowercase();
    known
        .iter()
        .map(|word| (strsim::damerau_levenshtein(&lower, &word.to_lowercase()), *word))
        .filter(|(distance, word)| *distance <= 1 + word.chars().count() / 4)
        .min_by_key(|(distance, _)| *distance)
        .map(|(_, word)| word)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn says_place_problem_accepted_and_suggestion() {
        let error = InputError::unknown("GPU", "h10", ["A100-80", "H100"]).field("cluster[0].gpu");
        assert_eq!(
            error.clone().at_column(12).at_line(4).in_source("s.yaml").to_string(),
            r#"s.yaml:4:12: cluster[0].gpu: unknown GPU "h10"; accepted: A100-80, H100; did you mean "H100"?"#
        );
        assert_eq!(
            error.at_line(4).to_string(),
            r#"line 4: cluster[0].gpu: unknown GPU "h10"; accepted: A100-80, H100; did you mean "H100"?"#
        );
    }

    #[test]
    fn the_nearest_place_wins() {
        let error = InputError::new("x").in_source("near").in_source("far").field("a").field("b");
        assert_eq!(error.to_string(), "near: a: x");
    }

    #[test]
    fn numbers_are_short() {
        for (value, text) in [
            (1e308, "1e308"),
            (-1e308, "-1e308"),
            (5e-324, "5e-324"),
            (0.0, "0"),
            (1e-6, "0.000001"),
            (2.5, "2.5"),
        ] {
            assert_eq!(number(value), text);
        }
        assert_eq!((number(f64::INFINITY), number(f64::NAN)), ("inf".to_owned(), "NaN".to_owned()));
    }

    #[test]
    fn suggests_nothing_that_is_far() {
        assert_eq!(closest("zebra", &["H100", "L40S"]), None);
        assert_eq!(closest("worklaod", &["cluster", "workload"]), Some("workload"));
    }
}
