//! Runs cases on several threads, each case by itself.

use std::any::Any;
use std::cell::RefCell;
use std::panic::{self, AssertUnwindSafe};
use std::sync::Mutex;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use crate::cases::{self, CaseFile};
use crate::outcome::{Outcome, Subject};

/// What became of one case.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// What the case is called.
    pub id: String,
    /// What became of it.
    pub outcome: Outcome,
    /// The case differs, and may.
    pub differs_as_it_may: bool,
}

/// How long the run waits for the next finished case before it names those that hang and gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Stack of a worker; the router's own threads have 2 MiB as well, so a case that needs more is a finding.
const STACK: usize = 2 << 20;

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs the cases of `files` whose id contains `id_part`, each against what `subject_of` names for its file, on so
/// many threads; returns a list of verdicts a file, in file order.
///
/// A panic inside a case is a failure of that case, also where the case may differ. A case that never ends, ends
/// the process with an error that names it.
///
/// # Panics
/// If the system cannot start the threads.
pub fn run(
    files: &[CaseFile],
    id_part: Option<&str>,
    subject_of: impl Fn(&str) -> Subject + Sync,
    threads: usize,
) -> Vec<Vec<Verdict>> {
    let work: Vec<(usize, usize)> = files
        .iter()
        .enumerate()
        .flat_map(|(file, cases)| (0..cases.cases.len()).map(move |case| (file, case)))
        .collect();
    let next = AtomicUsize::new(0);
    let running: Vec<Mutex<Option<(usize, usize)>>> = (0..threads).map(|_| Mutex::new(None)).collect();
    let (done, finished) = mpsc::channel();
    let mut verdicts: Vec<Vec<(usize, Verdict)>> = files.iter().map(|_| Vec::new()).collect();
    thread::scope(|scope| {
        for slot in &running {
            let (work, next, subject_of, done) = (&work, &next, &subject_of, done.clone());
            let worker = move || {
                while let Some(&(file, case)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    set(slot, Some((file, case)));
                    let verdict = run_case(&files[file], case, id_part, subject_of(&files[file].name));
                    if done.send((file, case, verdict)).is_err() {
                        break;
                    }
                }
                set(slot, None);
            };
            thread::Builder::new()
                .stack_size(STACK)
                .spawn_scoped(scope, worker)
                .expect("the system can start a thread a core");
        }
        drop(done);
        loop {
            match finished.recv_timeout(PATIENCE) {
                Ok((file, case, verdict)) => verdicts[file].extend(verdict.map(|verdict| (case, verdict))),
                Err(RecvTimeoutError::Disconnected) => break,
                Err(RecvTimeoutError::Timeout) => give_up(files, &running),
            }
        }
    });
    let in_order = |mut file: Vec<(usize, Verdict)>| {
        file.sort_by_key(|(case, _)| *case);
        file.into_iter().map(|(_, verdict)| verdict).collect()
    };
    verdicts.into_iter().map(in_order).collect()
}

fn run_case(file: &CaseFile, index: usize, id_part: Option<&str>, subject: Subject) -> Option<Verdict> {
    let verdict = |id, outcome| Some(Verdict { id, outcome, differs_as_it_may: false });
    let case = match serde_json::from_str(&file.cases[index]) {
        Ok(case) => case,
        Err(error) => {
            return verdict(format!("#{}", index + 1), Outcome::Failed(format!("not JSON: {error}")));
        }
    };
    let id = cases::id(&case, index);
    if id_part.is_some_and(|part| !id.contains(part)) {
        return None;
    }
    let subject = match subject {
        Subject::Built(subject) => subject,
        Subject::NotBuilt(reason) => return verdict(id, Outcome::NotBuilt(reason.to_owned())),
    };
    match panic::catch_unwind(AssertUnwindSafe(|| subject(&file.name, &case))) {
        Ok(outcome) => {
            let differs_as_it_may = matches!(outcome, Outcome::Failed(_)) && cases::may_differ(&case);
            Some(Verdict { id, outcome, differs_as_it_may })
        }
        Err(payload) => verdict(id, Outcome::Failed(panic_text(&*payload))),
    }
}

/// Keeps the message and place of a panic inside a case for its verdict, in the place of printing it.
///
/// Without it a verdict has the message only. It is the whole process's, so the runner's `main` asks for it.
pub fn keep_panics_for_verdicts() {
    panic::set_hook(Box::new(|info| LAST_PANIC.set(Some(info.to_string()))));
}

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    // The hook knows the place as well; it is not called where a panic is resumed rather than raised.
    LAST_PANIC.take().unwrap_or_else(|| format!("panicked: {}", message.unwrap_or("without a message")))
}

