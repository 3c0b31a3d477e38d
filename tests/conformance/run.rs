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
use crate::outcome::Outcome;
use crate::subjects::{self, Subject};

/// What became of one case.
pub(crate) struct Verdict {
    pub(crate) id: String,
    pub(crate) outcome: Outcome,
    /// The case differs, and may.
    pub(crate) differs_as_it_may: bool,
}

/// How long the run waits for the next finished case before it names those that hang and gives up.
const PATIENCE: Duration = Duration::from_secs(120);

/// Stack of a worker; the router's own threads have 2 MiB as well, so a case that needs more is a finding.
const STACK: usize = 2 << 20;

thread_local! {
    static LAST_PANIC: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Runs the cases of `files` whose id contains `id_part`; returns a list of verdicts a file, in file order.
///
/// A panic inside a case is a failure of that case, also where the case may differ. A case that never ends, ends
/// the process with an error that names it.
pub(crate) fn run(files: &[CaseFile], id_part: Option<&str>, threads: usize) -> Vec<Vec<Verdict>> {
    panic::set_hook(Box::new(|info| LAST_PANIC.set(Some(info.to_string()))));
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
            let (work, next, done) = (&work, &next, done.clone());
            let worker = move || {
                while let Some(&(file, case)) = work.get(next.fetch_add(1, Ordering::Relaxed)) {
                    set(slot, Some((file, case)));
                    let verdict = run_case(&files[file], case, id_part);
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

fn run_case(file: &CaseFile, index: usize, id_part: Option<&str>) -> Option<Verdict> {
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
    let subject = match subjects::of(&file.name) {
        Subject::Built(run) => run,
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

fn panic_text(payload: &(dyn Any + Send)) -> String {
    let message = payload.downcast_ref::<&str>().copied();
    let message = message.or_else(|| payload.downcast_ref::<String>().map(String::as_str));
    // The hook has the place as well; it says nothing where a panic was resumed rather than raised.
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
