//! What several test files share.

#![allow(dead_code, unreachable_pub, reason = "each test file is a crate of its own and uses a part")]

use std::cell::RefCell;
use std::future::Future;
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll};

use executor::{Policy, Sim};

/// A simulation that goes on whatever is found: for tests of what comes then, and of what is not registered.
pub fn reporting(seed: u64) -> Sim {
    Sim::builder().seed(seed).policy(Policy::Report).build()
}

/// Pending once, then ready; wakes itself in between.
#[derive(Default)]
pub struct Yield(bool);

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

/// What happened, in order.
pub struct Log<T>(Rc<RefCell<Vec<T>>>);

impl<T> Clone for Log<T> {
    fn clone(&self) -> Self {
        Log(Rc::clone(&self.0))
    }
}

impl<T> Default for Log<T> {
    fn default() -> Self {
        Log(Rc::default())
    }
}

impl<T> Log<T> {
    pub fn add(&self, entry: T) {
        self.0.borrow_mut().push(entry);
    }

    pub fn take(&self) -> Vec<T> {
        self.0.take()
    }
}

/// Adds its value to a log when it is dropped.
pub struct OnDrop<T: Clone>(pub Log<T>, pub T);

impl<T: Clone> Drop for OnDrop<T> {
    fn drop(&mut self) {
        self.0.add(self.1.clone());
    }
}