fn give_up(files: &[CaseFile], running: &[Mutex<Option<(usize, usize)>>]) -> ! {
    eprintln!("conformance: no case has finished for {PATIENCE:?}; still running:");
    for slot in running {
        if let Some((file, case)) = *slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) {
            let id = serde_json::from_str(&files[file].cases[case]).map(|value| cases::id(&value, case));
            eprintln!("  {} {}", files[file].name, id.unwrap_or_default());
        }
    }
    std::process::exit(1);
}

fn set(slot: &Mutex<Option<(usize, usize)>>, place: Option<(usize, usize)>) {
    *slot.lock().unwrap_or_else(|poisoned| poisoned.into_inner()) = place;
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;

    /// Does what the case's member `does` says.
    fn obey(_file: &str, case: &Value) -> Outcome {
        match case["does"].as_str() {
            Some("pass") => Outcome::Passed,
            Some("differ") => Outcome::Failed("then: want 1, got 2".to_owned()),
            Some("panic") => panic!("index out of range"),
            other => Outcome::NotBuilt(format!("{other:?}")),
        }
    }

    fn verdicts(cases: &[&str], id_part: Option<&str>, subject: Subject) -> Vec<Verdict> {
        let cases = cases.iter().map(|case| (*case).to_owned()).collect();
        let file = CaseFile { name: "folder/file".to_owned(), cases };
        run(&[file], id_part, |_| subject, 2).remove(0)
    }

    fn verdict(id: &str, outcome: Outcome, differs_as_it_may: bool) -> Verdict {
        Verdict { id: id.to_owned(), outcome, differs_as_it_may }
    }

    #[test]
    fn verdicts_come_in_file_order_whatever_thread_ran_them() {
        let cases: Vec<String> = (0..200).map(|i| format!(r#"{{"id":"c-{i}","does":"pass"}}"#)).collect();
        let texts: Vec<&str> = cases.iter().map(String::as_str).collect();
        let expected: Vec<Verdict> =
            (0..200).map(|i| verdict(&format!("c-{i}"), Outcome::Passed, false)).collect();
        assert_eq!(verdicts(&texts, None, Subject::Built(obey)), expected);
    }

    #[test]
    fn only_a_difference_is_forgiven_to_a_case_that_may_differ_and_not_a_panic() {
        let cases = [
            r#"{"id":"a","does":"differ"}"#,
            r#"{"id":"b","does":"differ","parity":"optional: accident"}"#,
            r#"{"id":"c","does":"pass","parity":"optional: accident"}"#,
            r#"{"id":"d","does":"panic","parity":"optional: accident"}"#,
        ];
        let found = verdicts(&cases, None, Subject::Built(obey));
        let difference = || Outcome::Failed("then: want 1, got 2".to_owned());
        assert_eq!(found[0], verdict("a", difference(), false));
        assert_eq!(found[1], verdict("b", difference(), true));
        assert_eq!(found[2], verdict("c", Outcome::Passed, false));
        assert!(!found[3].differs_as_it_may);
        assert!(
            matches!(&found[3].outcome, Outcome::Failed(text) if text.contains("index out of range")),
            "{:?}",
            found[3].outcome
        );
    }

    #[test]
    fn a_panic_leaves_the_cases_after_it_alone() {
        let cases = [r#"{"id":"a","does":"panic"}"#, r#"{"id":"b","does":"pass"}"#];
        assert_eq!(verdicts(&cases, None, Subject::Built(obey))[1], verdict("b", Outcome::Passed, false));
    }

    #[test]
    fn text_that_is_not_json_is_a_failure_even_where_nothing_is_built() {
        let found = verdicts(&["{"], None, Subject::NotBuilt("everything"));
        assert!(matches!(&found[0].outcome, Outcome::Failed(text) if text.starts_with("not JSON")));
        assert_eq!(found[0].id, "#1");
    }

    #[test]
    fn a_file_without_a_subject_says_why_for_each_case() {
        let found = verdicts(&[r#"{"id":"a"}"#], None, Subject::NotBuilt("the engine"));
        assert_eq!(found, [verdict("a", Outcome::NotBuilt("the engine".to_owned()), false)]);
    }

    #[test]
    fn only_cases_whose_id_contains_the_text_run() {
        let cases = [r#"{"id":"max-1","does":"panic"}"#, r#"{"id":"random-1","does":"pass"}"#];
        let found = verdicts(&cases, Some("random"), Subject::Built(obey));
        assert_eq!(found, [verdict("random-1", Outcome::Passed, false)]);
    }
}
