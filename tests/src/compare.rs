//! How an answer of ours is compared with a recorded one.
//!
//! Both are JSON. The recorded side may hold two things that are not plain values: `{"any_of": […]}`, where the
//! real system answered differently from run to run and any listed value is right, and the strings `"NaN"`,
//! `"+Inf"` and `"-Inf"` in the place of floats that JSON cannot carry.

use std::fmt::Write as _;

use serde_json::{Map, Value};

use crate::outcome::Outcome;

/// Relative float tolerance of the vectors' README for a rewrite of a formula.
pub const REWRITE_TOLERANCE: f64 = 1e-12;

/// Longest piece of JSON quoted in a difference, in characters.
const QUOTE: usize = 160;

/// Rules under which two JSON values count as equal.
///
/// Objects compare by key, whatever the order; lists element by element, unless [`Rules::set`] names the member
/// that holds them; integers exactly; floats within the relative tolerance.
#[derive(Clone, Debug, Default)]
pub struct Rules {
    tolerance: f64,
    sets: Vec<&'static str>,
    ignored: Vec<&'static str>,
}

impl Rules {
    /// Returns rules under which floats are equal only if they are the same double (`-0.0` equals `0.0`).
    #[must_use]
    pub fn exact() -> Self {
        Self::default()
    }

    /// Returns rules under which floats may differ by `relative` of the larger magnitude.
    #[must_use]
    pub fn within(relative: f64) -> Self {
        Self { tolerance: relative, ..Self::default() }
    }

    /// Compares the lists that are the value of a member called `name`, at any depth, without regard to order.
    #[must_use]
    pub fn set(mut self, name: &'static str) -> Self {
        self.sets.push(name);
        self
    }

    /// Leaves members called `name` out of the comparison, at any depth and on both sides.
    #[must_use]
    pub fn ignore(mut self, name: &'static str) -> Self {
        self.ignored.push(name);
        self
    }

    /// Passes if `got` equals `want`, and fails with the first difference otherwise.
    #[must_use]
    pub fn outcome(&self, want: &Value, got: &Value) -> Outcome {
        match self.difference(want, got) {
            None => Outcome::Passed,
            Some(difference) => Outcome::Failed(difference),
        }
    }

    /// Returns the place of the first difference and both values there, or `None` if the values are equal.
    ///
    /// Members are visited in the order of their names, so the same inputs always give the same text.
    #[must_use]
    pub fn difference(&self, want: &Value, got: &Value) -> Option<String> {
        let mut path = String::from("then");
        self.differ(&mut path, want, got, false)
    }

    fn differ(&self, path: &mut String, want: &Value, got: &Value, is_set: bool) -> Option<String> {
        if let Some(choices) = any_of(want) {
            let fits =
                choices.iter().any(|choice| self.differ(&mut path.clone(), choice, got, is_set).is_none());
            return (!fits)
                .then(|| format!("{path}: want any of {}, got {}", quote_list(choices), quote(got)));
        }
        match (want, got) {
            (Value::Object(want), Value::Object(got)) => self.objects(path, want, got),
            (Value::Array(want), Value::Array(got)) if is_set => self.sets(path, want, got),
            (Value::Array(want), Value::Array(got)) => self.lists(path, want, got),
            (Value::Number(a), Value::Number(b)) if self.numbers(a, b) => None,
            _ if want == got => None,
            _ => Some(format!("{path}: want {}, got {}", quote(want), quote(got))),
        }
    }

    fn objects(
        &self,
        path: &mut String,
        want: &Map<String, Value>,
        got: &Map<String, Value>,
    ) -> Option<String> {
        let mut names: Vec<&String> = want.keys().chain(got.keys()).collect();
        names.sort_unstable();
        names.dedup();
        for name in names {
            if self.ignored.contains(&name.as_str()) {
                continue;
            }
            match (want.get(name), got.get(name)) {
                (Some(want), Some(got)) => {
                    let is_set = self.sets.contains(&name.as_str());
                    let difference =
                        inside(path, format_args!(".{name}"), |path| self.differ(path, want, got, is_set));
                    if difference.is_some() {
                        return difference;
                    }
                }
                (Some(want), None) => {
                    return Some(format!("{path}.{name}: want {}, got nothing", quote(want)));
                }
                (None, Some(got)) => return Some(format!("{path}.{name}: want nothing, got {}", quote(got))),
                (None, None) => {}
            }
        }
        None
    }

