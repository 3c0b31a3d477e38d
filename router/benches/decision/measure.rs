//! CPU time and allocations of this thread.

use std::alloc::{GlobalAlloc, Layout, System};
use std::cell::Cell;
use std::ops::{AddAssign, Sub};

use rustix::time::{ClockId, clock_gettime};

/// CPU nanoseconds of this thread: what other processes do on the same cores does not count.
pub(crate) fn cpu_ns() -> u64 {
    let now = clock_gettime(ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

/// What was asked of the allocator.
#[derive(Clone, Copy, Default)]
pub(crate) struct Allocations {
    /// Calls for a new or a larger block.
    pub(crate) calls: u64,
    /// Bytes of new blocks, and by which blocks grew.
    pub(crate) bytes: u64,
    /// Bytes of blocks that were given back, and by which blocks shrank.
    pub(crate) freed: u64,
}

thread_local! {
    static ASKED: Cell<Allocations> = const { Cell::new(Allocations { calls: 0, bytes: 0, freed: 0 }) };
}

impl Allocations {
    /// Returns what this thread has asked for since it started.
    pub(crate) fn now() -> Self {
        ASKED.get()
    }
}

impl Sub for Allocations {
    type Output = Self;

    fn sub(self, earlier: Self) -> Self {
        Allocations {
            calls: self.calls - earlier.calls,
            bytes: self.bytes - earlier.bytes,
            freed: self.freed - earlier.freed,
        }
    }
}

impl AddAssign for Allocations {
    fn add_assign(&mut self, more: Self) {
        self.calls += more.calls;
        self.bytes += more.bytes;
        self.freed += more.freed;
    }
}

/// The system's allocator, counting what each thread asks for.
pub(crate) struct Counting;

fn count(bytes: usize) {
    let mut asked = ASKED.get();
    asked += Allocations { calls: 1, bytes: bytes as u64, freed: 0 };
    ASKED.set(asked);
}

fn count_freed(bytes: usize) {
    let mut asked = ASKED.get();
    asked += Allocations { calls: 0, bytes: 0, freed: bytes as u64 };
    ASKED.set(asked);
}

// SAFETY: every call is passed on to `System` unchanged; the counter is a thread-local without a destructor and
// does not allocate.
unsafe impl GlobalAlloc for Counting {
    unsafe fn alloc(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc(layout) }
    }

    unsafe fn alloc_zeroed(&self, layout: Layout) -> *mut u8 {
        count(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.alloc_zeroed(layout) }
    }

    unsafe fn dealloc(&self, block: *mut u8, layout: Layout) {
        count_freed(layout.size());
        // SAFETY: the caller's promise is passed on.
        unsafe { System.dealloc(block, layout) }
    }

    unsafe fn realloc(&self, block: *mut u8, layout: Layout, size: usize) -> *mut u8 {
        count(size.saturating_sub(layout.size()));
        count_freed(layout.size().saturating_sub(size));
        // SAFETY: the caller's promise is passed on.
        unsafe { System.realloc(block, layout, size) }
    }
}
