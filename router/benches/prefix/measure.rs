//! CPU time of this thread, and memory of this process.

use std::alloc::{GlobalAlloc, Layout, System};
use std::sync::atomic::{AtomicUsize, Ordering};

use rustix::time::{ClockId, clock_gettime};

/// CPU nanoseconds of this thread: what other processes do on the same cores does not count.
fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// Returns the median CPU time of `work` over `rounds` rounds. Unit: microseconds.
pub(crate) fn median_us<T>(rounds: usize, mut work: impl FnMut() -> T) -> f64 {
    let mut times: Vec<u64> = (0..rounds + rounds / 4)
        .map(|_| {
            let start = cpu_ns();
            let made = work();
            let took = cpu_ns() - start;
            drop(made);
            took
        })
        .skip(rounds / 4)
        .collect();
    times.sort_unstable();
    times[times.len() / 2] as f64 / 1e3
}

/// Returns the CPU time of `work`, once. Unit: seconds.
pub(crate) fn seconds(work: impl FnOnce()) -> f64 {
    let start = cpu_ns();
    work();
    (cpu_ns() - start) as f64 / 1e9
}

static LIVE: AtomicUsize = AtomicUsize::new(0);

/// Returns the bytes that are allocated now.
pub(crate) fn live_bytes() -> usize {
    LIVE.load(Ordering::Relaxed)
}

/// The system's allocator, counting what is allocated.
pub(crate) struct Counting;

// SAFETY: every call is passed on to `System` unchanged; the counter is an atomic.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        LIVE.fetch_add(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        LIVE.fetch_add(size, Ordering::Relaxed);
        LIVE.fetch_sub(layout.size(), Ordering::Relaxed);
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}
