//! What is wrong with a file: where, what, why, and what would be accepted.

use std::fmt;
use std::rc::Rc;

/// A place in a text, both parts counted from 1; columns count characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Position {
    /// Line.
    pub line: usize,
    /// Column.
    pub column: usize,
}

impl Position {
    /// The first character.
    pub const START: Position = Position { line: 1, column: 1 };
}

impl fmt::Display for Position {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.line, self.column)
    }
}

/// A value with the place and the key path at which it was written.
#[derive(Clone, Debug, PartialEq)]
pub struct Located<T> {
    /// The value.
    pub value: T,
    /// Where it stands.
    pub at: Option<Position>,
    /// Keys that lead to it: `schedulingProfiles[0].name`.
    pub path: String,
}

impl<T> Located<T> {
    /// Returns a value that no text holds, such as a default.
    pub fn nowhere(value: T) -> Self {
        Located { value, at: None, path: String::new() }
    }

    /// Returns another value at the same place.
    pub fn with<U>(&self, value: U) -> Located<U> {
        Located { value, at: self.at, path: self.path.clone() }
    }
}

impl<T> std::ops::Deref for Located<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The kind of a problem with the text itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Syntax {
    /// Neither YAML nor JSON.
    BadSyntax,
    /// A key twice in one mapping.
    DuplicateField,
    /// A key that nothing reads.
    UnknownField,
    /// A key that must be given and is not.
    MissingField,
    /// A value of the wrong type.
    WrongType,
    /// A value of the right type that is not accepted.
    BadValue,
}

/// One thing that is wrong with a file.
///
/// Its text is one paragraph: `file:line:column: key.path: what is wrong; what is accepted`. `K` classifies the
/// problem for the reader of the file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problem<K = Syntax> {
    /// Class.
    pub kind: K,
    /// File, as the user named it; empty for text without a file.
    pub file: Rc<str>,
    /// Where in it, `None` where the problem has no one place.
    pub at: Option<Position>,
    /// Keys that lead to the place; empty for the whole document.
    pub path: String,
    /// What is wrong, and what is accepted.
    pub message: String,
}

impl<K: fmt::Debug> std::error::Error for Problem<K> {}

impl<K> fmt::Display for Problem<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if !self.file.is_empty() {
            write!(f, "{}:", self.file)?;
        }
        if let Some(at) = self.at {
            write!(f, "{at}:")?;
        }
        if !self.file.is_empty() || self.at.is_some() {
            f.write_str(" ")?;
        }
        if !self.path.is_empty() {
            write!(f, "{}: ", self.path)?;
        }
        f.write_str(&self.message)
    }
}

/// Everything that is wrong with a file, in the order in which it was found; prints one problem a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Problems<K = Syntax> {
    file: Rc<str>,
    list: Vec<Problem<K>>,
}

impl<K> Problems<K> {
    /// Returns an empty list for `file`.
    pub fn new(file: &str) -> Self {
        Problems { file: file.into(), list: Vec::new() }
    }

    /// Adds a problem.
    pub fn push(
        &mut self,
        kind: K,
        at: Option<Position>,
        path: impl Into<String>,
        message: impl Into<String>,
    ) {
        let problem =
            Problem { kind, file: self.file.clone(), at, path: path.into(), message: message.into() };
        self.list.push(problem);
    }

    /// Adds a problem with a located value.
    pub fn push_at<T>(&mut self, kind: K, place: &Located<T>, message: impl Into<String>) {
        self.push(kind, place.at, place.path.clone(), message);
    }

    /// Returns the file's name.
    pub fn file(&self) -> &str {
        &self.file
    }

    /// Returns the problems.
    pub fn list(&self) -> &[Problem<K>] {
        &self.list
    }

    /// Returns whether there are none.
    pub fn is_empty(&self) -> bool {
        self.list.is_empty()
    }

    /// Returns the same problems under other classes.
    pub fn map<L>(self, class: impl Fn(K) -> L) -> Problems<L> {
        let list = self.list.into_iter().map(|p| Problem {
            kind: class(p.kind),
            file: p.file,
            at: p.at,
            path: p.path,
            message: p.message,
        });
        Problems { file: self.file, list: list.collect() }
    }

    /// Returns `value` where nothing is wrong.
    pub fn into_result<T>(self, value: T) -> Result<T, Self> {
        if self.is_empty() { Ok(value) } else { Err(self) }
    }
}

impl<K: fmt::Debug> std::error::Error for Problems<K> {}

impl<K> fmt::Display for Problems<K> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, problem) in self.list.iter().enumerate() {
            write!(f, "{}{problem}", if i == 0 { "" } else { "\n" })?;
        }
        Ok(())
    }
}

/// Returns `; did you mean "x"?; accepted: a, x` for a word that is none of `accepted`, with the guess only
/// where one of them is close.
pub fn accepted_instead(word: &str, accepted: &[&str]) -> String {
    let mut text = String::new();
    if let Some(guess) = closest(word, accepted) {
        text.push_str(&format!("; did you mean \"{guess}\"?"));
    }
    match accepted {
        [] => text.push_str("; nothing is accepted here"),
        _ => text.push_str(&format!("; accepted: {}", accepted.join(", "))),
    }
    text
}

/// Returns the entry of `accepted` that differs least from `word`, case aside, if that is at most a third of it.
pub fn closest<'a>(word: &str, accepted: &[&'a str]) -> Option<&'a str> {
    let word = word.to_lowercase();
    let distance = |a: &str| strsim::damerau_levenshtein(&word, &a.to_lowercase());
    let best = accepted.iter().copied().min_by_key(|a| distance(a))?;
    (distance(best) <= word.chars().count().div_ceil(3)).then_some(best)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_problem_is_one_line_with_its_place() {
        let mut problems = Problems::new("epp.yaml");
        problems.push(
            Syntax::UnknownField,
            Some(Position { line: 3, column: 5 }),
            "plugins[0].typ",
            "unknown",
        );
        problems.push(Syntax::BadSyntax, None, "", "torn");
        assert_eq!(problems.to_string(), "epp.yaml:3:5: plugins[0].typ: unknown\nepp.yaml: torn");
        let mut nameless = Problems::new("");
        nameless.push(Syntax::WrongType, None, "a", "not a list");
        assert_eq!(nameless.to_string(), "a: not a list");
    }

    #[test]
    fn a_guess_is_made_only_when_it_is_close() {
        assert_eq!(closest("pluginref", &["name", "pluginRef"]), Some("pluginRef"));
        assert_eq!(closest("wieght", &["pluginRef", "weight"]), Some("weight"));
        assert_eq!(closest("colour", &["pluginRef", "weight"]), None);
        assert_eq!(
            accepted_instead("typ", &["name", "type"]),
            "; did you mean \"type\"?; accepted: name, type"
        );
    }
}
