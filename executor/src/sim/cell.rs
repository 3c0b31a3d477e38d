//! The one allocation of a task: its future, then its outcome, and what reports say about it.

use std::any::Any;
use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll};

use super::slot::Target;
use crate::JoinError;

pub(super) type Payload = Box<dyn Any + Send>;

/// What is known about a task apart from its future.
pub(super) struct Header {
    /// Who awaits the outcome.
    pub(super) joiner: Option<Target>,
}

/// A task whose future's type is forgotten.
pub(super) trait TaskCell {
    /// Polls the future; ready means that there is an outcome. Panics are outcomes.
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()>;

    /// Drops the future; the outcome is "aborted", or the panic of that drop.
    fn cancel(self: Pin<&mut Self>);

    /// Moves the outcome into `out`, an `Option<Result<T, JoinError>>` of the task's `T`.
    fn take_outcome(self: Pin<&mut Self>, out: &mut dyn Any);

    /// Takes the payload if the outcome is a panic.
    fn take_panic(self: Pin<&mut Self>) -> Option<Payload>;

    /// Whether there is no outcome yet.
    fn is_running(&self) -> bool;

    fn header(&self) -> &Header;

    fn header_mut(self: Pin<&mut Self>) -> &mut Header;

    /// The type of the future, for reports.
    fn type_name(&self) -> &'static str;
}

pub(super) type BoxedCell = Pin<Box<dyn TaskCell>>;

#[pin_project::pin_project]
struct Cell<F: Future> {
    header: Header,
    #[pin]
    stage: Stage<F>,
}

#[pin_project::pin_project(project = StageProjection)]
enum Stage<F: Future> {
    Running(#[pin] F),
    Done(Outcome<F::Output>),
}

enum Outcome<T> {
    Output(T),
    Panicked(Payload),
    /// Also what is left when the outcome was taken.
    Aborted,
}

impl<F: Future> Stage<F> {
    /// Drops the future and puts `outcome` in its place, or the panic of that drop.
    fn finish(mut self: Pin<&mut Self>, outcome: Outcome<F::Output>) {
        // An assignment whose drop unwinds has still assigned.
        let dropped = catch_unwind(AssertUnwindSafe(|| self.set(Stage::Done(outcome))));
        if let Err(payload) = dropped {
            self.set(Stage::Done(Outcome::Panicked(payload)));
        }
    }

    fn take(self: Pin<&mut Self>) -> Outcome<F::Output> {
        match self.project() {
            StageProjection::Done(outcome) => std::mem::replace(outcome, Outcome::Aborted),
            StageProjection::Running(_) => Outcome::Aborted,
        }
    }
}

pub(super) fn boxed<F>(future: F) -> BoxedCell
where
    F: Future + 'static,
    F::Output: 'static,
{
    Box::pin(Cell { header: Header { joiner: None }, stage: Stage::Running(future) })
}

impl<F> TaskCell for Cell<F>
where
    F: Future + 'static,
    F::Output: 'static,
{
    #[inline]
    fn poll(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<()> {
        let mut stage = self.project().stage;
        let StageProjection::Running(future) = stage.as_mut().project() else { return Poll::Ready(()) };
        let outcome = match catch_unwind(AssertUnwindSafe(|| future.poll(cx))) {
            Ok(Poll::Pending) => return Poll::Pending,
            Ok(Poll::Ready(output)) => Outcome::Output(output),
            Err(payload) => Outcome::Panicked(payload),
        };
        stage.finish(outcome);
        Poll::Ready(())
    }

    fn cancel(self: Pin<&mut Self>) {
        self.project().stage.finish(Outcome::Aborted);
    }

    fn take_outcome(self: Pin<&mut Self>, out: &mut dyn Any) {
        let out: &mut Option<Result<F::Output, JoinError>> =
            out.downcast_mut().expect("a join handle has the output type of its task");
        *out = Some(match self.project().stage.take() {
            Outcome::Output(output) => Ok(output),
            Outcome::Panicked(payload) => Err(JoinError::panicked(payload)),
            Outcome::Aborted => Err(JoinError::aborted()),
        });
    }

    fn take_panic(self: Pin<&mut Self>) -> Option<Payload> {
        let stage = self.project().stage;
        if !matches!(*stage, Stage::Done(Outcome::Panicked(_))) {
            return None;
        }
        match stage.take() {
            Outcome::Panicked(payload) => Some(payload),
            Outcome::Output(_) | Outcome::Aborted => None,
        }
    }

    fn is_running(&self) -> bool {
        matches!(self.stage, Stage::Running(_))
    }

    fn header(&self) -> &Header {
        &self.header
    }

    fn header_mut(self: Pin<&mut Self>) -> &mut Header {
        self.project().header
    }

    fn type_name(&self) -> &'static str {
        std::any::type_name::<F>()
    }
}
