use super::Dependence;
use super::story::{Story, Swap};
use crate::{ChoiceId, Choices, Schedule, Sim, SimBuilder};

/// Runs that dropping single choices may take; what is left then is the answer.
const MOST_RUNS: usize = 2000;

/// Cuts the schedule `seed`, under which `run` does not give what is expected, down to the choices that it takes.
pub(super) fn dependence<T: PartialEq>(
    seed: u64,
    expected: &T,
    run: &impl Fn(SimBuilder) -> T,
) -> Dependence<T> {
    let (_, swaps) = told(Schedule::new(seed), run);
    let of = |choices: &[ChoiceId]| Schedule::new(seed).only(choices.iter().copied().collect::<Choices>());
    let differs = |choices: &[ChoiceId]| run(Sim::builder().schedule(of(choices))) != *expected;
    let choices = ids(&swaps);
    let needed = needed(shortest_prefix(&choices, differs), differs);
    let (observed, swaps) = told(of(&needed), run);
    // A task that may overtake others does not always.
    Dependence { schedule: of(&ids(&swaps)), observed, swaps }
}

/// The choices, in the order in which they are made: who chose later may have its turn earlier.
fn ids(swaps: &[Swap]) -> Vec<ChoiceId> {
    let mut ids: Vec<ChoiceId> = swaps.iter().map(|swap| swap.choice.id).collect();
    ids.sort_unstable();
    ids
}

/// Returns what the run gives, and where it left first in, first out.
fn told<T>(schedule: Schedule, run: &impl Fn(SimBuilder) -> T) -> (T, Vec<Swap>) {
    let story = Story::default();
    let observed = run(Sim::builder().schedule(schedule).trace(story.clone()));
    (observed, story.take())
}

/// Returns a prefix that differs and would not without its last choice. The whole differs, the empty one does not.
fn shortest_prefix<C: Copy>(choices: &[C], differs: impl Fn(&[C]) -> bool) -> Vec<C> {
    let (mut same, mut differing) = (0, choices.len());
    while differing - same > 1 {
        let middle = same + (differing - same) / 2;
        if differs(&choices[..middle]) {
            differing = middle;
        } else {
            same = middle;
        }
    }
    choices[..differing].to_vec()
}

/// Drops choices as long as the rest differs: large parts first, single ones in the end.
fn needed<C: Copy>(mut choices: Vec<C>, differs: impl Fn(&[C]) -> bool) -> Vec<C> {
    let mut runs = 0;
    let mut part = choices.len() / 2;
    while part > 0 && choices.len() > 1 {
        let (mut at, before) = (0, choices.len());
        while at < choices.len() && runs < MOST_RUNS {
            let mut rest = choices.clone();
            rest.drain(at..(at + part).min(choices.len()));
            runs += 1;
            if !rest.is_empty() && differs(&rest) {
                choices = rest;
            } else {
                at += part;
            }
        }
        // What could not go may be able to now that something else is gone.
        let again = part == 1 && choices.len() < before && runs < MOST_RUNS;
        part = if again { 1 } else { part / 2 };
    }
    choices
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        /// Whatever has to be there together is what is left.
        #[test]
        fn what_is_needed_is_found_among_many(
            among in 1u64..300,
            needed_ones in prop::collection::btree_set(1u64..300, 1..5),
        ) {
            let needed_ones: Vec<u64> = needed_ones.into_iter().filter(|one| *one <= among).collect();
            prop_assume!(!needed_ones.is_empty());
            let all: Vec<u64> = (1..=among).collect();
            let differs = |choices: &[u64]| needed_ones.iter().all(|one| choices.contains(one));
            let prefix = shortest_prefix(&all, differs);
            prop_assert_eq!(prefix.last(), needed_ones.last());
            prop_assert_eq!(needed(prefix, differs), needed_ones);
        }

        /// Where more than one thing makes a difference, no choice of the answer can go.
        #[test]
        fn no_choice_of_the_answer_can_go(
            causes in prop::collection::vec(prop::collection::btree_set(1u64..60, 1..4), 1..4),
        ) {
            let all: Vec<u64> = (1..60).collect();
            let differs = |choices: &[u64]| {
                causes.iter().any(|cause| cause.iter().all(|one| choices.contains(one)))
            };
            let answer = needed(shortest_prefix(&all, differs), differs);
            prop_assert!(differs(&answer));
            for left_out in &answer {
                let rest: Vec<u64> = answer.iter().copied().filter(|one| one != left_out).collect();
                prop_assert!(!differs(&rest), "{:?} without {}", answer, left_out);
            }
        }
    }
}
