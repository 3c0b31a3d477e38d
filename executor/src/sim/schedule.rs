//! Other orders of what is due at one instant than first in, first out.

use std::collections::VecDeque;
use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;

use rustc_hash::FxHashMap;

use crate::Stream;

/// An order in which tasks of one class that are due at one instant have their turns.
///
/// Without a schedule they have them first in, first out. With one, a task that becomes due while others of its class are
/// is a *choice*: it may go before any number of them. Choices are numbered from 1 on, and those that the schedule permutes
/// draw that number uniformly, so that every order of an instant comes up.
///
/// # Determinism
/// A draw is a function of the schedule's seed and the number of the choice alone, so two schedules that permute the same
/// first choices give the same run up to there. No stream of the run is touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    seed: u64,
    choices: Choices,
}

impl Schedule {
    /// Returns the schedule `seed`, which permutes every choice.
    pub fn new(seed: u64) -> Self {
        Schedule { seed, choices: Choices::all() }
    }

    /// Permutes these choices only; at the others the task goes last.
    pub fn only(mut self, choices: Choices) -> Self {
        self.choices = choices;
        self
    }

    /// Returns the seed.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// Returns the choices that are permuted.
    pub fn choices(&self) -> &Choices {
        &self.choices
    }
}

/// A set of choices of a [`Schedule`], by their numbers; displays and parses as in `1-500,733`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Choices {
    /// In order, disjoint, none empty, none beside the next.
    ranges: Vec<RangeInclusive<u64>>,
}

impl Choices {
    /// Returns the set of all choices.
    pub fn all() -> Self {
        Choices { ranges: vec![1..=u64::MAX] }
    }

    /// Returns whether `number` is among them.
    pub fn contains(&self, number: u64) -> bool {
        let before = self.ranges.partition_point(|range| *range.end() < number);
        self.ranges.get(before).is_some_and(|range| range.contains(&number))
    }

    fn from_ranges(mut ranges: Vec<RangeInclusive<u64>>) -> Self {
        ranges.sort_unstable_by_key(|range| *range.start());
        let mut merged: Vec<RangeInclusive<u64>> = Vec::new();
        for range in ranges {
            match merged.last_mut() {
                Some(last) if *range.start() <= last.end().saturating_add(1) => {
                    *last = *last.start()..=*last.end().max(range.end());
                }
                _ => merged.push(range),
            }
        }
        Choices { ranges: merged }
    }
}

impl FromIterator<u64> for Choices {
    fn from_iter<I: IntoIterator<Item = u64>>(numbers: I) -> Self {
        Choices::from_ranges(numbers.into_iter().map(|number| number..=number).collect())
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, range) in self.ranges.iter().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            match (range.start(), range.end()) {
                (first, last) if first == last => write!(f, "{separator}{first}")?,
                (first, last) => write!(f, "{separator}{first}-{last}")?,
            }
        }
        Ok(())
    }
}

impl FromStr for Choices {
    type Err = ChoicesError;

    fn from_str(text: &str) -> Result<Self, ChoicesError> {
        let range = |part: &str| {
            let (first, last) = part.split_once('-').unwrap_or((part, part));
            let number = |text: &str| text.trim().parse().ok().filter(|number| *number > 0);
            let (first, last) = (number(first)?, number(last)?);
            (first <= last).then_some(first..=last)
        };
        let ranges = text.split(',').map(|part| range(part).ok_or_else(|| ChoicesError(part.to_owned())));
        Ok(Choices::from_ranges(ranges.collect::<Result<_, _>>()?))
    }
}

/// A set of choices that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is no choice; accepted: numbers from 1 on and ranges of them, as in 1-500,733")]
pub struct ChoicesError(String);

/// Where a task that became due went among others, in a run with a [`Schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// Its number; the first is 1.
    pub number: u64,
    /// How many others of its class were due.
    pub due: u32,
    /// How many of them it went before.
    pub overtaken: u32,
    /// The number of the task that it went directly before; `None` where it went last, as without a schedule.
    pub before: Option<u32>,
}

