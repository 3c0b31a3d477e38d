//! Other orders of what is due at one instant than first in, first out.

use std::collections::{BTreeSet, VecDeque};
use std::fmt;
use std::str::FromStr;

use rustc_hash::FxHashMap;

use crate::{Instant, Stream};

/// An order in which tasks of one class that are due at one instant have their turns.
///
/// Without a schedule they have them first in, first out. With one, a task that becomes due while others of its class are
/// is a *choice*: it may go before any number of them. Choices that the schedule permutes draw that number uniformly, so
/// that every order of an instant comes up.
///
/// # Determinism
/// A draw is a function of the schedule's seed and the [`ChoiceId`] alone, so two schedules that permute the same first
/// choices give the same run up to there. No stream of the run is touched.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Schedule {
    seed: u64,
    choices: Choices,
}

impl Schedule {
    /// Returns the schedule `seed`, which permutes every choice.
    pub fn new(seed: u64) -> Self {
        Schedule { seed, choices: Choices(None) }
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

/// Names a choice of a run: the instant, and its number there, from 1 on; displays and parses as in `5.999000000/2`, with
/// the instant in seconds.
///
/// What is chosen at one instant renames no choice of another.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChoiceId {
    /// When it is made.
    pub at: Instant,
    /// Its number at that instant.
    pub number: u32,
}

/// A set of choices of a [`Schedule`]; displays and parses as their names between commas, and `all`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Choices(Option<BTreeSet<ChoiceId>>);

impl Choices {
    /// Returns whether `choice` is among them.
    pub fn contains(&self, choice: ChoiceId) -> bool {
        self.0.as_ref().is_none_or(|choices| choices.contains(&choice))
    }
}

impl FromIterator<ChoiceId> for Choices {
    fn from_iter<I: IntoIterator<Item = ChoiceId>>(choices: I) -> Self {
        Choices(Some(choices.into_iter().collect()))
    }
}

impl fmt::Display for ChoiceId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let nanos = self.at.as_nanos();
        write!(f, "{}.{:09}/{}", nanos / 1_000_000_000, nanos % 1_000_000_000, self.number)
    }
}

impl fmt::Display for Choices {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(choices) = &self.0 else { return f.write_str("all") };
        for (index, choice) in choices.iter().enumerate() {
            let separator = if index > 0 { "," } else { "" };
            write!(f, "{separator}{choice}")?;
        }
        Ok(())
    }
}

impl FromStr for ChoiceId {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        choice(text.trim()).ok_or_else(|| ChoiceError(text.to_owned()))
    }
}

fn choice(text: &str) -> Option<ChoiceId> {
    let (seconds, number) = text.split_once('/')?;
    let (whole, part) = seconds.split_once('.').unwrap_or((seconds, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(part) || !digits(number) || part.len() > 9 {
        return None;
    }
    let nanos: u64 = format!("{part:0<9}").parse().ok()?;
    let at = whole.parse::<u64>().ok()?.checked_mul(1_000_000_000)?.checked_add(nanos)?;
    let number = number.parse().ok().filter(|number| *number > 0)?;
    Some(ChoiceId { at: Instant::from_nanos(at), number })
}

impl FromStr for Choices {
    type Err = ChoiceError;

    fn from_str(text: &str) -> Result<Self, ChoiceError> {
        match text {
            "all" => Ok(Choices(None)),
            text => text.split(',').map(str::parse).collect(),
        }
    }
}

/// A choice that cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "{0:?} is no choice; accepted: the instant in seconds and a number there from 1 on, as in 5.999000000/2"
)]
pub struct ChoiceError(String);

/// Where a task that became due went among others, in a run with a [`Schedule`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Choice {
    /// Its name.
    pub id: ChoiceId,
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
    id: ChoiceId,
    due: usize,
    overtaken: usize,
    before: Option<u32>,
}

impl Chosen {
    /// Says it with the numbers of tasks.
    pub(super) fn of_tasks(self, task: impl FnOnce(u32) -> u32) -> Choice {
        let count = |tasks: usize| u32::try_from(tasks).unwrap_or(u32::MAX);
        let Chosen { id, due, overtaken, before } = self;
        Choice { id, due: count(due), overtaken: count(overtaken), before: before.map(task) }
    }
}