    fn lists(&self, path: &mut String, want: &[Value], got: &[Value]) -> Option<String> {
        for (index, (want, got)) in want.iter().zip(got).enumerate() {
            let difference =
                inside(path, format_args!("[{index}]"), |path| self.differ(path, want, got, false));
            if difference.is_some() {
                return difference;
            }
        }
        let common = want.len().min(got.len());
        match (want.get(common), got.get(common)) {
            (Some(want), _) => Some(format!("{path}[{common}]: want {}, got the list's end", quote(want))),
            (_, Some(got)) => Some(format!("{path}[{common}]: want the list's end, got {}", quote(got))),
            (None, None) => None,
        }
    }

    /// Finds for each wanted element an own partner among the answer's.
    ///
    /// Elements that hold an `any_of` choose last, so that a flexible one does not take a strict one's partner.
    fn sets(&self, path: &str, want: &[Value], got: &[Value]) -> Option<String> {
        let mut free: Vec<&Value> = got.iter().collect();
        let (flexible, strict): (Vec<_>, Vec<_>) = want.iter().partition(|value| holds_any_of(value));
        for value in strict.into_iter().chain(flexible) {
            let partner =
                free.iter().position(|got| self.differ(&mut path.to_owned(), value, got, false).is_none());
            match partner {
                Some(index) => {
                    free.remove(index);
                }
                None => {
                    return Some(format!(
                        "{path}: the set lacks {}; it has {}",
                        quote(value),
                        quote_list(got)
                    ));
                }
            }
        }
        free.first().map(|extra| format!("{path}: the set has one too many: {}", quote(extra)))
    }

    fn numbers(&self, a: &serde_json::Number, b: &serde_json::Number) -> bool {
        if let (Some(a), Some(b)) = (integer(a), integer(b)) {
            return a == b;
        }
        match (a.as_f64(), b.as_f64()) {
            (Some(a), Some(b)) => close(a, b, self.tolerance),
            _ => false,
        }
    }
}

/// Whether two floats are equal, or differ by at most `relative` of the larger magnitude.
///
/// NaN equals NaN here: the recorded answer says it is the right one.
#[must_use]
pub fn close(a: f64, b: f64, relative: f64) -> bool {
    a == b
        || (a.is_nan() && b.is_nan())
        || (a.is_finite() && b.is_finite() && (a - b).abs() <= relative * a.abs().max(b.abs()))
}

/// Writes a float as the vectors do: a JSON number, or the text `"NaN"`, `"+Inf"` or `"-Inf"`.
#[must_use]
pub fn float(value: f64) -> Value {
    match serde_json::Number::from_f64(value) {
        Some(number) => Value::Number(number),
        None if value.is_nan() => Value::from("NaN"),
        None if value > 0.0 => Value::from("+Inf"),
        None => Value::from("-Inf"),
    }
}

/// Reads a float as the vectors write it; `None` if `value` is neither a number nor one of the three texts.
#[must_use]
pub fn read_float(value: &Value) -> Option<f64> {
    match value {
        Value::Number(number) => number.as_f64(),
        Value::String(text) => match text.as_str() {
            "NaN" => Some(f64::NAN),
            "+Inf" => Some(f64::INFINITY),
            "-Inf" => Some(f64::NEG_INFINITY),
            _ => None,
        },
        _ => None,
    }
}

/// The listed values if `value` is an object whose only member is the list `any_of`.
#[must_use]
pub fn any_of(value: &Value) -> Option<&[Value]> {
    let members = value.as_object().filter(|members| members.len() == 1)?;
    members.get("any_of")?.as_array().map(Vec::as_slice)
}

fn holds_any_of(value: &Value) -> bool {
    any_of(value).is_some()
        || match value {
            Value::Object(members) => members.values().any(holds_any_of),
            Value::Array(items) => items.iter().any(holds_any_of),
            _ => false,
        }
}

/// The number as an integer, if it was written as one.
fn integer(number: &serde_json::Number) -> Option<i128> {
    number.as_i64().map(i128::from).or_else(|| number.as_u64().map(i128::from))
}

fn inside<T>(path: &mut String, step: std::fmt::Arguments<'_>, visit: impl FnOnce(&mut String) -> T) -> T {
    let length = path.len();
    path.write_fmt(step).expect("writing to a String cannot fail");
    let result = visit(path);
    path.truncate(length);
    result
}

fn quote(value: &Value) -> String {
    shorten(value.to_string())
}

fn quote_list(values: &[Value]) -> String {
    let items: Vec<String> = values.iter().map(Value::to_string).collect();
    shorten(format!("[{}]", items.join(",")))
}

fn shorten(text: String) -> String {
    match text.char_indices().nth(QUOTE) {
        Some((end, _)) => format!("{}… ({} bytes)", &text[..end], text.len()),
        None => text,
    }
}

#[cfg(test)]
mod tests;
