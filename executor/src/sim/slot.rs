//! Task slots: what scheduling needs to know of a task, close together.

use std::panic::Location;
use std::task::Waker;

use super::cell::BoxedCell;
use super::core::Id;
use super::waker::Word;
use crate::Class;

/// Scheduled: in a ring exactly once.
pub(super) const QUEUED: u16 = 1;
/// Its next turn drops the future instead of polling it.
pub(super) const ABORTED: u16 = 1 << 1;
/// There is an outcome.
pub(super) const DONE: u16 = 1 << 2;
/// A join handle exists.
pub(super) const HANDLE: u16 = 1 << 3;
/// Does not keep the run alive.
pub(super) const DAEMON: u16 = 1 << 4;
/// Was reported as a zombie.
pub(super) const ZOMBIE: u16 = 1 << 5;
/// Has waited for something that is not registered.
pub(super) const UNTRACKED: u16 = 1 << 6;
/// Polls futures of others, which wake it by means of their own, and has said so.
pub(super) const THIRD_PARTY: u16 = 1 << 7;
/// The slot is a task's: set until it is free again.
pub(super) const TAKEN: u16 = 1 << 8;

/// Instead of a task's number: what a timer woke.
pub(super) const BY_TIMER: u32 = u32::MAX;
/// Instead of a task's number: what was woken from outside.
pub(super) const BY_OUTSIDE: u32 = u32::MAX - 1;

const NIL: u32 = u32::MAX;

pub(super) struct Slot {
    /// `None` while it is polled, and while the slot is free.
    pub(super) cell: Option<BoxedCell>,
    generation: u32,
    /// Number of the task, in the order of spawning; of a free slot: the next free one.
    pub(super) task: u32,
    /// Clones of the task's waker.
    pub(super) wakers: i32,
    /// Tickets, timers and joins that will wake the task.
    pub(super) waits: u32,
    /// Number of the task that woke it last, or one of [`BY_TIMER`] and [`BY_OUTSIDE`].
    pub(super) woken_by: u32,
    pub(super) name: &'static str,
    pub(super) place: &'static Location<'static>,
    pub(super) flags: u16,
    /// Stays at its highest value.
    pub(super) polls: u16,
    pub(super) class: Class,
}

/// What is known of a task that gets a slot.
#[derive(Clone, Copy)]
pub(super) struct Start {
    pub(super) task: u32,
    pub(super) flags: u16,
    pub(super) class: Class,
    pub(super) name: &'static str,
    pub(super) place: &'static Location<'static>,
    /// Number of the task that spawned it, as in [`Slot::woken_by`].
    pub(super) by: u32,
}

/// What a report says of a task beside what its cell says.
#[derive(Clone, Copy)]
pub(super) struct About {
    pub(super) task: u32,
    pub(super) name: &'static str,
    pub(super) place: &'static Location<'static>,
    pub(super) polls: u16,
    pub(super) woken_by: u32,
}

impl Slot {
    pub(super) fn about(&self) -> About {
        About {
            task: self.task,
            name: self.name,
            place: self.place,
            polls: self.polls,
            woken_by: self.woken_by,
        }
    }

    #[inline]
    pub(super) fn has(&self, flag: u16) -> bool {
        self.flags & flag != 0
    }

    /// Whether nothing that is registered will wake the task.
    #[inline]
    pub(super) fn is_unregistered(&self) -> bool {
        self.waits == 0 && !self.has(QUEUED)
    }
}

/// All slots of an executor.
pub(super) struct Slots {
    slots: Vec<Slot>,
    free: u32,
    executor: u16,
    /// Where the generations of a new slot begin: other for each executor, so that a waker which outlived
    /// 4096 executors meets another generation.
    first_generation: u32,
}

impl Slots {
    pub(super) fn new(id: Id) -> Self {
        let first_generation = id.scrambled() % Word::MAX_GENERATION + 1;
        Slots { slots: Vec::new(), free: NIL, executor: id.executor(), first_generation }
    }

    #[inline]
    pub(super) fn insert(&mut self, cell: BoxedCell, start: Start) -> Word {
        let Start { task, flags, class, name, place, by: woken_by } = start;
        let slot = |generation| Slot {
            cell: Some(cell),
            generation,
            task,
            wakers: 0,
            waits: 0,
            woken_by,
            name,
            place,
            flags: flags | TAKEN,
            polls: 0,
            class,
        };
        if self.free == NIL {
            let index = self.slots.len() as u32;
            assert!(index < Word::MAX_SLOT, "fewer than 2^28 tasks exist at a time");
            let generation = self.first_generation;
            self.slots.push(slot(generation));
            return Word::new(self.executor, generation, index);
        }
        let index = self.free;
        let free = &mut self.slots[index as usize];
        self.free = free.task;
        let generation = free.generation;
        *free = slot(generation);
        Word::new(self.executor, generation, index)
    }

    #[inline]
    pub(super) fn at(&mut self, index: u32) -> &mut Slot {
        &mut self.slots[index as usize]
    }

    #[inline]
    pub(super) fn word(&self, index: u32) -> Word {
        Word::new(self.executor, self.slots[index as usize].generation, index)
    }

    /// The slot of `word`, if the task still has it.
    #[inline]
    pub(super) fn get(&mut self, word: Word) -> Option<&mut Slot> {
        let slot = self.slots.get_mut(word.slot() as usize)?;
        (slot.generation == word.generation()).then_some(slot)
    }

    pub(super) fn peek(&self, word: Word) -> Option<&Slot> {
        let slot = self.slots.get(word.slot() as usize)?;
        (slot.generation == word.generation()).then_some(slot)
    }

    /// Gives the slot to the next task if nothing refers to this one any more.
    #[inline]
    pub(super) fn release(&mut self, index: u32) {
        let slot = &mut self.slots[index as usize];
        if slot.flags & (DONE | HANDLE | QUEUED) == DONE {
            slot.generation = slot.generation % Word::MAX_GENERATION + 1;
            slot.flags = 0;
            slot.task = self.free;
            self.free = index;
        }
    }

    /// The slots that are not free, that of the task that is polled among them.
    pub(super) fn in_use(&self) -> impl Iterator<Item = &Slot> {
        self.slots.iter().filter(|slot| slot.has(TAKEN))
    }

    /// The words of all tasks, finished ones with a handle too.
    pub(super) fn words(&self) -> impl Iterator<Item = (Word, &Slot)> {
        let with_index = self.slots.iter().enumerate();
        with_index
            .filter(|(_, slot)| slot.cell.is_some())
            .map(|(index, slot)| (Word::new(self.executor, slot.generation, index as u32), slot))
    }
}

/// Whom a timer, a ticket or a finished task wakes.
///
/// Nearly always the task that polled, with its own waker: then the word is enough. A combinator that polls
/// with a waker of its own has it kept in a box.
pub(super) struct Target {
    /// The task that polled: the wait is counted with it.
    pub(super) owner: Word,
    pub(super) waker: Option<Box<Waker>>,
}

impl Target {
    /// Makes the target of a poll of `owner` with `waker`. Calls foreign code: not while the core is borrowed.
    #[inline]
    pub(super) fn new(owner: Word, waker: &Waker) -> Self {
        Target { owner, waker: (!owner.is(waker)).then(|| Box::new(waker.clone())) }
    }

    /// Whether it was made by such a poll.
    #[inline]
    pub(super) fn fits(&self, owner: Word, waker: &Waker) -> bool {
        self.owner == owner
            && match &self.waker {
                None => owner.is(waker),
                Some(kept) => kept.will_wake(waker),
            }
    }
}
