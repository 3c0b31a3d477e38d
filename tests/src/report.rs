//! What a run prints.

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, Write};

use crate::cases::CaseFile;
use crate::outcome::{Outcome, Subject};
use crate::run::Verdict;

#[derive(Default)]
struct Tally {
    passed: usize,
    failed: usize,
    not_built: usize,
    differ_as_they_may: usize,
}

impl Tally {
    fn add(&mut self, verdict: &Verdict) {
        match verdict.outcome {
            Outcome::Passed => self.passed += 1,
            Outcome::Failed(_) if verdict.differs_as_it_may => self.differ_as_they_may += 1,
            Outcome::Failed(_) => self.failed += 1,
            Outcome::NotBuilt(_) => self.not_built += 1,
        }
    }
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} passed, {} failed, {} not built", self.passed, self.failed, self.not_built)?;
        match self.differ_as_they_may {
            0 => Ok(()),
            count => write!(f, ", {count} differ where they may"),
        }
    }
}

/// Writes the lines of each file and the totals; returns whether no case failed.
///
/// The closing line counts as skipped what is not built or differs where it may.
///
/// # Errors
/// Those of `out`.
pub fn report(out: &mut impl Write, files: &[CaseFile], verdicts: &[Vec<Verdict>]) -> io::Result<bool> {
    let mut total = Tally::default();
    for (file, verdicts) in files.iter().zip(verdicts).filter(|(_, verdicts)| !verdicts.is_empty()) {
        let mut tally = Tally::default();
        let mut reasons: BTreeMap<&str, usize> = BTreeMap::new();
        for verdict in verdicts {
            tally.add(verdict);
            total.add(verdict);
            if let Outcome::NotBuilt(reason) = &verdict.outcome {
                *reasons.entry(reason).or_default() += 1;
            }
        }
        writeln!(out, "{}: {tally}", file.name)?;
        for verdict in verdicts {
            if let Outcome::Failed(difference) = &verdict.outcome {
                let mark = if verdict.differs_as_it_may { "may differ" } else { "FAILED" };
                writeln!(out, "    {mark} {}: {}", verdict.id, difference.replace('\n', "\n        "))?;
            }
        }
        for (reason, count) in reasons {
            writeln!(out, "    not built, {count}: {reason}")?;
        }
    }
    writeln!(out, "\nall files: {total}")?;
    let skipped = total.not_built + total.differ_as_they_may;
    writeln!(out, "{} passed, {} failed, {skipped} skipped", total.passed, total.failed)?;
    Ok(total.failed == 0)
}

/// Writes each file with its number of cases and the state of its subject.
///
/// # Errors
/// Those of `out`.
pub fn list(
    out: &mut impl Write,
    files: &[CaseFile],
    subject_of: impl Fn(&str) -> Subject,
) -> io::Result<()> {
    for file in files {
        let state = match subject_of(&file.name) {
            Subject::Built(_) => "built".to_owned(),
            Subject::NotBuilt(reason) => format!("not built: {reason}"),
        };
        writeln!(out, "{}: {} cases, {state}", file.name, file.cases.len())?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, cases: usize) -> CaseFile {
        CaseFile { name: name.to_owned(), cases: vec![String::new(); cases] }
    }

    fn verdict(id: &str, outcome: Outcome, differs_as_it_may: bool) -> Verdict {
        Verdict { id: id.to_owned(), outcome, differs_as_it_may }
    }

    fn printed(files: &[CaseFile], verdicts: &[Vec<Verdict>]) -> (String, bool) {
        let mut out = Vec::new();
        let good = report(&mut out, files, verdicts).unwrap();
        (String::from_utf8(out).unwrap(), good)
    }

    #[test]
    fn each_file_has_a_line_each_failure_its_difference_and_the_end_the_totals() {
        let not_built = |id| verdict(id, Outcome::NotBuilt("type x".to_owned()), false);
        let (text, good) = printed(
            &[file("a/one", 3), file("b/two", 3), file("b/filtered", 1)],
            &[
                vec![
                    verdict("1", Outcome::Passed, false),
                    verdict("2", Outcome::Failed("then: want 1, got 2".to_owned()), false),
                    verdict("3", Outcome::Failed("then: want 3, got 4".to_owned()), true),
                ],
                vec![not_built("4"), not_built("5"), verdict("6", Outcome::Passed, false)],
                vec![],
            ],
        );
        assert_eq!(
            text,
            "a/one: 1 passed, 1 failed, 0 not built, 1 differ where they may\n    \
             FAILED 2: then: want 1, got 2\n    \
             may differ 3: then: want 3, got 4\n\
             b/two: 1 passed, 0 failed, 2 not built\n    \
             not built, 2: type x\n\n\
             all files: 2 passed, 1 failed, 2 not built, 1 differ where they may\n\
             2 passed, 1 failed, 3 skipped\n"
        );
        assert!(!good);
    }

    #[test]
    fn what_is_not_built_or_may_differ_does_not_fail_the_run() {
        let verdicts = vec![
            verdict("1", Outcome::NotBuilt("x".to_owned()), false),
            verdict("2", Outcome::Failed("y".to_owned()), true),
        ];
        let (text, good) = printed(&[file("a/one", 2)], &[verdicts]);
        assert!(good && text.ends_with("\n0 passed, 0 failed, 2 skipped\n"), "{text}");
    }
}
