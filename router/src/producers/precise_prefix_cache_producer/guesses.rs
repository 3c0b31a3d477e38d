//! What decisions let expect and no event has confirmed yet (request-control spec 8.8, 15.6).

use std::collections::VecDeque;
use std::time::Duration;

use executor::Instant;
use indexmap::IndexMap;
use rustc_hash::FxBuildHasher;

use crate::prefix::block_index::PodEntry;
use crate::prefix::block_keys::BlockKey;

/// Blocks that were added for a decision.
#[derive(Debug)]
pub(super) struct Guess {
    pub(super) blocks: Vec<BlockKey>,
    pub(super) entries: Vec<PodEntry>,
}

/// Guesses by request, each for the same time.
#[derive(Debug)]
pub(super) struct Guesses {
    ttl: Duration,
    /// When each was made; its turn tells it from a later one of the same request.
    queue: VecDeque<(Instant, String, u64)>,
    by_request: IndexMap<String, (u64, Guess), FxBuildHasher>,
    turn: u64,
}

impl Guesses {
    pub(super) fn new(ttl: Duration) -> Self {
        Guesses { ttl, queue: VecDeque::new(), by_request: IndexMap::default(), turn: 0 }
    }

    /// Remembers a guess. One of the same request is forgotten and not undone: its blocks stay until the index
    /// forgets them, as in the llm-d Router.
    pub(super) fn add(&mut self, request: &str, guess: Guess, now: Instant) {
        self.turn += 1;
        self.queue.push_back((now, request.to_owned(), self.turn));
        self.by_request.insert(request.to_owned(), (self.turn, guess));
    }

    /// Returns the next guess that is older than the time it counts for.
    pub(super) fn expired(&mut self, now: Instant) -> Option<Guess> {
        loop {
            let (made, ..) = self.queue.front()?;
            if now - *made <= self.ttl {
                return None;
            }
            let (_, request, turn) = self.queue.pop_front()?;
            if self.by_request.get(&request).is_some_and(|(latest, _)| *latest == turn) {
                return self.by_request.swap_remove(&request).map(|(_, guess)| guess);
            }
        }
    }

    /// Returns the requests whose guesses count, sorted.
    pub(super) fn requests(&self) -> Vec<String> {
        let mut requests: Vec<String> = self.by_request.keys().cloned().collect();
        requests.sort_unstable();
        requests
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guess_counts_up_to_and_including_its_time() {
        let at = |ms| Instant::ZERO + Duration::from_millis(ms);
        let guess = |block| Guess { blocks: vec![block], entries: Vec::new() };
        let mut guesses = Guesses::new(Duration::from_millis(100));
        guesses.add("a", guess(1), at(0));
        guesses.add("b", guess(2), at(10));
        guesses.add("a", guess(3), at(20));
        assert!(guesses.expired(at(100)).is_none());
        assert!(guesses.expired(at(101)).is_none(), "the first of `a` was replaced");
        let blocks = |guess: Option<Guess>| guess.map(|guess| guess.blocks);
        assert_eq!(blocks(guesses.expired(at(130))), Some(vec![2]));
        assert_eq!(blocks(guesses.expired(at(130))), Some(vec![3]));
        assert!(guesses.expired(at(130)).is_none() && guesses.requests().is_empty());
    }
}
