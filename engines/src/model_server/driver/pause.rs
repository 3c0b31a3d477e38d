//! Pauses: what becomes of the requests, and when the engine rests (model-server spec 6.4).

use executor::sync::oneshot;

use super::Driver;
use crate::engine::{PauseMode, RequestId};
use crate::model_server::generation::{Event, Tokens};

impl Driver {
    /// Pauses the engine, and answers at once where it rests already.
    pub(super) fn pause(&mut self, mode: PauseMode, clear_cache: bool, rests: oneshot::Sender<()>) {
        if mode == PauseMode::Abort {
            // What came before the pause is aborted although the engine has not looked at it yet.
            for submission in std::mem::take(&mut self.arrived) {
                let tokens = Tokens { prompt: submission.request.prompt_tokens, ..Tokens::default() };
                self.published.lock().aborted_by_engine += 1;
                // A stream that nobody reads any more is dropped with its sender.
                drop(submission.events.send(Event::Aborted(tokens)));
            }
        }
        let paused = self.engine.pause(mode, clear_cache);
        for id in paused.aborted {
            let Some(request) = self.requests.by_id.remove(&id) else { continue };
            let mut published = self.published.lock();
            published.aborted_by_engine += 1;
            published.preemptions += request.lifetime.preemptions;
            drop(request.events.send(Event::Aborted(request.lifetime.tokens)));
        }
        if paused.done {
            self.preempted(&paused.preempted);
            // Whoever asked may have gone away.
            let _ = rests.send(());
        } else {
            self.rests.push_back(rests);
        }
    }

    /// Answers the pauses that are complete: to be called when the engine has nothing to do.
    pub(super) fn settle(&mut self) {
        while let Some(preempted) = self.engine.settle() {
            self.preempted(&preempted);
            if let Some(rests) = self.rests.pop_front() {
                let _ = rests.send(());
            }
        }
    }

    fn preempted(&mut self, ids: &[RequestId]) {
        for id in ids {
            if let Some(request) = self.requests.by_id.get_mut(id) {
                request.lifetime.preemptions += 1;
            }
        }
    }
}
