//! Outcomes of tasks and who awaits them.

use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::task::{Context, Poll};

use super::Core;
use crate::sim::cell::BoxedCell;
use crate::sim::slot::{About, DONE, HANDLE, Target};
use crate::sim::waker::Word;
use crate::task::message_of;
use crate::watch::FindingKind;

impl Core {
    pub(in crate::sim) fn is_finished(&self, word: Word) -> bool {
        self.state.borrow_mut().slots.get(word).is_none_or(|slot| slot.has(DONE))
    }

    /// Moves the outcome into `out` if there is one, or has the poller woken when there is.
    #[inline]
    pub(in crate::sim) fn poll_join(&self, word: Word, cx: &mut Context<'_>, out: &mut dyn Any) -> Poll<()> {
        let mut state = self.state.borrow_mut();
        let Some(slot) = state.slots.get(word) else { return Poll::Ready(()) };
        if slot.has(DONE) {
            slot.flags &= !HANDLE;
            let cell = slot.cell.take();
            state.slots.release(word.slot());
            drop(state);
            if let Some(mut cell) = cell {
                cell.as_mut().take_outcome(out);
            }
            return Poll::Ready(());
        }
        // No cell: the task joins itself, and will be found to wait for nothing.
        let Some(cell) = &slot.cell else { return Poll::Pending };
        let owner = self.polled();
        if cell.header().joiner.as_ref().is_some_and(|joiner| joiner.fits(owner, cx.waker())) {
            return Poll::Pending;
        }
        drop(state);
        self.set_joiner(word, Some(Target::new(owner, cx.waker())));
        Poll::Pending
    }

    fn set_joiner(&self, word: Word, joiner: Option<Target>) {
        let before = {
            let state = &mut *self.state.borrow_mut();
            if let Some(joiner) = &joiner {
                state.add_wait(joiner.owner);
            }
            let cell = state.slots.get(word).and_then(|slot| slot.cell.as_mut());
            let before =
                cell.and_then(|cell| std::mem::replace(&mut cell.as_mut().header_mut().joiner, joiner));
            if let Some(before) = &before {
                state.remove_wait(before.owner);
            }
            before
        };
        drop(before);
    }

    /// The join handle is gone: the task goes on alone, or its outcome is dropped.
    pub(in crate::sim) fn detach(&self, word: Word) {
        self.set_joiner(word, None);
        let ended = {
            let state = &mut *self.state.borrow_mut();
            let Some(slot) = state.slots.get(word) else { return };
            slot.flags &= !HANDLE;
            if !slot.has(DONE) {
                return;
            }
            let ended = slot.cell.take().map(|cell| (slot.about(), cell));
            state.slots.release(word.slot());
            ended
        };
        if let Some((about, cell)) = ended {
            self.discard(about, cell);
        }
    }

    /// Drops an outcome that nobody took. Returns whether it was a panic; that is a finding.
    pub(super) fn discard(&self, about: About, mut cell: BoxedCell) -> bool {
        if let Some(payload) = cell.as_mut().take_panic() {
            let detail = message_of(&*payload).to_owned();
            let task = self.state.borrow().report_of(about, &cell);
            self.report(FindingKind::UnobservedPanic, detail, vec![task]);
            return true;
        }
        // Its words are taken before the drop, which may unwind.
        let future = cell.type_name();
        match catch_unwind(AssertUnwindSafe(|| drop(cell))) {
            Ok(()) => false,
            Err(payload) => {
                let detail = format!("while its output was dropped: {}", message_of(&*payload));
                let task = self.state.borrow().report_named(about, future);
                self.report(FindingKind::UnobservedPanic, detail, vec![task]);
                true
            }
        }
    }
}
