//! Prints what a run found.

use std::collections::BTreeMap;
use std::fmt;

use crate::cases::CaseFile;
use crate::outcome::Outcome;
use crate::run::Verdict;
use crate::subjects::{self, Subject};

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

/// Prints the lines of each file and the totals; returns whether no case failed.
///
/// The closing line counts as skipped what is not built or differs where it may.
pub(crate) fn report(files: &[CaseFile], verdicts: &[Vec<Verdict>]) -> bool {
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
        println!("{}: {tally}", file.name);
        for verdict in verdicts {
            if let Outcome::Failed(difference) = &verdict.outcome {
                let mark = if verdict.differs_as_it_may { "may differ" } else { "FAILED" };
                println!("    {mark} {}: {}", verdict.id, difference.replace('\n', "\n        "));
            }
        }
        for (reason, count) in reasons {
            println!("    not built, {count}: {reason}");
        }
    }
    println!("\nall files: {total}");
    let skipped = total.not_built + total.differ_as_they_may;
    println!("{} passed, {} failed, {skipped} skipped", total.passed, total.failed);
    total.failed == 0
}

/// Prints each file with its number of cases and the state of its subject.
pub(crate) fn list(files: &[CaseFile]) {
    for file in files {
        let state = match subjects::of(&file.name) {
            Subject::Built(_) => "built".to_owned(),
            Subject::NotBuilt(reason) => format!("not built: {reason}"),
        };
        println!("{}: {} cases, {state}", file.name, file.cases.len());
    }
}
