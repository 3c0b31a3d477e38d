//! The accepted uses. Each is a row of its own, so that a new one cannot take the place of one that is gone.

use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::kind::Kind;
use crate::uses::Use;

/// How the file begins.
const HEAD: &str = "\
# The uses of the machine that hosted code may make, one a row: clocks, threads, sockets, the environment and all else
# that `.clippy.toml` bans. `hosting-lint --update` writes the rows; the reasons are ours. How a use is accepted:
# MAINTAINING.md, \"The seam\".
";

/// The rows of `baseline.toml`.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Baseline {
    #[serde(default, rename = "use")]
    rows: Vec<Row>,
}

/// One accepted use. Its line number is not part of it: code moves.
#[derive(Clone, PartialEq, Debug, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Row {
    file: String,
    function: String,
    kind: Kind,
    what: String,
    line: String,
    reason: String,
}

impl Row {
    fn is(&self, one: &Use) -> bool {
        self.file == one.file
            && self.function == one.function
            && self.kind == one.kind
            && self.what == one.what
            && self.line == one.text
    }
}

impl Baseline {
    /// Reads the file at `path`; without one, nothing is accepted.
    ///
    /// # Errors
    /// When it cannot be read or is not a baseline.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            return Ok(Baseline::default());
        }
        let text = fs::read_to_string(path).map_err(|error| Failure::file("read", path, error))?;
        toml::from_str(&text).map_err(|error| Failure::file("parse", path, error))
    }

    /// Writes the file at `path`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn store(&self, path: &Path) -> Result<(), Failure> {
        let rows = toml::to_string(self).map_err(|error| Failure::file("write", path, error))?;
        if let Some(folder) = path.parent() {
            fs::create_dir_all(folder).map_err(|error| Failure::file("create", folder, error))?;
        }
        fs::write(path, format!("{HEAD}\n{rows}")).map_err(|error| Failure::file("write", path, error))
    }

    /// Pairs each use with a row of its own, and tells what is left on either side.
    pub(crate) fn compare<'a>(&'a self, uses: &'a [Use]) -> Difference<'a> {
        let mut rows: Vec<&Row> = self.rows.iter().collect();
        let mut difference = Difference::default();
        for one in uses {
            match rows.iter().position(|row| row.is(one)) {
                Some(place) => {
                    let row = rows.remove(place);
                    if row.reason.trim().is_empty() {
                        difference.without_reason.push(row);
                    }
                }
                None => difference.new.push(one),
            }
        }
        difference.gone = rows;
        difference
    }

    /// Returns the rows of `uses`. A row that there was keeps its reason; a new one takes that of the `#[expect]`
    /// around it, else `reason`, else none.
    pub(crate) fn updated(&self, uses: &[Use], reason: Option<&str>) -> Self {
        let mut old: Vec<&Row> = self.rows.iter().collect();
        let rows = uses.iter().map(|one| match old.iter().position(|row| row.is(one)) {
            Some(place) => old.remove(place).clone(),
            None => Row {
                file: one.file.clone(),
                function: one.function.clone(),
                kind: one.kind,
                what: one.what.clone(),
                line: one.text.clone(),
                reason: one.reason.as_deref().or(reason).unwrap_or_default().to_owned(),
            },
        });
        Baseline { rows: rows.collect() }
    }

    pub(crate) fn is_reasoned(&self) -> bool {
        self.rows.iter().all(|row| !row.reason.trim().is_empty())
    }

    /// Returns the rows that still want a reason.
    pub(crate) fn without_reason(&self) -> Difference<'_> {
        let without_reason = self.rows.iter().filter(|row| row.reason.trim().is_empty()).collect();
        Difference { without_reason, ..Difference::default() }
    }
}

/// Where uses and baseline differ, for people.
#[derive(Default, Debug)]
pub(crate) struct Difference<'a> {
    new: Vec<&'a Use>,
    gone: Vec<&'a Row>,
    without_reason: Vec<&'a Row>,
}

impl Difference<'_> {
    pub(crate) fn is_empty(&self) -> bool {
        self.new.is_empty() && self.gone.is_empty() && self.without_reason.is_empty()
    }
}

