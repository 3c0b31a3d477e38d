//! Wakers that are numbers, and the core that is current on a thread.
//!
//! The only unsafe code of the simulation. A waker's data is a [`Word`], never a pointer, so that cloning, dropping
//! and waking are sound on any thread and after the executor is gone: they look for the core that is current
//! on their thread, compare, and otherwise leave a message in the executor's inbox, if it still exists.

use std::cell::Cell;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::num::NonZeroU64;
use std::task::{RawWaker, RawWakerVTable, Waker};

use super::core::{Core, Id};
use super::inbox::{self, Message};

#[cfg(not(target_pointer_width = "64"))]
compile_error!("a waker's word needs 64 bits in a pointer");

/// Names a task: executor (12 bits), generation of the slot (24 bits, never zero), slot (28 bits).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Word(NonZeroU64);

impl Word {
    pub(super) const MAX_GENERATION: u32 = (1 << 24) - 1;
    pub(super) const MAX_SLOT: u32 = (1 << 28) - 1;

    #[inline]
    pub(super) fn new(executor: u16, generation: u32, slot: u32) -> Self {
        debug_assert!(generation != 0 && generation <= Self::MAX_GENERATION && slot <= Self::MAX_SLOT);
        let word = u64::from(executor) << 52 | u64::from(generation) << 28 | u64::from(slot);
        Word(NonZeroU64::new(word).expect("a generation is never zero"))
    }

    #[inline]
    pub(super) fn slot(self) -> u32 {
        self.0.get() as u32 & Self::MAX_SLOT
    }

    #[inline]
    pub(super) fn generation(self) -> u32 {
        (self.0.get() >> 28) as u32 & Self::MAX_GENERATION
    }

    #[inline]
    pub(super) fn executor(self) -> u16 {
        (self.0.get() >> 52) as u16
    }

    /// Lends `use_it` a waker for this word that is not counted.
    #[inline]
    pub(super) fn lend<R>(self, use_it: impl FnOnce(&Waker) -> R) -> R {
        // SAFETY: `VTABLE`'s functions accept every non-zero word as data and keep the contract of
        // `RawWaker`: they are thread-safe and own nothing. Never dropped, as it was never counted.
        let waker = ManuallyDrop::new(unsafe { Waker::from_raw(RawWaker::new(self.data(), &VTABLE)) });
        use_it(&waker)
    }

    /// Whether `waker` is this word's.
    #[inline]
    pub(super) fn is(self, waker: &Waker) -> bool {
        waker.data() == self.data() && std::ptr::eq(waker.vtable(), &VTABLE)
    }

    #[inline]
    fn data(self) -> *const () {
        std::ptr::without_provenance(self.0.get() as usize)
    }

    #[inline]
    fn from_data(data: *const ()) -> Self {
        Word(NonZeroU64::new(data.addr() as u64).expect("only words are put into wakers"))
    }
}

static VTABLE: RawWakerVTable = RawWakerVTable::new(clone, wake, wake_by_ref, drop_waker);

#[inline]
fn clone(data: *const ()) -> RawWaker {
    count(Word::from_data(data), 1);
    RawWaker::new(data, &VTABLE)
}

#[inline]
fn wake(data: *const ()) {
    wake_by_ref(data);
    drop_waker(data);
}

#[inline]
fn wake_by_ref(data: *const ()) {
    let word = Word::from_data(data);
    let here = with_executor(word.executor(), |core| core.wake(word));
    if here.is_none() {
        inbox::post(word.executor(), Message::Wake(word));
    }
}

#[inline]
fn drop_waker(data: *const ()) {
    count(Word::from_data(data), -1);
}

#[inline]
fn count(word: Word, delta: i32) {
    let here = with_executor(word.executor(), |core| core.count_wakers(word, delta));
    if here.is_none() {
        inbox::post(word.executor(), Message::Wakers(word, delta));
    }
}

thread_local! {
    static CURRENT: Cell<*const Core> = const { Cell::new(std::ptr::null()) };
}

/// Makes `core` current on this thread until the guard is dropped; the one before is current again then.
pub(super) fn enter(core: &Core) -> Entered<'_> {
    Entered { before: CURRENT.replace(core), core: PhantomData }
}

/// See [`enter`]. Not `Send`, so it ends on the thread where it began.
pub(super) struct Entered<'a> {
    before: *const Core,
    core: PhantomData<&'a Core>,
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        CURRENT.set(self.before);
    }
}

/// Calls `f` with the core that is current on this thread.
#[inline]
fn with_current<R>(f: impl FnOnce(&Core) -> Option<R>) -> Option<R> {
    let current = CURRENT.get();
    // SAFETY: not null only between `enter` and the drop of its guard, which borrows the core for that time;
    // guards nest, as they are locals of `run`. The reference does not outlive this call, and this call
    // cannot outlive the guard, for it runs on the guard's thread, above it on the stack. `Core` is used by
    // shared reference only.
    f(unsafe { current.as_ref() }?)
}

/// Calls `f` with the core `id` if it is current on this thread.
#[inline]
pub(super) fn with<R>(id: Id, f: impl FnOnce(&Core) -> R) -> Option<R> {
    with_current(|core| (core.id() == id).then(|| f(core)))
}

/// Calls `f` with the current core if words of `executor` are its own.
#[inline]
pub(super) fn with_executor<R>(executor: u16, f: impl FnOnce(&Core) -> R) -> Option<R> {
    with_current(|core| (core.id().executor() == executor).then(|| f(core)))
}
