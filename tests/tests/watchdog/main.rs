//! The watchdog against a catalogue of small programs: each faulty one is found under its right name, with the task and
//! the place that are to blame; nothing is found in the healthy ones.

mod blocking;
mod endless;
mod faulty;
mod healthy;
mod stuck;
mod wakes;

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use executor::{FindingKind, Outcome, Policy, Rt, RunReport, Sim, SimBuilder, Watchdog};

pub(crate) const MS: Duration = Duration::from_millis(1);

/// A strict simulation that speaks early, so that faults show soon.
pub(crate) fn strict() -> SimBuilder {
    impatient(Policy::Strict)
}

/// A simulation that reports, and speaks early.
pub(crate) fn reporting() -> SimBuilder {
    impatient(Policy::Report)
}

fn impatient(policy: Policy) -> SimBuilder {
    Sim::builder().watchdog(Watchdog {
        policy,
        blocking: Duration::from_secs(5),
        livelock: 10_000,
        runaway: 20_000,
        starvation: Duration::from_secs(60),
    })
}

/// Asserts that `report` ended with `outcome` for exactly one kind of reason, and that the finding names `task` and a
/// place in `file`; returns the whole text.
#[track_caller]
pub(crate) fn found(
    report: &RunReport,
    outcome: Outcome,
    kind: FindingKind,
    task: &str,
    file: &str,
) -> String {
    let text = report.to_string();
    assert_eq!(report.outcome, outcome, "{text}");
    assert!(report.findings.iter().all(|finding| finding.kind == kind), "{text}");
    let finding = report.of_kind(kind).next().unwrap_or_else(|| panic!("no {kind}: {text}"));
    let own = finding.to_string();
    assert!(own.starts_with(&format!("{kind} at ")), "{own}");
    assert!(own.contains(&format!("{task:?}")) && own.contains(file), "{task} in {file}: {own}");
    let last = text.lines().last().unwrap_or_default();
    assert!(last.starts_with("replay: cargo test -- --exact "), "{last}");
    text
}

/// Pending once, then ready; wakes itself in between.
#[derive(Default)]
pub(crate) struct Yield(bool);

impl Future for Yield {
    type Output = ();

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        if std::mem::replace(&mut self.0, true) {
            return Poll::Ready(());
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }
}

/// A waker that somebody kept.
pub(crate) type Kept = Rc<RefCell<Option<Waker>>>;

/// A future that leaves its waker in `kept` and is ready when it is polled a second time.
pub(crate) fn keeps_waker(kept: &Kept) -> impl Future<Output = ()> + 'static {
    let kept = Rc::clone(kept);
    std::future::poll_fn(move |cx| {
        let before = kept.borrow_mut().replace(cx.waker().clone());
        if before.is_some() { Poll::Ready(()) } else { Poll::Pending }
    })
}

/// A daemon that keeps the clock going.
pub(crate) fn ticker(rt: &Rt, period: Duration) {
    let mut ticks = rt.interval(period, executor::Missed::Skip);
    drop(rt.daemon("ticker", async move {
        loop {
            ticks.tick().await;
        }
    }));
}
