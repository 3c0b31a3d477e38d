//! Where a pending future waits: polled once more, with a waker that notes who clones it.

use std::backtrace::Backtrace;
use std::cell::RefCell;
use std::task::{RawWaker, RawWakerVTable, Waker};

thread_local! {
    static CLONES: RefCell<Vec<Backtrace>> = const { RefCell::new(Vec::new()) };
}

/// How many clones of one poll are looked at.
const KEPT: usize = 4;

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, ignore, ignore, ignore);

/// Calls `poll` with a waker whose clones leave a backtrace, and returns those; nothing it wakes.
///
/// A future that waits clones the waker of its last poll: what its clone is called from is every await on the way. A
/// future that kept its waker clones this one all the same, for no waker of a task equals it.
pub(crate) fn capturing(poll: impl FnOnce(&Waker)) -> Vec<Backtrace> {
    CLONES.take();
    // SAFETY: the functions of `VTABLE` ignore their data, own nothing and work on every thread.
    let waker = unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &VTABLE)) };
    poll(&waker);
    CLONES.take()
}

fn clone(data: *const ()) -> RawWaker {
    CLONES.with_borrow_mut(|clones| {
        if clones.len() < KEPT {
            clones.push(Backtrace::force_capture());
        }
    });
    RawWaker::new(data, &VTABLE)
}

fn ignore(_: *const ()) {}
