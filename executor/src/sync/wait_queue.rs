use std::collections::VecDeque;

use crate::Unpark;

/// Waits in first-in first-out order, each with what it asks for.
///
/// A wait that was cancelled stays until it reaches the front or until the dead outnumber the living, so
/// cancelling needs no search and the memory is bounded by twice the number of waits.
#[derive(Debug, Default)]
pub(super) struct WaitQueue {
    waits: VecDeque<(usize, Unpark)>,
    /// The length at which cancelled waits are swept out.
    sweep_at: usize,
}

impl WaitQueue {
    pub(super) fn push(&mut self, asks: usize, unpark: Unpark) {
        if self.waits.len() >= self.sweep_at.max(8) {
            self.waits.retain(|(_, unpark)| !unpark.is_cancelled());
            self.sweep_at = 2 * self.waits.len();
        }
        self.waits.push_back((asks, unpark));
    }

    /// What the first living wait asks for.
    pub(super) fn front(&mut self) -> Option<usize> {
        while self.waits.front()?.1.is_cancelled() {
            self.waits.pop_front();
        }
        self.waits.front().map(|(asks, _)| *asks)
    }

    pub(super) fn pop(&mut self) -> Option<Unpark> {
        self.waits.pop_front().map(|(_, unpark)| unpark)
    }

    pub(super) fn take(&mut self) -> VecDeque<(usize, Unpark)> {
        std::mem::take(&mut self.waits)
    }
}
