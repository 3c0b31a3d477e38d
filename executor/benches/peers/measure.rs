//! CPU time and memory of this thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;

use rustix::time::{ClockId, clock_gettime};

/// CPU nanoseconds of this thread: what other processes do on the same cores does not count.
pub(crate) fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// The median of `reps` measurements, an operation.
pub(crate) fn median(reps: usize, operations: u64, mut measure: impl FnMut() -> u64) -> f64 {
    let mut all: Vec<u64> = (0..reps).map(|_| measure()).collect();
    all.sort_unstable();
    all[all.len() / 2] as f64 / operations as f64
}

/// The system's allocator, counting the live bytes of each thread.
pub(crate) struct Counting;

thread_local! {
    static LIVE: Cell<i64> = const { Cell::new(0) };
}

/// Bytes that this thread has allocated and not freed.
pub(crate) fn live_bytes() -> i64 {
    LIVE.get()
}

fn add(bytes: i64) {
    LIVE.set(LIVE.get() + bytes);
}

// SAFETY: every call is passed on to `System` unchanged; the counter is a thread-local without a destructor and
// does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        add(layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        add(-(layout.size() as i64));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        add(size as i64 - layout.size() as i64);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}
