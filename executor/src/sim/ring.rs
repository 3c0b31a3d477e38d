use std::collections::VecDeque;

use super::schedule::{Chosen, Schedule, Shuffle};
use crate::{Class, Instant};

const CLASSES: usize = 4;
const ALL: [Class; CLASSES] = [Class::Engine, Class::Transport, Class::Task, Class::Ticker];

/// What is due now: one first-in first-out ring a class, and a bit a ring that is not empty.
///
/// Holds slot numbers. Order within a class is the order of insertion; between classes the lowest goes first,
/// looked at anew before each event.
pub(super) struct Rings {
    rings: [VecDeque<u32>; CLASSES],
    occupied: u8,
    /// Has what becomes due go before others, where that was asked for.
    shuffle: Option<Box<Shuffle>>,
}

impl Rings {
    pub(super) fn new(schedule: Option<Schedule>) -> Self {
        let shuffle = schedule.map(|schedule| Box::new(Shuffle::new(schedule)));
        Rings { rings: std::array::from_fn(|_| VecDeque::new()), occupied: 0, shuffle }
    }

    #[inline]
    pub(super) fn push(&mut self, class: Class, slot: u32) {
        let ring = &mut self.rings[class as usize];
        match &mut self.shuffle {
            None => ring.push_back(slot),
            Some(shuffle) => shuffle.insert(ring, slot),
        }
        self.occupied |= 1 << class as u8;
    }

    /// Whether anything is due.
    #[inline]
    pub(super) fn are_occupied(&self) -> bool {
        self.occupied != 0
    }

    #[inline]
    pub(super) fn pop(&mut self) -> Option<(Class, u32)> {
        if self.occupied == 0 {
            return None;
        }
        let class = self.occupied.trailing_zeros() as usize;
        let ring = &mut self.rings[class];
        let slot = ring.pop_front()?;
        if ring.is_empty() {
            self.occupied &= self.occupied - 1;
        }
        Some((ALL[class], slot))
    }

    /// From here on it is `now`.
    pub(super) fn enter(&mut self, now: Instant) {
        if let Some(shuffle) = &mut self.shuffle {
            shuffle.enter(now);
        }
    }

    /// Returns what a schedule chose for a slot that was popped.
    pub(super) fn chosen(&mut self, slot: u32) -> Option<Chosen> {
        self.shuffle.as_mut()?.take(slot)
    }
}
