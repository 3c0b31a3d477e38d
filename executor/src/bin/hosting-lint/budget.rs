//! The seam budget: on how many of its lines a module may call the seam.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::fs;
use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::failure::Failure;
use crate::uses::Use;
use crate::workspace::Workspace;

/// How the file begins.
const HEAD: &str = "\
# How many lines of a module may call the seam (`Rt`, its streams, its transport), by package. The fewer, the more of
# the router is pure computation. A module without a cap may not call it; a package without a table has no budget.
# `hosting-lint --update` writes what there is; a cap that grows is for a reviewer to see.
";

/// The caps of `budget.toml`, by package and module.
#[derive(Clone, Default, PartialEq, Debug, Serialize, Deserialize)]
#[serde(transparent)]
pub(crate) struct Budget(BTreeMap<String, BTreeMap<String, usize>>);

/// What a module spends.
#[derive(Default, Debug)]
pub(crate) struct Count {
    lines: BTreeSet<(String, usize)>,
}

/// What is spent, by package and module.
pub(crate) type Counts = BTreeMap<String, BTreeMap<String, Count>>;

impl Count {
    /// Counts the lines of the uses `seam`.
    pub(crate) fn of(workspace: &Workspace, seam: &[Use]) -> Counts {
        let mut counts = Counts::new();
        for one in seam {
            let Some((package, module)) = workspace.module(&one.file) else { continue };
            let modules = counts.entry(package.to_owned()).or_default();
            let count = modules.entry(module.to_owned()).or_default();
            count.lines.insert((one.file.clone(), one.line));
        }
        counts
    }
}

impl Budget {
    /// Reads the file at `path`; without one, no package has a budget.
    ///
    /// # Errors
    /// When it cannot be read or is not a budget.
    pub(crate) fn load(path: &Path) -> Result<Self, Failure> {
        if !path.exists() {
            return Ok(Budget::default());
        }
        let text = fs::read_to_string(path).map_err(|error| Failure::file("read", path, error))?;
        toml::from_str(&text).map_err(|error| Failure::file("parse", path, error))
    }

    /// Writes the file at `path`.
    ///
    /// # Errors
    /// When it cannot be written.
    pub(crate) fn store(&self, path: &Path) -> Result<(), Failure> {
        let caps = toml::to_string(self).map_err(|error| Failure::file("write", path, error))?;
        fs::write(path, format!("{HEAD}\n{caps}")).map_err(|error| Failure::file("write", path, error))
    }

    /// Returns the budget that is just enough, for the packages that have one.
    pub(crate) fn updated(&self, counts: &Counts) -> Self {
        let caps = |package: &String| {
            let modules = counts.get(package).into_iter().flatten();
            modules.map(|(module, count)| (module.clone(), count.lines.len())).collect()
        };
        Budget(self.0.keys().map(|package| (package.clone(), caps(package))).collect())
    }

    /// Compares what is spent with the caps.
    pub(crate) fn compare<'a>(&'a self, counts: &'a Counts) -> Comparison<'a> {
        let mut modules = Vec::new();
        for (package, caps) in &self.0 {
            let spent = counts.get(package);
            let names: BTreeSet<&String> =
                caps.keys().chain(spent.into_iter().flat_map(BTreeMap::keys)).collect();
            modules.extend(names.into_iter().map(|module| Spent {
                package,
                module,
                cap: caps.get(module).copied().unwrap_or(0),
                count: spent.and_then(|spent| spent.get(module)),
            }));
        }
        Comparison(modules)
    }
}

/// What the modules spend, beside what they may, for people.
#[derive(Debug)]
pub(crate) struct Comparison<'a>(Vec<Spent<'a>>);

#[derive(Debug)]
struct Spent<'a> {
    package: &'a str,
    module: &'a str,
    cap: usize,
    /// `None` for nothing.
    count: Option<&'a Count>,
}

impl Spent<'_> {
    fn lines(&self) -> usize {
        self.count.map_or(0, |count| count.lines.len())
    }
}

impl Comparison<'_> {
    /// Returns whether no module is above its cap.
    pub(crate) fn holds(&self) -> bool {
        self.0.iter().all(|spent| spent.lines() <= spent.cap)
    }
}

impl fmt::Display for Comparison<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for spent in &self.0 {
            let Spent { package, module, cap, .. } = spent;
            let lines = spent.lines();
            if lines > *cap {
                writeln!(
                    f,
                    "over budget: {package}/{module} calls the seam on {lines} lines, its cap is {cap}"
                )?;
                for (file, line) in spent.count.iter().flat_map(|count| &count.lines) {
                    writeln!(f, "  --> {file}:{line}")?;
                }
            } else if lines < *cap {
                writeln!(
                    f,
                    "note: {package}/{module} calls the seam on {lines} lines, its cap of {cap} can fall"
                )?;
            }
        }
        if !self.holds() {
            writeln!(
                f,
                "let a pure function take `now: Instant` or `&mut Stream` instead of `Rt`; if the module must"
            )?;
            writeln!(f, "call the seam, after review: hosting-lint --update")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counts(modules: &[(&str, &[usize])]) -> Counts {
        let count = |lines: &[usize]| Count {
            lines: lines.iter().map(|line| ("router/src/a.rs".to_owned(), *line)).collect(),
        };
        let modules = modules.iter().map(|(name, lines)| ((*name).to_owned(), count(lines)));
        Counts::from([("router".to_owned(), modules.collect())])
    }

    #[test]
    fn a_module_keeps_to_its_cap() {
        let budget: Budget = toml::from_str("[router]\nserver = 2\ndirector = 1\n").expect("a budget");
        let within = counts(&[("server", &[3, 4])]);
        let comparison = budget.compare(&within);
        assert!(comparison.holds());
        assert!(
            comparison.to_string().contains("note: router/director calls the seam on 0 lines, its cap of 1")
        );

        let above = counts(&[("server", &[3, 4, 9])]);
        let comparison = budget.compare(&above);
        assert!(!comparison.holds());
        let text = comparison.to_string();
        assert!(text.contains("router/server calls the seam on 3 lines, its cap is 2"), "{text}");
        assert!(text.contains("--> router/src/a.rs:9"), "{text}");
    }

    #[test]
    fn a_module_without_a_cap_may_spend_nothing() {
        let budget: Budget = toml::from_str("[router]\n").expect("a budget");
        assert!(!budget.compare(&counts(&[("scheduling", &[1])])).holds());
        assert!(Budget::default().compare(&counts(&[("scheduling", &[1])])).holds(), "no table, no budget");
    }

    #[test]
    fn an_update_writes_what_is_spent() {
        let budget: Budget = toml::from_str("[router]\nserver = 2\ndirector = 1\n").expect("a budget");
        let updated = budget.updated(&counts(&[("server", &[3, 4, 9])]));
        assert_eq!(updated, toml::from_str("[router]\nserver = 3\n").expect("a budget"));
        assert_eq!(Budget::default().updated(&counts(&[("server", &[3])])), Budget::default());
    }
}