/// A schedule at work.
pub(super) struct Shuffle {
    draws: Stream,
    choices: Choices,
    /// The last choice that was made.
    last: ChoiceId,
    /// What was chosen for the slots that are due. Look-ups only.
    chosen: FxHashMap<u32, Chosen>,
}

impl Shuffle {
    pub(super) fn new(schedule: Schedule) -> Self {
        Shuffle {
            draws: Stream::new(schedule.seed, "schedule"),
            choices: schedule.choices,
            last: ChoiceId { at: Instant::ZERO, number: 0 },
            chosen: FxHashMap::default(),
        }
    }

    /// From here on it is `now`.
    pub(super) fn enter(&mut self, now: Instant) {
        self.last = ChoiceId { at: now, number: 0 };
    }

    /// Puts a slot that becomes due among those that are.
    pub(super) fn insert(&mut self, ring: &mut VecDeque<u32>, slot: u32) {
        let due = ring.len();
        if due == 0 {
            self.chosen.remove(&slot);
            ring.push_back(slot);
            return;
        }
        let (id, overtaken) = self.choose(due);
        let at = due - overtaken;
        let chosen = Chosen { id, due, overtaken, before: ring.get(at).copied() };
        self.chosen.insert(slot, chosen);
        ring.insert(at, slot);
    }

    /// Returns what was chosen for a slot whose turn it is.
    pub(super) fn take(&mut self, slot: u32) -> Option<Chosen> {
        self.chosen.remove(&slot)
    }

    /// Makes the next choice beside `due` others; returns its name and how many of them are overtaken.
    fn choose(&mut self, due: usize) -> (ChoiceId, usize) {
        self.last.number = self.last.number.saturating_add(1);
        let id = self.last;
        if !self.choices.contains(id) {
            return (id, 0);
        }
        let mut draws = self.draws.fork(id.at.as_nanos()).fork(id.number.into());
        (id, draws.below(due as u64 + 1) as usize)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn choices_are_instants_with_numbers() {
        for (text, said) in [
            ("all", "all"),
            ("5.999000000/2", "5.999000000/2"),
            ("1/1", "1.000000000/1"),
            ("2.5/3, 0/7,2.5/3", "0.000000000/7,2.500000000/3"),
            ("18446744073.709551615/4294967295", "18446744073.709551615/4294967295"),
        ] {
            assert_eq!(text.parse::<Choices>().unwrap().to_string(), said, "{text}");
        }
        for text in
            ["", "3", "0/0", "1/", "/1", ".5/1", "1./1", "a/1", "1/1,,", "-1/1", "+1/1", "1.0000000000/1"]
        {
            let error = text.parse::<Choices>().unwrap_err().to_string();
            assert!(error.contains("accepted: the instant in seconds"), "{text}: {error}");
        }
        assert!("18446744073.709551616/1".parse::<Choices>().is_err(), "behind the end of time");
    }

    proptest! {
        #[test]
        fn a_choice_is_read_back(nanos: u64, number in 1u32..) {
            let id = ChoiceId { at: Instant::from_nanos(nanos), number };
            prop_assert_eq!(id.to_string().parse::<ChoiceId>().unwrap(), id);
        }

        #[test]
        fn a_draw_depends_on_the_seed_and_the_name_alone(
            seed: u64, now: u64, due in 1usize..9, skipped in 0u32..50,
        ) {
            let turn = |schedule: Schedule, before: u32| {
                let mut shuffle = Shuffle::new(schedule);
                (0..before).for_each(|_| {
                    shuffle.choose(1);
                });
                shuffle.enter(Instant::from_nanos(now));
                (0..skipped).for_each(|_| {
                    shuffle.choose(2);
                });
                shuffle.choose(due)
            };
            let (id, overtaken) = turn(Schedule::new(seed), 0);
            prop_assert_eq!((id.at.as_nanos(), id.number), (now, skipped + 1));
            prop_assert!(overtaken <= due);
            let alone = Schedule::new(seed).only([id].into_iter().collect());
            prop_assert_eq!(turn(alone, 3), (id, overtaken));
            let none = Schedule::new(seed).only([].into_iter().collect());
            prop_assert_eq!(turn(none, 0), (id, 0));
        }
    }
}