/// A choice that was made, with slots in the place of tasks.
#[derive(Clone, Copy)]
pub(super) struct Chosen {
    number: u64,
    due: usize,
    overtaken: usize,
    before: Option<u32>,
}

impl Chosen {
    /// Says it with the numbers of tasks.
    pub(super) fn of_tasks(self, task: impl FnOnce(u32) -> u32) -> Choice {
        let count = |tasks: usize| u32::try_from(tasks).unwrap_or(u32::MAX);
        let Chosen { number, due, overtaken, before } = self;
        Choice { number, due: count(due), overtaken: count(overtaken), before: before.map(task) }
    }
}

/// A schedule at work.
pub(super) struct Shuffle {
    draws: Stream,
    choices: Choices,
    number: u64,
    /// What was chosen for the slots that are due. Look-ups only.
    chosen: FxHashMap<u32, Chosen>,
}

impl Shuffle {
    pub(super) fn new(schedule: Schedule) -> Self {
        Shuffle {
            draws: Stream::new(schedule.seed, "schedule"),
            choices: schedule.choices,
            number: 0,
            chosen: FxHashMap::default(),
        }
    }

    /// Puts a slot that becomes due among those that are.
    pub(super) fn insert(&mut self, ring: &mut VecDeque<u32>, slot: u32) {
        let due = ring.len();
        if due == 0 {
            self.chosen.remove(&slot);
            ring.push_back(slot);
            return;
        }
        let (number, overtaken) = self.choose(due);
        let at = due - overtaken;
        let chosen = Chosen { number, due, overtaken, before: ring.get(at).copied() };
        self.chosen.insert(slot, chosen);
        ring.insert(at, slot);
    }

    /// Returns what was chosen for a slot whose turn it is.
    pub(super) fn take(&mut self, slot: u32) -> Option<Chosen> {
        self.chosen.remove(&slot)
    }

    /// Makes the next choice beside `due` others; returns its number and how many of them are overtaken.
    fn choose(&mut self, due: usize) -> (u64, usize) {
        self.number += 1;
        let number = self.number;
        let permuted = self.choices.contains(number);
        (number, if permuted { self.draws.fork(number).below(due as u64 + 1) as usize } else { 0 })
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn choices_are_numbers_and_ranges() {
        for (text, said) in [
            ("7", "7"),
            ("1-500,733", "1-500,733"),
            ("733, 1-3", "1-3,733"),
            ("1,2,3,5", "1-3,5"),
            ("1-9,4-6,10", "1-10"),
            ("1-18446744073709551615", "1-18446744073709551615"),
        ] {
            assert_eq!(text.parse::<Choices>().unwrap().to_string(), said, "{text}");
        }
        for text in ["", "0", "0-3", "3-2", "a", "1,,2", "1-2-3", "-1", "18446744073709551616"] {
            let error = text.parse::<Choices>().unwrap_err().to_string();
            assert!(error.contains("accepted: numbers from 1 on"), "{text}: {error}");
        }
    }

    proptest! {
        #[test]
        fn a_set_has_the_numbers_it_was_made_of(numbers in prop::collection::vec(1u64..40, 0..20)) {
            let choices: Choices = numbers.iter().copied().collect();
            for number in 0..50 {
                prop_assert_eq!(choices.contains(number), numbers.contains(&number), "{}", number);
            }
            if !numbers.is_empty() {
                prop_assert_eq!(choices.to_string().parse::<Choices>().unwrap(), choices);
            }
        }

        #[test]
        fn a_draw_depends_on_the_seed_and_the_number_alone(seed: u64, due in 1usize..9, skipped in 1u64..50) {
            let turn = |schedule: Schedule| {
                let mut shuffle = Shuffle::new(schedule);
                (0..skipped).for_each(|_| {
                    shuffle.choose(1);
                });
                shuffle.choose(due)
            };
            let (number, overtaken) = turn(Schedule::new(seed));
            prop_assert!(number == skipped + 1 && overtaken <= due);
            let alone = Schedule::new(seed).only([number].into_iter().collect());
            prop_assert_eq!(turn(alone), (number, overtaken));
            let others = Schedule::new(seed).only((1..number).collect());
            prop_assert_eq!(turn(others), (number, 0));
        }
    }
}