impl fmt::Display for Difference<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for one in &self.new {
            let Use { file, line, kind, what, function, text, .. } = one;
            writeln!(f, "new use of {kind}, `{what}`, not in the baseline")?;
            writeln!(f, "  --> {file}:{line}, in {function}\n      {text}")?;
            if let Some(advice) = &one.advice {
                writeln!(f, "  instead: {advice}")?;
            }
        }
        for row in &self.gone {
            let Row { file, kind, what, function, line, .. } = row;
            writeln!(
                f,
                "stale row: the use of {kind}, `{what}`, is gone from {file}, {function}\n      {line}"
            )?;
        }
        for row in &self.without_reason {
            let Row { file, kind, what, function, line, .. } = row;
            writeln!(
                f,
                "a reason is missing: for the use of {kind}, `{what}`, in {file}, {function}\n      {line}"
            )?;
        }
        if !self.new.is_empty() || !self.gone.is_empty() {
            writeln!(f, "after review: hosting-lint --update; see MAINTAINING.md, \"The seam\"")?;
        }
        if !self.without_reason.is_empty() {
            writeln!(f, "write the reasons into .hosting-lint/baseline.toml")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::uses::Side;

    fn clock(function: &str, line: usize, reason: Option<&str>) -> Use {
        Use {
            side: Side::Around,
            kind: Kind::Clock,
            file: "router/src/a.rs".to_owned(),
            line,
            function: function.to_owned(),
            what: "std::time::Instant::now".to_owned(),
            text: "let now = Instant::now();".to_owned(),
            advice: None,
            reason: reason.map(str::to_owned),
        }
    }

    #[test]
    fn an_accepted_use_may_move_but_not_multiply() {
        let baseline = Baseline::default().updated(&[clock("f", 3, Some("because"))], None);
        assert!(baseline.compare(&[clock("f", 30, None)]).is_empty());
        let two = [clock("f", 3, None), clock("f", 4, None)];
        let difference = baseline.compare(&two);
        assert_eq!((difference.new.len(), difference.gone.len()), (1, 0));
    }

    #[test]
    fn a_new_use_does_not_hide_behind_a_removed_one() {
        let baseline = Baseline::default().updated(&[clock("f", 3, Some("because"))], None);
        let moved = [clock("g", 3, None)];
        let difference = baseline.compare(&moved);
        assert_eq!((difference.new.len(), difference.gone.len()), (1, 1));
        let text = difference.to_string();
        assert!(text.contains("new use of clock, `std::time::Instant::now`"), "{text}");
        assert!(text.contains("router/src/a.rs:3, in g"), "{text}");
        assert!(text.contains("stale row") && text.contains("router/src/a.rs, f"), "{text}");
    }

    #[test]
    fn reasons_are_kept_taken_from_the_source_or_asked_for() {
        let first = Baseline::default().updated(&[clock("f", 3, Some("of the source"))], Some("given"));
        assert_eq!(first.rows[0].reason, "of the source");
        let second = first.updated(&[clock("f", 3, Some("another")), clock("g", 9, None)], None);
        assert_eq!(second.rows[0].reason, "of the source");
        assert_eq!(second.rows[1].reason, "");
        assert!(!second.is_reasoned());
        let both = [clock("f", 3, None), clock("g", 9, None)];
        assert_eq!(second.compare(&both).without_reason.len(), 1);
        let third = second.updated(&[clock("h", 3, None)], Some("given"));
        assert_eq!(third.rows[0].reason, "given");
    }

    #[test]
    fn what_is_stored_is_what_is_loaded() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("deep/baseline.toml");
        let baseline = Baseline::default().updated(&[clock("f", 3, Some("it says \"so\""))], None);
        baseline.store(&path).expect("stored");
        assert_eq!(Baseline::load(&path).expect("loaded"), baseline);
        assert_eq!(Baseline::load(&folder.path().join("none")).expect("no file"), Baseline::default());
        fs::write(&path, "[[use]]\nfile = \"a\"\nfn = \"b\"\n").expect("written");
        let error = Baseline::load(&path).expect_err("unknown field").to_string();
        assert!(error.contains("baseline.toml") && error.contains("fn"), "{error}");
    }
}
