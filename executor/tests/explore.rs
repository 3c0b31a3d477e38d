//! Other orders of one instant: permuted by a seed, and what depends on them found and cut down.

use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

use executor::{ChoiceId, Choices, Exploration, Instant, Rt, Schedule, Sim, SimBuilder, explore};

#[path = "support/support.rs"]
mod support;
use support::{Log, Yield};

const MS: Duration = Duration::from_millis(1);

/// Fifty pairs of tasks, each spawned at an instant of its own; returns the order in which they had their turns. The
/// second of a pair is the only choice of its instant.
fn pairs(sim: SimBuilder) -> Vec<(u64, char)> {
    let log = Log::default();
    let seen = log.clone();
    let run = sim.seed(1).build().run(async move |rt: Rt| {
        for pair in 0..50 {
            rt.sleep(MS).await;
            for (name, letter) in [("left", 'a'), ("right", 'b')] {
                let log = log.clone();
                rt.spawn_local(name, async move { log.add((pair, letter)) });
            }
        }
    });
    assert!(run.report.is_clean(), "{}", run.report);
    seen.take()
}

/// Which pairs went the other way round.
fn swapped(order: &[(u64, char)]) -> Vec<u64> {
    order.chunks(2).filter(|pair| pair[0].1 == 'b').map(|pair| pair[0].0).collect()
}

#[test]
fn a_schedule_permutes_an_instant_and_no_schedule_nor_an_empty_one_does() {
    let fifo = pairs(Sim::builder());
    assert_eq!(swapped(&fifo), Vec::<u64>::new());
    assert_eq!(pairs(Sim::builder().schedule(Schedule::new(1).only(Choices::from_iter([])))), fifo);

    let one = pairs(Sim::builder().schedule(Schedule::new(1)));
    assert_eq!(one, pairs(Sim::builder().schedule(Schedule::new(1))), "the schedule is in the seed");
    assert_ne!(one, pairs(Sim::builder().schedule(Schedule::new(2))));
    let instants: Vec<u64> = one.iter().map(|(pair, _)| *pair).collect();
    assert_eq!(instants, fifo.iter().map(|(pair, _)| *pair).collect::<Vec<_>>(), "time and class stand");
    // 50 fair coins.
    assert!((10..=40).contains(&swapped(&one).len()), "{:?}", swapped(&one));
}

#[test]
fn an_empty_schedule_has_the_digest_of_no_schedule_and_another_order_has_another() {
    let digest = |sim: SimBuilder| {
        let run = sim.build().run(async |rt: Rt| {
            for _ in 0..9 {
                rt.spawn_local("any", async { Yield::default().await });
            }
        });
        run.report.digest
    };
    let fifo = digest(Sim::builder());
    assert_eq!(digest(Sim::builder().schedule(Schedule::new(7).only(Choices::from_iter([])))), fifo);
    assert_ne!(digest(Sim::builder().schedule(Schedule::new(7))), fifo);
}

#[test]
fn the_first_choices_alone_give_the_same_run_up_to_there() {
    let whole = swapped(&pairs(Sim::builder().schedule(Schedule::new(3))));
    let early: Choices = (1..=20).map(|ms| ChoiceId { at: Instant::ZERO + MS * ms, number: 1 }).collect();
    let first = swapped(&pairs(Sim::builder().schedule(Schedule::new(3).only(early))));
    let expected: Vec<u64> = whole.into_iter().filter(|pair| *pair < 20).collect();
    assert!(!expected.is_empty());
    assert_eq!(first, expected);
}

#[test]
fn a_program_without_a_race_is_left_alone() {
    let Exploration { expected, schedules, differing, dependence, .. } = explore(200, |sim| {
        let mut order = pairs(sim);
        order.sort_unstable();
        order
    });
    assert_eq!((expected.len(), schedules, differing), (100, 200, 0));
    assert!(dependence.is_none());
}

#[test]
fn a_planted_race_is_found_and_cut_down_to_its_one_choice() {
    // The pair 17 is the only one whose order anybody looks at.
    let race = |sim| pairs(sim).into_iter().find(|(pair, _)| *pair == 17);
    let found = explore(40, race);
    assert_eq!(found.expected, Some((17, 'a')));
    assert!((5..=35).contains(&found.differing), "a fair coin: {}", found.differing);
    let dependence = found.dependence.expect("a race");
    assert_eq!(dependence.observed, Some((17, 'b')));
    let [swap] = dependence.swaps.as_slice() else { panic!("one choice: {dependence}") };
    assert_eq!((swap.choice.id.at - Instant::ZERO, swap.choice.id.number, swap.choice.due), (MS * 18, 1, 1));
    assert!(swap.task.contains("\"right\"") && swap.before.contains("\"left\""), "{swap}");
    assert!(swap.task.contains("explore.rs"), "the place of the task: {swap}");

    // What it says repeats it.
    let choices = dependence.schedule.choices().to_string().parse().unwrap();
    let again = Schedule::new(dependence.schedule.seed()).only(choices);
    let order = pairs(Sim::builder().schedule(again));
    assert_eq!(swapped(&order), [17], "and nothing else moves");
}

#[test]
fn a_race_that_takes_two_choices_keeps_both() {
    let race = |sim| {
        let swapped = swapped(&pairs(sim));
        swapped.contains(&4) && swapped.contains(&31)
    };
    let dependence = explore(60, race).dependence.expect("a race");
    let at: Vec<_> = dependence.swaps.iter().map(|swap| swap.choice.id.at.as_nanos() / 1_000_000).collect();
    assert_eq!(at, [5, 32], "{dependence}");
}

#[test]
fn a_read_before_a_write_of_the_same_instant_is_found() {
    let stale = |sim: SimBuilder| {
        let run = sim.build().run(async |rt: Rt| {
            let gauge = Rc::new(RefCell::new(0));
            for round in 1..20u32 {
                let (write, read) = (Rc::clone(&gauge), Rc::clone(&gauge));
                let (at, then) = (rt.sleep(MS * round), rt.sleep(MS * round));
                rt.spawn_local("scrape", async move {
                    at.await;
                    *write.borrow_mut() = round;
                });
                let seen = rt.spawn_local("decide", async move {
                    then.await;
                    *read.borrow()
                });
                if seen.await.unwrap() != round {
                    return false;
                }
            }
            true
        });
        run.output
    };
    let found = explore(20, stale);
    assert_eq!(found.expected, Some(true));
    let dependence = found.dependence.expect("a race");
    assert_eq!(dependence.observed, Some(false));
    let text = dependence.to_string();
    assert!(
        text.contains("\"decide\"") && text.contains("goes before") && text.contains("\"scrape\""),
        "{text}"
    );
}
