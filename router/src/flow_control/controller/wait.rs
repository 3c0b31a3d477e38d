//! The wait of one request.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use executor::{Park, Why};

use super::FlowController;
use crate::flow_control::measure::WaitLabels;
use crate::flow_control::outcome::{Ended, Reason};
use crate::flow_control::queue::ItemId;

/// Waits for a request's turn.
///
/// # Cancel safety
/// Dropping it is a client that went away: the request is dead from then on, and counts as cancelled.
#[must_use = "futures do nothing unless polled"]
pub struct Wait {
    controller: FlowController,
    /// `None` once it has ended.
    item: Option<ItemId>,
    park: Option<Park>,
    labels: Rc<WaitLabels>,
    bytes: u64,
    /// As the request asked for.
    priority: i64,
}

impl Wait {
    pub(super) fn new(
        controller: FlowController,
        item: ItemId,
        labels: Rc<WaitLabels>,
        bytes: u64,
        priority: i64,
    ) -> Self {
        Wait { controller, item: Some(item), park: None, labels, bytes, priority }
    }

    /// Ends the wait because the client went away, and returns how it ended.
    pub fn cancel(mut self) -> Ended {
        self.give_up().expect("only a wait that has not been told its end is cancelled")
    }

    /// Says what the request waits for; `None` when it waits no longer.
    pub fn explain(&self) -> Option<String> {
        self.controller.explain(self.item?)
    }

    fn give_up(&mut self) -> Option<Ended> {
        let item = self.item?;
        let shared = &self.controller.0;
        let now = shared.rt.now();
        shared.processor.borrow_mut().give_up(item, Reason::ClientGone, now);
        let ended = self.take_ended();
        self.controller.0.look_again();
        ended
    }

    fn take_ended(&mut self) -> Option<Ended> {
        let mut processor = self.controller.0.processor.borrow_mut();
        let ended = processor.take_ended(self.item?)?;
        processor.measures.left(&self.labels, self.bytes, ended.outcome, self.priority);
        self.item = None;
        Some(ended)
    }
}

impl Future for Wait {
    type Output = Ended;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Ended> {
        let this = &mut *self;
        loop {
            if let Some(ended) = this.take_ended() {
                return Poll::Ready(ended);
            }
            let item = this.item.expect("a wait that has ended is not polled again");
            let park = match &mut this.park {
                Some(park) => park,
                none => {
                    let shared = &this.controller.0;
                    let (park, unpark) =
                        shared.rt.park(Why::about("flow-control queue, item", u64::from(item.0)));
                    shared.processor.borrow_mut().wait(item, unpark);
                    none.insert(park)
                }
            };
            match Pin::new(park).poll(cx) {
                Poll::Pending => return Poll::Pending,
                Poll::Ready(_) => this.park = None,
            }
        }
    }
}

impl Drop for Wait {
    fn drop(&mut self) {
        self.give_up();
    }
}

impl fmt::Debug for Wait {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Wait").field("item", &self.item).finish_non_exhaustive()
    }
}
